"""Numbers of bytes, as people read them."""

from __future__ import annotations

from contracts.limits import GIB, KIB, MIB

_UNITS = ((1024 * GIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))


def readable_size(size_bytes: float) -> str:
    """`8.0 GiB`: one decimal of the largest unit that it reaches, below a KiB the bytes themselves."""
    for unit_bytes, name in _UNITS:
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:.1f} {name}"
    return f"{size_bytes:.0f} B"
