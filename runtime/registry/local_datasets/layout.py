"""Telling by what lies there which kind of data set a path is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from contracts.errors import DatasetUnreadableError, NotFoundError
from contracts.limits import MAX_DATASET_ITEMS
from runtime.registry.local_datasets.class_folders import read_class_folders
from runtime.registry.local_datasets.coco import read_coco
from runtime.registry.local_datasets.files import SPLITS, LocalDataset
from runtime.registry.local_datasets.yolo import read_yolo

if TYPE_CHECKING:
    from pathlib import Path

_YOLO_NAMES: Final = ("data.yaml", "data.yml", "dataset.yaml", "dataset.yml")
_KINDS: Final = "Give a folder with one folder a class, a YOLO data set's data.yaml, a COCO annotation file, or a folder that holds one."


def read_local_dataset(path: Path) -> LocalDataset:
    """The data set at `path`, every file of it checked, nothing stored.

    1. A `.yaml` file is a YOLO data set; a `.json` file a COCO one.
    2. A folder with a `data.yaml` is a YOLO data set.
    3. A folder with COCO files, in `annotations/` or one in each split's folder, is a COCO one.
    4. Any other folder is one of class folders.

    Raises:
        NotFoundError: there is nothing at `path`.
        DatasetUnreadableError: it is none of these, or something in it is wrong; `context["violations"]` lists all.
    """
    found = _read(path)
    if len(found.items) > MAX_DATASET_ITEMS:
        raise DatasetUnreadableError(
            f"{path} has {len(found.items)} items; a data set has at most {MAX_DATASET_ITEMS}",
            hint="Import a part of it, or check that the folder is the right one.",
            context={"items": len(found.items), "most": MAX_DATASET_ITEMS},
        )
    return found


def _read(path: Path) -> LocalDataset:
    if not path.exists():
        raise NotFoundError(f"{path} is not there", hint=_KINDS, context={"path": str(path)})
    if path.is_file():
        if path.suffix.lower() in {".yaml", ".yml"}:
            return read_yolo(path)
        if path.suffix.lower() == ".json":
            root = path.parent.parent if _holds_no_images(path.parent) else path.parent
            return read_coco(root, [path])
    elif path.is_dir():
        for name in _YOLO_NAMES:
            if (path / name).is_file():
                return read_yolo(path / name)
        files = _coco_files(path)
        return read_coco(path, files) if files else read_class_folders(path)
    raise DatasetUnreadableError(f"{path} is no data set", hint=_KINDS, context={"path": str(path)})


def _holds_no_images(folder: Path) -> bool:
    """COCO's own layout keeps its files in `annotations/`, with the images beside that; exports keep them together."""
    return folder.name.lower() in {"annotations", *SPLITS}


def _coco_files(folder: Path) -> list[Path]:
    found = sorted((folder / "annotations").glob("instances_*.json"))
    found += [file for name in sorted(SPLITS) if (file := folder / name / "_annotations.coco.json").is_file()]
    if not found and (folder / "_annotations.coco.json").is_file():
        found.append(folder / "_annotations.coco.json")
    return found
