from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING

import pytest

from contracts.errors import ArchiveRejectedError, ArchiveTooLargeError, NotFoundError, RuntimeFault
from runtime.archive.extraction import extract
from runtime.archive.inspection import inspect_package
from tests.assets.hostile_zips import HOSTILE, Hostile, nested_bomb, package_zip

if TYPE_CHECKING:
    from pathlib import Path

INSPECTION_ONLY = ("dotenv", "requirements", "wheel", "egg", "lock-file", "fullwidth-wheel", "manifest", "no-manifest",
                   "entrypoint", "only-an-end")  # fmt: skip
"""Kinds that break a rule of code packages, not of archives: unpacking as such is harmless."""


def each(kinds: list[Hostile]):
    return pytest.mark.parametrize("hostile", kinds, ids=[kind.name for kind in kinds])


@each(list(HOSTILE))
def test_a_hostile_archive_is_refused_with_its_own_words(hostile: Hostile, tmp_path: Path) -> None:
    path = tmp_path / "package.zip"
    path.write_bytes(hostile.build())

    with pytest.raises(RuntimeFault) as refused:
        inspect_package(path)

    assert refused.value.code == hostile.code
    assert hostile.said in refused.value.message
    assert refused.value.hint


@each([kind for kind in HOSTILE if not kind.name.startswith(INSPECTION_ONLY)])
def test_a_hostile_archive_unpacks_to_nothing(hostile: Hostile, tmp_path: Path) -> None:
    path = tmp_path / "package.zip"
    path.write_bytes(hostile.build())
    (tmp_path / "place").mkdir()

    with pytest.raises((ArchiveRejectedError, ArchiveTooLargeError)):
        extract(path, tmp_path / "place" / "code")

    assert {entry.name for entry in tmp_path.iterdir()} == {"package.zip", "place"}
    assert list((tmp_path / "place").iterdir()) == []


def test_the_kinds_are_many_and_distinct() -> None:
    assert len({kind.name for kind in HOSTILE}) == len(HOSTILE) >= 100


def test_the_honest_archive_that_they_are_made_from_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "package.zip"
    path.write_bytes(package_zip())

    assert inspect_package(path).manifest.key == "digits"


def test_all_violations_are_listed_at_once_with_their_paths(tmp_path: Path) -> None:
    path = tmp_path / "package.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../evil.py", "/etc/evil", "src/.env", "a.py", "A.py"):
            archive.writestr(name, "x")

    with pytest.raises(ArchiveRejectedError) as refused:
        inspect_package(path)

    assert [violation["path"] for violation in refused.value.context["violations"]] == [
        "../evil.py",
        "/etc/evil",
        "A.py",
        "training_package.json",
        "src/.env",
    ]


def test_a_terminal_escape_in_a_name_is_shown_as_an_escape(tmp_path: Path) -> None:
    path = tmp_path / "package.zip"
    path.write_bytes(next(kind for kind in HOSTILE if kind.name == "escape-sequence").build())

    with pytest.raises(ArchiveRejectedError) as refused:
        inspect_package(path)

    assert "\x1b" not in refused.value.message
    assert "\\x1b[2Ja.py" in refused.value.message


def test_a_nested_bomb_costs_its_packed_size_and_stays_a_file(tmp_path: Path) -> None:
    path = tmp_path / "package.zip"
    path.write_bytes(nested_bomb())

    report = inspect_package(path).report
    extract(path, tmp_path / "code")

    assert report.uncompressed_bytes < path.stat().st_size
    assert zipfile.is_zipfile(tmp_path / "code" / "inner.zip")


def test_a_folder_is_not_an_archive(tmp_path: Path) -> None:
    with pytest.raises(ArchiveRejectedError, match="not a regular file"):
        inspect_package(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "package.zip")

    with pytest.raises(ArchiveRejectedError, match="not a regular file"):
        inspect_package(tmp_path / "package.zip")


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="No such file"):
        inspect_package(tmp_path / "package.zip")
