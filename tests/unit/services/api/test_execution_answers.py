"""What the OpenAPI document shows of answers is what is answered."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from contracts.base import validate
from contracts.references import Pinned
from runtime.installation import Installation
from services.api import execution_answers as shown
from services.api import executions
from services.api.application import create_application
from tests.assets.executions import settings_at
from tests.assets.submissions import submission, submission_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from contracts.submission import TrainingCodeSubmission


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with one execution that has ended with a model, one that waits, and a named data set."""
    folder: Path = tmp_path_factory.mktemp("answers")
    with Installation.open(settings_at(folder / "home")) as opened:
        ledger = opened.ledger
        ended = ledger.accept(submission(), label="x").execution.execution_id
        number = ledger.begin_attempt(ended).number
        ledger.end_attempt(ended, number, outcome="succeeded", record={}, paid_seconds=1.0, training_finished=True)
        model = opened.models.register(
            "digits",
            execution_id=ended,
            object=Pinned("models", "a/model.onnx", "a" * 64, 1),
            task_kind="classification",
            class_names=["0"],
            opset=17,
            inputs=shown.MODEL["inputs"],
            outputs=shown.MODEL["outputs"],
        )
        ledger.finish(
            ended,
            state="succeeded",
            result=shown.SHOWN["result"],
            error=None,
            artifacts=shown.SHOWN["artifacts"],
            model=model.to_document(),
        )
        ledger.accept(submission(), label="y")
        ledger.set_dataset_name("digits-png", "b" * 64, Pinned("default", "d.json", "b" * 64, 1))
        yield opened


@pytest.fixture(scope="module")
def ask(here: Installation) -> Callable[..., httpx.Response]:
    """One request to an application of the installation, without a server."""
    transport = httpx.ASGITransport(create_application(here))

    async def answer(method: str, path: str, **options: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
            return await client.request(method, path, **options)

    return lambda *arguments, **options: asyncio.run(answer(*arguments, **options))


def fields(document: Any) -> Any:
    """The names of a document's fields, at every level that the API itself makes."""
    if isinstance(document, dict):
        own = {"lineage", "metrics", "timings", "metadata", "context"}
        return {name: None if name in own else fields(value) for name, value in document.items()}
    if isinstance(document, list) and document and isinstance(document[0], dict):
        return fields(document[0])
    return None


@pytest.mark.parametrize(
    ("path", "example"),
    [
        ("/v1/executions?state=queued", shown.PAGE),
        ("/v1/executions/{ended}", shown.SHOWN),
        ("/v1/executions/{ended}/artifacts", shown.ARTIFACTS),
        ("/v1/models", shown.MODELS),
        ("/v1/models/digits", shown.MODELS),
        ("/v1/models/digits/versions/latest", shown.MODEL_SHOWN),
        ("/v1/datasets", shown.DATASETS),
    ],
)
def test_an_answer_has_the_fields_of_its_example(
    ask: Callable[..., httpx.Response], here: Installation, path: str, example: dict[str, Any]
) -> None:
    ended = here.ledger.list(state="succeeded")[0].execution_id

    assert fields(ask("GET", path.format(ended=ended)).json()) == fields(example)


def test_an_accepted_submission_has_the_fields_of_its_example(ask: Callable[..., httpx.Response]) -> None:
    answer = ask("POST", "/v1/executions", json=submission().to_document())

    assert (answer.status_code, fields(answer.json())) == (202, fields(shown.ACCEPTED))


def test_a_run_has_the_fields_of_its_example(ask: Callable[..., httpx.Response], here: Installation) -> None:
    ended = here.ledger.list(state="succeeded")[0].execution_id
    answer = ask("POST", "/v1/executions/run", json=here.ledger.get(ended).submission)

    assert (answer.status_code, set(answer.json())) == (200, set(shown.RUN))


def test_the_documents_within_the_examples_are_valid() -> None:
    assert validate("result", shown.RUN["result"]).execution_id == shown.RUN["execution_id"]
    assert validate("event", shown.RUN["events"][0]).sequence == 0


@pytest.mark.parametrize("path", ["/v1/executions/", "/v1/executions/..%2f"])
def test_nobody_is_sent_to_another_address(ask: Callable[..., httpx.Response], path: str) -> None:
    answer = ask("GET", path)

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_submission_is_checked_beside_the_event_loop(
    ask: Callable[..., httpx.Response], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked_in: list[threading.Thread] = []

    def noting(contract: type[TrainingCodeSubmission], content: bytes) -> TrainingCodeSubmission:
        checked_in.append(threading.current_thread())
        return validate(contract, content)

    monkeypatch.setattr(executions, "validate", noting)
    answer = ask("POST", "/v1/executions", json=submission_document())

    assert answer.status_code == 202
    assert checked_in[0] is not threading.current_thread()  # in which the loop of `ask` runs
