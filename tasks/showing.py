"""What a stage leaves in the Prefect UI. A view only: where it cannot be shown, the log says so and the stage goes on."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any, Final

from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.context import FlowRunContext, TaskRunContext

from tasks.view_client import VIEW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from uuid import UUID

MAX_ARTIFACT_CHARACTERS: Final = 200_000
"""The UI loads an artifact whole; a megabyte makes it crawl."""
PROGRESS_SECONDS: Final = 2.0
"""Between two updates of what is shown; each costs the server about ten milliseconds."""
_CUT: Final = "\n\n… cut; `mtr executions show` and `logs` have all of it."


def show_table(key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    """Afterwards the run shows `rows` as a table under `key` (letters, digits and `-`)."""
    table = [{name: _cell(value) for name, value in row.items()} for row in rows]
    _create("table", key, _bounded_rows(table), description)


def show_markdown(key: str, text: str, description: str) -> UUID | None:
    """Afterwards the run shows `text` under `key`; the answer is for `update`."""
    return _create("markdown", key, _bounded(text), description)


def update(artifact: UUID | None, text: str) -> None:
    """Afterwards an artifact made by `show_markdown` shows `text`."""
    if artifact is not None:
        _change(artifact, _bounded(text))


def _create(kind: str, key: str, data: str | float, description: str) -> UUID | None:
    flow, task = FlowRunContext.get(), TaskRunContext.get()
    wanted = ArtifactCreate(
        type=kind,
        key=key,
        description=description,
        data=data,
        flow_run_id=flow.flow_run.id if flow is not None and flow.flow_run is not None else None,
        task_run_id=task.task_run.id if task is not None else None,
    )
    made = VIEW.ask(lambda client: client.create_artifact(wanted))
    return None if made is None else made.id


def _change(artifact: UUID, data: str | float) -> None:
    VIEW.ask(lambda client: client.update_artifact(artifact, ArtifactUpdate(data=data)))


def _cell(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool)) or value is None else str(value)


def _bounded_rows(rows: list[dict[str, Any]]) -> str:
    """The rows as JSON, as many as fit."""
    text = json.dumps(rows, ensure_ascii=False)
    while len(text) > MAX_ARTIFACT_CHARACTERS and len(rows) > 1:
        rows = rows[: len(rows) // 2]
        text = json.dumps([*rows, {"": _CUT.strip()}], ensure_ascii=False)
    return text


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_ARTIFACT_CHARACTERS else text[: MAX_ARTIFACT_CHARACTERS - len(_CUT)] + _CUT


def escape(text: object) -> str:
    """`text` for a cell of a Markdown table."""
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


@contextlib.contextmanager
def update_progress(key: str, description: str) -> Iterator[Callable[[int, int], None]]:
    """While the block lasts, its function moves a progress bar, at most every `PROGRESS_SECONDS`; given (done, total)."""
    artifact = _create("progress", key, 0.0, description)
    shown_at = time.monotonic()

    def move(done: int, total: int) -> None:
        nonlocal shown_at
        if artifact is not None and time.monotonic() - shown_at >= PROGRESS_SECONDS:
            shown_at = time.monotonic()
            _change(artifact, 100.0 * done / max(total, 1))

    yield move
    if artifact is not None:
        _change(artifact, 100.0)
