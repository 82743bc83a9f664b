"""A COCO data set: one file of images, annotations and categories a split, and the images."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from contracts.errors import DatasetUnreadableError, InvalidDocumentError
from contracts.limits import MAX_COCO_BYTES
from contracts.strict_json import dump_canonical, parse_unchecked
from runtime.registry.local_datasets.files import SPLITS, DatasetFolder, LocalDataset, LocalFile, LocalItem

_HINT: Final = (
    "A COCO file has the lists `images` (id, file_name), `annotations` (image_id, category_id, bbox of four numbers) and "
    "`categories` (id, name); its images lie beside it, in `images/`, or in a folder named like the split."
)


def read_coco(root: Path, files: list[Path]) -> LocalDataset:
    """The images that the COCO files name, each with its own annotations.

    An item's annotation is JSON: `{"image": <its entry>, "annotations": [<its entries, each with "class_name">]}`; what
    else the entries hold, outlines for instance, stays in them. Class names are in the order of category ids.

    Args:
        root: the data set's folder.
        files: a file a split, all with the same categories. The split is taken from the file's or its folder's name.

    Raises:
        DatasetUnreadableError: with everything that is wrong in the files or with an image.
    """
    folder = DatasetFolder(root)
    items: list[LocalItem] = []
    categories: dict[int, str] = {}
    seen: set[str] = set()
    for file in files:
        content = _read(file)
        of_file = _categories(folder, file, content)
        if categories and of_file != categories:
            folder.report(file, f"has other categories than {folder.name_of(files[0])}")
            continue
        categories = of_file
        for item in _items(folder, file, content, categories):
            if item.item_id in seen:
                folder.report(file, f"images: {item.item_id} is named twice")
                continue
            seen.add(item.item_id)
            items.append(item)
    if not items:
        folder.report(files[0], "names no readable image")
    folder.refuse_reported(_HINT)
    return LocalDataset(
        task_kind="detection",
        annotation_kinds=("detection_coco",),
        class_names=tuple(categories.values()),
        items=sorted(items, key=lambda item: item.item_id),
        annotation_suffix=".json",
        ignored_files=folder.ignored_files,
    )


def is_coco(content: object) -> bool:
    """Whether a JSON value has the three lists of a COCO file."""
    return isinstance(content, dict) and all(
        isinstance(content.get(name), list) for name in ("images", "annotations", "categories")
    )


def split_of(file: Path) -> str:
    """The split that a COCO file's name, or its folder's, tells: `instances_val2017.json`, `valid/_annotations.coco.json`."""
    words = [*re.findall(r"[a-z]+", file.stem.lower()), file.parent.name.lower()]
    return next((SPLITS[word] for word in words if word in SPLITS), "unspecified")


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as source:
            size = os.fstat(source.fileno()).st_size
            if size > MAX_COCO_BYTES:
                raise DatasetUnreadableError(
                    f"{file} has {size} bytes, more than the {MAX_COCO_BYTES} that are read at once",
                    hint="Split it: one file a split, or one a part of the data.",
                    context={"path": str(file), "size_bytes": size},
                )
            content = parse_unchecked(source.read(), contract="COCO")
    except (OSError, InvalidDocumentError) as error:
        raise DatasetUnreadableError(
            f"{file} cannot be read as JSON: {error}", hint=_HINT, context={"path": str(file)}
        ) from error
    if not is_coco(content):
        raise DatasetUnreadableError(
            f"{file} is no COCO file: it lacks images, annotations or categories",
            hint=_HINT,
            context={"path": str(file)},
        )
    found: dict[str, Any] = content
    return found


def _categories(folder: DatasetFolder, file: Path, content: dict[str, Any]) -> dict[int, str]:
    found: dict[int, str] = {}
    for index, category in enumerate(content["categories"]):
        if (
            not isinstance(category, dict)
            or not _is_id(category.get("id"))
            or not isinstance(category.get("name"), str)
        ):
            folder.report(file, f"categories[{index}]: must have an integer id and a name")
        elif category["id"] in found or category["name"] in found.values():
            folder.report(file, f"categories[{index}]: repeats an id or name")
        else:
            found[category["id"]] = category["name"]
    return dict(sorted(found.items()))


def _items(folder: DatasetFolder, file: Path, content: dict[str, Any], categories: dict[int, str]) -> list[LocalItem]:
    annotations = _annotations(folder, file, content, categories)
    split = split_of(file)
    items, ids = [], set()
    for index, image in enumerate(content["images"]):
        if not isinstance(image, dict) or not _is_id(image.get("id")) or not isinstance(image.get("file_name"), str):
            folder.report(file, f"images[{index}]: must have an integer id and a file_name")
            continue
        if image["id"] in ids:
            folder.report(file, f"images[{index}]: repeats id {image['id']}")
            continue
        ids.add(image["id"])
        found = _find_image(folder, file, image["file_name"])
        if found is None:
            continue
        path, media = found
        own = {"image": image, "annotations": annotations.pop(image["id"], [])}
        metadata = {"file_name": path.name}
        try:
            annotation = dump_canonical(own)
        except (ValueError, TypeError) as error:
            folder.report(file, f"images[{index}]: {error}")
            continue
        items.append(LocalItem(folder.item_id(path), split, media, annotation, metadata))
    for image_id in list(annotations)[:10]:
        if image_id not in ids:
            folder.report(file, f"annotations: image_id {image_id} is no image")
    return items


def _annotations(
    folder: DatasetFolder, file: Path, content: dict[str, Any], categories: dict[int, str]
) -> dict[int, list[dict[str, Any]]]:
    by_image: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for index, annotation in enumerate(content["annotations"]):
        at = f"annotations[{index}]"
        if not isinstance(annotation, dict) or not _is_id(annotation.get("image_id")):
            folder.report(file, f"{at}: must have an integer image_id")
        elif not _is_id(annotation.get("category_id")) or annotation["category_id"] not in categories:
            folder.report(file, f"{at}: category_id {annotation.get('category_id')} is no category")
        elif not _is_box(annotation.get("bbox")):
            folder.report(file, f"{at}: bbox must be four numbers, x, y, width and height in pixels")
        else:
            named = {**annotation, "class_name": categories[annotation["category_id"]]}
            by_image[annotation["image_id"]].append(named)
    return by_image


def _find_image(folder: DatasetFolder, file: Path, name: str) -> tuple[Path, LocalFile] | None:
    """The image `name`: beside the file, in `images/` or in a folder named like the split (`train2017`, `val`)."""
    year = re.search(r"[A-Za-z]+\d{4}$", file.stem)
    places = [
        file.parent,
        file.parent / "images",
        folder.root,
        folder.root / "images",
        *(place / named for named in _split_names(file, year) for place in (folder.root, folder.root / "images")),
    ]
    for place in places:
        path = Path(os.path.normpath(place / name))
        if os.path.lexists(path):
            media = folder.image(path)
            return None if media is None else (path, media)
    folder.report(name, f"is not there, but {folder.name_of(file)} names it")
    return None


def _split_names(file: Path, year: re.Match[str] | None) -> list[str]:
    names = [year[0].rpartition("_")[2]] if year else []
    return names + [word for word in re.findall(r"[a-z]+", file.stem.lower()) if word in SPLITS]


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_box(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 4
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in value)
    )
