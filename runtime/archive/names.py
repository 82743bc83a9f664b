r"""Member names: which are safe to unpack, when two are the same, and which no code package may carry.

A name is read the way the least careful reader would read it, and must be harmless in all of these readings:

1. no NUL and no other control character;
2. `\` separates folders as `/` does; `.` and empty segments mean nothing and are dropped;
3. not absolute, no drive letter, no `..`, and no segment that a file system may trim to one (`.. `, `...`);
4. rule 3 again after compatibility normalisation, where `．．／` becomes `../`;
5. short and shallow enough for every file system.

Two names are the same when they are equal after case folding and Unicode normalisation.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from contracts.limits import MAX_MEMBER_DEPTH, MAX_MEMBER_NAME_BYTES, MAX_MEMBER_PATH_BYTES

_PLAIN = re.compile(r"[A-Za-z0-9_][\w.-]*(?:/[A-Za-z0-9_][\w.-]*)*/?", re.ASCII)
"""Names that need no second look, which are nearly all of them."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"^[A-Za-z]:")
_ONLY_DOTS = re.compile(r"[. ]+")

_DEPENDENCY_NAMES = frozenset(
    {
        ".env",
        "conda-lock.yml",
        "constraints.txt",
        "environment.yaml",
        "environment.yml",
        "pdm.lock",
        "pipfile",
        "pipfile.lock",
        "poetry.lock",
        "pylock.toml",
        "uv.lock",
    }
)
_DEPENDENCY_PATTERN = re.compile(r"^(requirements([-_.].*)?\.(txt|in)|.*\.(whl|egg))$", re.DOTALL)


class UnsafeNameError(Exception):
    """A member's name must not be unpacked; the text says why. Never leaves this package."""


class MemberName(NamedTuple):
    """A member's place under the folder it is unpacked into.

    Attributes:
        path: relative, `/`-separated, without `.` or `..`; empty for the root folder itself.
        is_folder: the name ended in a separator.
    """

    path: str
    is_folder: bool


def parse_name(name: str) -> MemberName:
    """The safe reading of a member's decoded name.

    Raises:
        UnsafeNameError: some reader would put it outside the folder it is unpacked into, or no file can have it.
    """
    if len(name) <= MAX_MEMBER_NAME_BYTES and name.count("/") < MAX_MEMBER_DEPTH and _PLAIN.fullmatch(name):
        return MemberName(name[:-1], is_folder=True) if name[-1] == "/" else MemberName(name, is_folder=False)
    if control := _CONTROL.search(name):
        what = "a NUL byte" if control.group() == "\0" else "a control character"
        raise UnsafeNameError(f"its name contains {what}")
    if not name:
        raise UnsafeNameError("it has no name")
    separated = name.replace("\\", "/")
    segments = _segments(separated)
    if not separated.isascii():
        _segments(unicodedata.normalize("NFKC", separated).replace("\\", "/"))
    path = "/".join(segments)
    is_folder = separated.endswith(("/", "/.")) or separated == "."
    if len(segments) > MAX_MEMBER_DEPTH:
        raise UnsafeNameError(f"its path has more than {MAX_MEMBER_DEPTH} parts")
    if len(path.encode()) > MAX_MEMBER_PATH_BYTES:
        raise UnsafeNameError(f"its path is longer than {MAX_MEMBER_PATH_BYTES} bytes")
    if len(path) * 4 > MAX_MEMBER_NAME_BYTES and any(len(one.encode()) > MAX_MEMBER_NAME_BYTES for one in segments):
        raise UnsafeNameError(f"a part of its path is longer than {MAX_MEMBER_NAME_BYTES} bytes")
    return MemberName(path, is_folder)


def _segments(separated: str) -> list[str]:
    if separated.startswith("/"):
        raise UnsafeNameError("its path is absolute")
    if _DRIVE.match(separated):
        raise UnsafeNameError("its path starts with a drive letter")
    segments = [segment for segment in separated.split("/") if segment not in ("", ".")]
    for segment in segments:
        if segment[0] in ". " and _ONLY_DOTS.fullmatch(segment):
            raise UnsafeNameError(
                "its path leads out of the folder it is unpacked into ('..')"
                if segment == ".."
                else f"its path has the part {segment!r}, which some systems read as '..' or '.'"
            )
    if segments and _DRIVE.match(segments[0]):
        raise UnsafeNameError("its path starts with a drive letter")
    return segments


def comparison_key(path: str) -> str:
    """What two paths share exactly when some file system, or some reader, takes them for one."""
    if path.isascii():
        return path.lower()
    folded = unicodedata.normalize("NFKC", path).casefold()
    return unicodedata.normalize("NFKC", folded)


def is_dependency_file(path: str) -> bool:
    """Whether a part of `path` would install something, or carries secrets: `.env`, requirements, lock files, wheels.

    The Python that runs a package is chosen by `runtime.id`; a package never brings or changes its own.
    """
    return any(
        segment in _DEPENDENCY_NAMES or _DEPENDENCY_PATTERN.match(segment) is not None
        for segment in comparison_key(path).split("/")
    )
