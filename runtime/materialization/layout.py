"""Where each file of a data set lies, and the manifest that tells a package so. Pure: nothing here touches a disk."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from contracts.dataset import DatasetManifest
from contracts.references import Pinned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from contracts.dataset import DatasetSnapshot

DATASET_FOLDER: Final = "dataset"
"""Below `input_dir`; every path of the manifest starts with it."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_ID_CHARACTERS: Final = 80
_MAX_NAME_CHARACTERS: Final = 120
_MAX_SUFFIX_CHARACTERS: Final = 20


class PlacedFile(NamedTuple):
    """One file of a data set.

    Attributes:
        folder: its item's folder, below the data set's.
        name: its own name.
        reference: the snapshot's pinned reference, as the document has it: a `Pinned` each would double the time that
            an unchanged data set takes.
    """

    folder: str
    name: str
    reference: Mapping[str, Any]

    @property
    def pinned(self) -> Pinned:
        """What it must be."""
        reference = self.reference
        return Pinned(reference["bucket"], reference["object_key"], reference["sha256"], reference["size_bytes"])


@dataclass(frozen=True, slots=True)
class Layout:
    """All files of a data set, by item.

    Attributes:
        items: the files of each item, in the snapshot's order: its media and, where it has one, its annotation.
        total_bytes: the size of all files.
        manifest: the `training-dataset-manifest/v1` document, its paths relative to `input_dir`.
    """

    items: tuple[tuple[PlacedFile, ...], ...]
    total_bytes: int
    manifest: dict[str, Any]


def layout_of(snapshot: DatasetSnapshot) -> Layout:
    """The same snapshot has the same layout everywhere: `<8-digit index>_<item id>/<file name>`, names made safe."""
    header = snapshot.model_dump(mode="json", exclude={"items"})
    header["protocol_version"] = DatasetManifest.protocol_version
    placed, listed, total = [], [], 0
    for index, item in enumerate(snapshot.items):
        files = _files_of(index, item)
        paths = []
        for file in files:
            total += file.reference["size_bytes"]
            paths.append(f"{DATASET_FOLDER}/{file.folder}/{file.name}")
        placed.append(files)
        listed.append(
            {
                "item_id": item["item_id"],
                "split": item.get("split", "unspecified"),
                "media_path": paths[0],
                "annotation_path": paths[1] if len(paths) > 1 else None,
                "metadata": item.get("metadata", {}),
            }
        )
    return Layout(tuple(placed), total, {**header, "items": listed})


def _files_of(index: int, item: Mapping[str, Any]) -> tuple[PlacedFile, ...]:
    folder = f"{index:08}_{_safe(item['item_id'], _MAX_ID_CHARACTERS)}"
    media, annotation = item["media"], item.get("annotation")
    media_name = _safe_file_name(media["object_key"])
    if annotation is None:
        return (PlacedFile(folder, media_name, media),)
    name = _safe_file_name(annotation["object_key"])
    if name.casefold() == media_name.casefold():
        name = f"annotation_{name}"
    return (PlacedFile(folder, media_name, media), PlacedFile(folder, name, annotation))


def _safe(text: str, max_characters: int) -> str:
    """`text` as a part of a file name on any file system; never empty."""
    return _UNSAFE.sub("_", text)[:max_characters] or "_"


def _safe_file_name(key: str) -> str:
    """A key's last part, its suffix kept, since readers go by it; never hidden, `.` or `..`."""
    name = _UNSAFE.sub("_", key.rpartition("/")[2]).lstrip(".")
    if len(name) > _MAX_NAME_CHARACTERS:
        stem, dot, suffix = name.rpartition(".")
        if not dot or len(suffix) > _MAX_SUFFIX_CHARACTERS:
            return name[:_MAX_NAME_CHARACTERS]
        return f"{stem[: _MAX_NAME_CHARACTERS - len(suffix) - 1]}.{suffix}"
    return name or "file"
