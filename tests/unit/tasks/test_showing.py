"""What a stage leaves in the UI."""

import httpx
import pytest
from prefect.logging import disable_run_logger

from tasks import showing
from tasks.showing import MAX_ARTIFACT_CHARACTERS, escape, show_markdown, show_table, update_progress


def test_a_cell_stays_a_cell() -> None:
    assert escape("a|b\nc<d") == "a\\|b c&lt;d"


def refuse(**_: object) -> None:
    raise httpx.ConnectError("no server")


@pytest.fixture(autouse=True)
def outside_of_a_run():
    with disable_run_logger():
        yield


def test_a_view_that_cannot_be_shown_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("create_markdown_artifact", "create_table_artifact", "create_progress_artifact"):
        monkeypatch.setattr(showing, name, refuse)
    show_table("rows", [{"a": 1}], "rows")
    assert show_markdown("text", "# text", "text") is None
    with update_progress("progress", "progress") as move:
        move(1, 2)


def test_a_table_holds_plain_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, object] = {}
    monkeypatch.setattr(showing, "create_table_artifact", lambda **given: made.update(given))
    show_table("rows", [{"name": ["a"], "count": 3, "none": None}], "rows")
    assert made["table"] == [{"name": "['a']", "count": 3, "none": None}]


def test_a_text_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, str] = {}
    monkeypatch.setattr(showing, "create_markdown_artifact", lambda **given: made.update(given))
    show_markdown("text", "x" * 10**6, "text")
    assert len(made["markdown"]) == MAX_ARTIFACT_CHARACTERS
    assert made["markdown"].endswith("have all of it.")
