"""Packing and reading, over folders and archives that nobody thought of."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import ArchiveRejectedError, RuntimeFault
from runtime.archive.extraction import extract
from runtime.archive.inspection import inspect_package
from runtime.archive.names import UnsafeNameError, comparison_key, parse_name
from runtime.archive.packing import pack_folder
from tests.assets.hostile_zips import package_zip

NAMES = st.text(st.characters(categories=("L", "N"), include_characters="_- "), min_size=1, max_size=12).map(
    lambda name: f"f{name}".rstrip()
)
"""Without dots, so that no name is one of those that are left out."""
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FOLDERS = st.dictionaries(PATHS, st.binary(max_size=200), min_size=1, max_size=8)
"""Files by path; what cannot lie in one folder is dropped by `write_folder`."""


def write_folder(root: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    """Writes what of `files` can lie in one folder, and on every system; answers that."""
    written: dict[str, bytes] = {}
    taken: set[str] = set()
    for path, content in files.items():
        above = {str(parent) for parent in PurePosixPath(path).parents} - {"."}
        keys = {comparison_key(part) for part in (path, *above)}
        if keys & taken or any(
            comparison_key(path) in {comparison_key(str(parent)) for parent in PurePosixPath(other).parents}
            for other in written
        ):
            continue
        taken.add(comparison_key(path))
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        written[path] = content
    return written


@given(files=FOLDERS)
def test_the_same_files_give_the_same_bytes(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        one, other = Path(scratch, "one"), Path(scratch, "other")
        written = write_folder(one, files)
        write_folder(other, dict(reversed(written.items())))
        for path in written:
            os.utime(other / path, (0, 0))

        first = pack_folder(one, Path(scratch, "first.zip"))
        second = pack_folder(other, Path(scratch, "second.zip"))

    assert first.sha256 == second.sha256


@given(files=FOLDERS, change=st.data())
def test_a_changed_byte_changes_the_digest(files: dict[str, bytes], change: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "folder")
        written = write_folder(folder, files)
        before = pack_folder(folder, Path(scratch, "before.zip"))
        path = change.draw(st.sampled_from(sorted(written)))
        (folder / path).write_bytes(written[path] + b"!")

        after = pack_folder(folder, Path(scratch, "after.zip"))

    assert before.sha256 != after.sha256


@given(files=FOLDERS, compress=st.booleans())
def test_what_was_packed_is_what_is_unpacked(files: dict[str, bytes], *, compress: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "folder")
        written = write_folder(folder, files)
        archive = pack_folder(folder, Path(scratch, "out.zip"), compress=compress)

        extract(archive.path, Path(scratch, "code"))

        found = {
            str(path.relative_to(Path(scratch, "code"))): path.read_bytes()
            for path in Path(scratch, "code").rglob("*")
            if path.is_file()
        }
    assert found == written


@given(name=st.text(max_size=30))
def test_a_name_that_is_accepted_stays_below_its_folder(name: str) -> None:
    try:
        parsed = parse_name(name)
    except UnsafeNameError:
        return
    path = PurePosixPath(parsed.path)
    assert not path.is_absolute()
    assert ".." not in path.parts
    assert "\\" not in parsed.path
    assert "\0" not in parsed.path


@given(name=st.text(max_size=30))
def test_reading_a_name_twice_changes_nothing(name: str) -> None:
    try:
        parsed = parse_name(name)
    except UnsafeNameError:
        return
    if parsed.path:
        assert parse_name(parsed.path).path == parsed.path


@given(at=st.integers(0), flip=st.integers(1, 255))
def test_a_single_changed_byte_is_refused_or_changes_nothing_that_is_unpacked(at: int, flip: int) -> None:
    """Times, versions and attributes are not read; every other byte is held to something."""
    honest = package_zip()
    changed = bytearray(honest)
    changed[at % len(honest)] ^= flip
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "package.zip")
        path.write_bytes(changed)
        try:
            inspect_package(path)
            extract(path, Path(scratch, "code"))
        except RuntimeFault:
            assert not Path(scratch, "code").exists()
            return
        Path(scratch, "honest.zip").write_bytes(honest)
        with zipfile.ZipFile(Path(scratch, "honest.zip")) as archive:
            expected = {name: archive.read(name) for name in archive.namelist()}
        found = {child.name: child.read_bytes() for child in Path(scratch, "code").iterdir()}
    assert found == expected


@given(content=st.binary(max_size=300), keep=st.integers(0, 400))
def test_garbage_ends_in_a_typed_error(content: bytes, keep: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "package.zip")
        path.write_bytes(package_zip()[-keep:] + content if keep else content)

        with pytest.raises(ArchiveRejectedError) as refused:
            inspect_package(path)

    assert refused.value.context["violations"]
