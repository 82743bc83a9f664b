"""A member's bytes, unpacked in pieces and held to what the archive said about them."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import TYPE_CHECKING, Protocol

from contracts.limits import CHUNK_BYTES, MAX_LZMA_DICTIONARY_BYTES
from runtime.archive.structure import BZIP2, DEFLATED, LZMA, STORED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.archive.source import ArchiveSource
    from runtime.archive.structure import Member


class ContentError(Exception):
    """A member's bytes are not what the archive says; the text says how. Never leaves this package."""


def unpack(source: ArchiveSource, member: Member) -> Iterator[bytes]:
    """The member's bytes, in pieces of at most `CHUNK_BYTES`, never more of them than its declared size.

    The pieces are only known to be right when the iteration ends without an error: use them for nothing that
    cannot be taken back before.

    Raises:
        ContentError: it yields more or fewer bytes than declared, other bytes than its checksum, does not unpack,
            or has packed bytes left over that no reader would see.
    """
    remaining, crc32 = member.size_bytes, 0
    for piece in _pieces(source, member):
        remaining -= len(piece)
        if remaining < 0:
            raise ContentError(f"it unpacks to more than its declared {member.size_bytes} bytes")
        crc32 = zlib.crc32(piece, crc32)
        yield piece
    if remaining:
        raise ContentError(f"it unpacks to {remaining} bytes less than its declared {member.size_bytes}")
    if crc32 != member.crc32:
        raise ContentError("its bytes do not have its checksum")


def _pieces(source: ArchiveSource, member: Member) -> Iterator[bytes]:
    packed = source.chunks(member.data_offset, member.packed_bytes)
    if member.method == STORED:
        yield from packed
        return
    try:
        if member.method == DEFLATED:
            yield from _inflate(packed)
        elif member.method == BZIP2:
            yield from _decompress(packed, bz2.BZ2Decompressor(), ends_itself=True)
        elif member.method == LZMA:
            yield from _unpack_lzma(source, member)
        else:  # a method in `structure.METHODS` without a reader here is a defect of ours, not of the archive
            raise NotImplementedError(member.method)
    except (zlib.error, OSError, lzma.LZMAError, EOFError) as error:
        raise ContentError(f"it does not unpack ({error})") from error


def _inflate(packed: Iterator[bytes]) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
    for chunk in packed:
        if decompressor.eof:
            raise ContentError("it has packed bytes behind the end of its content")
        pending = chunk
        while pending:
            piece = decompressor.decompress(pending, CHUNK_BYTES)
            pending = decompressor.unconsumed_tail
            if piece:
                yield piece
        if decompressor.unused_data:
            raise ContentError("it has packed bytes behind the end of its content")
    while not decompressor.eof:  # what the last input left inside of the decompressor
        piece = decompressor.decompress(b"", CHUNK_BYTES)
        if not piece:
            raise ContentError("its content is cut off")
        yield piece


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def _decompress(packed: Iterator[bytes], decompressor: _Decompressor, *, ends_itself: bool) -> Iterator[bytes]:
    for chunk in packed:
        if decompressor.eof:
            raise ContentError("it has packed bytes behind the end of its content")
        pending = chunk
        while True:
            piece = decompressor.decompress(pending, CHUNK_BYTES)
            pending = b""
            if piece:
                yield piece
            if decompressor.eof or (decompressor.needs_input and not piece):
                break
        if decompressor.unused_data:
            raise ContentError("it has packed bytes behind the end of its content")
    if ends_itself and not decompressor.eof:
        raise ContentError("its content is cut off")


def _unpack_lzma(source: ArchiveSource, member: Member) -> Iterator[bytes]:
    """LZMA as ZIP has it: version (2 bytes), length of the properties (2), properties (5), then the raw stream."""
    header = source.read(member.data_offset, min(9, member.packed_bytes))
    if len(header) < 9 or header[2:4] != b"\x05\x00" or header[4] >= 9 * 5 * 5:
        raise ContentError("its LZMA header is unreadable")
    dictionary_bytes = int.from_bytes(header[5:9], "little")
    if dictionary_bytes > MAX_LZMA_DICTIONARY_BYTES:
        raise ContentError(f"reading it would take {dictionary_bytes} bytes of memory; use deflated")
    rest, literal_context = divmod(header[4], 9)
    position, literal_position = divmod(rest, 5)
    filters = [
        {
            "id": lzma.FILTER_LZMA1,
            "dict_size": max(dictionary_bytes, 4096),
            "lc": literal_context,
            "lp": literal_position,
            "pb": position,
        }
    ]
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)
    packed = source.chunks(member.data_offset + 9, member.packed_bytes - 9)
    yield from _decompress(packed, decompressor, ends_itself=False)
