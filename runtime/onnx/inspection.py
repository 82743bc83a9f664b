"""Looking at an ONNX file without trusting it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contracts.errors import InternalError, KilledError, OnnxInvalidError
from contracts.limits import (
    MAX_ONNX_BYTES,
    MAX_ONNX_REPORT_BYTES,
    ONNX_CHECK_COPIES,
    ONNX_CHECK_MEMORY_BYTES,
    ONNX_CHECK_SECONDS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

_PROBE: Final = Path(__file__).with_name("probe.py")
_LOG_CHARS: Final = 4_000
_PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
_QUIET: Final = {"ORT_DISABLE_TELEMETRY": "1"}
"""Without it onnxruntime, once imported, leaves a file in the temporary folder and tells its vendor that it runs."""

_HINTS: Final = {
    "file": "Name a model file that the package wrote in whole, and no link to one.",
    "parse": "Export the model with an ONNX exporter into a file of its own, closed before `train` returns.",
    "external_data": "Save the model as one file (`onnx.save_model(model, path, save_as_external_data=False)`).",
    "checker": "`onnx.checker.check_model(path, full_check=True)` shows the same on your machine; correct the export.",
    "onnxruntime": "`onnxruntime.InferenceSession(path)` shows the same on your machine; an older opset, or operators that "
    "onnxruntime has on the CPU, load everywhere.",
    "memory": "The memory limit grows with the file: look for a constant that is far larger in use than in the file.",
    "report": "Give the model fewer, or shorter, input and output names.",
    "time": "A model is opened within a time limit: look for a graph that the exporter unrolled.",
    "crash": "The file breaks its readers: export it again, with another exporter version if it stays.",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of a model.

    `dtype` is numpy's name of the element type (`float32`), or onnxruntime's own for what is no tensor
    (`seq(map(int64,tensor(float)))`). A dimension is a number, the name of one that may vary, or None.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]

    def to_document(self) -> dict[str, Any]:
        """The form that registered models are listed with."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}


@dataclass(frozen=True, slots=True)
class OnnxReport:
    """A model that the ONNX checker accepts and onnxruntime loads.

    `opset` is the version of the default operator set, 0 where the model uses none of it; `opsets` has every set by
    its domain (`ai.onnx` is the default one).
    """

    opset: int
    opsets: Mapping[str, int]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    producer: str
    ir_version: int
    size_bytes: int

    def to_document(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "opset": self.opset,
            "opsets": dict(self.opsets),
            "inputs": [tensor.to_document() for tensor in self.inputs],
            "outputs": [tensor.to_document() for tensor in self.outputs],
            "producer": self.producer,
            "ir_version": self.ir_version,
            "size_bytes": self.size_bytes,
        }


def inspect_model(
    path: Path, *, timeout_seconds: float = ONNX_CHECK_SECONDS, max_bytes: int = MAX_ONNX_BYTES
) -> OnnxReport:
    """What is in the model, which is then known to be valid, self-contained and loadable on a CPU.

    The file is read in a process with a time and a memory limit, since its readers are native code: no model can take
    this process down, and nothing of it is loaded here.

    Args:
        path: the model; it must not change meanwhile.
        timeout_seconds: how long opening it may take.
        max_bytes: how large it may be.

    Raises:
        OnnxInvalidError: it is not such a model; `context` has the `step` that refused it and what that step said.
        KilledError: something outside ended the reading process; safe to call again.
        InternalError: the reading process does not work on this machine.
    """
    size_bytes = _size_of(path, max_bytes)
    memory_bytes = ONNX_CHECK_MEMORY_BYTES + ONNX_CHECK_COPIES * size_bytes
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as log:
        command = [sys.executable, "-I", _PROBE, path.absolute(), os.getpid(), memory_bytes, MAX_ONNX_REPORT_BYTES]
        exit_code = _run([str(part) for part in command], answer, log, timeout_seconds)
        context = {"file": path.name, "size_bytes": size_bytes, "log": _tail(log)}
        if exit_code is None:
            raise _invalid(path, "time", f"opening it took longer than {timeout_seconds:g} s", context)
        if exit_code == -signal.SIGKILL:
            raise KilledError(
                f"the process that reads {path.name} was killed",
                hint="Try again; if it happens again, look for what kills processes here (the kernel's log names it).",
                context=context,
            )
        if exit_code < 0:
            name = signal.Signals(-exit_code).name
            raise _invalid(path, "crash", f"it ends the process that opens it with {name}", context | {"signal": name})
        if exit_code:
            raise InternalError(
                f"the process that reads ONNX files does not work here (exit status {exit_code})",
                hint="`mtr doctor` checks the Python, onnx and onnxruntime that it uses.",
                context=context,
            )
        answer.seek(0)
        document = json.loads(answer.read())
    if "refusal" in document:
        raise _invalid(path, document["refusal"]["step"], document["refusal"]["message"], context)
    return _report(document["report"], size_bytes)


def _size_of(path: Path, max_bytes: int) -> int:
    context: dict[str, object] = {"file": path.name}
    try:
        found = path.lstat()
    except OSError as error:
        raise _invalid(path, "file", f"it cannot be opened ({error.strerror})", context) from error
    if not stat.S_ISREG(found.st_mode):
        raise _invalid(path, "file", "it is not a regular file", context)
    if not 0 < found.st_size <= max_bytes:
        said = f"it has {found.st_size} bytes, at most {max_bytes} are allowed" if found.st_size else "it is empty"
        raise _invalid(path, "file", said, context | {"size_bytes": found.st_size})
    return found.st_size


def _run(command: list[str], answer: IO[bytes], log: IO[bytes], timeout_seconds: float) -> int | None:
    """The exit status, or None where it took too long; nothing runs any more afterwards."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=answer,
        stderr=log,
        cwd="/",
        env={**{name: os.environ[name] for name in _PASSED_ON if name in os.environ}, **_QUIET},
        start_new_session=True,
    )
    try:
        return process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:  # also when this process is being cancelled
        process.kill()
        process.wait()


def _tail(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_CHARS))
    return log.read(_LOG_CHARS).decode(errors="replace")


def _report(document: Mapping[str, Any], size_bytes: int) -> OnnxReport:
    def tensors(found: list[Mapping[str, Any]]) -> tuple[Tensor, ...]:
        return tuple(Tensor(entry["name"], entry["dtype"], tuple(entry["shape"])) for entry in found)

    return OnnxReport(
        opset=document["opset"],
        opsets=document["opsets"],
        inputs=tensors(document["inputs"]),
        outputs=tensors(document["outputs"]),
        producer=document["producer"],
        ir_version=document["ir_version"],
        size_bytes=size_bytes,
    )


def _invalid(path: Path, step: str, said: str, context: Mapping[str, object]) -> OnnxInvalidError:
    return OnnxInvalidError(
        f"{path.name} is not a usable ONNX model: {said}", hint=_HINTS[step], context={**context, "step": step}
    )
