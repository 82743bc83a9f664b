"""The limits of one archive, with the contract's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.limits import (
    MAX_ARCHIVE_BYTES,
    MAX_ARCHIVE_MEMBERS,
    MAX_CENTRAL_DIRECTORY_BYTES,
    MAX_MANIFEST_BYTES,
    MAX_UNPACKED_BYTES,
)


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """What an archive may cost its reader; the defaults are the wire contract's.

    Attributes:
        max_members: entries, folders included.
        max_packed_bytes: size of the ZIP file.
        max_unpacked_bytes: sum of all members, counted on what unpacking really yields.
        max_manifest_bytes: size of the manifest at the archive's root.
        max_directory_bytes: size of the central directory, which is read into memory.
    """

    max_members: int = MAX_ARCHIVE_MEMBERS
    max_packed_bytes: int = MAX_ARCHIVE_BYTES
    max_unpacked_bytes: int = MAX_UNPACKED_BYTES
    max_manifest_bytes: int = MAX_MANIFEST_BYTES
    max_directory_bytes: int = MAX_CENTRAL_DIRECTORY_BYTES


CONTRACT_LIMITS = ArchiveLimits()
"""The wire contract's limits, for every caller without settings of its own."""
