"""Class folders: `ROOT/CLASS/*.png`, or `ROOT/{train,val,test}/CLASS/*.png`."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from runtime.registry.local_datasets.files import SPLITS, DatasetFolder, LocalDataset, LocalItem

if TYPE_CHECKING:
    from pathlib import Path

_HINT: Final = (
    "Put the images into one folder a class, ROOT/CLASS/*.png or ROOT/{train,val,test}/CLASS/*.png, as real files that "
    "can be read; correct or remove the named ones."
)


def read_class_folders(root: Path) -> LocalDataset:
    """Every image below `root`, with the folder's name as its class.

    Each item says its class in `metadata`: `class_name`, and its place in `class_names` as `class_index`. Class names
    are sorted as texts. The folders of splits count as such when one is there for training and no other folder is.

    Raises:
        DatasetUnreadableError: with everything that is wrong: no class, a class without an image, a file that is
            empty, is no image or lies outside `root`.
    """
    folder = DatasetFolder(root)
    by_class: dict[str, list[LocalItem]] = defaultdict(list)
    flawed: set[str] = set()
    for split, place in _split_folders(folder):
        classes = folder.subfolders(place)
        if folder.has_images(place):
            folder.report(place, "has images that lie in no class folder")
        elif not classes:
            folder.report(place, "has no class folder")
        for class_folder in classes:
            of_class, before = by_class[class_folder.name], folder.reported
            for path, media in folder.images(class_folder):
                metadata = {"class_name": class_folder.name, "file_name": path.name}
                of_class.append(LocalItem(folder.item_id(path), split, media, metadata=metadata))
            if folder.reported > before:
                flawed.add(class_folder.name)  # that says why it may have no image
    for name, items in by_class.items():
        if not items and name not in flawed:
            folder.report(name, "is a class folder without an image")
    folder.refuse_reported(_HINT)

    class_names = tuple(sorted(by_class))
    items = [item for name in class_names for item in by_class[name]]
    for index, name in enumerate(class_names):
        for item in by_class[name]:
            item.metadata["class_index"] = index
    return LocalDataset(
        task_kind="classification",
        annotation_kinds=("classification",),
        class_names=class_names,
        items=sorted(items, key=lambda item: item.item_id),
        ignored_files=folder.ignored_files,
    )


def _split_folders(folder: DatasetFolder) -> list[tuple[str, Path]]:
    found = folder.subfolders(folder.root)
    splits = [(SPLITS.get(place.name.lower(), ""), place) for place in found]
    if splits and all(split for split, _ in splits) and any(split == "train" for split, _ in splits):
        return splits
    return [("unspecified", folder.root)]
