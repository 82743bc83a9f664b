"""Every limit of the product, named once, with its reason. All of them are enforced while streaming."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

# Archives (wire contract).
MAX_ARCHIVE_MEMBERS: Final = 5_000
MAX_ARCHIVE_BYTES: Final = 512 * MIB
"""Packed, through the in-memory body of the present service's endpoints."""
MAX_UNPACKED_BYTES: Final = 512 * MIB
"""Unpacked, counted on what is really written, never on what a header declares."""
MAX_MANIFEST_BYTES: Final = 4 * MIB
"""A manifest with 10 000 class names of 128 bytes and a large parameters schema is under 2 MiB."""

# Streams.
CHUNK_BYTES: Final = 256 * KIB
"""Larger reads gain nothing once hashing is the bottleneck."""
SMALL_OBJECT_BYTES: Final = 128 * KIB
"""Up to here one read call is faster than a stream."""

# Documents.
MAX_DATASET_ITEMS: Final = 10_000_000
MAX_CLASS_NAMES: Final = 10_000
MAX_DOCUMENT_DEPTH: Final = 100
"""Nesting; a recursive reader must not be driven into the stack's end."""
MAX_RECORD_BYTES: Final = 64 * MIB
"""A registration record or stored submission: a manifest twice, and room."""

# User schemas.
SCHEMA_CHECK_SECONDS: Final = 5.0
"""Checking a user's JSON Schema and values: a pattern such as `(a+)+$` never ends."""

# Training processes (defaults; settings of the same meaning override them).
DEFAULT_IDLE_TIMEOUT_SECONDS: Final = 180.0
DEFAULT_MAX_OUTPUT_BYTES: Final = 64 * MIB
DEFAULT_MAX_PROCESSES: Final = 1_024
"""Data loaders start tens of processes a GPU; a fork bomb thousands a second."""
DEFAULT_MAX_WORKSPACE_BYTES: Final = 100 * GIB
MAX_PROTOCOL_LINE_BYTES: Final = 16 * MIB
"""A completion of 128 artifacts with metadata; a plain line is cut at the same length."""
TERMINATE_GRACE_SECONDS: Final = 10.0
"""Between SIGTERM and SIGKILL, time for a package to write a checkpoint."""
