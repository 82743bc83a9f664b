"""Data sets as people have them on disk: class folders, YOLO (`data.yaml`) and COCO files."""

from runtime.registry.local_datasets.files import LocalDataset, LocalFile, LocalItem
from runtime.registry.local_datasets.layout import read_local_dataset

__all__ = ["LocalDataset", "LocalFile", "LocalItem", "read_local_dataset"]
