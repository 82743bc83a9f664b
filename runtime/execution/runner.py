"""The process that a package's code runs in: imports it, calls it, and tells the runtime what became of it.

One file, standard library only, Python 3.9 or later: it runs in the platform's Pythons, which have nothing of ours. It
is started as `python -P runner.py` with

    stdin     one JSON object: what to run and the `context` that `train` receives
    stdout    the protocol's pipe; from here on nobody but this file writes to it
    stderr    the pipe of plain output; what the package prints goes there, in order
    argv[1]   the descriptor of a pipe for Python stacks, argv[2] the signal that asks for them

Nothing of what it says is believed: the runtime checks every line, and measures artifacts itself.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and os.path.abspath(sys.path[0] or ".") == os.path.dirname(os.path.abspath(__file__)):
    # Before Python 3.11 there is no `-P`: this file's folder would shadow modules of the package, and of Python.
    del sys.path[0]

import errno
import faulthandler
import importlib
import importlib.util
import json
import math
import threading
from datetime import datetime, timezone

TYPE_CHECKING = False  # as type checkers know it; importing typing takes longer than this file's work
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import ModuleType
    from typing import Any


PREFIX = "__AUTO_ML_TRAINING_"
EVENT_VERSION = "training-event/v1"
SPLITS = ("train", "val", "test", "other")
LEVELS = ("debug", "info", "warning", "error")
MESSAGE_CHARACTERS = 4000
TRACEBACK_CHARACTERS = 16_000


class Channel:
    """The protocol's pipe. Each line is written whole, in order, by this process alone."""

    def __init__(self) -> None:
        """Takes the standard output away from the package, which gets the pipe of plain output in its place."""
        self._pipe = os.dup(1)
        self._lock = threading.Lock()
        self._owner = os.getpid()
        os.dup2(2, 1)

    def write(self, kind: str, document: dict[str, Any]) -> None:
        """Afterwards the line is in the pipe."""
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
        line = memoryview((PREFIX + kind + "__=" + text + "\n").encode())
        with self._lock:
            while line:
                line = line[os.write(self._pipe, line) :]

    def refuse_other_processes(self) -> None:
        """Raises where a forked worker calls: its lines would carry the numbers of its parent's."""
        if os.getpid() != self._owner:
            raise RuntimeError("report() works in the process that train() was called in, not in its workers")


class Reporter:
    """What the package gets as `report`."""

    def __init__(self, channel: Channel, execution_id: str) -> None:
        """Numbers events from 0."""
        self._channel = channel
        self._execution_id = execution_id
        self._sequence = 0
        self._closed = False
        self._lock = threading.Lock()

    def __call__(self, *misplaced: object, **fields: Any) -> None:
        """Reports one event: `report(event_type="metric", epoch=1, metrics={"loss": 0.3})`.

        Event types and their fields:
            phase: `phase`, and optionally `message`.
            log: `message`, and optionally `level` (debug, info, warning or error).
            metric: `metrics` (names and finite numbers), and optionally `split`, `epoch` and `step`.
            checkpoint: `path` relative to `output_dir`, and optionally `message`.

        Raises:
            TypeError: a field is missing, unknown, of another type, or one that the runtime sets itself.
            ValueError: a field has a value that is not allowed.
        """
        if misplaced:
            raise TypeError('report() takes named fields only: report(event_type="phase", phase="training")')
        self._channel.refuse_other_processes()
        event = check_event(fields)
        with self._lock:
            if self._closed:
                raise RuntimeError("report() was called after train() had returned")
            now = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")  # noqa: UP017 - Python 3.9
            base = {
                "protocol_version": EVENT_VERSION,
                "execution_id": self._execution_id,
                "sequence": self._sequence,
                "occurred_at": now,
            }
            self._channel.write("EVENT", {**base, **event})
            self._sequence += 1

    def close(self) -> None:
        """Afterwards no event can follow."""
        with self._lock:
            self._closed = True


def check_event(fields: dict[str, Any]) -> dict[str, Any]:
    """The event's own fields, complete and of plain types, or an error that names the first wrong one."""
    kind = fields.get("event_type")
    checks = EVENT_FIELDS.get(kind) if isinstance(kind, str) else None
    if checks is None:
        raise ValueError(f"event_type is {kind!r}, must be one of {', '.join(sorted(EVENT_FIELDS))}")
    for name in fields:
        if name in ("protocol_version", "execution_id", "sequence", "occurred_at"):
            raise TypeError(f"{name} is set by the runtime: leave it out of report()")
        if name != "event_type" and name not in checks:
            known = ", ".join(checks)
            raise TypeError(f"{name} is no field of a {kind} event; it has {known}")
    event = {"event_type": kind}
    for name, (check, default) in checks.items():
        if name in fields and not (fields[name] is None and default is None):
            event[name] = check(name, fields[name])
        elif default is REQUIRED:
            raise TypeError(f"{name} is missing: a {kind} event needs it")
        else:
            event[name] = default
    return event


def text(least: int, most: int) -> Callable[[str, Any], str]:
    """A check for text of so many characters."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{name} is {type(value).__name__}, must be text")
        if not least <= len(value) <= most:
            raise ValueError(f"{name} has {len(value)} characters, must have {least} to {most}")
        return value.encode("utf-8", "replace").decode()

    return check


def one_of(*allowed: str) -> Callable[[str, Any], str]:
    """A check for one of some words."""

    def check(name: str, value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}, must be one of {', '.join(allowed)}")
        return str(value)

    return check


def count(name: str, value: Any) -> int:
    """Checks a whole number from 0."""
    value = number(name, value)
    if value != int(value) or value < 0:
        raise ValueError(f"{name} is {value!r}, must be a whole number from 0")
    return int(value)


def number(name: str, value: Any) -> float:
    """Checks a finite number; those of numpy and torch are taken as the number that they hold."""
    if type(value) not in (int, float) and not isinstance(value, (bool, str, bytes)) and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {type(value).__name__}, must be a number")
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        finite = False
    if not finite:
        raise ValueError(f"{name} is {value!r}, must be a finite number")
    return value


def metrics(name: str, value: Any) -> dict[str, float]:
    """Checks names and finite numbers."""
    if not isinstance(value, dict):
        raise TypeError(f"{name} is {type(value).__name__}, must be a dict of names and numbers")
    if not 1 <= len(value) <= 128:
        raise ValueError(f"{name} has {len(value)} names, must have 1 to 128")
    checked = {}
    for key, entry in value.items():
        if not isinstance(key, str) or not key.strip():
            raise ValueError(f"{name} has the name {key!r}, must be text that is not blank")
        checked[key] = number(f"{name}[{key!r}]", entry)
    return checked


def relative_path(name: str, value: Any) -> str:
    """Checks a path below `output_dir`."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    value = text(1, 4096)(name, value).strip().replace("\\", "/")
    parts = value.split("/")
    if value.startswith("/") or ".." in parts or set(parts) <= {".", ""} or "\0" in value:
        raise ValueError(f"{name} is {value!r}, must be a path relative to output_dir, without '..'")
    return str(value)


REQUIRED = object()
NOTE = (text(0, MESSAGE_CHARACTERS), None)
EVENT_FIELDS: dict[str, dict[str, tuple[Callable[[str, Any], Any], Any]]] = {
    "phase": {"phase": (text(1, 128), REQUIRED), "message": NOTE},
    "log": {"level": (one_of(*LEVELS), "info"), "message": (text(1, 16_000), REQUIRED)},
    "metric": {
        "split": (one_of(*SPLITS), "train"),
        "epoch": (count, None),
        "step": (count, None),
        "metrics": (metrics, REQUIRED),
    },
    "checkpoint": {"path": (relative_path, REQUIRED), "message": NOTE},
}


def plain_value(value: Any) -> Any:
    """What a completion may hold besides JSON's own types: numbers of numpy and torch, and paths."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return value.item()
    raise TypeError(f"holds a {type(value).__name__}, which JSON has no form for")


def load(code_dir: str, entrypoint: str) -> ModuleType:
    """The package's entry module, under the name by which its worker processes can import it again."""
    path = os.path.join(code_dir, entrypoint)
    parts = [part for part in os.path.splitext(entrypoint)[0].split("/") if part not in ("", ".")]
    name = ".".join(parts)
    if parts[0] not in sys.modules and all(part.isidentifier() for part in parts):
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise  # its own folder's __init__ misses something
            spec = None
        if spec is not None and spec.origin and os.path.samefile(spec.origin, path):
            return importlib.import_module(name)
    # A name that something else has already, such as `code` or `types`, or that is none, such as `train.v2`.
    spec = importlib.util.spec_from_file_location("training_package_entry", path)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - the manifest says that it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def wait_for(awaitable: Awaitable[Any]) -> Any:
    """What an asynchronous `train` returns."""
    return await awaitable


def describe(kind: str, error: BaseException, code_dir: str) -> dict[str, Any]:
    """The failure that `error` is, with the innermost place in the package's own code; prints its traceback too."""
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next  # the package's frames are what its author wants to see
    place = {"file": "", "line": 0, "function": ""}
    for frame in traceback.extract_tb(trace):
        inside = os.path.realpath(frame.filename).startswith(os.path.realpath(code_dir) + os.sep)
        if inside and os.path.isabs(frame.filename):
            shown = os.path.relpath(os.path.realpath(frame.filename), os.path.realpath(code_dir))
            place = {"file": shown, "line": frame.lineno or 0, "function": frame.name}
    if isinstance(error, SyntaxError) and error.filename:
        place = {"file": os.path.relpath(error.filename, code_dir), "line": error.lineno or 0, "function": ""}
    try:
        message = str(error)
    except Exception as second:  # noqa: BLE001 - the package's own __str__
        message = f"its text cannot be read: {type(second).__name__}"
    shown = "".join(traceback.format_exception(type(error), error, trace))
    sys.stderr.write(shown)
    failure: dict[str, Any] = {
        "kind": kind,
        "error_type": type(error).__qualname__,
        "message": message[:MESSAGE_CHARACTERS],
        "traceback": shown[-TRACEBACK_CHARACTERS:],
        **place,
    }
    if isinstance(error, OSError):
        failure["errno"] = error.errno
        failure["path"] = next((str(name) for name in (error.filename2, error.filename) if name is not None), "")
    return {name: printable(value) for name, value in failure.items()}


def printable(value: Any) -> Any:
    """`value` without the halves of surrogate pairs that file names can hold."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def run(order: dict[str, Any], channel: Channel) -> int:
    """Runs the package; answers the exit status.

    The order of things is the contract's: the package's first line is its entry module's first line.
    """
    code_dir, entrypoint, symbol = order["code_dir"], order["entrypoint"], order["symbol"]
    context = order["context"]
    report = Reporter(channel, context["execution_id"])
    sys.path.insert(0, code_dir)
    beside = os.path.dirname(os.path.join(code_dir, entrypoint))
    if os.path.normpath(beside) != os.path.normpath(code_dir):
        sys.path.insert(1, beside)  # as `python src/train.py` would
    sys.argv = [os.path.join(code_dir, entrypoint)]

    channel.write("START", {})
    try:
        module = load(code_dir, entrypoint)
    except Exception as error:  # noqa: BLE001 - whatever the package raises is told, not handled
        channel.write("FAILURE", describe("import_failed", error, code_dir))
        return 1
    train = getattr(module, symbol, None)
    if not callable(train):
        what = "nothing" if train is None else f"a {type(train).__name__}"
        message = f"{entrypoint} has {what} called {symbol}"
        channel.write("FAILURE", {"kind": "entrypoint_missing", "error_type": what, "message": message})
        return 1
    try:
        returned = train(context, report)
        if hasattr(returned, "__await__"):
            import asyncio

            returned = asyncio.run(wait_for(returned))
    except Exception as error:  # noqa: BLE001 - as above
        channel.write("FAILURE", describe("raised", error, code_dir))
        return 1
    report.close()
    if not isinstance(returned, dict):
        message = f"train() returned {type(returned).__name__}, must return a dict"
        failure = {"kind": "wrong_return_value", "error_type": type(returned).__qualname__, "message": message}
        channel.write("FAILURE", failure)
        return 1
    try:
        written = json.dumps(returned, default=plain_value, allow_nan=False, ensure_ascii=False)
        completion = json.loads(written.encode())  # half a surrogate pair is an error here
    except (TypeError, ValueError, RecursionError) as error:
        message = f"what train() returned cannot be written as JSON: {error}"
        failure = {
            "kind": "wrong_return_value",
            "error_type": "dict",
            "message": printable(message)[:MESSAGE_CHARACTERS],
        }
        channel.write("FAILURE", failure)
        return 1
    flush()
    channel.write("RESULT", completion)
    return 0


def flush() -> None:
    """What the package printed is in the pipe before the protocol says what became of it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or replaced by the package
            continue


def main() -> int:
    """Reads the order, makes the process's streams what the package expects, and runs it."""
    with os.fdopen(os.dup(0), "rb") as source:
        order = json.load(source)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    stacks, asked_by = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(stacks, False)
    faulthandler.register(asked_by, file=stacks, all_threads=True)

    channel = Channel()
    # Line by line, so that silence is silence; and never an error for what a package prints.
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    os.environ["PYTHONUNBUFFERED"] = "1"
    try:
        return run(order, channel)
    except BrokenPipeError:
        return errno.EPIPE
    finally:
        flush()


if __name__ == "__main__":
    sys.exit(main())
