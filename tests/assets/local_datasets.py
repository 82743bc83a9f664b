"""Small data sets on disk, as people have them."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def png(seed: str) -> bytes:
    """A valid PNG of one pixel; other seeds, other bytes."""
    pixel = hashlib.sha256(seed.encode()).digest()[:3]

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" + pixel)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def write(path: Path, content: bytes | str) -> Path:
    """Afterwards `path` holds `content`, its folders made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def class_folders(
    root: Path, *, splits: tuple[str, ...] = (), classes: tuple[str, ...] = ("cat", "dog"), count: int = 2
) -> Path:
    """`count` images in each class folder of each split, or of none."""
    for split in splits or ("",):
        for name in classes:
            for index in range(count):
                write(root / split / name / f"{index}.png", png(f"{split}/{name}/{index}"))
    return root


def yolo(root: Path, **changes: str) -> Path:
    """Two images to train on, one of them without objects, and one to validate; returns `data.yaml`."""
    write(root / "images/train/a.png", png("a"))
    write(root / "labels/train/a.txt", "0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.1 0.1\n")
    write(root / "images/train/b.png", png("b"))
    write(root / "images/val/c.png", png("c"))
    write(root / "labels/val/c.txt", "1 0.5 0.5 1 1\n")
    lines = {"path": ".", "train": "images/train", "val": "images/val", "names": "[car, bus]", "nc": "2"} | changes
    return write(root / "data.yaml", "".join(f"{name}: {value}\n" for name, value in lines.items() if value))


def coco(root: Path, **changes: object) -> Path:
    """COCO's own layout: `annotations/instances_train2017.json` and `train2017/`; returns the file."""
    write(root / "train2017/a.png", png("a"))
    write(root / "train2017/b.png", png("b"))
    content = {
        "info": {"year": 2017},
        "images": [{"id": 1, "file_name": "a.png", "width": 1, "height": 1}, {"id": 2, "file_name": "b.png"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 18, "bbox": [0, 0, 1, 1], "segmentation": [[0, 0, 1, 1, 0, 1]]},
            {"id": 2, "image_id": 1, "category_id": 3, "bbox": [0, 0, 0.5, 1]},
        ],
        "categories": [{"id": 18, "name": "dog"}, {"id": 3, "name": "car"}],
        **changes,
    }
    return write(root / "annotations/instances_train2017.json", json.dumps(content))
