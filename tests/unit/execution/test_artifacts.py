from __future__ import annotations

import hashlib
import os
import socket

import pytest

from contracts.base import validate
from contracts.completion import Completion
from contracts.errors import ArtifactEmptyError, ArtifactMissingError, ArtifactOutsideError, WorkspaceLimitError
from runtime.execution.artifacts import verify_artifacts


def completion(*paths: str) -> Completion:
    return validate(Completion, {"artifacts": [{"path": path, "role": "report", "format": "json"} for path in paths]})


def test_size_and_digest_are_those_of_the_file(tmp_path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "report.json").write_bytes(b"content" * 100_000)
    (artifact,) = verify_artifacts(completion("a/./report.json"), tmp_path)
    assert artifact.size_bytes == 700_000
    assert artifact.sha256 == hashlib.sha256(b"content" * 100_000).hexdigest()


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(ArtifactMissingError, match=r"artifact report\.json is not there"):
        verify_artifacts(completion("report.json"), tmp_path)


def test_a_file_in_a_missing_folder_is_missing(tmp_path) -> None:
    with pytest.raises(ArtifactMissingError):
        verify_artifacts(completion("a/b/report.json"), tmp_path)


def test_an_empty_file_is_refused(tmp_path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(ArtifactEmptyError, match="artifact a is empty"):
        verify_artifacts(completion("a"), tmp_path)


def test_a_link_to_a_file_inside_is_refused_too(tmp_path) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / "a").symlink_to("real")
    with pytest.raises(ArtifactOutsideError, match="leads through a symbolic link: a"):
        verify_artifacts(completion("a"), tmp_path)


def test_a_dangling_link_is_a_link(tmp_path) -> None:
    (tmp_path / "a").symlink_to("nowhere")
    with pytest.raises(ArtifactOutsideError):
        verify_artifacts(completion("a"), tmp_path)


def test_a_linked_folder_is_refused(tmp_path) -> None:
    (tmp_path / "etc").symlink_to("/etc")
    with pytest.raises(ArtifactOutsideError, match="symbolic link: etc"):
        verify_artifacts(completion("etc/hostname"), tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path) -> None:
    os.mkfifo(tmp_path / "a")
    with pytest.raises(ArtifactMissingError, match="no regular file"):
        verify_artifacts(completion("a"), tmp_path)


def test_a_socket_is_no_file(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("a")
        with pytest.raises(ArtifactMissingError, match="cannot be read"):
            verify_artifacts(completion("a"), tmp_path)


def test_all_that_is_wrong_is_told_at_once(tmp_path) -> None:
    (tmp_path / "b").touch()
    with pytest.raises(ArtifactMissingError) as caught:
        verify_artifacts(completion("a", "b"), tmp_path)
    assert [wrong["path"] for wrong in caught.value.context["artifacts"]] == ["a", "b"]


def test_a_file_of_holes_is_not_read_for_ever(tmp_path) -> None:
    os.truncate(os.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT), 2**40)
    with pytest.raises(WorkspaceLimitError, match=r"artifact a has 1\.0 TiB"):
        verify_artifacts(completion("a"), tmp_path)


def test_all_artifacts_together_are_limited(tmp_path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"x" * 600)
    with pytest.raises(WorkspaceLimitError, match="artifact b has 600 B, 400 B are left"):
        verify_artifacts(completion("a", "b"), tmp_path, max_bytes=1000)
