"""The process that opens a model nobody has vouched for.

Run as `python -I probe.py MODEL`. Its last act is one JSON document on standard output: what `inspect_model` reports, or
why the model is refused. Protobuf, the ONNX checker and onnxruntime are large native readers of untrusted bytes: what they
do to this process stays in this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
MESSAGE_CHARS = 4_000
"""A reader's own words; some quote what they read."""
ALLOCATION_SIGNS = ("bad_alloc", "Failed to allocate memory")
"""How onnxruntime says that it ran out of memory, beside C++'s own exception."""
NOT_UTF8 = "a name in it is not UTF-8"
DTYPES = {"float": "float32", "double": "float64"}
"""Where onnxruntime's name of an element type is not the one that numpy users know."""


class Refusal(Exception):  # noqa: N818 - an outcome of this process, not an error in it
    """The model is not acceptable: which step found it, and what it found."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.document = {"step": step, "message": message[:MESSAGE_CHARS]}


def confine(parent: int, memory_bytes: int, report_bytes: int) -> None:
    """Afterwards this process dies with its parent, and neither its memory nor anything it writes can grow without end."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        sys.exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Private memory only: the address space is larger than what is used, and file mappings cost nothing.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (report_bytes, report_bytes))


def examine(path: Path) -> dict[str, Any]:
    """What the model says about itself, once every reader has accepted it.

    1. The bytes are a ModelProto with a graph.
    2. No tensor keeps its data in another file: a reader would follow that path out of the artifact.
    3. The ONNX checker accepts the structure, types and inferred shapes.
    4. onnxruntime builds a CPU session from the file.

    Raises:
        Refusal: the first step that the model did not pass.
    """
    # Here and not above: nothing large is imported before the process is confined.
    import google.protobuf.message  # type: ignore[import-untyped]  # noqa: PLC0415 - see above
    import onnx  # noqa: PLC0415 - see above
    import onnxruntime  # noqa: PLC0415 - see above

    try:  # 1
        model = onnx.load_model(path, format="protobuf", load_external_data=False)
    except google.protobuf.message.DecodeError as error:
        raise Refusal("parse", f"the bytes are not an ONNX model ({error})") from error
    if not model.HasField("graph") or not model.opset_import:
        raise Refusal("parse", "the bytes are not an ONNX model (no graph, or no opset)")

    outside = sorted({location for tensor in _tensors(model) for location in _outside(tensor)})  # 2
    if outside:
        raise Refusal("external_data", f"weights lie outside the file, in {', '.join(outside[:5])}")

    opsets = {_text(entry.domain) or "ai.onnx": entry.version for entry in model.opset_import}
    report = {
        "opset": opsets.get("ai.onnx", 0),
        "opsets": opsets,
        "ir_version": model.ir_version,
        "producer": " ".join(filter(None, map(_text, (model.producer_name, model.producer_version)))),
    }
    del model  # each reader below holds a copy of its own

    try:  # 3
        onnx.checker.check_model(path, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        raise Refusal("checker", f"the ONNX checker refuses it: {error}") from error

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    try:  # 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except MemoryError:
        raise
    except Exception as error:  # onnxruntime has one class a status code and documents none of them
        if any(sign in str(error) for sign in ALLOCATION_SIGNS):
            raise MemoryError from error
        raise Refusal("onnxruntime", f"onnxruntime {onnxruntime.__version__} does not load it: {error}") from error
    try:
        report["inputs"] = [_tensor(node) for node in session.get_inputs()]
        report["outputs"] = [_tensor(node) for node in session.get_outputs()]
    except UnicodeDecodeError as error:
        raise Refusal("parse", NOT_UTF8) from error
    return report


def _tensors(message: Any) -> Iterator[Any]:
    """Every tensor anywhere in a protobuf message: initializers, attributes, sub-graphs, functions, training graphs."""
    waiting = [message]
    while waiting:
        current = waiting.pop()
        if current.DESCRIPTOR.full_name == "onnx.TensorProto":
            yield current
            continue
        for field, value in current.ListFields():
            if field.type == field.TYPE_MESSAGE:
                waiting.extend([value] if hasattr(value, "DESCRIPTOR") else value)


def _outside(tensor: Any) -> list[str]:
    if tensor.data_location != tensor.EXTERNAL and not tensor.external_data:
        return []
    return [_text(entry.value) for entry in tensor.external_data if entry.key == "location"] or ["(no location)"]


def _text(value: Any) -> str:
    """Protobuf answers the bytes of a text that is none."""
    if isinstance(value, bytes):
        raise Refusal("parse", NOT_UTF8)
    return str(value)


def _tensor(node: Any) -> dict[str, Any]:
    """A graph's input or output: `dtype` a numpy name for tensors, onnxruntime's own for sequences and maps."""
    dtype = node.type
    if dtype.startswith("tensor("):
        element = dtype.removeprefix("tensor(").removesuffix(")")
        dtype = DTYPES.get(element, element)
    return {"name": node.name, "dtype": dtype, "shape": list(node.shape)}


def main() -> None:
    """Confine, examine, report."""
    path, parent, memory_bytes, report_bytes = sys.argv[1], *map(int, sys.argv[2:5])
    confine(parent, memory_bytes, report_bytes)
    report_fd = os.dup(1)
    os.dup2(2, 1)  # whatever a native reader prints goes to the log, never into the report
    try:
        document: dict[str, Any] = {"report": examine(Path(path))}
    except Refusal as refusal:
        document = {"refusal": refusal.document}
    except MemoryError:
        document = {
            "refusal": {"step": "memory", "message": f"opening it takes more than {memory_bytes} bytes of memory"}
        }
    content = json.dumps(document, allow_nan=False).encode()
    if len(content) > report_bytes:
        content = json.dumps(
            {"refusal": {"step": "report", "message": "its inputs and outputs are too many to list"}}
        ).encode()
    os.write(report_fd, content)


if __name__ == "__main__":
    main()
