from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from contracts.errors import ArchiveRejectedError, ConflictError, NotFoundError, WorkspaceLimitError
from runtime.archive import extraction
from runtime.archive.extraction import extract, read_member
from runtime.archive.source import ArchiveSource
from tests.assets.hostile_zips import DEFLATED, Entry, Header, Zip, honest, model_zip, package_zip

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "package.zip"
    path.write_bytes(
        package_zip(
            Entry(b"bin/run.sh", b"#!/bin/sh\n", mode=stat.S_IFREG | stat.S_ISUID | 0o777),
            Entry(b"src/a/one.py", b"1"),
            Entry(b"src-b/two.py", b"2"),
            Entry(b"src/a/three.py", b"3"),
        )
    )
    return path


def test_files_lie_where_the_archive_says(package: Path, tmp_path: Path) -> None:
    extract(package, tmp_path / "code")

    found = {str(path.relative_to(tmp_path / "code")) for path in (tmp_path / "code").rglob("*") if path.is_file()}
    assert found == {
        "training_package.json",
        "train.py",
        "bin/run.sh",
        "src/a/one.py",
        "src/a/three.py",
        "src-b/two.py",
    }


def test_no_mode_of_the_archive_is_kept_whatever_the_umask(package: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        extract(package, tmp_path / "code")
    finally:
        os.umask(before)

    modes = {oct(stat.S_IMODE(path.lstat().st_mode)) for path in (tmp_path / "code").rglob("*") if path.is_file()}
    folder_modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "code", tmp_path / "code" / "src" / "a")}
    assert modes == {"0o644"}
    assert folder_modes == {0o755}


def test_an_empty_folder_is_filled(package: Path, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()

    extract(package, tmp_path / "code")

    assert (tmp_path / "code" / "train.py").is_file()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_there_stays(package: Path, tmp_path: Path, kind: str) -> None:
    code = tmp_path / "code"
    if kind == "folder":
        code.mkdir()
        (code / "mine.py").write_text("mine")
    else:
        code.write_text("mine")

    with pytest.raises(ConflictError, match="is there already"):
        extract(package, code)

    assert ((code / "mine.py") if kind == "folder" else code).read_text() == "mine"
    assert {entry.name for entry in tmp_path.iterdir()} == {"package.zip", "code"}


def test_a_link_in_place_of_the_destination_is_not_followed(package: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "code").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConflictError):
        extract(package, tmp_path / "code")

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_damaged_member_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "package.zip"
    path.write_bytes(Zip(honest(Entry(b"bad/one.bin", b"x" * 9000, DEFLATED, both=Header(crc32=1)))).build())

    with pytest.raises(ArchiveRejectedError, match=r"bad/one\.bin: its bytes do not have its checksum"):
        extract(path, tmp_path / "code")

    assert {entry.name for entry in tmp_path.iterdir()} == {"package.zip"}


def test_a_full_disk_is_said_and_leaves_nothing(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(extraction, "_write", lambda _descriptor, content: os.write(full, content))
    try:
        with pytest.raises(WorkspaceLimitError, match="No space left on device"):
            extract(package, tmp_path / "code")
    finally:
        os.close(full)

    assert {entry.name for entry in tmp_path.iterdir()} == {"package.zip"}


def test_an_archive_that_changes_while_it_is_unpacked_is_refused(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = ArchiveSource.chunks

    def read_and_touch(source: ArchiveSource, offset: int, length: int):
        os.utime(package, ns=(0, 0))
        return read(source, offset, length)

    monkeypatch.setattr(ArchiveSource, "chunks", read_and_touch)

    with pytest.raises(ArchiveRejectedError, match="the file changed while it was read"):
        extract(package, tmp_path / "code")

    assert not (tmp_path / "code").exists()


def test_of_two_that_unpack_to_one_place_one_wins_with_everything(package: Path, tmp_path: Path) -> None:
    outcomes: list[str] = []

    def unpack_one() -> None:
        try:
            extract(package, tmp_path / "code")
            outcomes.append("unpacked")
        except ConflictError:
            outcomes.append("conflict")

    threads = [threading.Thread(target=unpack_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["conflict"] * 7 + ["unpacked"]
    assert {entry.name for entry in tmp_path.iterdir()} == {"package.zip", "code"}


def test_one_member_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(model_zip())
    pieces: list[bytes] = []

    read_member(path, "weights/model.npz", pieces.append)

    assert b"".join(pieces) == b"model" * 1000


def test_a_member_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(model_zip())

    with pytest.raises(NotFoundError, match="has no file weights"):
        read_member(path, "weights", bytes)


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "package.zip"
    path.write_bytes(package_zip(Entry(b"bad.bin", b"x" * 9000, DEFLATED, both=Header(crc32=1))))

    with pytest.raises(ArchiveRejectedError, match=r"bad\.bin"):
        read_member(path, "bad.bin", bytes)
