from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile
from pathlib import Path

import pytest

from contracts.errors import ArchiveRejectedError, ArchiveTooLargeError, NotFoundError, WorkspaceLimitError
from runtime.archive import packing
from runtime.archive.inspection import inspect_package
from runtime.archive.limits import ArchiveLimits
from runtime.archive.packing import pack_folder
from tests.assets.hostile_zips import CODE, MANIFEST


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "digits"
    write(folder, "training_package.json", json.dumps(MANIFEST, sort_keys=True))
    write(folder, "train.py", CODE.decode())
    write(folder, "src/layers.py", "LAYERS = 3\n")
    return folder


def write(folder: Path, path: str, content: str = "x") -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(content)


def packed(folder: Path) -> tuple[list[str], dict[str, str]]:
    """What a packing of the folder has in it, and what it left out with the reasons."""
    archive = pack_folder(folder, folder.parent / "out.zip")
    with zipfile.ZipFile(archive.path) as opened:
        return opened.namelist(), {one.path: one.reason for one in archive.left_out}


def test_the_archive_keeps_the_rules_and_is_what_is_said_about_it(folder: Path) -> None:
    archive = pack_folder(folder, folder.parent / "out.zip")

    report = inspect_package(archive.path).report
    assert (archive.sha256, archive.size_bytes) == (report.sha256, report.size_bytes)
    assert archive.sha256 == hashlib.sha256(archive.path.read_bytes()).hexdigest()
    assert archive.left_out == ()


def test_the_bytes_are_pinned_for_every_python_and_machine(folder: Path) -> None:
    assert pack_folder(folder, folder.parent / "out.zip").sha256 == PINNED


def test_times_modes_and_order_of_creation_do_not_matter(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for path in sorted((path for path in folder.rglob("*") if path.is_file()), reverse=True):
        write(other, str(path.relative_to(folder)), path.read_text())
        os.utime(other / path.relative_to(folder), (1, 1))
        (other / path.relative_to(folder)).chmod(0o700)

    first = pack_folder(folder, tmp_path / "first.zip")
    second = pack_folder(other, tmp_path / "second.zip")

    assert first.sha256 == second.sha256


def test_members_are_stored_unless_compression_is_asked_for(folder: Path, tmp_path: Path) -> None:
    write(folder, "table.csv", "0,0,0\n" * 10_000)

    stored = pack_folder(folder, tmp_path / "stored.zip")
    deflated = pack_folder(folder, tmp_path / "deflated.zip", compress=True)

    assert stored.size_bytes > 60_000 > deflated.size_bytes
    assert (
        inspect_package(deflated.path).report.uncompressed_bytes
        == inspect_package(stored.path).report.uncompressed_bytes
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".git/config", "version control"),
        (".svn/entries", "version control"),
        ("src/__pycache__/layers.cpython-311.pyc", "a cache or build product"),
        ("src/old.pyc", "a cache or build product"),
        (".mypy_cache/x", "a cache or build product"),
        (".DS_Store", "a cache or build product"),
        ("digits.egg-info/PKG-INFO", "a cache or build product"),
        (".mtr/store/x", "a cache or build product"),
        ("mtr.toml", "settings of this machine"),
        ("env/pyvenv.cfg", "a virtual environment"),
        ("conda/conda-meta/history", "a virtual environment"),
        ("requirements.txt", "dependencies and environment files are refused"),
        ("deploy/.env", "dependencies and environment files are refused"),
        ("vendor/a-1.0-py3-none-any.whl", "dependencies and environment files are refused"),
    ],
)
def test_what_no_package_needs_is_left_out_and_said(folder: Path, path: str, reason: str) -> None:
    write(folder, path)

    names, left_out = packed(folder)

    assert names == ["src/layers.py", "train.py", "training_package.json"]
    assert [said.startswith(reason) for said in left_out.values()] == [True]
    assert path.startswith(tuple(left_out))


@pytest.mark.parametrize("name", [".gitignore", ".mtrignore"])
def test_an_ignore_file_is_obeyed_and_left_out(folder: Path, name: str) -> None:
    write(folder, name, "*.log\nruns/\n!keep.log\n/top.txt\n")
    for path in ("a.log", "keep.log", "runs/1.bin", "top.txt", "src/top.txt"):
        write(folder, path)

    names, left_out = packed(folder)

    assert names == ["keep.log", "src/layers.py", "src/top.txt", "train.py", "training_package.json"]
    assert set(left_out) == {name, "a.log", "runs/", "top.txt"}
    assert left_out["a.log"] == "ignored by .gitignore or .mtrignore"


def test_the_inner_ignore_file_has_the_last_word(folder: Path) -> None:
    write(folder, ".gitignore", "*.bin\n")
    write(folder, "src/.gitignore", "!weights.bin\n")
    write(folder, "weights.bin")
    write(folder, "src/weights.bin")

    names, _ = packed(folder)

    assert "src/weights.bin" in names
    assert "weights.bin" not in names


def test_mtrignore_may_bring_back_what_gitignore_leaves_out(folder: Path) -> None:
    write(folder, ".gitignore", "*.bin\n")
    write(folder, ".mtrignore", "!weights.bin\n")
    write(folder, "weights.bin")

    names, _ = packed(folder)

    assert "weights.bin" in names


def test_a_line_that_is_no_pattern_matches_nothing(folder: Path) -> None:
    write(folder, ".gitignore", "!\n[z-a]\n\\\n*.bin\r\n")
    write(folder, "weights.bin")

    names, _ = packed(folder)

    assert names == ["src/layers.py", "train.py", "training_package.json"]


def test_an_ignore_file_above_the_folder_changes_nothing(folder: Path) -> None:
    write(folder.parent, ".gitignore", "*\n")

    names, _ = packed(folder)

    assert names == ["src/layers.py", "train.py", "training_package.json"]


def test_links_and_special_files_are_not_followed(folder: Path) -> None:
    (folder / "secret").symlink_to("/etc/passwd")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")

    names, left_out = packed(folder)

    assert names == ["src/layers.py", "train.py", "training_package.json"]
    assert left_out == {"loop": "a symbolic link", "secret": "a symbolic link", "pipe": "not a regular file"}


def test_the_archive_does_not_pack_itself_nor_its_remains(folder: Path) -> None:
    first = pack_folder(folder, folder / "digits.zip")
    write(folder, ".digits.zip.k1ll3d.partial")

    second = pack_folder(folder, folder / "digits.zip")

    assert first.sha256 == second.sha256
    assert {one.reason for one in second.left_out} == {"the archive itself"}


def test_an_archive_of_the_same_name_elsewhere_in_the_folder_is_packed(folder: Path) -> None:
    write(folder, "assets/digits.zip")

    archive = pack_folder(folder, folder / "digits.zip")

    with zipfile.ZipFile(archive.path) as opened:
        assert "assets/digits.zip" in opened.namelist()


def test_modes_in_the_archive_are_those_of_plain_files(folder: Path, tmp_path: Path) -> None:
    (folder / "train.py").chmod(0o4755)

    archive = pack_folder(folder, tmp_path / "out.zip")

    with zipfile.ZipFile(archive.path) as opened:
        assert {info.external_attr >> 16 for info in opened.infolist()} == {stat.S_IFREG | 0o644}


def test_a_missing_folder_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is not a folder"):
        pack_folder(tmp_path / "nothing", tmp_path / "out.zip")


def test_a_destination_in_a_folder_that_is_not_there_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="cannot write"):
        pack_folder(folder, tmp_path / "nowhere" / "out.zip")


def test_a_full_disk_is_said_and_leaves_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123 - a device, not a path of ours
        monkeypatch.setattr(packing, "_copy", lambda _source, _out, size_bytes: full.write(bytes(size_bytes)))

        with pytest.raises(WorkspaceLimitError, match="No space left on device"):
            pack_folder(folder, tmp_path / "out.zip")

    assert {entry.name for entry in tmp_path.iterdir()} == {"digits"}


def test_a_very_deep_folder_is_refused_not_crashed_on(tmp_path: Path) -> None:
    here = tmp_path / "digits"
    here.mkdir()
    for _ in range(100):
        here = here / "a"
        here.mkdir()
    (here / "b.py").write_text("x")

    refused(tmp_path / "digits", "its path has more than 64 parts")


def refused(folder: Path, said: str, error: type[Exception] = ArchiveRejectedError, **limits: int) -> None:
    """The folder is not packed, and an archive that was there before is not touched."""
    destination = folder.parent / "out.zip"
    destination.write_text("before")

    with pytest.raises(error, match=said):
        pack_folder(folder, destination, limits=ArchiveLimits(**limits))

    assert destination.read_text() == "before"
    assert {entry.name for entry in folder.parent.iterdir()} == {folder.name, "out.zip"}


def test_a_folder_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "digits", "requirements.txt")

    refused(tmp_path / "digits", "nothing in the folder is packed")


def test_names_that_meet_on_some_systems_are_refused(folder: Path) -> None:
    write(folder, "Train.py")

    refused(folder, r"train\.py: it is the same file as 'Train\.py' on some systems")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (b"a\\b.py", "its name contains a backslash"),
        (b"a\nb.py", "its name contains a control character"),
        (b"\xff.py", "its name is not UTF-8"),
        (b"c:a.py", "starts with a drive letter"),
    ],
)
def test_names_that_no_archive_may_have_are_refused(folder: Path, name: bytes, said: str) -> None:
    Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_text("x")  # noqa: PTH118 - bytes, not text

    refused(folder, said)


def test_too_many_files_are_refused(folder: Path) -> None:
    refused(folder, "it has 3 files, the limit is 2", max_members=2)


def test_too_many_bytes_are_refused_before_they_are_copied(folder: Path) -> None:
    with (folder / "hole.bin").open("wb") as hole:
        hole.truncate(600 << 20)

    refused(folder, "the limit is 536870912", ArchiveTooLargeError)


def test_an_archive_over_the_packed_limit_is_refused(folder: Path) -> None:
    refused(folder, "the limit is 100", ArchiveTooLargeError, max_packed_bytes=100)


def test_a_file_that_grows_while_it_is_packed_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = packing._copy

    def grow_and_copy(source, out, size_bytes: int) -> int:
        with (folder / "train.py").open("a") as code:
            code.write("# more\n")
        return copy(source, out, size_bytes)

    monkeypatch.setattr(packing, "_copy", grow_and_copy)

    refused(folder, r"train\.py: it changed while it was packed")


def test_a_file_that_becomes_a_link_while_the_folder_is_packed_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = packing._check

    def check_and_swap(*arguments) -> None:
        check(*arguments)
        (folder / "train.py").unlink()
        (folder / "train.py").symlink_to("/etc/passwd")

    monkeypatch.setattr(packing, "_check", check_and_swap)

    refused(folder, r"train\.py: it became a symbolic link")


PINNED = "81230eecbf1deee6bb862802b59c9ddb1eb2e2deedc4b99c9c7eba26f3f06c8e"
"""Taken once. When it changes, every unchanged package gets a new digest: that needs a better reason than a new Python."""
