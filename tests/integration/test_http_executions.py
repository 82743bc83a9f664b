"""Executions over HTTP, on a running API: three real trainings, and everything that is answered about them."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from contracts.base import validate
from tests.assets.api_server import ApiServer
from tests.assets.executions import Site, settings_at, trainings_of, write_images
from tests.assets.produced_codes import note_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contracts.submission import TrainingCodeSubmission

pytestmark = pytest.mark.service

TOKEN = "a token of this test"
WAIT_SECONDS = 400


@dataclass
class Api:
    """A running API and its installation."""

    server: ApiServer
    site: Site
    data: Path

    def __post_init__(self) -> None:
        self.open = httpx.Client(base_url=self.server.address, timeout=WAIT_SECONDS)
        self.write = httpx.Client(
            base_url=self.server.address, timeout=WAIT_SECONDS, headers={"Authorization": f"Bearer {TOKEN}"}
        )

    def submission(self, **parameters: Any) -> TrainingCodeSubmission:
        return self.site.submission(data=self.data, **parameters)

    def events(self, execution_id: str, last: str | None = None) -> list[dict[str, str]]:
        """Every event up to `end`."""
        return list(self.follow(execution_id, last))

    def follow(self, execution_id: str, last: str | None = None) -> Iterator[dict[str, str]]:
        """The events as they come."""
        headers = {} if last is None else {"Last-Event-ID": last}
        with self.open.stream("GET", f"/v1/executions/{execution_id}/events", headers=headers) as answer:
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            event: dict[str, str] = {}
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if line == "" and "data" in event:
                    yield event
                    event = {}
                elif name in ("id", "event", "data"):
                    event[name] = value


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("http")
    site = Site(settings_at(folder / "home"))
    with ApiServer(folder / "home", MTR_EXECUTION_ENABLED="true", MTR_API_TOKEN=TOKEN) as server:
        started = Api(server, site, write_images(folder / "images"))
        yield started
        started.open.close()
        started.write.close()


@dataclass
class Followed:
    """An execution that was submitted and followed by two clients from its start."""

    submission: TrainingCodeSubmission
    accepted: httpx.Response
    followers: list[list[dict[str, str]]]
    shown: dict[str, Any]


@pytest.fixture(scope="module")
def succeeded(api: Api) -> Followed:
    submission = api.submission(epochs=3)
    accepted = api.write.post("/v1/executions", json=submission.to_document())
    with ThreadPoolExecutor(2) as pool:
        followers = list(pool.map(api.events, [submission.execution_id] * 2))
    shown = api.open.get(f"/v1/executions/{submission.execution_id}").json()
    return Followed(submission, accepted, followers, shown)


@pytest.fixture(scope="module")
def failed(api: Api) -> tuple[TrainingCodeSubmission, httpx.Response]:
    """A training that raises, run synchronously."""
    submission = api.submission(fail="no such layer")
    return submission, api.write.post("/v1/executions/run", json=submission.to_document())


@pytest.fixture(scope="module")
def untouched(api: Api) -> str:
    """An execution that nobody ever carries out: it is none of the platform's."""
    from runtime.installation import Installation  # noqa: PLC0415 - with the ledger's database

    with Installation.open(api.site.settings) as here:
        return here.ledger.accept(api.submission(), label="untouched").execution.execution_id


def refusal(answer: httpx.Response) -> dict[str, Any]:
    """The one body of a refusal."""
    document = answer.json()
    assert set(document) == {"detail", "code", "hint", "context"}
    note_codes(document["code"])
    return document


# --- submitting -------------------------------------------------------------------------------------------------------


def test_a_submission_is_accepted_at_once_and_says_where_it_is(succeeded: Followed) -> None:
    accepted = succeeded.accepted

    assert (accepted.status_code, accepted.json()["state"]) == (202, "queued")
    assert accepted.headers["location"] == f"/v1/executions/{succeeded.submission.execution_id}"


def test_what_was_accepted_is_carried_out_to_its_end(api: Api, succeeded: Followed) -> None:
    assert (succeeded.shown["state"], succeeded.shown["result"]["status"]) == ("succeeded", "succeeded")
    api.site.require_one_clean_success(succeeded.submission.execution_id)


def test_what_is_shown_says_whose_it_is_and_what_it_took(succeeded: Followed) -> None:
    shown = succeeded.shown

    assert (shown["task_id"], shown["package"]) == (
        succeeded.submission.task.task_id,
        {"key": "quick", "version": "1.0.0"},
    )
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["succeeded"]
    assert shown["created_at"] < shown["started_at"] < shown["ended_at"]


def test_the_same_submission_in_another_message_is_answered_as_it_stands(api: Api, succeeded: Followed) -> None:
    again = {**succeeded.submission.to_document(), "message_id": str(uuid.uuid4())}

    answer = api.write.post("/v1/executions", json=again)

    assert (answer.status_code, answer.json()["state"]) == (202, "succeeded")


def test_another_submission_of_the_same_id_names_the_first_difference(api: Api, succeeded: Followed) -> None:
    document = succeeded.submission.to_document()
    document["resources"]["memory_bytes"] += 1

    answer = api.write.post("/v1/executions", json=document)

    assert answer.status_code == 409
    assert refusal(answer)["detail"].endswith("differs at resources.memory_bytes")


@pytest.mark.parametrize("path", ["/v1/executions", "/v1/executions/run"])
def test_without_a_token_nothing_else_is_said(api: Api, path: str) -> None:
    answer = api.open.post(path, content=b"{no json")

    assert (answer.status_code, refusal(answer)["code"]) == (401, "unauthorized")


def test_a_submission_that_is_none_has_every_field_named(api: Api) -> None:
    document = api.submission().to_document()
    del document["package_archive"]["size_bytes"]
    document["resources"]["cpu_cores"] = "2"

    answer = api.write.post("/v1/executions", json=document)

    assert answer.status_code == 422
    paths = {violation["path"] for violation in refusal(answer)["context"]["violations"]}
    assert paths == {"package_archive.size_bytes", "resources.cpu_cores"}


def test_a_runtime_that_is_not_allowed_is_refused_by_the_setting_s_name(api: Api) -> None:
    document = api.submission().to_document() | {"runtime": {"id": "pytorch-2.5-cu124"}}

    answer = api.write.post("/v1/executions", json=document)

    assert answer.status_code == 503
    assert "model-training-runtime.execution.runtime_ids" in refusal(answer)["detail"]


def test_an_invalid_submission_is_refused_before_policy_is_asked(tmp_path: Path) -> None:
    with ApiServer(tmp_path / "home") as off:
        invalid = off.ask("POST", "/v1/executions", b"{}")

    assert (invalid.status, invalid.code) == (422, "invalid_document")


def test_execution_is_off_until_a_setting_turns_it_on(api: Api, tmp_path: Path) -> None:
    submission = json.dumps(api.submission().to_document()).encode()
    with ApiServer(tmp_path / "home") as off:
        refused = off.ask("POST", "/v1/executions", submission)
        listed = off.ask("GET", "/v1/executions").document

    assert (refused.status, refused.code) == (503, "policy_refused")
    assert "model-training-runtime.execution.enabled is false" in refused.document["detail"]
    assert listed["executions"] == []


# --- the synchronous form ---------------------------------------------------------------------------------------------


def test_a_synchronous_run_answers_the_end_with_events_of_the_contract(api: Api, succeeded: Followed) -> None:
    answer = api.write.post("/v1/executions/run", json=succeeded.submission.to_document())

    document = answer.json()
    assert answer.status_code == 200
    assert set(document) == {"execution_id", "result", "events", "logs", "artifacts", "workspace_cleaned"}
    events = [validate("event", event) for event in document["events"]]
    assert [event.event_type for event in events] == ["phase", "metric", "metric", "metric"]
    assert validate("result", document["result"]).status == "succeeded"
    assert {"level", "message", "at"} == set(document["logs"][0])
    assert document["workspace_cleaned"] is True


def test_a_synchronous_run_that_fails_has_worked_as_a_call(
    failed: tuple[TrainingCodeSubmission, httpx.Response],
) -> None:
    answer = failed[1]

    assert (answer.status_code, answer.json()["result"]["status"]) == (200, "failed")
    assert answer.json()["result"]["error"]["error_type"] == "package_raised"
    note_codes("package_raised")


def test_a_failed_execution_says_its_error_with_the_next_action(
    api: Api, failed: tuple[TrainingCodeSubmission, httpx.Response]
) -> None:
    last = api.events(failed[0].execution_id)[-1]

    assert (last["event"], json.loads(last["data"])["state"]) == ("end", "failed")
    assert set(json.loads(last["data"])["error"]) == {"code", "message", "hint", "context"}


def test_who_leaves_a_synchronous_run_cancels_nothing_and_a_cancellation_ends_all(api: Api) -> None:
    submission = api.submission(epochs=10_000, pause_seconds=0.2)
    body = json.dumps(submission.to_document()).encode()
    with api.server.begin("/v1/executions/run", len(body), {"Authorization": f"Bearer {TOKEN}"}) as connection:
        connection.sendall(body)
        deadline = time.monotonic() + WAIT_SECONDS
        while api.open.get(f"/v1/executions/{submission.execution_id}").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    place = f"/v1/executions/{submission.execution_id}"
    said: list[str] = []
    cancelled: list[httpx.Response] = []
    for event in api.follow(submission.execution_id):
        said.append(event["event"])
        if event["event"] == "metric" and not cancelled:
            cancelled.append(api.write.post(f"{place}/cancel"))

    assert said[-1] == "end"
    assert (cancelled[0].status_code, cancelled[0].json()["cancel_requested"]) == (202, True)
    again = api.write.post(f"{place}/cancel")
    assert (again.status_code, again.json()["state"], again.json()["error"]["code"]) == (200, "cancelled", "cancelled")
    assert trainings_of(submission.execution_id) == []


def test_an_execution_that_nobody_began_is_cancelled_at_once(api: Api) -> None:
    from runtime.installation import Installation  # noqa: PLC0415 - with the ledger's database

    with Installation.open(api.site.settings) as here:
        execution_id = here.ledger.accept(api.submission(), label="queued").execution.execution_id

    answer = api.write.post(f"/v1/executions/{execution_id}/cancel")

    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert [event["event"] for event in api.events(execution_id)] == ["end"]


def test_what_runs_is_not_retried(api: Api, untouched: str) -> None:
    answer = api.write.post(f"/v1/executions/{untouched}/retry")

    assert (answer.status_code, refusal(answer)["code"]) == (409, "conflict")


# --- events -----------------------------------------------------------------------------------------------------------


def test_two_followers_hear_the_same_from_the_first_entry_to_the_end(succeeded: Followed) -> None:
    one, other = succeeded.followers

    assert one == other
    assert [event["event"] for event in one if event["event"] in ("metric", "end")] == ["metric"] * 3 + ["end"]


def test_whoever_stopped_anywhere_goes_on_exactly_there(api: Api, succeeded: Followed) -> None:
    everything = succeeded.followers[0]

    for at in (0, len(everything) // 2, len(everything) - 2):
        assert api.events(succeeded.submission.execution_id, everything[at]["id"]) == everything[at + 1 :]


def test_whoever_has_the_end_has_nothing_to_wait_for(api: Api, succeeded: Followed) -> None:
    place = f"/v1/executions/{succeeded.submission.execution_id}/events"

    assert api.open.get(place, headers={"Last-Event-ID": "end"}).status_code == 204
    assert api.open.get(place, params={"after": "end"}).status_code == 204


@pytest.mark.parametrize("last", ["1", "99999999999", "-1", "0x10", "²", "../../etc"])
def test_what_is_the_id_of_no_event_is_refused(api: Api, succeeded: Followed, last: str) -> None:
    answer = api.open.get(f"/v1/executions/{succeeded.submission.execution_id}/events", params={"after": last})

    assert (answer.status_code, refusal(answer)["code"]) == (422, "invalid_document")


def test_hundreds_of_followers_that_wait_need_no_threads(api: Api, untouched: str) -> None:
    def threads() -> int:
        status = Path(f"/proc/{api.server.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("Threads:")))

    before = threads()
    limits = httpx.Limits(max_connections=None)
    with httpx.Client(base_url=api.server.address, timeout=WAIT_SECONDS, limits=limits) as client:
        opened, pieces = [], []
        try:
            for _ in range(200):
                stream = client.stream("GET", f"/v1/executions/{untouched}/events")
                pieces.append(stream.__enter__().iter_raw())  # dropped, it would close the answer
                opened.append(stream)
                assert next(pieces[-1]).startswith(b"retry:")
            assert threads() - before < 50
            assert api.open.get("/health").status_code == 200
        finally:
            for stream in opened:
                stream.__exit__(None, None, None)


# --- artifacts and models ---------------------------------------------------------------------------------------------


def content_of(api: Api, succeeded: Followed, role: str) -> tuple[str, bytes]:
    """An artifact's address and bytes."""
    place = f"/v1/executions/{succeeded.submission.execution_id}/artifacts"
    (entry,) = (one for one in api.open.get(place).json()["artifacts"] if one["artifact"]["role"] == role)
    return entry["url"], api.open.get(entry["url"]).content


def test_an_artifact_is_fetched_whole(api: Api, succeeded: Followed) -> None:
    url, content = content_of(api, succeeded, "model")
    answer = api.open.get(url)

    assert hashlib.sha256(content).hexdigest() == url.rpartition("/")[2]
    assert answer.headers["content-length"] == str(len(content))
    assert answer.headers["etag"] == f'"{url.rpartition("/")[2]}"'
    assert answer.headers["content-disposition"] == 'attachment; filename="model.onnx"'


@pytest.mark.parametrize(
    ("wanted", "start", "stop"),
    [("bytes=0-9", 0, 10), ("bytes=10-", 10, None), ("bytes=-7", -7, None), ("bytes=50-9999999", 50, None)],
)
def test_a_part_of_an_artifact_is_fetched(api: Api, succeeded: Followed, wanted: str, start: int, stop: int) -> None:
    url, content = content_of(api, succeeded, "model")

    answer = api.open.get(url, headers={"Range": wanted})

    assert (answer.status_code, answer.content) == (206, content[start:stop])
    assert answer.headers["content-range"].endswith(f"/{len(content)}")


@pytest.mark.parametrize("wanted", ["bytes=0-1,5-6", "items=0-1", "bytes=9-2", "bytes=-", "nonsense"])
def test_a_range_that_is_none_of_ours_means_the_whole(api: Api, succeeded: Followed, wanted: str) -> None:
    url, content = content_of(api, succeeded, "model")

    answer = api.open.get(url, headers={"Range": wanted})

    assert (answer.status_code, answer.content) == (200, content)


def test_a_range_behind_the_end_is_refused_with_the_size(api: Api, succeeded: Followed) -> None:
    url, content = content_of(api, succeeded, "model")

    answer = api.open.get(url, headers={"Range": f"bytes={len(content)}-"})

    assert (answer.status_code, refusal(answer)["code"]) == (416, "range_not_satisfiable")
    assert answer.headers["content-range"] == f"bytes */{len(content)}"


def test_a_part_of_another_version_than_the_client_has_is_the_whole(api: Api, succeeded: Followed) -> None:
    url, _ = content_of(api, succeeded, "model")

    assert api.open.get(url, headers={"Range": "bytes=0-1", "If-Range": '"another"'}).status_code == 200


def test_what_the_client_has_already_is_not_sent_again(api: Api, succeeded: Followed) -> None:
    url, _ = content_of(api, succeeded, "model")
    etag = api.open.get(url).headers["etag"]

    answer = api.open.get(url, headers={"If-None-Match": f'"other", W/{etag}'})

    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)


def test_a_head_request_says_the_size(api: Api, succeeded: Followed) -> None:
    url, content = content_of(api, succeeded, "model")

    answer = api.open.head(url)

    assert (answer.status_code, answer.headers["content-length"]) == (200, str(len(content)))


@pytest.mark.parametrize("sha256", ["0" * 64, "A" * 64, "nothing", "..%2f..%2fetc%2fpasswd", "%00"])
def test_an_artifact_that_is_not_there_names_those_that_are(api: Api, succeeded: Followed, sha256: str) -> None:
    answer = api.open.get(f"/v1/executions/{succeeded.submission.execution_id}/artifacts/{sha256}")

    assert answer.status_code == 404
    if "%2f" not in sha256:  # such a path is one of no endpoint
        assert "model.onnx" in refusal(answer)["detail"]


def test_an_object_that_was_overwritten_is_never_given_out_whole(api: Api, succeeded: Followed) -> None:
    url, content = content_of(api, succeeded, "report")
    stored = next(one["object"] for one in succeeded.shown["artifacts"] if one["artifact"]["role"] == "report")
    file = api.site.settings.store_root / stored["bucket"] / stored["object_key"]
    file.chmod(0o644)
    try:
        file.write_bytes(b"x" * len(content))
        with pytest.raises(httpx.RemoteProtocolError):
            api.open.get(url)
        file.write_bytes(b"x")
        shorter = api.open.get(url)
    finally:
        file.write_bytes(content)

    assert (shorter.status_code, refusal(shorter)["code"]) == (409, "digest_mismatch")
    assert api.open.get(url).content == content


def test_a_registered_model_is_fetched_under_its_name(api: Api, succeeded: Followed) -> None:
    _, content = content_of(api, succeeded, "model")
    shown = api.open.get("/v1/models/quick/versions/latest").json()

    answer = api.open.get(shown["url"])

    assert (answer.content, answer.headers["content-disposition"]) == (content, 'attachment; filename="quick-v1.onnx"')
    assert shown["execution_id"] == succeeded.submission.execution_id
    assert [(one["name"], one["version"]) for one in api.open.get("/v1/models").json()["models"]] == [("quick", 1)]
    assert api.open.get("/v1/models/quick").json()["models"][0]["sha256"] == shown["sha256"]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/v1/models/nothing", "quick"),
        ("/v1/models/a%00b/versions/latest", "quick"),
        ("/v1/models/quick/versions/7", "1"),
        ("/v1/models/quick/versions/0", "1"),
        ("/v1/models/quick/versions/99999999999999999999", "1"),
        ("/v1/models/quick/versions/first/content", "1"),
    ],
)
def test_a_model_that_is_not_there_names_those_that_are(api: Api, succeeded: Followed, path: str, named: str) -> None:
    answer = api.open.get(path)

    assert answer.status_code == 404
    assert named in refusal(answer)["detail"]


# --- looking ----------------------------------------------------------------------------------------------------------


def test_an_id_in_upper_case_is_the_same_execution(api: Api, succeeded: Followed) -> None:
    shown = api.open.get(f"/v1/executions/{succeeded.submission.execution_id.upper()}").json()

    assert shown["execution_id"] == succeeded.submission.execution_id


@pytest.mark.parametrize(
    "name", ["nothing", "%00", "..%2f..%2fledger.db", "7c2e", "372070b0-9ed2-41d6-b029-51079977d228", "x" * 5_000]
)
@pytest.mark.parametrize("what", ["", "/events", "/artifacts"])
def test_what_is_no_execution_is_not_found(api: Api, untouched: str, name: str, what: str) -> None:
    answer = api.open.get(f"/v1/executions/{name}{what}")

    assert (answer.status_code, refusal(answer)["code"]) == (404, "not_found")


def test_executions_are_found_by_what_is_known_of_them(api: Api, succeeded: Followed, untouched: str) -> None:
    task_id = succeeded.submission.task.task_id
    mine = succeeded.submission.execution_id

    def found(**query: Any) -> list[str]:
        return [one["execution_id"] for one in api.open.get("/v1/executions", params=query).json()["executions"]]

    assert found(task_id=task_id) == [mine]
    assert found(task_id=task_id, state=["succeeded", "failed"], package="quick@1.0.0") == [mine]
    assert found(task_id=task_id, state="failed") == []
    assert found(task_id=task_id, package="other") == []
    assert found(task_id=task_id, until=succeeded.shown["created_at"]) == []
    assert found(task_id=task_id, since=succeeded.shown["created_at"]) == [mine]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 1_000_000},
        {"state": "lost"},
        {"task_id": "x"},
        {"task_id": 0},
        {"since": "yesterday"},
        {"since": "0001-01-01T00:00:00+14:00"},
        {"package": "A\0B"},
        {"cursor": "nonsense"},
    ],
)
def test_a_question_that_is_none_is_refused(api: Api, query: dict[str, Any]) -> None:
    answer = api.open.get("/v1/executions", params=query)

    assert (answer.status_code, refusal(answer)["code"]) == (422, "invalid_document")


def test_pages_stand_still_while_executions_are_accepted(api: Api) -> None:
    from runtime.installation import Installation  # noqa: PLC0415 - with the ledger's database

    submission = api.submission()
    with Installation.open(api.site.settings) as here:

        def accept() -> str:
            ids = {"execution_id": str(uuid.uuid4()), "package": {**package, "key": "paged"}}
            document = validate("mq_submission", submission.to_document() | ids)
            return here.ledger.accept(document, label="paged").execution.execution_id

        package = submission.to_document()["package"]
        wanted = [accept() for _ in range(25)][::-1]
        stop = threading.Event()

        def accept_more() -> None:
            while not stop.is_set():
                accept()

        busy = threading.Thread(target=accept_more)
        listed: list[str] = []
        page = api.open.get("/v1/executions", params={"package": "paged", "limit": 7}).json()
        busy.start()
        try:
            while True:
                listed += [one["execution_id"] for one in page["executions"]]
                if page["next_cursor"] is None:
                    break
                query = {"package": "paged", "limit": 7, "cursor": page["next_cursor"]}
                page = api.open.get("/v1/executions", params=query).json()
        finally:
            stop.set()
            busy.join()

    assert listed == wanted


def test_named_data_sets_are_listed(api: Api) -> None:
    from runtime.installation import Installation  # noqa: PLC0415 - with the ledger's database
    from runtime.requests import find_data  # noqa: PLC0415

    with Installation.open(api.site.settings) as here:
        find_data(here, str(api.data), name="pictures")

    assert [one["name"] for one in api.open.get("/v1/datasets").json()["datasets"]] == ["pictures"]
