"""The structure of a ZIP file, read so strictly that every reader must read it in the same way.

Readers of ZIP files disagree wherever a file says something twice, or leaves bytes that nobody claims; what one reader
inspects and another unpacks is then not the same archive. So nothing here is believed that is not said everywhere:

1. The end record is the last one in the file, its comment ends exactly where the file ends, and there is one disk.
2. A ZIP64 end record is present when the end record needs it, lies directly before it, and contradicts it nowhere.
3. The central directory ends exactly where the end records begin, and holds as many entries as they say.
4. Each entry is unencrypted, packed by a method that is read here, a regular file or a folder, and has a safe name that
   no other entry has (after case folding and Unicode normalisation) and that is not the folder of another one.
5. Each entry's local header repeats its name, flags, method, sizes and checksum, and so does its data descriptor.
6. Local headers, packed bytes and descriptors follow each other without gap or overlap from the file's first byte to
   the central directory: nothing hides before, between, behind or inside of another one.

All broken rules of 4 to 6 are collected; 1 to 3 end the reading, since nothing after them could be believed.
No content is unpacked here (see `content`), and no declared size is used for more than arithmetic.
"""

from __future__ import annotations

import stat
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from runtime.archive.names import UnsafeNameError, comparison_key, parse_name
from runtime.archive.violations import printable

if TYPE_CHECKING:
    from runtime.archive.limits import ArchiveLimits
    from runtime.archive.names import MemberName
    from runtime.archive.source import ArchiveSource
    from runtime.archive.violations import Violations

STORED: Final = 0
DEFLATED: Final = 8
BZIP2: Final = 12
LZMA: Final = 14
METHODS: Final = frozenset({STORED, DEFLATED, BZIP2, LZMA})
"""The methods that the platform's own reader, CPython's zipfile, knows on every supported Python."""

_END: Final = struct.Struct("<4s4H2LH")
_END_SIGNATURE: Final = b"PK\5\6"
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_END64_SIGNATURE: Final = b"PK\6\6"
_LOCATOR: Final = struct.Struct("<4sLQL")
_LOCATOR_SIGNATURE: Final = b"PK\6\7"
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_CENTRAL_SIGNATURE: Final = b"PK\1\2"
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_LOCAL_SIGNATURE: Final = b"PK\3\4"
_DESCRIPTOR_SIGNATURE: Final = b"PK\7\x08"
_DESCRIPTORS: Final = {
    12: struct.Struct("<3L"),
    16: struct.Struct("<4s3L"),
    20: struct.Struct("<L2Q"),
    24: struct.Struct("<4sL2Q"),
}
_MAX_COMMENT_BYTES: Final = 0xFFFF
_FULL16: Final = 0xFFFF
_FULL32: Final = 0xFFFF_FFFF

_FLAGS_ENCRYPTED: Final = 0x2041
"""Plain and strong encryption, and masked headers."""
_FLAG_DESCRIPTOR: Final = 0x0008
_FLAG_PATCH: Final = 0x0020
_FLAG_UTF8: Final = 0x0800
_FLAGS_COMPARED: Final = 0xFFFF & ~(0x0006 | _FLAG_DESCRIPTOR)
"""Bits 1 and 2 are a note about effort; whether a descriptor follows is seen in the file."""

_EXTRA_ZIP64: Final = 0x0001
_EXTRA_UNICODE_PATH: Final = 0x7075
_NO_EXTRA: Final[dict[int, bytes]] = {}

_NEWEST_VERSION: Final = 63
"""6.3, the last version of the format that says what a reader must know."""
_METHOD_ENCRYPTED: Final = 99
"""AES; the method that is meant stands in an extra field."""

_ATTRIBUTE_VOLUME: Final = 0x08
_ATTRIBUTE_FOLDER: Final = 0x10
_ATTRIBUTE_REPARSE: Final = 0x400
_KIND_BITS: Final = 0o170000
_SPECIAL: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
_LOCAL_READ_BYTES: Final = _LOCAL.size + 128
"""A local header with its name and usual extra fields, in one read."""


class Member(NamedTuple):
    """One entry that keeps all structural rules.

    Attributes:
        path: safe relative path; empty for an entry that stands for the root folder.
        is_folder: a folder has no bytes.
        method: one of `METHODS`.
        crc32: of the unpacked bytes, as declared.
        packed_bytes: the bytes at `data_offset` that are its own.
        size_bytes: its unpacked size, as declared; `content` holds it to that.
        data_offset: where its packed bytes begin in the file.
    """

    path: str
    is_folder: bool
    method: int
    crc32: int
    packed_bytes: int
    size_bytes: int
    data_offset: int


@dataclass(frozen=True, slots=True)
class _Directory:
    offset: int
    size_bytes: int
    entries: int


@dataclass(slots=True)
class _Entry:
    """A central directory entry whose numbers are resolved and whose local header is still to be compared."""

    raw_name: bytes
    shown_name: str
    name: MemberName | None
    flags: int
    method: int
    crc32: int
    packed_bytes: int
    size_bytes: int
    header_offset: int
    end: int = 0
    data_offset: int = 0
    descriptor_follows: bool = False


def read_structure(source: ArchiveSource, limits: ArchiveLimits, violations: Violations) -> list[Member]:
    """The members of an archive, in the order in which they lie in it.

    Broken rules are added to `violations`; an entry whose name is unsafe or whose extent is unknown is left out of
    the answer, so the caller must not go on to contents while there are any.

    Raises:
        ArchiveRejectedError: it is not a ZIP file, or its end records or central directory cannot be believed.
    """
    directory = _find_directory(source, limits, violations)
    entries = _read_entries(source, directory, violations)
    _compare_names(entries, violations)
    located = sorted(
        (entry for entry in entries if _locate(source, entry, directory.offset, violations)),
        key=lambda entry: entry.header_offset,
    )
    _require_no_gap(source, located, directory.offset, violations, complete=len(located) == len(entries))
    return [
        Member(
            entry.name.path,
            entry.name.is_folder,
            entry.method,
            entry.crc32,
            entry.packed_bytes,
            entry.size_bytes,
            entry.data_offset,
        )
        for entry in located
        if entry.name is not None
    ]


# --- rules 1 to 3: the end records and the central directory ---------------------------------------------------------


def _find_directory(source: ArchiveSource, limits: ArchiveLimits, violations: Violations) -> _Directory:
    tail_offset = max(0, source.size_bytes - _END.size - _MAX_COMMENT_BYTES)
    tail = source.read(tail_offset, source.size_bytes - tail_offset)
    at = tail.rfind(_END_SIGNATURE)
    if at < 0 or len(tail) - at < _END.size:
        what = "it ends before its end record" if tail.startswith(_LOCAL_SIGNATURE) else "it is not a ZIP file"
        violations.stop("", what)
    _, disk, directory_disk, entries_here, entries, size_bytes, offset, comment_bytes = _END.unpack_from(tail, at)
    end_offset = tail_offset + at
    after = source.size_bytes - end_offset - _END.size
    if comment_bytes != after:
        violations.stop(
            "",
            f"{after - comment_bytes} bytes follow after the end of the archive"
            if comment_bytes < after
            else "its comment is cut off",
        )
    directory_end = end_offset
    locator = source.read(end_offset - _LOCATOR.size, _LOCATOR.size) if end_offset >= _LOCATOR.size else b""
    if locator.startswith(_LOCATOR_SIGNATURE):
        directory_end, disk, directory_disk, entries_here, entries, size_bytes, offset = _read_end64(
            source,
            end_offset - _LOCATOR.size,
            locator,
            (disk, directory_disk, entries_here, entries, size_bytes, offset),
            violations,
        )
    elif _FULL16 in (disk, directory_disk, entries_here, entries) or _FULL32 in (size_bytes, offset):
        violations.stop("", "its end record refers to a ZIP64 record that is not there")
    if disk or directory_disk or entries_here != entries:
        violations.stop("", "it is one disk of an archive that was split")
    if entries > limits.max_members:
        violations.stop("", f"it has {entries} members, the limit is {limits.max_members}")
    if size_bytes > limits.max_directory_bytes:
        violations.stop("", f"its directory has {size_bytes} bytes, the limit is {limits.max_directory_bytes}")
    if offset + size_bytes != directory_end:
        shift = directory_end - offset - size_bytes
        violations.stop(
            "",
            f"its directory is not where its end record says: {shift} bytes lie before the archive or in front of the end record"
            if shift > 0
            else "its directory is said to reach beyond its end record",
        )
    return _Directory(offset, size_bytes, entries)


def _read_end64(
    source: ArchiveSource, locator_offset: int, locator: bytes, end32: tuple[int, ...], violations: Violations
) -> tuple[int, int, int, int, int, int, int]:
    """The ZIP64 end record's offset, followed by its six numbers in the order of `end32`."""
    _, record_disk, record_offset, disks = _LOCATOR.unpack(locator)
    if record_disk or disks > 1:
        violations.stop("", "it is one disk of an archive that was split")
    if record_offset + _END64.size != locator_offset:
        violations.stop("", "its ZIP64 end record is not directly before the locator that names it")
    record = source.read(record_offset, _END64.size)
    if len(record) != _END64.size or not record.startswith(_END64_SIGNATURE):
        violations.stop("", "its ZIP64 locator points at something else")
    _, rest, _, _, disk, directory_disk, entries_here, entries, size_bytes, offset = _END64.unpack(record)
    if rest != _END64.size - 12:
        violations.stop("", "its ZIP64 end record has a length other than its own")
    end64 = (disk, directory_disk, entries_here, entries, size_bytes, offset)
    for short, long, full in zip(end32, end64, (_FULL16,) * 4 + (_FULL32,) * 2, strict=True):
        if short not in (full, long):
            violations.stop("", f"its two end records contradict each other ({short} and {long})")
    return (record_offset, *end64)


def _read_entries(source: ArchiveSource, directory: _Directory, violations: Violations) -> list[_Entry]:
    content = source.read(directory.offset, directory.size_bytes)
    entries: list[_Entry] = []
    at = 0
    while at < len(content):
        if len(content) - at < _CENTRAL.size or not content.startswith(_CENTRAL_SIGNATURE, at):
            violations.stop("", f"entry {len(entries) + 1} of its directory is not an entry")
        if len(entries) == directory.entries:
            violations.stop("", f"its directory has more entries than the {directory.entries} of its end record")
        (_, _, needed, flags, method, _, _, crc32, packed_bytes, size_bytes, name_bytes, extra_bytes, comment_bytes,
         disk, _, attributes, header_offset) = _CENTRAL.unpack_from(content, at)  # fmt: skip
        name_at = at + _CENTRAL.size
        extra_at = name_at + name_bytes
        at = extra_at + extra_bytes + comment_bytes
        if at > len(content):
            violations.stop("", f"entry {len(entries) + 1} of its directory is cut off")
        raw_name = content[name_at:extra_at]
        shown_name, name, extra = "", None, _NO_EXTRA
        try:
            extra = _read_extra(content[extra_at : extra_at + extra_bytes]) if extra_bytes else _NO_EXTRA
            zip64 = extra.get(_EXTRA_ZIP64)
            if zip64 is not None or _FULL32 in (header_offset, size_bytes, packed_bytes):
                size_bytes, packed_bytes, header_offset = _resolve((size_bytes, packed_bytes, header_offset), zip64)
            if disk not in (0, _FULL16):
                raise _EntryRefusedError("it lies on another disk")  # noqa: TRY301 - one way out for all rules
            if needed & 0xFF > _NEWEST_VERSION:
                raise _EntryRefusedError("it needs a newer reader than there is")  # noqa: TRY301 - as above
            _check_kind(flags, method, attributes, packed_bytes, size_bytes)
        except _EntryRefusedError as error:
            violations.add(_show(raw_name), str(error))
        try:
            shown_name = _decode_name(raw_name, flags, extra)
            name = parse_name(shown_name)
            _check_folder(name, attributes, size_bytes)
        except (_EntryRefusedError, UnsafeNameError) as error:
            shown_name = shown_name or _show(raw_name)
            violations.add(shown_name, str(error))
        entries.append(
            _Entry(raw_name, shown_name, name, flags, method, crc32, packed_bytes, size_bytes, header_offset)
        )
    if len(entries) != directory.entries:
        violations.stop("", f"its directory has {len(entries)} entries, its end record says {directory.entries}")
    return entries


# --- rule 4: each entry by itself, and names among each other ---------------------------------------------------------


class _EntryRefusedError(Exception):
    """One entry breaks a rule; the text says which."""


def _show(raw_name: bytes) -> str:
    return raw_name.decode("utf-8", "backslashreplace")


def _read_extra(content: bytes) -> dict[int, bytes]:
    """The extra fields by their number; up to three bytes of padding may follow, as alignment tools leave them."""
    fields: dict[int, bytes] = {}
    at = 0
    while len(content) - at >= 4:
        number, length = struct.unpack_from("<HH", content, at)
        at += 4
        if at + length > len(content):
            raise _EntryRefusedError("an extra field of it reaches beyond its header")
        if number in fields and number in (_EXTRA_ZIP64, _EXTRA_UNICODE_PATH):
            raise _EntryRefusedError(f"it has two extra fields 0x{number:04x}")
        fields[number] = content[at : at + length]
        at += length
    return fields


def _resolve(numbers: tuple[int, ...], zip64: bytes | None) -> tuple[int, ...]:
    """The 32-bit `numbers` with those that are full replaced by the ZIP64 field's.

    The field holds the full ones, in order; some writers put all of them, and then the others must be repeated.
    """
    full = [number == _FULL32 for number in numbers]
    if zip64 is None:
        raise _EntryRefusedError("its ZIP64 field is missing")
    disk = zip64[len(zip64) // 8 * 8 :]
    if disk not in (b"", b"\0\0\0\0"):
        raise _EntryRefusedError("its ZIP64 field names another disk, or is cut off")
    values = struct.unpack_from(f"<{len(zip64) // 8}Q", zip64)
    if len(values) == sum(full):
        remaining = iter(values)
        return tuple(next(remaining) if is_full else number for number, is_full in zip(numbers, full, strict=True))
    if len(values) > len(numbers) or any(full[len(values) :]):
        raise _EntryRefusedError("its ZIP64 field has a length other than its own")
    if any(number not in (_FULL32, value) for number, value in zip(numbers, values, strict=False)):
        raise _EntryRefusedError("its ZIP64 field contradicts its header")
    return (*values, *numbers[len(values) :])


def _decode_name(raw_name: bytes, flags: int, extra: dict[int, bytes]) -> str:
    """The one name that every reader sees.

    Without the UTF-8 flag, bytes that are UTF-8 are taken as such, which is how Info-ZIP writes names on Linux;
    other bytes are code page 437, which is how the format was born.
    """
    said_again = extra.get(_EXTRA_UNICODE_PATH)
    try:
        decoded = raw_name.decode("utf-8")
    except UnicodeDecodeError:
        if flags & _FLAG_UTF8:
            raise _EntryRefusedError("its name is not the UTF-8 that it is said to be") from None
        decoded = raw_name.decode("cp437")
    if said_again is None:
        return decoded
    if len(said_again) < 5 or said_again[0] != 1:
        raise _EntryRefusedError("its Unicode path field is of an unknown kind")
    (crc32,) = struct.unpack_from("<L", said_again, 1)
    if crc32 != zlib.crc32(raw_name) or said_again[5:] != decoded.encode("utf-8"):
        raise _EntryRefusedError("it has two names: its Unicode path field says another one")
    return decoded


def _check_kind(flags: int, method: int, attributes: int, packed_bytes: int, size_bytes: int) -> None:
    if flags & _FLAGS_ENCRYPTED or method == _METHOD_ENCRYPTED:
        raise _EntryRefusedError("it is encrypted")
    if flags & _FLAG_PATCH:
        raise _EntryRefusedError("it is a patch to another file")
    if method not in METHODS:
        raise _EntryRefusedError(f"it is packed by method {method}; use stored or deflated")
    if method == STORED and packed_bytes != size_bytes:
        raise _EntryRefusedError("it is stored, but has two different sizes")
    kind = attributes >> 16 & _KIND_BITS
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _EntryRefusedError(f"it is {_SPECIAL.get(kind, 'a special file')}; only regular files are unpacked")
    if attributes & (_ATTRIBUTE_VOLUME | _ATTRIBUTE_REPARSE):
        raise _EntryRefusedError("it is a volume label or a link by its attributes; only regular files are unpacked")


def _check_folder(name: MemberName, attributes: int, size_bytes: int) -> None:
    kind = attributes >> 16 & _KIND_BITS
    if name.is_folder:
        if kind == stat.S_IFREG:
            raise _EntryRefusedError("it is a folder by its name and a file by its mode")
        if size_bytes:
            raise _EntryRefusedError("it is a folder by its name and has bytes")
    elif kind == stat.S_IFDIR or attributes & _ATTRIBUTE_FOLDER:
        raise _EntryRefusedError("it is a file by its name and a folder by its attributes")


def _compare_names(entries: list[_Entry], violations: Violations) -> None:
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    parents: set[str] = set()
    for entry in entries:
        if entry.name is None:
            continue
        path = entry.name.path
        key = comparison_key(path)
        first = files.get(key) or folders.get(key)
        if first is not None:
            violations.add(
                entry.shown_name,
                "it is there twice"
                if first == entry.shown_name
                else f"it is the same member as {printable(first)!r} on some systems",
            )
            continue
        (folders if entry.name.is_folder else files)[key] = entry.shown_name
        parent, separator, _ = key.rpartition("/")
        while separator and parent not in parents:
            parents.add(parent)
            parent, separator, _ = parent.rpartition("/")
    for key, shown_name in files.items():
        if key in parents:
            violations.add(shown_name, "it is a file, and also the folder of another member")


# --- rule 5: the local header says the same ---------------------------------------------------------------------------


def _locate(source: ArchiveSource, entry: _Entry, directory_offset: int, violations: Violations) -> bool:
    """Whether the entry's extent in the file is known; then its offsets are filled in."""
    try:
        _compare_local(source, entry, directory_offset)
    except _EntryRefusedError as error:
        violations.add(entry.shown_name, str(error))
        return entry.end > 0
    return True


def _compare_local(source: ArchiveSource, entry: _Entry, directory_offset: int) -> None:
    offset = entry.header_offset
    if offset + _LOCAL.size > directory_offset:
        raise _EntryRefusedError("its header lies outside of the archive")
    header = source.read(offset, _LOCAL_READ_BYTES)
    if not header.startswith(_LOCAL_SIGNATURE) or len(header) < _LOCAL.size:
        raise _EntryRefusedError("there is no header where the directory says")
    _, _, flags, method, _, _, crc32, packed_bytes, size_bytes, name_bytes, extra_bytes = _LOCAL.unpack_from(header)
    extra_at = _LOCAL.size + name_bytes
    header_bytes = extra_at + extra_bytes
    if header_bytes > len(header):
        header = source.read(offset, header_bytes)
    entry.data_offset = offset + header_bytes
    end = entry.data_offset + entry.packed_bytes
    if end > directory_offset:
        raise _EntryRefusedError("its bytes reach into the directory")
    entry.end = end
    entry.descriptor_follows = bool(flags & _FLAG_DESCRIPTOR)
    if header[_LOCAL.size : extra_at] != entry.raw_name:
        raise _EntryRefusedError(f"its header has another name, {printable(_show(header[_LOCAL.size : extra_at]))!r}")
    if method != entry.method or (flags ^ entry.flags) & _FLAGS_COMPARED:
        raise _EntryRefusedError("its header has another method or other flags than the directory")
    extra = _read_extra(header[extra_at:header_bytes]) if extra_bytes else _NO_EXTRA
    if _EXTRA_UNICODE_PATH in extra and _decode_name(entry.raw_name, flags, extra) != entry.shown_name:
        raise _EntryRefusedError("its header has another name in its Unicode path field")
    zip64 = extra.get(_EXTRA_ZIP64)
    if zip64 is not None or _FULL32 in (size_bytes, packed_bytes):
        size_bytes, packed_bytes = _resolve((size_bytes, packed_bytes), zip64)
    said, meant = (crc32, packed_bytes, size_bytes), (entry.crc32, entry.packed_bytes, entry.size_bytes)
    if said != meant and not (
        entry.descriptor_follows and all(one in (0, other) for one, other in zip(said, meant, strict=True))
    ):
        raise _EntryRefusedError("its header has another size or checksum than the directory")


# --- rule 6: every byte belongs to exactly one entry ------------------------------------------------------------------


def _require_no_gap(
    source: ArchiveSource, located: list[_Entry], directory_offset: int, violations: Violations, *, complete: bool
) -> None:
    """Adds every overlap, and, when all extents are known (`complete`), every byte that belongs to no entry."""
    position = 0
    before = ""
    for index, entry in enumerate(located):
        if entry.header_offset < position:
            violations.add(entry.shown_name, f"it overlaps {printable(before)!r}")
        elif entry.header_offset > position and complete:
            where = f"behind {printable(before)!r}" if before else "before the first member"
            violations.add("", f"{entry.header_offset - position} bytes {where} belong to no member")
        following = located[index + 1].header_offset if index + 1 < len(located) else directory_offset
        position = max(position, entry.end)
        if entry.descriptor_follows and following >= entry.end:
            length = following - entry.end
            if complete and not _is_descriptor(source.read(entry.end, length if length in _DESCRIPTORS else 0), entry):
                violations.add(entry.shown_name, "what follows its bytes does not repeat its sizes and checksum")
            position = max(position, following)
        before = entry.shown_name
    if complete and position < directory_offset:
        where = f"behind {printable(before)!r}" if before else "before the directory"
        violations.add("", f"{directory_offset - position} bytes {where} belong to no member")


def _is_descriptor(content: bytes, entry: _Entry) -> bool:
    layout = _DESCRIPTORS.get(len(content))
    if layout is None:
        return False
    *signature, crc32, packed_bytes, size_bytes = layout.unpack(content)
    return signature in ([], [_DESCRIPTOR_SIGNATURE]) and (crc32, packed_bytes, size_bytes) == (
        entry.crc32,
        entry.packed_bytes,
        entry.size_bytes,
    )
