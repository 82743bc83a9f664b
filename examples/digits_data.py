"""Writes scikit-learn's handwritten digits as PNG files into class folders: `python -m examples.digits_data DIR`.

    DIR/train/0/0000.png ... DIR/val/9/1234.png ... DIR/test/9/1796.png

The 1 797 images (8 x 8 pixels, 16 grey levels, by 13 writers) are dealt out class by class: 70 % to train on, 15 % to choose
the best epoch by, 15 % to be asked once, at the end. The data set does not say who wrote what, so the three parts share
their writers: a figure measured here holds for new digits by known hands, and is optimistic for new ones.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

SHARES = {"train": 0.70, "val": 0.15, "test": 0.15}
GREY_LEVELS = 16
SEED = 20


def write_digits(folder: Path) -> dict[str, int]:
    """Afterwards every digit lies in exactly one split's class folder; the same files with the same bytes each time.

    Returns:
        how many images each split has.
    """
    digits = load_digits()
    splits = deal(digits.target)
    for index, (image, digit, split) in enumerate(zip(digits.images, digits.target, splits, strict=True)):
        path = folder / split / str(digit) / f"{index:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.round(image * 255 / GREY_LEVELS).astype(np.uint8)).save(path)
    return dict(Counter(splits))


def deal(labels: np.ndarray) -> list[str]:
    """The split of every example, each class in the same proportions; the same for the same labels."""
    generator = np.random.default_rng(SEED)
    splits = np.empty(len(labels), dtype=object)
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        ends = np.round(np.cumsum(list(SHARES.values())) * len(members)).astype(int)
        for split, part in zip(SHARES, np.split(members, ends[:-1]), strict=True):
            splits[part] = split
    return splits.tolist()


def main() -> None:
    """Read the one argument and say what was written."""
    parser = argparse.ArgumentParser(description="Write the handwritten digits as PNG into class folders.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder: Path = parser.parse_args().folder
    counts = write_digits(folder)
    print(f"{folder}: " + ", ".join(f"{count} {split}" for split, count in counts.items()))


if __name__ == "__main__":
    main()
