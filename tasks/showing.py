"""What a stage leaves in the Prefect UI. A view only: where it cannot be shown, the log says so and the stage goes on."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.logging import get_run_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from uuid import UUID

Answer = TypeVar("Answer")

MAX_ARTIFACT_CHARACTERS: Final = 200_000
"""The UI loads an artifact whole; a megabyte makes it crawl."""
PROGRESS_SECONDS: Final = 2.0
"""Between two updates of what is shown; each costs the server about ten milliseconds."""
_CUT: Final = "\n\n… cut; `mtr executions show` and `logs` have all of it."


def show_table(key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    """Afterwards the run shows `rows` as a table under `key` (letters, digits and `-`)."""
    table = [{name: _cell(value) for name, value in row.items()} for row in rows]
    _try(lambda: create_table_artifact(table=table, key=key, description=description))


def show_markdown(key: str, text: str, description: str) -> UUID | None:
    """Afterwards the run shows `text` under `key`; the answer is for `update`."""
    return _try(lambda: _made(create_markdown_artifact(markdown=_bounded(text), key=key, description=description)))


def update(artifact: UUID | None, text: str) -> None:
    """Afterwards an artifact made by `show_markdown` shows `text`."""
    if artifact is not None:
        _try(lambda: _send(artifact, text))


def _send(artifact: UUID, text: str) -> None:
    with get_client(sync_client=True) as client:
        client.update_artifact(artifact, ArtifactUpdate(data=_bounded(text)))


def _made(answer: Any) -> UUID:
    """`create_*_artifact` is typed as maybe a coroutine; called from synchronous code it has done its work."""
    identity: UUID = answer
    return identity


def _try(show: Callable[[], Answer]) -> Answer | None:
    try:
        return show()
    except Exception as error:  # noqa: BLE001 - a view that fails must not fail what it shows, whatever the reason
        get_run_logger().warning("This stage's artifact could not be shown: %s", error)
        return None


def _cell(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool)) or value is None else str(value)


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_ARTIFACT_CHARACTERS else text[: MAX_ARTIFACT_CHARACTERS - len(_CUT)] + _CUT


def escape(text: object) -> str:
    """`text` for a cell of a Markdown table."""
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


@contextlib.contextmanager
def update_progress(key: str, description: str) -> Iterator[Callable[[int, int], None]]:
    """While the block lasts, its function moves a progress bar, at most every `PROGRESS_SECONDS`; given (done, total)."""
    artifact = _try(lambda: _made(create_progress_artifact(progress=0.0, key=key, description=description)))
    shown_at = time.monotonic()

    def move(done: int, total: int) -> None:
        nonlocal shown_at
        if artifact is not None and time.monotonic() - shown_at >= PROGRESS_SECONDS:
            shown_at = time.monotonic()
            _try(lambda: update_progress_artifact(artifact, 100.0 * done / max(total, 1)))

    yield move
    if artifact is not None:
        _try(lambda: update_progress_artifact(artifact, 100.0))
