"""The data set as arrays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

PREPROCESSING = {"color": "grey", "resample": "bilinear", "scale": "1/255", "layout": "NCHW", "dtype": "float32"}
"""What was done to every image, for whoever uses the model; the size is added when it is known."""


@dataclass(frozen=True)
class Images:
    """`pixels` is [images, 1, height, width] from 0 to 1, `labels` the position of each image's class name."""

    pixels: np.ndarray
    labels: np.ndarray

    @property
    def flat(self) -> np.ndarray:
        """[images, height * width]."""
        return self.pixels.reshape(len(self.pixels), -1)


def load_images(context: dict[str, Any], size: int) -> dict[str, Images]:
    """The images of each split, scaled to `size` x `size` pixels.

    Raises:
        ValueError: a split is empty: there is nothing to learn from, to choose by, or to test with.
    """
    folder = Path(context["workspace"]["input_dir"])
    label_of = {name: label for label, name in enumerate(context["dataset"]["class_names"])}
    pixels = {"train": [], "val": [], "test": []}
    labels = {"train": [], "val": [], "test": []}
    for item in context["dataset"]["items"]:
        split = split_of(item)
        pixels[split].append(read_image(folder / item["media_path"], size))
        labels[split].append(label_of[item["metadata"]["class_name"]])
    empty = [split for split, found in labels.items() if not found]
    if empty:
        raise ValueError(f"no images in {', '.join(empty)}: sort them into train/, val/ and test/, or add more")
    return {split: Images(np.stack(pixels[split]), np.array(labels[split])) for split in labels}


def split_of(item: dict[str, Any]) -> str:
    """The item's own split; where the data set has none, a fixed one by the item's id (70 / 15 / 15)."""
    split = item.get("split", "unspecified")
    if split != "unspecified":
        return split
    drawn = int(hashlib.sha256(item["item_id"].encode()).hexdigest(), 16) % 100
    return "train" if drawn < 70 else "val" if drawn < 85 else "test"


def read_image(path: Path, size: int) -> np.ndarray:
    """One image, [1, size, size]."""
    with Image.open(path) as image:
        grey = image.convert("L")
    if grey.size != (size, size):
        grey = grey.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(grey, np.float32)[np.newaxis] / 255
