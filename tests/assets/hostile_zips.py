"""ZIP files that no reader should trust, each written byte by byte, and the honest one that they are made from.

`HOSTILE` lists every kind with the error that it must end in. `Zip` writes any field of any record as it is told to,
which is what `zipfile` rightly refuses to do.
"""

from __future__ import annotations

import io
import json
import stat
import struct
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FULL32 = 0xFFFF_FFFF
FULL16 = 0xFFFF
STORED, DEFLATED, LZMA = 0, 8, 14
UTF8 = 0x800
DESCRIPTOR = 0x8

MANIFEST = {
    "protocol_version": "training-code-package/v1",
    "key": "digits",
    "version": "0.1.0",
    "name": "Digits",
    "runtime": {"id": "base"},
    "entrypoint": "train.py",
    "supported_tasks": [{"task_kind": "classification", "data_modalities": ["image"], "annotation_kinds": []}],
    "output_contract": {"artifacts": [{"role": "model", "formats": ["onnx"], "deployable": True}]},
}
MODEL_MANIFEST = {
    "protocol_version": "training-model-package/v1",
    "name": "Digits start",
    "task_kind": "classification",
    "class_names": ["0", "1"],
    "framework": "sklearn",
    "artifact_path": "weights/model.npz",
    "format": "npz",
    "resume_checkpoint_path": "weights/checkpoint.npz",
    "metadata": {"trained_on": "digits"},
}
CODE = b"def train(context, report):\n    return {}\n"


# --- writing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Header:
    """One member's fields as one of its two headers has them; None stands for the truth."""

    name: bytes | None = None
    flags: int | None = None
    method: int | None = None
    crc32: int | None = None
    packed: int | None = None
    size: int | None = None
    extra: bytes = b""


@dataclass(frozen=True)
class Entry:
    """One member: what it is, and what its headers say instead."""

    name: bytes
    content: bytes = b""
    method: int = STORED
    flags: int = 0
    mode: int = stat.S_IFREG | 0o644
    attributes: int = 0
    packed: bytes | None = None  # the packed bytes when they are not what the method makes of the content
    descriptor: bytes = b""
    local: Header = field(default_factory=Header)
    central: Header = field(default_factory=Header)
    both: Header = field(default_factory=Header)
    offset: int | None = None
    disk: int = 0
    needed: int = 20
    gap: bytes = b""  # bytes behind the member that belong to nobody

    def packed_bytes(self) -> bytes:
        if self.packed is not None:
            return self.packed
        return deflate(self.content) if self.method == DEFLATED else self.content


@dataclass(frozen=True)
class End:
    """What the end records say; None stands for the truth."""

    entries: int | None = None
    entries_here: int | None = None
    size: int | None = None
    offset: int | None = None
    disk: int = 0
    comment_bytes: int | None = None
    zip64: bytes | None = None  # what stands between the directory and the end record


@dataclass(frozen=True)
class Zip:
    """An archive whose every record can be made to lie."""

    entries: Sequence[Entry]
    end: End = field(default_factory=End)
    before: bytes = b""
    after: bytes = b""
    comment: bytes = b""
    shift_offsets: bool = False  # offsets count from the file's first byte, `before` included
    directory_tail: bytes = b""

    def build(self) -> bytes:
        body, central = bytearray(), bytearray()
        shift = len(self.before) if self.shift_offsets else 0
        for entry in self.entries:
            offset = len(body) + shift if entry.offset is None else entry.offset
            packed = entry.packed_bytes()
            body += _local(entry, packed) + packed + entry.descriptor + entry.gap
            central += _central(entry, packed, offset)
        central += self.directory_tail
        end, count = self.end, len(self.entries)
        record = struct.pack(
            "<4s4H2LH",
            b"PK\5\6",
            end.disk,
            end.disk,
            _or(end.entries_here, _or(end.entries, count)),
            _or(end.entries, count),
            _or(end.size, len(central)),
            _or(end.offset, len(body) + shift),
            _or(end.comment_bytes, len(self.comment)),
        )
        return self.before + bytes(body + central) + (end.zip64 or b"") + record + self.comment + self.after


def _or(said: int | None, truth: int) -> int:
    return truth if said is None else said


def _fields(entry: Entry, said: Header, packed: bytes) -> tuple[bytes, int, int, int, int, int, bytes]:
    def choose(name: str, truth):
        for header in (said, entry.both):
            if getattr(header, name) is not None:
                return getattr(header, name)
        return truth

    return (
        choose("name", entry.name),
        choose("flags", entry.flags),
        choose("method", entry.method),
        choose("crc32", zlib.crc32(entry.content)),
        choose("packed", len(packed)),
        choose("size", len(entry.content)),
        said.extra or entry.both.extra,
    )


def _local(entry: Entry, packed: bytes) -> bytes:
    name, flags, method, crc32, packed_size, size, extra = _fields(entry, entry.local, packed)
    header = struct.pack(
        "<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 33, crc32, packed_size, size, len(name), len(extra)
    )
    return header + name + extra


def _central(entry: Entry, packed: bytes, offset: int) -> bytes:
    name, flags, method, crc32, packed_size, size, extra = _fields(entry, entry.central, packed)
    header = struct.pack(
        "<4s6H3L5H2L", b"PK\1\2", 3 << 8 | 20, entry.needed, flags, method, 0, 33, crc32, packed_size, size, len(name),
        len(extra), 0, entry.disk, 0, entry.mode << 16 | entry.attributes, offset,
    )  # fmt: skip
    return header + name + extra


def deflate(content: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compressor.compress(content) + compressor.flush()


@cache
def zeros(mebibytes: int) -> bytes:
    """A raw deflate stream of zero bytes, quick to make however long."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    one = compressor.compress(bytes(1024 * 1024)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return one * mebibytes + deflate(b"")


def extra_field(number: int, content: bytes) -> bytes:
    return struct.pack("<HH", number, len(content)) + content


def zip64_field(*numbers: int) -> bytes:
    return extra_field(1, struct.pack(f"<{len(numbers)}Q", *numbers))


def unicode_path(raw_name: bytes, name: str) -> bytes:
    return extra_field(0x7075, struct.pack("<BL", 1, zlib.crc32(raw_name)) + name.encode())


def zip64_end(entries: int, size: int, offset: int, *, at: int, record_bytes: int = 44, tail: bytes = b"") -> bytes:
    """A ZIP64 end record and its locator, as they lie behind a directory that ends at `at`."""
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", record_bytes, 45, 45, 0, 0, entries, entries, size, offset) + tail
    return record + struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)


# --- the honest archives -----------------------------------------------------------------------------------------------


def manifest_entry(**changes: object) -> Entry:
    return Entry(b"training_package.json", json.dumps({**MANIFEST, **changes}).encode())


def honest(*more: Entry) -> list[Entry]:
    """The members of a code package that is accepted, and `more`."""
    return [manifest_entry(), Entry(b"train.py", CODE, DEFLATED), *more]


def package_zip(*more: Entry) -> bytes:
    return Zip(honest(*more)).build()


def model_entries(**changes: object) -> list[Entry]:
    manifest = json.dumps({**MODEL_MANIFEST, **changes}).encode()
    return [
        Entry(b"training_model_package.json", manifest),
        Entry(b"weights/model.npz", b"model" * 1000, DEFLATED),
        Entry(b"weights/checkpoint.npz", b"checkpoint" * 1000, DEFLATED),
    ]


def model_zip(**changes: object) -> bytes:
    return Zip(model_entries(**changes)).build()


# --- the hostile ones --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hostile:
    """One kind of archive, the code it must be refused with, and words that its message must have."""

    name: str
    build: Callable[[], bytes]
    said: str
    code: str = "archive_rejected"


def _with(*more: Entry) -> Callable[[], bytes]:
    return lambda: package_zip(*more)


def _archive(**fields: object) -> Callable[[], bytes]:
    return lambda: Zip(honest(), **fields).build()  # type: ignore[arg-type]


def _named(name: str | bytes) -> Callable[[], bytes]:
    raw = name if isinstance(name, bytes) else name.encode()
    return _with(Entry(raw, b"x", flags=0 if raw.isascii() else UTF8))


def _changed(**fields: object) -> Callable[[], bytes]:
    """The honest archive with its code member changed."""
    return lambda: Zip([manifest_entry(), replace(honest()[1], **fields)]).build()  # type: ignore[arg-type]


def _quoted_overlap() -> bytes:
    """Fifield's bomb in small: one kernel of packed bytes, and every member quotes the headers up to it."""
    kernel = Entry(b"b.txt", bytes(100_000), DEFLATED)
    header = _local(kernel, kernel.packed_bytes())
    quote = struct.pack("<BHH", 0, len(header), len(header) ^ FULL16)  # a stored block that is not the last
    outer_content = header + kernel.content
    outer = Entry(b"a.txt", outer_content, DEFLATED, packed=quote + header + kernel.packed_bytes())
    start = len(Zip(honest()).build()) - len(_directory(honest())) - 22
    inner_offset = start + len(_local(outer, outer.packed_bytes())) + len(quote)
    body = b"".join(_local(entry, entry.packed_bytes()) + entry.packed_bytes() for entry in [*honest(), outer])
    directory = _directory([*honest(), outer]) + _central(kernel, kernel.packed_bytes(), inner_offset)
    return body + directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 4, 4, len(directory), len(body), 0)


def _directory(entries: Sequence[Entry]) -> bytes:
    offset, directory = 0, b""
    for entry in entries:
        directory += _central(entry, entry.packed_bytes(), offset)
        offset += len(_local(entry, entry.packed_bytes())) + len(entry.packed_bytes())
    return directory


def _one_body_two_names() -> bytes:
    first = Entry(b"a.txt", b"same")
    offset = sum(len(_local(one, one.packed_bytes())) + len(one.packed_bytes()) for one in honest())
    second = Entry(b"b.txt", b"same", offset=offset)
    body = b"".join(_local(one, one.packed_bytes()) + one.packed_bytes() for one in [*honest(), first])
    directory = _directory([*honest(), first]) + _central(second, b"same", offset)
    return body + directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 4, 4, len(directory), len(body), 0)


def _two_directories() -> bytes:
    """An archive whose comment is a second end: readers that search from either side see different members."""
    shown = package_zip()
    hidden_end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, 0, len(shown), 0)
    return Zip(honest(), comment=hidden_end).build()


def _zip64(**fields: int) -> Callable[[], bytes]:
    def build() -> bytes:
        body_and_directory = package_zip()[:-22]
        directory = _directory(honest())
        size, offset = len(directory), len(body_and_directory) - len(directory)
        end64 = zip64_end(
            fields.get("entries", 2),
            fields.get("size", size),
            fields.get("offset", offset),
            at=fields.get("at", len(body_and_directory)),
            record_bytes=fields.get("record_bytes", 44),
        )
        return Zip(honest(), End(zip64=end64, entries=fields.get("entries32"))).build()

    return build


def _lying_zip64_size() -> bytes:
    """The 32-bit field says 10 bytes; readers that take the ZIP64 field anyway see another size."""
    return package_zip(Entry(b"a.txt", b"0123456789", both=Header(extra=zip64_field(5, 10))))


def _many(count: int) -> bytes:
    return package_zip(*(Entry(b"f%d" % number) for number in range(count - 2)))


def _zip_in(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.zip", content)
    return buffer.getvalue()


def nested_bomb(levels: int = 5) -> bytes:
    """A small archive of an archive of ... of 512 MiB and more of zero bytes."""
    content = Zip([Entry(b"zeros", b"", DEFLATED, packed=zeros(600), both=Header(size=600 << 20))]).build()
    for _ in range(levels):
        content = _zip_in(content)
    return package_zip(Entry(b"inner.zip", content))


def _lzma(dictionary_bytes: int) -> Entry:
    header = b"\x09\x04\x05\x00" + bytes([93]) + struct.pack("<L", dictionary_bytes)
    return Entry(b"a.bin", b"x" * 10, LZMA, packed=header + b"\0" * 16)


_NFC, _NFD = unicodedata.normalize("NFC", "é.py"), unicodedata.normalize("NFD", "é.py")
_LEADS_OUT = "leads out of the folder"
_DEPENDENCY = "must not bring dependencies"

HOSTILE: tuple[Hostile, ...] = (
    # names that leave the folder
    Hostile("parent", _named("../evil.py"), _LEADS_OUT),
    Hostile("parent-inside", _named("src/../../evil.py"), _LEADS_OUT),
    Hostile("parent-backslash", _named("..\\evil.py"), _LEADS_OUT),
    Hostile("parent-mixed-separators", _named("src\\..\\../evil.py"), _LEADS_OUT),
    Hostile("parent-as-the-whole-name", _named(".."), _LEADS_OUT),
    Hostile("parent-fullwidth", _named("．．／evil.py"), _LEADS_OUT),
    Hostile("parent-two-dot-leader", _named("‥/evil.py"), _LEADS_OUT),
    Hostile("parent-with-space", _named(".. /evil.py"), "which some systems read as '..'"),
    Hostile("three-dots", _named("src/.../evil.py"), "which some systems read as '..'"),
    Hostile("absolute", _named("/etc/evil"), "its path is absolute"),
    Hostile("absolute-backslash", _named("\\evil.py"), "its path is absolute"),
    Hostile("absolute-share", _named("\\\\server\\share\\evil.py"), "its path is absolute"),
    Hostile("absolute-fullwidth", _named("／etc/evil"), "its path is absolute"),
    Hostile("drive", _named("C:\\evil.py"), "starts with a drive letter"),
    Hostile("drive-relative", _named("c:evil.py"), "starts with a drive letter"),
    Hostile("drive-behind-a-dot", _named("./c:/evil.py"), "starts with a drive letter"),
    # names that are none
    Hostile("nul", _named(b"train.py\0.txt"), "contains a NUL byte"),
    Hostile("newline", _named("src/a\nb.py"), "contains a control character"),
    Hostile("escape-sequence", _named("src/\x1b[2Ja.py"), "contains a control character"),
    Hostile("no-name", _named(b""), "it has no name"),
    Hostile("not-utf8", lambda: package_zip(Entry(b"\xff\xfe.py", b"x", flags=UTF8)), "not the UTF-8"),
    Hostile("long-name", _named("n" * 256), "a part of its path is longer than 255 bytes"),
    Hostile("long-path", _named("/".join(["folders" * 5] * 40)), "its path is longer than 1024 bytes"),
    Hostile("deep-path", _named("a/" * 100 + "b.py"), "its path has more than 64 parts"),
    # two members with one name
    Hostile("twice", _with(Entry(b"train.py", b"x")), "it is there twice"),
    Hostile("twice-after-case-folding", _named("TRAIN.py"), "the same member as 'train.py' on some systems"),
    Hostile(
        "twice-after-sharp-s", _with(*(Entry(n.encode(), b"x", flags=UTF8) for n in ("straße", "STRASSE"))), "same"
    ),
    Hostile(
        "twice-after-normalisation",
        _with(*(Entry(name.encode(), b"x", flags=UTF8) for name in (_NFC, _NFD))),
        f"the same member as {_NFC!r}",
    ),
    Hostile("twice-by-dot", _named("./train.py"), "the same member as 'train.py'"),
    Hostile("twice-by-empty-part", _with(Entry(b"a/b", b"x"), Entry(b"a//b", b"x")), "the same member as 'a/b'"),
    Hostile("twice-by-backslash", _with(Entry(b"a/b", b"x"), Entry(b"a\\b", b"x")), "the same member as 'a/b'"),
    Hostile("file-and-folder", _named("train.py/evil.py"), "it is a file, and also the folder of another member"),
    Hostile(
        "file-and-folder-entry", _with(Entry(b"Train.py/", mode=stat.S_IFDIR | 0o755)), "same member as 'train.py'"
    ),
    # members that are no files
    Hostile("symlink", _with(Entry(b"link", b"/etc/passwd", mode=stat.S_IFLNK | 0o777)), "it is a symbolic link"),
    Hostile("character-device", _with(Entry(b"null", mode=stat.S_IFCHR | 0o666)), "it is a device"),
    Hostile("block-device", _with(Entry(b"disk", mode=stat.S_IFBLK | 0o666)), "it is a device"),
    Hostile("pipe", _with(Entry(b"pipe", mode=stat.S_IFIFO | 0o666)), "it is a pipe"),
    Hostile("socket", _with(Entry(b"socket", mode=stat.S_IFSOCK | 0o666)), "it is a socket"),
    Hostile("windows-link", _with(Entry(b"link", mode=0, attributes=0x400)), "a volume label or a link"),
    Hostile("volume-label", _with(Entry(b"label", mode=0, attributes=0x08)), "a volume label or a link"),
    Hostile("folder-by-mode", _with(Entry(b"a", mode=stat.S_IFDIR | 0o755)), "a folder by its attributes"),
    Hostile("folder-by-attribute", _with(Entry(b"a", mode=0, attributes=0x10)), "a folder by its attributes"),
    Hostile("file-by-mode", _with(Entry(b"a/", mode=stat.S_IFREG | 0o644)), "a folder by its name and a file"),
    Hostile("folder-with-bytes", _with(Entry(b"a/", b"hidden", mode=0)), "a folder by its name and has bytes"),
    # contents that cannot be read
    Hostile("encrypted", _changed(flags=0x1), "it is encrypted"),
    Hostile("strongly-encrypted", _changed(flags=0x41), "it is encrypted"),
    Hostile("aes", _changed(both=Header(method=99)), "it is encrypted"),
    Hostile("masked-headers", _changed(flags=0x2000), "it is encrypted"),
    Hostile("patch", _changed(flags=0x20), "a patch to another file"),
    Hostile("unknown-method", _changed(both=Header(method=93)), "packed by method 93"),
    Hostile("newer-version", _changed(needed=70), "needs a newer reader than there is"),
    Hostile("garbage-content", _changed(packed=b"\xff" * 40), "it does not unpack"),
    Hostile("cut-content", _changed(packed=deflate(CODE)[:-3]), "its content is cut off"),
    Hostile("wrong-checksum", _changed(both=Header(crc32=1)), "do not have its checksum"),
    Hostile("lzma-memory", _with(_lzma(0xF000_0000)), "would take 4026531840 bytes of memory"),
    Hostile("lzma-header", _with(Entry(b"a.bin", b"x", LZMA, packed=b"\x09\x04\x05")), "LZMA header is unreadable"),
    # sizes that lie
    Hostile("declares-less", _changed(both=Header(size=10)), "unpacks to more than its declared 10 bytes"),
    Hostile("declares-more", _changed(both=Header(size=1000)), "less than its declared 1000"),
    Hostile("stored-with-two-sizes", _changed(method=STORED, both=Header(size=10)), "it is stored, but has two"),
    Hostile(
        "bomb-declaring-little",
        lambda: package_zip(Entry(b"z", b"", DEFLATED, packed=zeros(600), both=Header(size=100))),
        "unpacks to more than its declared 100 bytes",
    ),
    Hostile(
        "bomb-by-ratio",
        lambda: package_zip(Entry(b"z", b"", DEFLATED, packed=zeros(600), both=Header(size=600 << 20))),
        "the limit is 536870912",
        "archive_too_large",
    ),
    Hostile(
        "bomb-by-number",
        lambda: package_zip(
            *(Entry(b"z%d" % n, b"", DEFLATED, packed=zeros(30), both=Header(size=30 << 20)) for n in range(20))
        ),
        "the limit is 536870912",
        "archive_too_large",
    ),
    Hostile("bomb-by-overlap", _quoted_overlap, "it overlaps 'a.txt'"),
    Hostile("one-body-two-names", _one_body_two_names, "it overlaps"),
    # two headers that disagree
    Hostile(
        "other-name-in-header", _changed(local=Header(name=b"evil.py1")), "its header has another name, 'evil.py1'"
    ),
    Hostile("other-method-in-header", _changed(local=Header(method=STORED)), "another method or other flags"),
    Hostile("other-encoding-in-header", _changed(local=Header(flags=UTF8)), "another method or other flags"),
    Hostile("other-size-in-header", _changed(local=Header(size=7)), "another size or checksum"),
    Hostile("other-packed-size-in-header", _changed(local=Header(packed=7)), "another size or checksum"),
    Hostile("other-checksum-in-header", _changed(local=Header(crc32=7)), "another size or checksum"),
    Hostile("no-header", _with(Entry(b"a", b"x", offset=1)), "there is no header where the directory says"),
    Hostile("header-outside", _with(Entry(b"a", b"x", offset=1 << 30)), "its header lies outside of the archive"),
    Hostile("bytes-in-the-directory", _changed(both=Header(packed=5000)), "its bytes reach into the directory"),
    Hostile(
        "lying-descriptor",
        _changed(
            flags=DESCRIPTOR,
            local=Header(crc32=0, packed=0, size=0),
            descriptor=struct.pack("<4s3L", b"PK\7\x08", zlib.crc32(CODE), len(deflate(CODE)), 7),
        ),
        "does not repeat its sizes and checksum",
    ),
    Hostile(
        "no-descriptor",
        _changed(flags=DESCRIPTOR, local=Header(crc32=0, packed=0, size=0)),
        "does not repeat its sizes and checksum",
    ),
    Hostile(
        "two-names-by-unicode-field",
        _changed(central=Header(extra=unicode_path(b"train.py", "evil.py"))),
        "it has two names",
    ),
    Hostile(
        "two-names-by-unicode-field-in-header",
        _changed(local=Header(extra=unicode_path(b"train.py", "evil.py"))),
        "it has two names",
    ),
    Hostile(
        "unicode-field-of-another-name",
        _changed(central=Header(extra=unicode_path(b"other", "train.py"))),
        "it has two names",
    ),
    Hostile("unknown-unicode-field", _changed(central=Header(extra=extra_field(0x7075, b"\2"))), "of an unknown kind"),
    Hostile(
        "unicode-field-not-utf8",
        _changed(central=Header(extra=extra_field(0x7075, struct.pack("<BL", 1, zlib.crc32(b"train.py")) + b"\xff"))),
        "it has two names",
    ),
    Hostile("extra-field-too-long", _changed(central=Header(extra=b"\1\0\xff\0")), "reaches beyond its header"),
    # bytes that nobody claims
    Hostile("data-before", _archive(before=b"#!/bin/sh\n"), "10 bytes lie before the archive"),
    Hostile("program-before", _archive(before=b"#!/bin/sh\n", shift_offsets=True), "10 bytes before the first member"),
    Hostile("data-after", _archive(after=b"hidden"), "6 bytes follow after the end"),
    Hostile("data-between", _changed(gap=b"hidden"), "6 bytes behind 'train.py' belong to no member"),
    Hostile(
        "member-without-entry",
        lambda: Zip([replace(manifest_entry(), gap=_local(Entry(b"x"), b"")), honest()[1]]).build(),
        "behind 'training_package.json' belong to no member",
    ),
    Hostile("data-behind-content", _changed(packed=deflate(CODE) + b"hidden"), "packed bytes behind the end"),
    Hostile(
        "data-behind-content-far",
        lambda: package_zip(Entry(b"a", b"x", DEFLATED, packed=deflate(b"x") + bytes(600_000))),
        "packed bytes behind the end",
    ),
    Hostile("data-in-the-directory", _archive(directory_tail=b"hidden"), "is not an entry"),
    Hostile("comment-cut-off", _archive(comment=b"short", end=End(comment_bytes=50)), "its comment is cut off"),
    Hostile("second-end-in-the-comment", _two_directories, "bytes before the directory belong to no member"),
    # end records that lie
    Hostile("fewer-entries-said", _archive(end=End(entries=1)), "more entries than the 1 of its end record"),
    Hostile("more-entries-said", _archive(end=End(entries=3)), "has 2 entries, its end record says 3"),
    Hostile("split", _archive(end=End(disk=1)), "one disk of an archive that was split"),
    Hostile("split-by-count", _archive(end=End(entries_here=1)), "one disk of an archive that was split"),
    Hostile("member-on-another-disk", _changed(disk=3), "it lies on another disk"),
    Hostile("directory-beyond-the-end", _archive(end=End(size=1 << 20)), "reach beyond its end record"),
    Hostile("directory-too-large", _archive(end=End(size=1 << 30)), "the limit is 16777216"),
    Hostile(
        "directory-cut-off",
        _archive(directory_tail=_central(Entry(b"x" * 99), b"", 0)[:60], end=End(entries=3)),
        "is cut off",
    ),
    Hostile("many-members", lambda: _many(5001), "it has 5001 members, the limit is 5000"),
    # ZIP64
    Hostile("zip64-missing", _archive(end=End(size=FULL32)), "a ZIP64 record that is not there"),
    Hostile("zip64-count-missing", _archive(end=End(entries=FULL16)), "a ZIP64 record that is not there"),
    Hostile("zip64-other-count", _zip64(entries=1), "its two end records contradict each other (2 and 1)"),
    Hostile("zip64-other-offset", _zip64(offset=0), "its two end records contradict each other"),
    Hostile("zip64-many-members", _zip64(entries=1 << 40, entries32=FULL16), "members, the limit is 5000"),
    Hostile("zip64-elsewhere", _zip64(at=3), "not directly before the locator"),
    Hostile("zip64-with-hidden-data", _zip64(record_bytes=60), "a length other than its own"),
    Hostile("zip64-field-missing", _changed(central=Header(size=FULL32)), "its ZIP64 field is missing"),
    Hostile("zip64-field-missing-in-header", _changed(local=Header(size=FULL32)), "its ZIP64 field is missing"),
    Hostile("zip64-field-cut", _changed(central=Header(size=FULL32, extra=extra_field(1, b"123"))), "is cut off"),
    Hostile("zip64-field-contradicts", _lying_zip64_size, "its ZIP64 field contradicts its header"),
    Hostile("zip64-field-too-long", _changed(central=Header(extra=zip64_field(1, 2, 3, 4))), "a length other than"),
    Hostile(
        "zip64-field-twice",
        _changed(both=Header(size=FULL32, extra=zip64_field(len(CODE)) + zip64_field(7))),
        "it has two extra fields 0x0001",
    ),
    Hostile(
        "zip64-other-size-in-header",
        _changed(
            central=Header(size=FULL32, extra=zip64_field(len(CODE))),
            local=Header(size=FULL32, packed=FULL32, extra=zip64_field(7, 7)),
        ),
        "another size or checksum",
    ),
    Hostile(
        "zip64-far-header",
        _with(Entry(b"a", b"x", offset=FULL32, central=Header(extra=zip64_field(1 << 60)))),
        "its header lies outside of the archive",
    ),
    # what a code package must not bring
    Hostile("dotenv", _named(".env"), _DEPENDENCY),
    Hostile("dotenv-in-a-folder", _named("config/.ENV"), _DEPENDENCY),
    Hostile("requirements", _named("requirements.txt"), _DEPENDENCY),
    Hostile("requirements-in", _named("src/Requirements.IN"), _DEPENDENCY),
    Hostile("requirements-variant", _named("requirements-dev.txt"), _DEPENDENCY),
    Hostile("wheel-in-a-subfolder", _named("vendor/deep/evil-1.0-py3-none-any.whl"), _DEPENDENCY),
    Hostile("egg", _named("vendor/evil.egg"), _DEPENDENCY),
    Hostile("lock-file", _named("poetry.lock"), _DEPENDENCY),
    Hostile("fullwidth-wheel", _named("evil．ｗｈｌ"), _DEPENDENCY),
    # manifests
    Hostile("no-manifest", lambda: Zip(honest()[1:]).build(), "it is missing at the archive's root"),
    Hostile(
        "manifest-in-a-folder",
        lambda: Zip([replace(manifest_entry(), name=b"digits/training_package.json"), honest()[1]]).build(),
        "pack the folder's content, not the folder",
    ),
    Hostile(
        "manifest-of-another-case",
        lambda: Zip([replace(manifest_entry(), name=b"Training_Package.json"), honest()[1]]).build(),
        "it is missing at the archive's root",
    ),
    Hostile(
        "manifest-too-large",
        lambda: Zip([manifest_entry(description="x" * (5 << 20)), honest()[1]]).build(),
        "the limit is 4194304",
    ),
    Hostile(
        "manifest-invalid",
        lambda: Zip([manifest_entry(version="one"), honest()[1]]).build(),
        "version",
        "invalid_document",
    ),
    Hostile(
        "manifest-with-a-key-twice",
        lambda: Zip([Entry(b"training_package.json", b'{"key": "a", "key": "b"}'), honest()[1]]).build(),
        "key: is given twice",
        "invalid_document",
    ),
    Hostile(
        "entrypoint-missing", lambda: Zip([manifest_entry(entrypoint="src/go.py")]).build(), "names it as entrypoint"
    ),
    Hostile(
        "entrypoint-empty",
        lambda: Zip([manifest_entry(), Entry(b"train.py")]).build(),
        "as entrypoint, and it is empty",
    ),
    # files that are no archives
    Hostile("empty-file", lambda: b"", "it is not a ZIP file"),
    Hostile("something-else", lambda: b"\x7fELF" * 1000, "it is not a ZIP file"),
    Hostile("cut-off", lambda: package_zip()[:-30], "it ends before its end record"),
    Hostile("only-an-end", lambda: Zip([]).build(), "it is missing at the archive's root"),
)
