"""How sizes are shown, in messages, in the UI and on the command line."""

from __future__ import annotations

import pytest

from runtime.sizes import readable_size


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (2**10, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (3 * 2**19, "1.5 MiB"),
        (5 * 2**20, "5.0 MiB"),
        (2**31, "2.0 GiB"),
        (3 * 2**40, "3.0 TiB"),
    ],
)
def test_sizes_are_readable(size_bytes: int, text: str) -> None:
    assert readable_size(size_bytes) == text
