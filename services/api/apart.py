"""Work on one large body in a process of its own, so that this one keeps answering: `/health` above all.

A parser holds the interpreter's lock from a document's first byte to its last, and so does its validation. Such a process has
the body on its standard input and writes its answer, or the error that refuses the body, to its standard output.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Final

from anyio import to_thread

from contracts import strict_json
from contracts.errors import RuntimeFault, fault_from_document
from services.api.receiving import aside
from services.api.streams import while_connected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fastapi import Request

_REFUSED: Final = 3
"""Exit status when standard output has the error instead of the answer."""
_NICENESS: Final = 10
_CHUNK_BYTES: Final = 256 * 1024


async def answered_apart(
    request: Request, module: str, arguments: Sequence[str], document: Path, settings: Mapping[str, str] | None = None
) -> IO[bytes] | None:
    """What the program `module` answers to `document`, at its start; the caller closes it. `None` when the client has left.

    Args:
        request: whose body has been read; the process ends when its client leaves.
        module: run by this Python; its `main` ends with `answer_standard_input`.
        arguments: of the program.
        document: the body; the answer lies beside it, without a name.
        settings: environment names that it has besides ours.

    Raises:
        RuntimeFault: what the program refuses it for.
        RuntimeError: it ended otherwise.
    """
    answer = await aside(_unnamed_file, document.parent)
    status: int | None = None

    async def work() -> None:
        nonlocal status
        status = await _ended(await aside(_start, module, arguments, document, answer, settings))

    with contextlib.ExitStack() as held:
        held.callback(answer.close)
        await while_connected(request.receive, work)
        if status is None:
            return None
        if status == _REFUSED:
            raise fault_from_document(strict_json.parse(await aside(_whole, answer)))
        if status != 0:
            raise RuntimeError(f"{module} {' '.join(arguments)} ended with {status}")
        held.pop_all()
    answer.seek(0)
    return answer


def pieces(answer: IO[bytes]) -> Iterator[bytes]:
    """All of an answer; afterwards it is closed."""
    with answer:
        while piece := answer.read(_CHUNK_BYTES):
            yield piece


def answer_standard_input(work: Callable[[bytes], bytes]) -> int:
    """Afterwards standard output has what `work` makes of standard input, or the error that it raised.

    Returns:
        The exit status that tells which.
    """
    os.nice(_NICENESS)
    try:
        answer = work(sys.stdin.buffer.read())
    except RuntimeFault as refused:
        sys.stdout.buffer.write(strict_json.dump(refused.to_document()))
        return _REFUSED
    sys.stdout.buffer.write(answer)
    return 0


def _unnamed_file(folder: Path) -> IO[bytes]:
    """A file of which nothing is left, whoever is killed."""
    return tempfile.TemporaryFile(dir=folder)


def _start(
    module: str, arguments: Sequence[str], document: Path, answer: IO[bytes], settings: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    with document.open("rb") as content:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=content,
            stdout=answer,
            env={**os.environ, **(settings or {})},
        )


async def _ended(process: subprocess.Popen[bytes]) -> int:
    """Its exit status; it is killed when nobody waits for it any more."""
    try:
        return await to_thread.run_sync(process.wait, abandon_on_cancel=True)
    finally:
        process.kill()


def _whole(answer: IO[bytes]) -> bytes:
    answer.seek(0)
    return answer.read()
