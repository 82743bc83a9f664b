"""A package's plain output: all of it on disk, some of it for whoever listens, its end for the record."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from contracts.errors import OutputLimitError, WorkspaceLimitError
from contracts.limits import JOURNAL_OUTPUT_BURST, JOURNAL_OUTPUT_LINES_PER_SECOND, KIB
from runtime.execution.journal import plain_text
from runtime.execution.protocol import PREFIX, forged
from runtime.sizes import readable_size

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LINE_BYTES: Final = 16 * KIB
"""How much of a line listeners get; the log has it whole."""
_TAIL_LINES: Final = 50
_TAIL_LINE_CHARACTERS: Final = 500


class PlainOutput:
    """Takes what the package prints.

    Attributes:
        bytes: how much it was.
    """

    def __init__(self, log: Path, most: int, listen: Callable[[str, int], None]) -> None:
        """Appends to `log`, raises over `most` bytes, and calls `listen(line, left_out)` as often as people can read."""
        self.bytes = 0
        self._most = most
        self._listen = listen
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._rest = b""
        self._cut = False
        self._tail = b""
        self._allowance = float(JOURNAL_OUTPUT_BURST)
        self._refilled = time.monotonic()
        self._left_out = 0

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes.

        Raises:
            OutputLimitError: the package printed more than it may.
            ProtocolViolationError: it printed a protocol line.
            WorkspaceLimitError: the log's disk is full.
        """
        self.bytes += len(chunk)
        self.keep(chunk[: len(chunk) - max(0, self.bytes - self._most)])
        if self.bytes > self._most:
            raise OutputLimitError(
                f"the package printed more than {readable_size(self._most)}",
                hint="Print less, once an epoch rather than once a batch, or raise max_output_bytes.",
                context={"most": self._most},
            )
        *lines, rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(PREFIX) and not self._cut:
                raise forged(line)
            self._cut = False
            self._offer(line)
        if len(rest) > _LINE_BYTES:
            if rest.startswith(PREFIX) and not self._cut:
                raise forged(rest)
            self._cut, rest = True, rest[-1:]  # what follows is the middle of a line
        self._rest = rest

    def keep(self, content: bytes) -> None:
        """Appends to the log and the tail only.

        Raises:
            WorkspaceLimitError: the log's disk is full.
        """
        self._tail = (self._tail + content)[-_TAIL_LINES * _TAIL_LINE_CHARACTERS :]
        waiting = memoryview(content)
        try:
            while waiting:
                waiting = waiting[os.write(self._log, waiting) :]
        except OSError as error:
            raise WorkspaceLimitError(
                f"the package's output cannot be kept: {error.strerror}",
                hint="Free space on the disk of MTR_HOME.",
            ) from error

    def tail(self) -> tuple[str, ...]:
        """The last lines, for people."""
        lines = plain_text(self._tail.decode(errors="replace").replace("\r", "\n")).split("\n")
        return tuple(line[:_TAIL_LINE_CHARACTERS] for line in lines[-_TAIL_LINES - 1 :] if line.strip())[-_TAIL_LINES:]

    def close(self) -> None:
        """Afterwards the log is closed. A last line without an end is in it and in the tail; no listener got it."""
        os.close(self._log)

    def _offer(self, line: bytes) -> None:
        if self._allowance < 1:
            now = time.monotonic()
            earned = (now - self._refilled) * JOURNAL_OUTPUT_LINES_PER_SECOND
            self._allowance, self._refilled = min(float(JOURNAL_OUTPUT_BURST), self._allowance + earned), now
        if self._allowance < 1:
            self._left_out += 1
            return
        self._allowance -= 1
        shown = line.rstrip(b"\r").rpartition(b"\r")[2]  # of a progress bar, its last state
        if shown.strip():
            self._listen(shown[:_LINE_BYTES].decode(errors="replace"), self._left_out)
            self._left_out = 0
