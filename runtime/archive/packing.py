"""A folder as a deterministic ZIP: the same files give the same bytes, on every machine and at every time.

What is packed is decided by the folder's content alone: members are sorted by path, have one fixed time, mode 0644 and
no owner, and are stored unless compression is asked for. What no package needs, and what the ZIP rules refuse, is left
out and named. Ignore files above the folder are not read, since the answer must not depend on where the folder lies.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tempfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pathspec import GitIgnoreSpec

from contracts.errors import ArchiveTooLargeError, NotFoundError
from contracts.limits import CHUNK_BYTES
from runtime.archive.disk import refusals_named
from runtime.archive.limits import CONTRACT_LIMITS, ArchiveLimits
from runtime.archive.names import UnsafeNameError, comparison_key, is_dependency_file, parse_name
from runtime.archive.violations import Violations

if TYPE_CHECKING:
    from collections.abc import Iterator

_EPOCH = (1980, 1, 1, 0, 0, 0)
_ATTRIBUTES = (stat.S_IFREG | 0o644) << 16
_UNIX = 3
_PARTIAL = ".partial"
_IGNORE_FILES = (".gitignore", ".mtrignore")  # in this order: what `.mtrignore` says is the last word

_VERSION_CONTROL = frozenset(
    {".git", ".hg", ".svn", ".bzr", "_darcs", "CVS", ".gitattributes", ".gitignore", ".gitmodules", ".hgignore"}
)
_CACHES = frozenset(
    {
        "__pycache__",
        "__MACOSX",
        ".cache",
        ".DS_Store",
        ".hypothesis",
        ".ipynb_checkpoints",
        ".mtr",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
        "Thumbs.db",
    }
)
_CACHE_SUFFIXES = (".pyc", ".pyo")
_SETTINGS = "mtr.toml"
"""May hold the credentials of the machine that it lies on."""
_ENVIRONMENT_MARKERS = ("pyvenv.cfg", "conda-meta")


_Rules = tuple[tuple[str, GitIgnoreSpec], ...]
"""Ignore rules, each with the folder that its paths are relative to, outermost first."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something in the folder that is not in the archive; a folder's `path` ends in `/` and stands for all below it."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class PackedArchive:
    """The archive that was written."""

    path: Path
    sha256: str
    size_bytes: int
    left_out: tuple[LeftOut, ...]


def pack_folder(
    folder: Path, destination: Path, *, compress: bool = False, limits: ArchiveLimits = CONTRACT_LIMITS
) -> PackedArchive:
    """Afterwards `destination` is a ZIP of the folder's files that keeps the archive rules, or it is as it was.

    Whether the manifest is there and valid is not looked at: `inspect_package` does that.

    Args:
        folder: what to pack; nothing in it is followed out of it.
        destination: the ZIP file, in an existing folder; replaced as a whole if it is there.
        compress: deflate the members. The bytes then also depend on the zlib that wrote them.
        limits: what the archive's readers accept; the contract's by default.

    Returns:
        Where it is, its digest and size, and all that was left out, sorted by path, each with the reason.

    Raises:
        NotFoundError: `folder` is not a folder, something in it cannot be read, or `destination` may not be written.
        ArchiveRejectedError: names that no archive may have, two files of the same name on some systems, too many
            files or none, or a file that changed while it was packed.
        ArchiveTooLargeError: the files are over the limit.
        WorkspaceLimitError: the disk is full.
    """
    if not folder.is_dir():
        raise NotFoundError(
            f"{folder} is not a folder",
            hint="Give the folder that has training_package.json in it.",
            context={"path": str(folder)},
        )
    selection = _Selection(folder, destination)
    files = sorted(selection.files)
    violations = Violations(folder.resolve().name)
    _check(files, limits, violations)
    with refusals_named(destination):
        descriptor, name = tempfile.mkstemp(prefix=f".{destination.name}.", suffix=_PARTIAL, dir=destination.parent)
    partial = Path(name)
    try:
        with refusals_named(destination):
            with open(descriptor, "wb") as out:  # noqa: PTH123 - a descriptor, not a path
                _write(out, folder, files, limits, violations, compress=compress)
            sha256, size_bytes = _digest(partial)
            if size_bytes > limits.max_packed_bytes:
                raise _too_large(folder, size_bytes, limits.max_packed_bytes)
            partial.chmod(0o644)
            partial.replace(destination)
    finally:
        partial.unlink(missing_ok=True)
    left_out = tuple(sorted(selection.left_out, key=lambda one: one.path))
    return PackedArchive(destination, sha256, size_bytes, left_out)


class _Selection:
    """Which files of a folder are packed, and which are not."""

    def __init__(self, folder: Path, destination: Path) -> None:
        self._folder = folder
        self._destination = destination.resolve()
        self.files: list[str] = []
        self.left_out: list[LeftOut] = []
        unseen: list[tuple[str, _Rules]] = [("", ())]
        while unseen:
            unseen += self._look_into(*unseen.pop())

    def _look_into(self, parent: str, rules: _Rules) -> list[tuple[str, _Rules]]:
        """Takes up the files of one folder; answers the folders in it that are packed, with the rules for them.

        `parent` is empty or ends in `/`; `rules` are the ignore rules of the folders around it.
        """
        here = self._folder / parent
        try:
            entries = list(os.scandir(here))
        except OSError as error:
            raise _unreadable(here, error) from error
        if lines := self._ignore_lines(here, {entry.name for entry in entries}):
            rules = (*rules, (parent, GitIgnoreSpec.from_lines(lines)))
        folders: list[tuple[str, _Rules]] = []
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            path = f"{parent}{entry.name}/" if is_folder else parent + entry.name
            if reason := self._reason(entry, path, rules):
                self.left_out.append(LeftOut(path, reason))
            elif is_folder:
                folders.append((path, rules))
            else:
                self.files.append(path)
        return folders

    @staticmethod
    def _ignore_lines(here: Path, names: set[str]) -> list[str]:
        lines: list[str] = []
        for name in _IGNORE_FILES:
            if name in names and (here / name).is_file():
                try:
                    content = (here / name).read_text("utf-8", "surrogateescape")
                except OSError as error:
                    raise _unreadable(here / name, error) from error
                lines += (line for line in content.split("\n") if _is_pattern(line))
        return lines

    def _reason(self, entry: os.DirEntry[str], path: str, rules: _Rules) -> str | None:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.is_symlink():
            return "a symbolic link"
        if not is_folder and not entry.is_file(follow_symlinks=False):
            return "not a regular file"
        if entry.name in _VERSION_CONTROL:
            return "version control"
        if entry.name in _CACHES or entry.name.endswith((*_CACHE_SUFFIXES, ".egg-info")):
            return "a cache or build product"
        if entry.name == ".mtrignore":
            return "says what is left out"
        if entry.name == _SETTINGS:
            return "settings of this machine"
        if is_folder and any((Path(entry.path) / marker).exists() for marker in _ENVIRONMENT_MARKERS):
            return "a virtual environment"
        if not is_folder and self._is_destination(entry):
            return "the archive itself"
        if is_dependency_file(entry.name):
            return "dependencies and environment files are refused in packages; `runtime.id` chooses what is installed"
        return "ignored by " + " or ".join(_IGNORE_FILES) if _is_ignored(path, rules) else None

    def _is_destination(self, entry: os.DirEntry[str]) -> bool:
        """Whether this is the archive to be written, or what an earlier packing left of it when it was killed."""
        name = self._destination.name
        is_remnant = entry.name.startswith(f".{name}.") and entry.name.endswith(_PARTIAL)
        return (entry.name == name or is_remnant) and Path(entry.path).resolve().parent == self._destination.parent


def _is_pattern(line: str) -> bool:
    """Whether the line can be read as a pattern; one that cannot be matches nothing, as in git."""
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def _is_ignored(path: str, rules: _Rules) -> bool:
    """The innermost folder that has a rule about `path` decides, as in git."""
    for folder, rule in reversed(rules):
        verdict = rule.check_file(path.removeprefix(folder)).include
        if verdict is not None:
            return verdict
    return False


def _check(files: list[str], limits: ArchiveLimits, violations: Violations) -> None:
    if not files:
        violations.stop("", "nothing in the folder is packed: it is empty, or everything in it is left out")
    if len(files) > limits.max_members:
        violations.stop("", f"it has {len(files)} files, the limit is {limits.max_members}")
    keys: dict[str, str] = {}
    for path in files:
        try:
            path.encode()
            if "\\" in path:  # readers take it for a separator, so the file would unpack elsewhere
                raise UnsafeNameError("its name contains a backslash")  # noqa: TRY301 - one way out for all rules
            parse_name(path)
        except UnicodeEncodeError:
            violations.add(path, "its name is not UTF-8")
            continue
        except UnsafeNameError as error:
            violations.add(path, str(error))
            continue
        first = keys.setdefault(comparison_key(path), path)
        if first != path:
            violations.add(path, f"it is the same file as {first!r} on some systems")
    violations.raise_if_any()


def _write(
    out: IO[bytes], folder: Path, files: list[str], limits: ArchiveLimits, violations: Violations, *, compress: bool
) -> None:
    unpacked_bytes = 0
    with zipfile.ZipFile(out, "w", allowZip64=True) as archive:
        for path in files:
            with _open_regular(folder, path, violations) as source:
                size_bytes = os.fstat(source.fileno()).st_size
                unpacked_bytes += size_bytes
                if unpacked_bytes > limits.max_unpacked_bytes:
                    raise _too_large(folder, unpacked_bytes, limits.max_unpacked_bytes)
                member = zipfile.ZipInfo(path, _EPOCH)
                member.create_system, member.external_attr = _UNIX, _ATTRIBUTES
                member.file_size = size_bytes  # decides whether the header has 64-bit sizes
                if compress:
                    member.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(member, "w") as packed:
                    if _copy(source, packed, size_bytes) != size_bytes:
                        violations.stop(path, "it changed while it was packed")


def _copy(source: IO[bytes], packed: IO[bytes], size_bytes: int) -> int:
    """How many bytes `source` had; stops one behind `size_bytes`, since a file that grows is refused anyway."""
    copied = 0
    while copied <= size_bytes and (chunk := source.read(min(CHUNK_BYTES, size_bytes + 1 - copied))):
        packed.write(chunk)
        copied += len(chunk)
    return copied


@contextmanager
def _open_regular(folder: Path, path: str, violations: Violations) -> Iterator[IO[bytes]]:
    """The file open for reading; what was a regular file when it was found must still be one."""
    try:
        descriptor = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            violations.stop(path, "it became a symbolic link while the folder was packed")
        raise _unreadable(folder / path, error) from error
    with open(descriptor, "rb") as source:  # noqa: PTH123 - a descriptor, not a path
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            violations.stop(path, "it became something else than a file while the folder was packed")
        yield source


def _digest(path: Path) -> tuple[str, int]:
    with path.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256")
        return digest.hexdigest(), written.tell()


def _too_large(folder: Path, size_bytes: int, limit_bytes: int) -> ArchiveTooLargeError:
    return ArchiveTooLargeError(
        f"{folder} packs to {size_bytes} bytes or more, the limit is {limit_bytes}",
        hint="Name data, weights and runs in a .mtrignore file: data belongs in a data set, weights in a model package.",
        context={"path": str(folder), "size_bytes": size_bytes, "limit_bytes": limit_bytes},
    )


def _unreadable(path: Path, error: OSError) -> NotFoundError:
    return NotFoundError(
        f"cannot read {path}: {error.strerror}",
        hint="Make it readable, or name it in a .mtrignore file if the package does not need it.",
        context={"path": str(path)},
    )
