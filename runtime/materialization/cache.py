"""The cache that all executions of a machine share: content-addressed, bounded, and never believed without evidence.

    objects/ab/<sha256>       every cached object, read-only
    trees/<snapshot sha256>/  a data set as files, hard links to objects: `dataset/...`, `seal`, `used`
    staging/<random>/         what is being made or removed; nobody looks for anything here
    locks/                    one file for each thousandth of all digests, and one for the books

How two processes stay out of each other's way, and how a killed one leaves nothing wrong:

- A tree is built under `staging` and renamed as a whole, so one that can be found is complete.
- Whoever uses a tree or an object holds a shared lock on its very inode; whoever removes it needs the exclusive one.
  The kernel gives locks back when a process dies.
- Whoever builds holds the lock of the digest, so that a data set is fetched once, however many executions want it.
- A tree is used only while its files look as they did when it was sealed; what looks different is hashed. An object is
  hashed whenever it is used anew. So whatever a package managed to do to a file, nobody else trains on it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contracts.errors import PolicyError, StorageRefusedError, StorageUnavailableError
from runtime.materialization.layout import DATASET_FOLDER, Layout, PlacedFile, layout_of
from runtime.materialization.seals import (
    Fingerprint,
    damage,
    digest_of_descriptor,
    holds,
    observe,
    positions,
    read_seal,
    write_seal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from contracts.dataset import DatasetSnapshot
    from contracts.references import Pinned
    from runtime.store.backend import ObjectStat
    from runtime.store.objects import ObjectStore

_NO_HARD_LINK: Final = frozenset({errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.ENOSYS})
_SHRINK_TO: Final = 0.9
"""Removing a little more than is asked for, so that the next object does not need it again."""


@dataclass(frozen=True, slots=True)
class MaterializationProgress:
    """How far a data set has come."""

    done_items: int
    total_items: int
    cached_items: int
    downloaded_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class MaterializedDataset:
    """A data set as files, in use: nothing removes it before the block that it was given to ends.

    Attributes:
        tree: the folder whose content belongs at `input_dir/dataset`. To be read only.
        manifest: the `training-dataset-manifest/v1` document; its paths are relative to `input_dir`.
        items: how many examples it has.
        bytes: the size of all its files.
        downloaded_items: how many were fetched for this call.
        cached_items: how many were there.
        downloaded_bytes: how much was fetched.
        seconds: how long it took.
    """

    tree: Path
    manifest: dict[str, Any]
    items: int
    bytes: int
    downloaded_items: int
    cached_items: int
    downloaded_bytes: int
    seconds: float
    _layout: Layout
    _cache: Cache

    def fingerprint(self) -> Fingerprint:
        """What the files look like now; to be compared after a package had its hands on them."""
        return observe(self.tree, self._layout)

    def changed_files(self, before: Fingerprint) -> list[str]:
        """The files that are not what was pinned, relative to `tree`: changed, gone, or added.

        What looks as it did `before` is not read. Objects damaged through these files leave the cache at once; the
        tree itself is made anew by whoever needs it next.
        """
        suspects = set(before.differing(self.fingerprint()))
        if not suspects:
            return []
        changed = damage(self.tree, self._layout, suspects)
        if changed:
            wrong = set(changed)
            for what, _ in positions(self._layout):
                if isinstance(what, PlacedFile) and f"{what.folder}/{what.name}" in wrong:
                    self._cache.drop_damaged(what.pinned.sha256)
        return changed


class Cache:
    """The cache under `root`. Safe with several threads and processes at once.

    Args:
        root: its folder, made when first needed; all of it on one file system.
        max_bytes: the bound of what it keeps. What is in use is never removed; when that leaves too little room, the
            call fails and says so.
    """

    def __init__(self, root: Path, max_bytes: int) -> None:
        self.root, self.max_bytes = root.absolute(), max_bytes
        self._objects, self._trees = self.root / "objects", self.root / "trees"
        self._staging, self._locks = self.root / "staging", self.root / "locks"

    # --- use -----------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def materialize(
        self,
        snapshot: DatasetSnapshot,
        snapshot_sha256: str,
        store: ObjectStore,
        *,
        on_progress: Callable[[MaterializationProgress], None] | None = None,
    ) -> Iterator[MaterializedDataset]:
        """The data set as files, for the length of a `with` block; a snapshot that is there is not copied again.

        Args:
            snapshot: what the files are.
            snapshot_sha256: its digest: its name in the cache.
            store: where they come from.
            on_progress: called a few times a second from this thread.

        Raises:
            DigestMismatchError: an object has other bytes than were pinned.
            ObjectMissingError: an object is gone.
            PolicyError: the data set alone is larger than `cache_max_bytes`.
            StorageUnavailableError: the store does not answer, or other executions use all of the cache.
            StorageRefusedError: the store or this disk refuses.
        """
        began = time.monotonic()
        layout = layout_of(snapshot)
        self._make_folders()
        with contextlib.ExitStack() as held:
            work = _Work(layout, began, on_progress)
            tree = self._enter_tree(snapshot_sha256, layout, held)
            if tree is None:
                with self._digest_lock(snapshot_sha256):
                    tree = self._enter_tree(snapshot_sha256, layout, held)
                    if tree is None:
                        tree = self._build_tree(snapshot_sha256, store, work, held)
            with contextlib.suppress(OSError):  # only the order of removal goes by it
                (tree / "used").touch()
            yield MaterializedDataset(
                tree=tree / DATASET_FOLDER,
                manifest=layout.manifest,
                items=len(layout.items),
                bytes=layout.total_bytes,
                downloaded_items=work.downloaded_items,
                cached_items=len(layout.items) - work.downloaded_items,
                downloaded_bytes=work.downloaded_bytes,
                seconds=time.monotonic() - began,
                _layout=layout,
                _cache=self,
            )

    @contextlib.contextmanager
    def object_path(self, pinned: Pinned, store: ObjectStore) -> Iterator[Path]:
        """A file with the pinned bytes, for the length of a `with` block. To be read only; its name is its digest.

        Its bytes are hashed before it is given out, however long it has been here.

        Raises:
            DigestMismatchError, ObjectMissingError, PolicyError, StorageUnavailableError, StorageRefusedError: as
                `materialize`.
        """
        self._make_folders()
        with contextlib.ExitStack() as held:
            path = self._enter_object(pinned, held)
            if path is None:
                with self._digest_lock(pinned.sha256):
                    path = self._enter_object(pinned, held)
                    while path is None:
                        self._fetch_object(pinned, store)
                        path = self._enter_object(pinned, held)  # none only if another removed it in between
            yield path

    def drop_damaged(self, sha256: str) -> None:
        """Afterwards the cache has no object of this name with other bytes than its name says."""
        path = self._object_file(sha256)
        if not holds(path, sha256):
            with contextlib.suppress(OSError):
                path.unlink()

    # --- trees ---------------------------------------------------------------------------------------------------------

    def _enter_tree(self, sha256: str, layout: Layout, held: contextlib.ExitStack) -> Path | None:
        """The tree of this digest, locked for use and checked, or None when it must be built."""
        tree = self._trees / sha256
        with contextlib.ExitStack() as entering:
            if not _lock_for_use(tree, entering):
                return None
            seal, sealed_in_this_run = read_seal(tree / "seal")
            if seal is None:
                return None
            now = observe(tree / DATASET_FOLDER, layout)
            if len(seal.numbers) != len(now.numbers):
                return None
            suspects = set(seal.differing(now)) if sealed_in_this_run else set(range(len(now.numbers)))
            if suspects:
                if damage(tree / DATASET_FOLDER, layout, suspects):
                    return None
                write_seal(tree / "seal", now)  # observed before it was hashed: a change since then shows next time
            held.push(entering.pop_all())
            return tree

    def _build_tree(self, sha256: str, store: ObjectStore, work: _Work, held: contextlib.ExitStack) -> Path:
        """A new tree in its place, locked for use. The caller holds the digest's lock.

        1. Sweep what dead processes left, and make room for what is not here.
        2. Make every file in a folder of our own: a link to a cached object, hashed again, or fetched and then cached.
        3. Seal, then rename the folder into its place; a damaged tree that was there goes.
        """
        layout = work.layout
        self._sweep_staging()
        staged = self._stage(held)
        sizes = {file.reference["sha256"]: file.reference["size_bytes"] for files in layout.items for file in files}
        missing = self._missing(sizes)
        self._make_room(sum(missing.values()), staged, largest=sum(sizes.values()))
        known = store.survey(
            file.pinned for files in layout.items for file in files if file.reference["sha256"] in missing
        )
        root = os.fspath(staged / DATASET_FOLDER)
        try:
            os.mkdir(root)  # noqa: PTH102 - strings, not Path objects: this runs per file
            store.for_each(layout.items, lambda files: self._place(files, root, store, known, work), on_tick=work.tell)
            work.tell()
            write_seal(staged / "seal", observe(Path(root), layout))
            (staged / "reserved").unlink(missing_ok=True)
            tree = self._trees / sha256
            for _ in range(100):
                try:
                    staged.rename(tree)
                except OSError as error:
                    if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                        raise
                    self._retire(tree)
                else:
                    return tree
        except OSError as error:
            raise _disk_refused(self.root, error) from error
        raise StorageUnavailableError(
            f"{tree} comes back whenever it is removed",
            hint="Something outside writes into the cache's folder: stop it, then repeat.",
            context={"path": str(tree)},
        )

    def _place(
        self,
        files: tuple[PlacedFile, ...],
        root: str,
        store: ObjectStore,
        known: Mapping[tuple[str, str], ObjectStat],
        work: _Work,
    ) -> None:
        """Afterwards one item's files lie in its folder. Called from several threads."""
        folder = f"{root}/{files[0].folder}"
        os.mkdir(folder)  # noqa: PTH102 - see _build_tree
        fetched_bytes, fetched = 0, False
        for file in files:
            target, pinned = f"{folder}/{file.name}", file.pinned
            stored = f"{self._objects}/{pinned.sha256[:2]}/{pinned.sha256}"
            if _adopt(stored, target, pinned.sha256):
                continue
            store.fetch_verified(pinned, target, known=known.get((pinned.bucket, pinned.key)), into_staging=True)
            _offer(target, stored)
            fetched, fetched_bytes = True, fetched_bytes + pinned.size_bytes
        work.placed(fetched=fetched, fetched_bytes=fetched_bytes)

    def _missing(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Of the given digests and sizes those that the cache does not have."""
        present: set[str] = set()
        for shard in {sha256[:2] for sha256 in sizes}:
            with contextlib.suppress(FileNotFoundError):
                present.update(os.listdir(self._objects / shard))  # noqa: PTH208 - names only
        return {sha256: size for sha256, size in sizes.items() if sha256 not in present}

    # --- objects -------------------------------------------------------------------------------------------------------

    def _object_file(self, sha256: str) -> Path:
        return self._objects / sha256[:2] / sha256

    def _enter_object(self, pinned: Pinned, held: contextlib.ExitStack) -> Path | None:
        """The object, locked for use and hashed, or None when it must be fetched."""
        path = self._object_file(pinned.sha256)
        with contextlib.ExitStack() as entering:
            descriptor = _lock_for_use(path, entering)
            if not descriptor:
                return None
            if digest_of_descriptor(descriptor) != pinned.sha256:
                with contextlib.suppress(OSError):
                    path.unlink()
                return None
            with contextlib.suppress(OSError):  # when it was last used, for the order of removal
                os.utime(path, ns=(time.time_ns(), os.fstat(descriptor).st_mtime_ns))
            held.push(entering.pop_all())
            return path

    def _fetch_object(self, pinned: Pinned, store: ObjectStore) -> None:
        self._sweep_staging()
        with contextlib.ExitStack() as staging:
            staged = self._stage(staging)
            self._make_room(pinned.size_bytes, staged, largest=pinned.size_bytes)
            try:
                store.fetch_verified(pinned, staged / "object", into_staging=True)
                _offer(str(staged / "object"), str(self._object_file(pinned.sha256)), must=True)
            except OSError as error:
                raise _disk_refused(self.root, error) from error

    # --- room ----------------------------------------------------------------------------------------------------------

    def _make_room(self, needed: int, staged: Path, *, largest: int) -> None:
        """Afterwards `needed` more bytes fit below the bound, and the books have them.

        Args:
            needed: what will be added.
            staged: our staging folder; says for how much it stands until it is a tree.
            largest: what the caller will use in all, at once.
        """
        if largest > self.max_bytes:
            raise PolicyError(
                f"{largest} bytes are needed at once, and cache_max_bytes is {self.max_bytes}",
                hint=f"Set cache_max_bytes to at least {largest} on this machine.",
                context={"needed_bytes": largest, "cache_max_bytes": self.max_bytes},
            )
        if needed == 0:
            return
        with self._locked(self._locks / "books"):
            (staged / "reserved").write_text(str(needed))
            books = self._locks / "used-bytes"
            used = _read_number(books)
            if used is None or used + needed > self.max_bytes:
                used = self._remove_until(needed, staged)
            if used + needed > self.max_bytes:
                (staged / "reserved").unlink()
                raise StorageUnavailableError(
                    f"the cache has no room for {needed} bytes: {used} of {self.max_bytes} are in use by other executions",
                    hint="Repeat when one of them has ended, or raise cache_max_bytes.",
                    context={"needed_bytes": needed, "used_bytes": used, "cache_max_bytes": self.max_bytes},
                )
            books.write_text(str(used + needed))

    def _remove_until(self, needed: int, ours: Path) -> int:
        """Removes what was not used for longest until `needed` bytes fit comfortably; returns how many are used.

        The caller holds the lock of the books. Everything is counted anew: the books are only an estimate, since a
        process may die between reserving and fetching.
        """
        objects = {found.inode: found for found in self._count_objects()}
        used = sum(found.size_bytes for found in objects.values()) + self._reserved(ours)
        goal = self.max_bytes if used + needed <= self.max_bytes else int(self.max_bytes * _SHRINK_TO)
        candidates: list[tuple[float, Path | _Counted]] = [
            *((found.last_use, found) for found in objects.values() if found.links == 1),
            *((_last_use(tree), tree) for tree in self._trees.iterdir()),
        ]
        for _, candidate in sorted(candidates, key=lambda each: each[0]):
            if used + needed <= goal:
                break
            if isinstance(candidate, Path):
                used -= self._remove_tree(candidate, objects)
            elif _remove_unused(candidate.path):
                used -= candidate.size_bytes
        return used

    def _remove_tree(self, tree: Path, objects: Mapping[int, _Counted]) -> int:
        """Removes a tree that nobody uses, with the objects that only it used; returns the bytes that this freed."""
        with contextlib.ExitStack() as locks:
            if not _lock_for_removal(tree, locks):
                return 0
            inodes = _inodes_below(tree / DATASET_FOLDER)
            grave = self._staging / uuid.uuid4().hex
            tree.rename(grave)
            shutil.rmtree(grave, ignore_errors=True)
        freed = 0
        for inode in inodes:
            found = objects.get(inode)
            if found is None:
                continue
            with contextlib.suppress(FileNotFoundError):
                if found.path.stat().st_nlink == 1 and _remove_unused(found.path):
                    freed += found.size_bytes
        return freed

    def _count_objects(self) -> Iterator[_Counted]:
        for shard in self._objects.iterdir():
            for entry in os.scandir(shard):
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    yield _Counted(Path(entry.path), found.st_ino, found.st_size, found.st_nlink, found.st_atime)

    def _reserved(self, ours: Path) -> int:
        """What others have reserved and may not have fetched yet."""
        return sum(_read_number(other / "reserved") or 0 for other in self._staging.iterdir() if other != ours)

    # --- staging and locks ---------------------------------------------------------------------------------------------

    def _make_folders(self) -> None:
        try:
            for folder in (self._objects, self._trees, self._staging, self._locks):
                folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            raise _disk_refused(self.root, error) from error

    def _stage(self, held: contextlib.ExitStack) -> Path:
        """A folder of our own, locked, and removed at the end unless it was renamed."""
        while True:
            staged = self._staging / uuid.uuid4().hex
            staged.mkdir()
            with contextlib.ExitStack() as entering:
                if not _lock_for_use(staged, entering):  # swept between the two calls
                    continue
                entering.callback(shutil.rmtree, staged, ignore_errors=True)
                held.push(entering.pop_all())
                return staged

    def _retire(self, tree: Path) -> None:
        """Afterwards the tree cannot be found. Its files go when nobody uses them any more."""
        grave = self._staging / uuid.uuid4().hex
        with contextlib.suppress(FileNotFoundError):
            tree.rename(grave)
        with contextlib.ExitStack() as locks:
            if _lock_for_removal(grave, locks):
                shutil.rmtree(grave, ignore_errors=True)

    def _sweep_staging(self) -> None:
        """Removes what killed processes left, and retired trees whose last user has ended."""
        for left in list(self._staging.iterdir()):
            with contextlib.ExitStack() as locks:
                if _lock_for_removal(left, locks):
                    shutil.rmtree(left, ignore_errors=True)

    @contextlib.contextmanager
    def _digest_lock(self, sha256: str) -> Iterator[None]:
        with self._locked(self._locks / f"digest-{sha256[:3]}"):
            yield

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


class _Work:
    """What building a tree has done so far; several threads count, one tells."""

    def __init__(
        self, layout: Layout, began: float, listener: Callable[[MaterializationProgress], None] | None
    ) -> None:
        self.layout = layout
        self._began, self._listener = began, listener
        self._lock = threading.Lock()
        self._done_items = 0
        self.downloaded_items = 0
        self.downloaded_bytes = 0

    def placed(self, *, fetched: bool, fetched_bytes: int) -> None:
        with self._lock:
            self._done_items += 1
            self.downloaded_items += fetched
            self.downloaded_bytes += fetched_bytes

    def tell(self) -> None:
        if self._listener is not None:
            self._listener(
                MaterializationProgress(
                    done_items=self._done_items,
                    total_items=len(self.layout.items),
                    cached_items=self._done_items - self.downloaded_items,
                    downloaded_bytes=self.downloaded_bytes,
                    seconds=time.monotonic() - self._began,
                )
            )


@dataclass(frozen=True, slots=True)
class _Counted:
    """An object as the books see it."""

    path: Path
    inode: int
    size_bytes: int
    links: int
    last_use: float


def _lock_for_use(path: Path, held: contextlib.ExitStack) -> int:
    """A descriptor of `path`, which nothing removes while it is open; 0 when there is nothing, or nothing any more."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise _disk_refused(path, error) from error
    held.callback(os.close, descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor if _is_still(descriptor, path) else 0


def _lock_for_removal(path: Path, held: contextlib.ExitStack) -> bool:
    """Whether nobody uses `path`, and nobody will before `held` ends."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return _is_still(descriptor, path)


def _is_still(descriptor: int, path: Path) -> bool:
    """Whether the locked inode is still the one that others find under this name."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    opened = os.fstat(descriptor)
    return (found.st_ino, found.st_dev) == (opened.st_ino, opened.st_dev)


def _remove_unused(path: Path) -> bool:
    with contextlib.ExitStack() as locks:
        if not _lock_for_removal(path, locks):
            return False
        path.unlink()
        return True


def _adopt(stored: str, target: str, sha256: str) -> bool:
    """Makes `target` a link to a cached object whose bytes are right; False, and nothing made, when there is none."""
    try:
        os.link(stored, target)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINK:
            raise
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(stored, target)
            os.chmod(target, 0o444)  # noqa: PTH101 - strings, see Cache._build_tree
    if holds(target, sha256):
        return True
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)  # noqa: PTH108 - see above
    with contextlib.suppress(FileNotFoundError):
        os.unlink(stored)  # noqa: PTH108 - see above
    return False


def _offer(made: str, stored: str, *, must: bool = False) -> None:
    """Puts a verified file into the cache for others; another that was quicker is as good.

    Args:
        made: the file.
        stored: its place.
        must: whether the caller needs it there; without hard links it is moved.
    """
    try:
        os.link(made, stored)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(stored), exist_ok=True)  # noqa: PTH103, PTH120 - see Cache._build_tree
        _offer(made, stored, must=must)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in _NO_HARD_LINK:
            raise
        if must:
            os.rename(made, stored)  # noqa: PTH104 - see Cache._build_tree


def _inodes_below(folder: Path) -> set[int]:
    found: set[int] = set()
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found.add(os.lstat(f"{at}/{name}").st_ino)
    return found


def _last_use(tree: Path) -> float:
    with contextlib.suppress(OSError):
        return (tree / "used").stat().st_mtime
    return 0.0


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _disk_refused(path: Path, error: OSError) -> StorageRefusedError:
    return StorageRefusedError(
        f"the cache cannot be used: {error.filename or path}: {error.strerror}",
        hint="Free space on the disk that holds MTR_HOME, or let this user write there; then repeat.",
        context={"path": str(error.filename or path), "reason": error.strerror},
    )
