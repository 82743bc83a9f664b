"""Builds the ZIP of every example: `python -m examples.build DIR`. The same files give the same bytes on every machine."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from runtime.archive.inspection import inspect_package
from runtime.archive.packing import PackedArchive, pack_folder

EXAMPLES = ("digits", "script_managed", "template")


def build(example: str, folder: Path) -> PackedArchive:
    """Afterwards `folder` has the example's ZIP, named by its key and version, and the archive rules accept it."""
    source = Path(__file__).with_name(example)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        packed = pack_folder(source, Path(scratch) / "package.zip")
        manifest = inspect_package(packed.path).manifest
        destination = packed.path.replace(folder / f"{manifest.key}-{manifest.version}.zip")
    return PackedArchive(destination, packed.sha256, packed.size_bytes, packed.left_out)


def main() -> None:
    """Build them all and say what came of each."""
    parser = argparse.ArgumentParser(description="Build the ZIP of every example.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for example in EXAMPLES:
        packed = build(example, folder)
        print(f"{packed.path}  {packed.size_bytes} bytes  sha256 {packed.sha256}")


if __name__ == "__main__":
    main()
