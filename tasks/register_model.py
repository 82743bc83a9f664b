"""Stage 9: a deployable model is a valid ONNX file that loads, and has a name and a version."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contracts.errors import InvalidDocumentError, KilledError
from contracts.objects import PinnedReference
from runtime.onnx.inspection import inspect_model
from runtime.provenance import Lineage
from runtime.sizes import readable_size
from tasks.showing import escape, show_markdown
from tasks.stage import stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from contracts.references import Pinned
    from runtime.handover import AttemptEnd, Plan
    from runtime.onnx.inspection import OnnxReport, Tensor
    from runtime.registry.models import RegisteredModel
    from tasks.run import Run


_READINGS: Final = 3


@stage(retried=True)
def register_model(run: Run, plan: Plan, end: AttemptEnd, name: str) -> RegisteredModel | None:
    """The registered model of an attempt that left a deployable ONNX file; `None` where it left none. In the UI: a model card.

    Retry: safe; the same execution's same bytes are registered once, ever.

    Args:
        run: the execution.
        plan: what was run.
        end: what it left.
        name: the model's name; its version counts up.

    Raises:
        OnnxInvalidError: the file is no valid ONNX model, or does not load.
        DigestMismatchError: the stored file is not what was verified.
        StorageUnavailableError, LedgerUnavailableError: safe to call again.
    """
    found = _deployable_onnx(end)
    if found is None:
        show_markdown("model-card", "No deployable ONNX model: nothing is registered.\n", "The model")
        return None
    with tempfile.TemporaryDirectory(prefix="mtr-onnx-") as scratch:
        path = Path(scratch) / "model.onnx"
        run.installation.store.fetch_verified(found, path)
        report = _inspected(path)
    completion = end.published_completion()
    if completion is None or completion.model is None:
        raise InvalidDocumentError.of("attempt end", [{"path": "completion.model", "message": "required here"}])
    model = run.installation.models.register(
        name,
        execution_id=plan.execution_id,
        object=found,
        task_kind=completion.model.task_kind,
        class_names=completion.model.class_names,
        opset=report.opset,
        inputs=[tensor.to_document() for tensor in report.inputs],
        outputs=[tensor.to_document() for tensor in report.outputs],
        framework=completion.model.framework,
        metrics=completion.metrics,
        lineage=Lineage.of(plan.submission).to_document(),
    )
    show_markdown("model-card", _card(plan, model, report), f"{model.name} v{model.version}")
    return model


def _inspected(path: Path) -> OnnxReport:
    """As `inspect_model`; that something ended the reading process must not cost a training that was paid for."""
    for _ in range(_READINGS - 1):
        with contextlib.suppress(KilledError):
            return inspect_model(path)
    return inspect_model(path)


def _deployable_onnx(end: AttemptEnd) -> Pinned | None:
    for stored in end.artifacts:
        artifact: dict[str, Any] = stored["artifact"]
        if artifact["deployable"] and artifact["format"] == "onnx":
            return PinnedReference.model_validate(stored["object"]).pinned()
    return None


def _card(plan: Plan, model: RegisteredModel, report: OnnxReport) -> str:
    names = ", ".join(escape(name) for name in model.class_names[:50])
    metrics = [f"| {escape(name)} | {value:.6g} |" for name, value in model.metrics.items()]
    return "\n".join(
        [
            f"# {model.name} v{model.version}",
            "",
            " · ".join(
                (
                    escape(plan.label),
                    model.task_kind,
                    f"opset {model.opset}",
                    readable_size(model.object.size_bytes),
                    escape(report.producer or "unknown producer"),
                )
            ),
            "",
            f"```text\n{model.object.bucket}/{model.object.key}\n```",
            "",
            f"Classes ({len(model.class_names)}): {names}",
            "",
            "| | name | type | shape |",
            "|---|---|---|---|",
            *_tensors("input", report.inputs),
            *_tensors("output", report.outputs),
            "",
            "| metric | value |",
            "|---|---|",
            *metrics,
            "",
            "Parity with the source model: not checked.",
            "",
        ]
    )


def _tensors(what: str, tensors: Sequence[Tensor]) -> list[str]:
    return [
        f"| {what} | {escape(tensor.name)} | {tensor.dtype} | {' × '.join(escape(size) for size in tensor.shape)} |"
        for tensor in tensors
    ]
