"""A YOLO data set: `data.yaml` beside `images/` and `labels/`."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from contracts.errors import DatasetUnreadableError
from contracts.limits import MAX_LABEL_FILE_BYTES, MAX_SETTINGS_BYTES
from runtime.registry.local_datasets.files import DatasetFolder, LocalDataset, LocalFile, LocalItem

if TYPE_CHECKING:
    from collections.abc import Iterator

_HINT: Final = (
    "data.yaml must name its images (`train: images/train`, ...) and classes (`names:`), lie in the data set's folder, and "
    "each image's labels must lie in the `labels` folder beside `images`, one `class x y width height` a line, from 0 to 1."
)
_BOX_COLUMNS: Final = 5


def read_yolo(data_yaml: Path) -> LocalDataset:
    """The images that `data_yaml` names, each with its label file, exactly as it is.

    An image without a label file shows no object. `download` and everything else in the file is not looked at.

    Raises:
        DatasetUnreadableError: with everything that is wrong in `data.yaml`, in a label file (line by line) or with an
            image.
    """
    folder = DatasetFolder(data_yaml.parent)
    content = _read_yaml(data_yaml)
    class_names = _class_names(folder, data_yaml, content)
    places = _Places(folder, data_yaml, content)
    items: dict[Path, LocalItem] = {}
    for split in ("train", "val", "test"):
        for path, media in places.images(split):
            if path in items:
                folder.report(path, f"is in {items[path].split} and in {split}")
                continue
            annotation = _labels(folder, path, len(class_names))
            metadata = {"file_name": path.name}
            items[path] = LocalItem(folder.item_id(path), split, media, annotation, metadata)
    if not items:
        folder.report(data_yaml, "names no readable image")
    folder.refuse_reported(_HINT)
    return LocalDataset(
        task_kind="detection",
        annotation_kinds=("detection_yolo",),
        class_names=class_names,
        items=sorted(items.values(), key=lambda item: item.item_id),
        annotation_suffix=".txt",
        ignored_files=folder.ignored_files,
    )


def _read_yaml(data_yaml: Path) -> dict[str, Any]:
    try:
        with data_yaml.open("rb") as source:
            content = source.read(MAX_SETTINGS_BYTES + 1)
        found = yaml.safe_load(content) if len(content) <= MAX_SETTINGS_BYTES else None
    except (OSError, yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DatasetUnreadableError(
            f"{data_yaml} cannot be read as YAML: {error}", hint=_HINT, context={"path": str(data_yaml)}
        ) from error
    if not isinstance(found, dict):
        raise DatasetUnreadableError(
            f"{data_yaml} is no table of names and values", hint=_HINT, context={"path": str(data_yaml)}
        )
    return found


def _class_names(folder: DatasetFolder, data_yaml: Path, content: dict[str, Any]) -> tuple[str, ...]:
    names = content.get("names")
    if isinstance(names, dict):
        if sorted(names, key=str) != sorted(range(len(names)), key=str):
            folder.report(data_yaml, f"names: must be numbered from 0 to {len(names) - 1} without a gap")
            return ()
        names = [names[index] for index in range(len(names))]
    if not isinstance(names, list) or not names or not all(isinstance(name, str | int | float) for name in names):
        folder.report(data_yaml, "names: required here, a list of class names")
        return ()
    if content.get("nc", len(names)) != len(names):
        folder.report(data_yaml, f"nc: is {content['nc']}, but there are {len(names)} names")
    texts = tuple(str(name).strip() for name in names)
    if len(set(texts)) != len(texts) or "" in texts:
        folder.report(data_yaml, "names: has a blank or repeated name")
    return texts


class _Places:
    """Where the images of each split lie."""

    def __init__(self, folder: DatasetFolder, data_yaml: Path, content: dict[str, Any]) -> None:
        self._folder = folder
        self._yaml = data_yaml
        self._content = content
        self._base = self._find_base()

    def images(self, split: str) -> Iterator[tuple[Path, LocalFile]]:
        named = self._content.get(split)
        if named is None and split == "val":
            named = self._content.get("valid")
        if named is None or named == "":
            if split == "train":
                self._folder.report(self._yaml, "train: required here")
            return
        for entry in named if isinstance(named, list) else [named]:
            if not isinstance(entry, str):
                self._folder.report(self._yaml, f"{split}: must be a path or a list of paths")
                continue
            place = self._locate(entry)
            if place.suffix.lower() == ".txt":
                yield from self._listed(place)
            elif place.is_dir():
                yield from self._folder.images(place)
            else:
                self._folder.report(place, f"is not there, but {split} names it")

    def _find_base(self) -> Path:
        """The folder that `path` names; files made elsewhere name one that is not here: then the file's own."""
        named = self._content.get("path")
        if isinstance(named, str) and named:
            place = self._folder.root / named
            if place.is_dir() and Path(os.path.realpath(place)).is_relative_to(self._folder.root):
                return Path(os.path.realpath(place))
        return self._folder.root

    def _locate(self, entry: str) -> Path:
        place = self._base / entry
        if not place.exists() and entry.startswith("../"):  # some exports count from a folder that is not there
            place = self._base / entry.removeprefix("../")
        return Path(os.path.normpath(place))

    def _listed(self, listing: Path) -> Iterator[tuple[Path, LocalFile]]:
        for line in _read_lines(self._folder, listing):
            if not line.strip():
                continue
            base = listing.parent if line.startswith("./") else self._base
            path = Path(os.path.normpath(base / line.strip()))
            media = self._folder.image(path)
            if media is not None:
                yield path, media


def _labels(folder: DatasetFolder, image: Path, classes: int) -> LocalFile | None:
    path = _label_path(image)
    if not os.path.lexists(path):
        return None
    for number, line in enumerate(_read_lines(folder, path), start=1):
        problem = _line_problem(line, classes)
        if problem:
            folder.report(path, f"line {number} {problem}")
    return folder.file(path)


def _label_path(image: Path) -> Path:
    """`.../images/.../x.png` has its labels in `.../labels/.../x.txt`; the last `images` counts."""
    parts = list(image.parent.parts)
    for index in reversed(range(len(parts))):
        if parts[index] == "images":
            parts[index] = "labels"
            break
    return Path(*parts, image.stem + ".txt")


def _line_problem(line: str, classes: int) -> str:
    columns = line.split()
    if not columns:
        return ""
    if len(columns) != _BOX_COLUMNS:
        return f"has {len(columns)} values, must have {_BOX_COLUMNS} (oriented boxes and outlines are not read)"
    try:
        label, *box = map(float, columns)
    except ValueError:
        return "has a value that is no number"
    if not label.is_integer() or not 0 <= label < classes:
        return f"has class {columns[0]}, must be from 0 to {classes - 1}"
    if not all(math.isfinite(value) and 0 <= value <= 1 for value in box):
        return "has a coordinate that is not from 0 to 1"
    return ""


def _read_lines(folder: DatasetFolder, path: Path) -> list[str]:
    found = folder.file(path)
    if found is None:
        return []
    try:
        with found.path.open("rb") as source:
            content = source.read(MAX_LABEL_FILE_BYTES + 1)
        if len(content) > MAX_LABEL_FILE_BYTES:
            folder.report(path, f"is larger than {MAX_LABEL_FILE_BYTES} bytes")
            return []
        return content.decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        folder.report(path, f"cannot be read: {error}")
        return []
