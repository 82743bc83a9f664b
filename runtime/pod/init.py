"""The first process of a training pod: it passes signals on, outlives everything else, and says how it ended.

    python -m runtime.pod.init [--grace-seconds S] [--termination-log FILE] -- COMMAND [ARGUMENT ...]

Without it, measured on a real cluster: SIGTERM to a first process that has no handler does nothing, so an evicted training
goes on to the end of its grace and is killed without a checkpoint; a grandchild in a session of its own keeps the pod and
its GPU; and a training that was killed for memory ends as `Succeeded`.

1. It becomes the parent of every orphan below it: as process 1 it is that anyway, elsewhere as a subreaper.
2. It starts COMMAND and passes every signal of `FORWARDED` on to it. The first one that asks for an end starts the grace,
   in which COMMAND may write a checkpoint and end; afterwards the whole tree is killed.
3. When COMMAND has ended, for whatever reason, everything that it left is killed, and the end is proved: no child is left.
4. It writes the record of the end to the termination log, where the kubelet shows it as the container's message, and
   publishes it to the store, where it outlives the pod. That it could not is said on stderr, and changes nothing else.

| exit status | of |
|---|---|
| COMMAND's own | an end by itself, also one that was asked for |
| 128 + signal | an end by that signal; 137 also for a failure in a pod in which the kernel killed for memory |
| 126, 127 | a COMMAND that cannot be run, or is not there |

Standard library only, as `runtime.execution.supervisor` whose look at /proc it shares: it starts in 50 ms and takes
16 MB for as long as the pod lives. What needs more, publishing, is a process of its own, of bounded time.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time

from runtime.execution.supervisor import (
    END_SECONDS,
    NAMED_SURVIVORS,
    PR_SET_CHILD_SUBREAPER,
    alive,
    call,
    descendants,
    kill,
    name_of,
)
from runtime.pod.memory import MemoryCounters

TYPE_CHECKING = False  # as type checkers know it; importing typing would take longer than all of the above
if TYPE_CHECKING:
    from typing import Any

EXECUTION_NAME = "MTR_INTERNAL_EXECUTION_ID"
ATTEMPT_NAME = "MTR_INTERNAL_ATTEMPT"
GRACE_SECONDS = 30.0
"""The pod's own grace period must be longer by `PUBLISH_SECONDS` and a little more: both come before the kubelet kills."""
PUBLISH_SECONDS = 10.0
LOOK_SECONDS = 3600.0
"""Between two looks where nothing happens; everything that does is told by a signal."""
TERMINATION_LOG = "/dev/termination-log"
TERMINATION_LOG_BYTES = 4096
"""What the kubelet keeps of it."""

ASKS_FOR_END = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
FORWARDED = ASKS_FOR_END | {signal.SIGUSR1, signal.SIGUSR2}
WATCHED = FORWARDED | {signal.SIGCHLD}


class Init:
    """One command and everything below it, from its start to the proof of its end.

    Args:
        command: program and arguments.
        grace_seconds: between the first signal that asks for an end and the killing of what is left.
        counters: of this container's memory.
    """

    def __init__(self, command: list[str], grace_seconds: float, counters: MemoryCounters) -> None:
        self._command = command
        self._grace_seconds = grace_seconds
        self._counters = counters
        self._oom_kills_before = counters.oom_kills()
        self._began = time.monotonic()
        self._asked: tuple[signal.Signals, float] | None = None
        self._pid = 0
        self._status: int | None = None
        self._killed_after_grace = False

    def run(self) -> dict[str, Any]:
        """The record of the end, once nothing below this process is left. See `runtime.handover.PodRecord`."""
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        with contextlib.suppress(OSError):  # process 1 adopts orphans anyway
            call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        refusal = self._start()
        if refusal is None:
            self._follow()
        survivors = [{"pid": pid, "name": name_of(pid)} for pid in descendants() if alive(pid)]
        left = self._end_tree()
        return self._record(refusal, survivors, left)

    def _start(self) -> OSError | None:
        """Starts the command; what keeps it from being started, where something does."""
        try:
            self._pid = os.posix_spawnp(
                self._command[0], self._command, os.environ, setsigmask=(), setsigdef=sorted(WATCHED)
            )
        except OSError as error:
            return error
        return None

    def _follow(self) -> None:
        """Passes signals on until the command has ended, or its grace has."""
        while self._reap() and self._status is None:
            left = LOOK_SECONDS if self._asked is None else self._asked[1] + self._grace_seconds - time.monotonic()
            seen = signal.sigtimedwait(WATCHED, max(left, 0.0))
            if seen is None and self._asked is not None:
                self._killed_after_grace = True
                return
            if seen is None:
                continue
            number = signal.Signals(seen.si_signo)
            if number not in FORWARDED:
                continue
            if number in ASKS_FOR_END and self._asked is None:
                self._asked = number, time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _reap(self) -> bool:
        """Asks after every child that has ended; whether there are others."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._pid:
                    self._status = ended[1]
        except ChildProcessError:
            return False
        return True

    def _end_tree(self) -> list[int]:
        """Afterwards nothing below this process lives, but what hangs in the kernel: those pids are the answer.

        A look at /proc can miss a process that is being handed to us at that moment; having no child cannot lie.
        """
        deadline = time.monotonic() + END_SECONDS
        while self._reap():
            left = [pid for pid in descendants() if alive(pid)]
            if time.monotonic() > deadline:
                return left
            for pid in left:
                kill(pid)
            time.sleep(0.002)
        return []

    def _record(self, refusal: OSError | None, survivors: list[dict[str, Any]], left: list[int]) -> dict[str, Any]:
        oom_kills = self._counters.oom_kills() - self._oom_kills_before
        asked = self._asked
        return {
            "pod": os.uname().nodename,
            "exit_code": self._exit_code(refusal, oom_kills),
            "signal": os.WTERMSIG(self._status) if self._status is not None and os.WIFSIGNALED(self._status) else None,
            "message": "" if refusal is None else f"{self._command[0]} cannot be run: {refusal.strerror}",
            "oom_kills": oom_kills,
            "memory_peak_bytes": self._counters.peak_bytes(),
            "memory_limit_bytes": self._counters.limit_bytes(),
            "asked_to_end_by": None if asked is None else asked[0].name,
            "asked_to_end_after_seconds": None if asked is None else round(asked[1] - self._began, 3),
            "killed_after_grace": self._killed_after_grace,
            "ended_survivors": [] if self._killed_after_grace else survivors[:NAMED_SURVIVORS],
            "left": left,
            "seconds": round(time.monotonic() - self._began, 3),
        }

    def _exit_code(self, refusal: OSError | None, oom_kills: int) -> int:
        if refusal is not None:
            return 127 if refusal.errno == errno.ENOENT else 126
        code = 128 + signal.SIGKILL  # it never ended, or another took its status away
        if self._status is not None:
            code = os.waitstatus_to_exitcode(self._status)
            code = code if code >= 0 else 128 - code
        return 128 + signal.SIGKILL if code and oom_kills > 0 else code


def write_termination_log(path: str, record: dict[str, Any]) -> None:
    """Afterwards the kubelet shows the record as the container's message, as far as it keeps one."""
    record = dict(record)
    content = json.dumps(record).encode()
    while len(content) > TERMINATION_LOG_BYTES and record["ended_survivors"]:
        record["ended_survivors"] = record["ended_survivors"][:-1]
        content = json.dumps(record).encode()
    with contextlib.suppress(OSError), open(path, "wb") as log:
        log.write(content)


def publish(record: dict[str, Any]) -> None:
    """Afterwards the store has the record, or stderr says why not.

    A process of its own does it: its libraries would take six times this process's memory for the pod's whole life.
    """
    try:
        attempt = {"execution_id": os.environ[EXECUTION_NAME], "attempt": int(os.environ[ATTEMPT_NAME])}
    except (KeyError, ValueError):
        return  # no attempt of ours: whoever started the pod by hand reads the log
    try:
        subprocess.run(
            [sys.executable, "-m", "runtime.pod.record"],
            input=json.dumps({**attempt, **record}).encode(),
            timeout=PUBLISH_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"the record of the pod's end was not published: {error}\n{json.dumps(record)}", file=sys.stderr)  # noqa: T201


def main(arguments: list[str] | None = None) -> int:
    """Runs one command to its end; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m runtime.pod.init", description="The first process of a training pod."
    )
    parser.add_argument("--grace-seconds", type=float, default=GRACE_SECONDS, metavar="S")
    parser.add_argument("--termination-log", default=TERMINATION_LOG, metavar="FILE")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    given = parser.parse_args(arguments)
    record = Init(given.command, given.grace_seconds, MemoryCounters()).run()
    write_termination_log(given.termination_log, record)
    publish(record)
    code: int = record["exit_code"]
    return code


if __name__ == "__main__":
    sys.exit(main())
