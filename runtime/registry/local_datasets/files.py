"""The files of a local data set, all of them inside its folder, all of them what their names say."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from contracts.errors import DatasetUnreadableError
from contracts.limits import MAX_DATASET_FOLDER_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

SPLITS: Final = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}
"""What people call the folders of a split, and what we call it."""

_MAX_ITEM_ID: Final = 256
_MAX_VIOLATIONS: Final = 100  # of one report: a thousand broken files have one cause
_SIGNATURES: Final[dict[str, tuple[bytes, ...]]] = {
    ".png": (b"\x89PNG\r\n\x1a\n",),
    ".jpg": (b"\xff\xd8\xff",),
    ".jpeg": (b"\xff\xd8\xff",),
    ".gif": (b"GIF87a", b"GIF89a"),
    ".bmp": (b"BM",),
    ".tif": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
    ".tiff": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
    ".webp": (b"RIFF",),
}
_ANY_SIGNATURE: Final = tuple(signature for signatures in _SIGNATURES.values() for signature in signatures)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A regular file: `path` is its real one, free of symbolic links."""

    path: Path
    suffix: str


@dataclass(frozen=True, slots=True)
class LocalItem:
    """One example on disk. An annotation is a file, or content that stands in a larger one."""

    item_id: str
    split: str
    media: LocalFile
    annotation: LocalFile | bytes | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LocalDataset:
    """A data set on disk, read and checked; nothing of it is stored yet.

    Attributes:
        task_kind: what it is for.
        annotation_kinds: how its annotations are written.
        class_names: in the order that labels count in.
        items: in the order of their ids.
        annotation_suffix: of annotations that have no file of their own.
        ignored_files: files that are no part of it, such as notes beside the images.
    """

    task_kind: str
    annotation_kinds: tuple[str, ...]
    class_names: tuple[str, ...]
    items: list[LocalItem]
    annotation_suffix: str = ""
    ignored_files: int = 0
    data_modalities: tuple[str, ...] = ("image",)


class DatasetFolder:
    """A data set's folder: answers only files that really lie in it, and collects what is wrong with the others.

    Attributes:
        root: its real path.
        ignored_files: how many files were met that are no part of a data set.
        reported: how many things were found to be wrong.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.ignored_files = 0
        self._violations: list[dict[str, str]] = []
        self.reported = 0

    def report(self, path: Path | str, message: str) -> None:
        """Remembers what is wrong with `path`; `refuse_reported` raises it."""
        self.reported += 1
        if len(self._violations) < _MAX_VIOLATIONS:
            self._violations.append({"path": self.name_of(path), "message": message})

    def refuse_reported(self, hint: str) -> None:
        """Returns when nothing was reported.

        Raises:
            DatasetUnreadableError: with everything that was.
        """
        if not self._violations:
            return
        said = "; ".join(f"{found['path']}: {found['message']}" for found in self._violations[:5])
        more = f"; and {self.reported - 5} more" if self.reported > 5 else ""
        headline = f"{self.root} cannot be read as a data set"
        raise DatasetUnreadableError(
            f"{headline}: {said}{more}",
            hint=hint,
            context={"headline": headline, "violations": self._violations, "count": self.reported},
        )

    def name_of(self, path: Path | str) -> str:
        """`path` as people see it: relative to the folder."""
        if isinstance(path, str):
            return path
        return PurePosixPath(os.path.relpath(path, self.root)).as_posix()

    def subfolders(self, folder: Path) -> list[Path]:
        """The visible folders in `folder`, by name."""
        return [Path(entry.path) for entry in self._entries(folder) if self._is_folder(entry)]

    def images(self, folder: Path) -> Iterator[tuple[Path, LocalFile]]:
        """Every image in `folder` and below, by path, each as it is named and as the file that it is.

        Whatever else lies there is counted as ignored. An image that is empty, is none, or lies outside is reported.
        """
        yield from self._images(folder, (os.path.realpath(folder),))

    def _images(self, folder: Path, chain: tuple[str, ...]) -> Iterator[tuple[Path, LocalFile]]:
        for entry in self._entries(folder):
            path = Path(entry.path)
            if self._is_folder(entry):
                real = os.path.realpath(path)
                if real in chain or len(chain) > MAX_DATASET_FOLDER_DEPTH:
                    self.report(path, "leads round in a circle" if real in chain else "is nested too deeply")
                else:
                    yield from self._images(path, (*chain, real))
            elif path.suffix.lower() in _SIGNATURES:
                found = self.image(path)
                if found is not None:
                    yield path, found
            else:
                self.ignored_files += 1

    def has_images(self, folder: Path) -> bool:
        """Whether an image lies in `folder` itself."""
        return any(Path(entry.name).suffix.lower() in _SIGNATURES for entry in self._entries(folder))

    def image(self, path: Path) -> LocalFile | None:
        """The image at `path`; None, and reported, when it is empty, is none, or lies outside."""
        suffix = path.suffix.lower()
        if suffix not in _SIGNATURES:
            self.report(path, f"is no image; known here: {', '.join(_SIGNATURES)}")
            return None
        found = self.file(path)
        if found is None:
            return None
        try:
            descriptor = os.open(found.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                head = os.read(descriptor, 16)
            finally:
                os.close(descriptor)
        except OSError as error:
            self.report(path, f"cannot be read: {error.strerror}")
            return None
        # The suffix may name another image format: decoders look at the content, and so do we.
        if not head.startswith(_ANY_SIGNATURE):
            self.report(path, "is empty" if not head else "is no image: its first bytes are of no image format")
            return None
        return found

    def file(self, path: Path) -> LocalFile | None:
        """The regular file at `path`; None, and reported, when it is no regular file or lies outside."""
        real = self._inside(path)
        if real is None:
            return None
        try:
            mode = real.lstat().st_mode
        except OSError as error:
            self.report(path, f"cannot be read: {error.strerror}")
            return None
        if not stat.S_ISREG(mode):
            self.report(path, "is no regular file")
            return None
        return LocalFile(real, path.suffix.lower())

    def item_id(self, path: Path) -> str:
        """A stable, unique id for the item at `path`: its place in the folder, shortened where that is too long."""
        name = self.name_of(path)
        if len(name) <= _MAX_ITEM_ID:
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        return f"{digest}/{name[len(digest) + 1 - _MAX_ITEM_ID :]}"

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        if self._inside(folder) is None:
            return []
        try:
            with os.scandir(folder) as found:
                visible = [entry for entry in found if not entry.name.startswith(".")]
        except OSError as error:
            self.report(folder, f"cannot be read: {error.strerror}")
            return []
        named = []
        for entry in visible:
            if entry.name.isascii() or _is_text(entry.name):
                named.append(entry)
            else:
                self.report(Path(os.fsencode(entry.path).decode("utf-8", "replace")), "has a name that is not UTF-8")
        return sorted(named, key=lambda entry: entry.name)

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir()
        except OSError:  # a symbolic link that leads round in a circle
            return False

    def _inside(self, path: Path) -> Path | None:
        try:
            real = Path(os.path.realpath(path, strict=True))
        except OSError as error:
            self.report(path, "is not there" if isinstance(error, FileNotFoundError) else f"{error.strerror}")
            return None
        if real != self.root and not real.is_relative_to(self.root):
            self.report(path, "leads out of the data set's folder by a symbolic link or `..`")
            return None
        return real


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
