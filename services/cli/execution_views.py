"""How an execution is shown: its tables, and the exit code that it ends a command with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from contracts.errors import CancelledError, InternalError, codes
from runtime.sizes import readable_size
from services.cli.terminal import facts, human_seconds, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runtime.ledger.records import Attempt, Execution, ExecutionSummary

REFUSED_BEFORE: Final = frozenset({2, 3, 4})
"""Exit codes that promise that nothing ran."""

FAILED: Final = 1


def exit_code(execution: Execution, attempts: Iterable[Attempt]) -> int:
    """The exit code of a command that waited for this execution's end; 0 too while it has none.

    A failure has the code of its error's class, but once the package ran it is 1 whatever refused it: the codes
    2 to 4 promise that nothing did.
    """
    if execution.state == "cancelled":
        return CancelledError.exit_code
    if execution.state != "failed":
        return 0
    code = codes().get(str((execution.error or {}).get("code")), InternalError).exit_code
    ran = any(attempt.paid_seconds > 0 or attempt.training_finished for attempt in attempts)
    return FAILED if ran and code in REFUSED_BEFORE else code


def execution_views(execution: Execution, attempts: Sequence[Attempt] = ()) -> list[Any]:
    """What a person reads about one execution, most important first; the tables that would be empty are left out."""
    views: list[Any] = [
        facts(
            execution.label,
            [
                ("execution", execution.execution_id),
                ("state", execution.state),
                ("stage", None if execution.ended else execution.stage),
                ("worked on by", abandonment(execution)),
                ("package", f"{execution.package_key} {execution.package_version}"),
                ("task", f"{execution.task_id} ({execution.task_kind})"),
                ("retry of", execution.retry_of),
                ("created", f"{execution.created_at:%Y-%m-%d %H:%M:%S %Z}"),
                ("workspace", _workspace(execution)),
                ("UI", execution.ui_url),
            ],
        )
    ]
    if execution.error:
        views.append(_error(execution.error, _failed_stage(execution)))
    if execution.timings:
        views.append(
            table(
                "stages", ("stage", "time"), [(stage, human_seconds(took)) for stage, took in execution.timings.items()]
            )
        )
    if attempts:
        views.append(_attempts(attempts))
    metrics = (execution.result or {}).get("metrics") or {}
    if metrics:
        views.append(table("metrics", ("name", "value"), [(name, f"{value:.6g}") for name, value in metrics.items()]))
    if execution.artifacts:
        views.append(artifact_table(execution.artifacts))
    if execution.model:
        views.append(model_facts(execution.model))
    return views


def abandonment(execution: Execution) -> str | None:
    """What to know about an execution that began and that nobody works on any more, its process killed for instance.

    None for every other one, and where that cannot be known because its process is on another machine.
    """
    if execution.state != "running" or (execution.owner is not None and not execution.owner.is_gone()):
        return None
    who = "nobody" if execution.owner is None else f"nobody: {execution.owner} is gone"
    return f"{who}; `mtr executions resume {execution.execution_id[:8]}` goes on where it stopped"


def _workspace(execution: Execution) -> str | None:
    if execution.workspace_cleaned is None:
        return None
    return "removed" if execution.workspace_cleaned else "not removed"


def _failed_stage(execution: Execution) -> str | None:
    """Where the error arose: the stage that an execution ends in is always the one that publishes its outcome."""
    told = (execution.result or {}).get("error") or {}
    return told.get("stage") or execution.stage


def _error(error: dict[str, Any], stage: str | None) -> Text:
    where = f" (stage {stage})" if stage else ""
    return Text.assemble(
        (f"{error.get('code')}: ", "bold red"),
        f"{error.get('message')}{where}",
        "\n",
        ("→ ", "bold"),
        str(error.get("hint")),
    )


def _attempts(attempts: Iterable[Attempt]) -> Any:
    return table(
        "attempts",
        ("number", "outcome", "training time", "peak memory", "network"),
        [
            (
                attempt.number,
                attempt.outcome or "running",
                human_seconds(attempt.paid_seconds),
                readable_size(peak)
                if isinstance(peak := attempt.record.get("peak_memory_bytes"), int | float)
                else None,
                _isolation(attempt.record, "network"),
            )
            for attempt in attempts
        ],
    )


def _isolation(record: dict[str, Any], what: str) -> object:
    isolation = record.get("isolation")
    return isolation.get(what) if isinstance(isolation, dict) else None


def artifact_table(artifacts: Iterable[dict[str, Any]]) -> Any:
    """One line an artifact. Where its bytes are is left to `--json`: an object key is long and cannot be clicked."""
    rows = []
    for entry in artifacts:
        artifact, stored = entry["artifact"], entry["object"]
        role = artifact["role"] + (", deployable" if artifact.get("deployable") else "")
        size = readable_size(stored["size_bytes"])
        rows.append((artifact["path"], role, artifact["format"], size, stored["bucket"], stored["sha256"]))
    return table("artifacts", ("path", "role", "format", "size", "bucket", "sha256"), rows)


def model_facts(model: dict[str, Any]) -> Any:
    """A registered model's card."""
    classes = model.get("class_names") or []
    return facts(
        f"model {model['name']} v{model['version']}",
        [
            ("task", model.get("task_kind")),
            ("classes", f"{len(classes)}: {', '.join(classes)}" if classes else None),
            ("opset", model.get("opset")),
            *(("input", tensor(one)) for one in model.get("inputs") or ()),
            *(("output", tensor(one)) for one in model.get("outputs") or ()),
            ("sha256", model.get("sha256")),
            ("object", f"{model['object']['bucket']}: {model['object']['object_key']}"),
            ("get it", f"mtr model export {model['name']}@{model['version']}"),
        ],
    )


def tensor(about: dict[str, Any]) -> str:
    """`image float32 [batch, 1, 8, 8]`."""
    shape = ", ".join("?" if size is None else str(size) for size in about.get("shape") or ())
    return f"{about.get('name')} {about.get('dtype')} [{shape}]"


def execution_list(executions: Iterable[ExecutionSummary]) -> Any:
    """One line an execution, newest first."""
    return table(
        "executions",
        ("execution", "state", "what", "stage", "created", "error"),
        [
            (
                one.execution_id,
                one.state,
                one.label,
                one.stage,
                f"{one.created_at:%Y-%m-%d %H:%M:%S}",
                f"{one.error['code']}: {one.error['message']}"[:120] if one.error else None,
            )
            for one in executions
        ],
    )
