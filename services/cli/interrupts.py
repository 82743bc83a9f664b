"""How long-running commands end: Ctrl-C, and what a service manager sends."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """While the context lasts, SIGTERM ends like Ctrl-C: a service manager must not leave half of it behind."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
