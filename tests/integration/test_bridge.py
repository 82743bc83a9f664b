"""What comes in by RabbitMQ and what goes out, on a real broker; executions are simulated."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import aio_pika
import pytest

from contracts.errors import BrokerMismatchError, BrokerRefusedError, BrokerUnavailableError, InvalidSettingsError
from runtime.installation import Installation
from runtime.live_installation import Fixed
from services import orchestrator
from services.bridge import Bridge, replay
from services.orchestrator import Dispatcher
from tests.assets.bridge_site import BridgeSite, bridge_settings, without
from tests.assets.executions import settings_at
from tests.assets.platform_side import Platform, require_nothing_lost_or_contradictory
from tests.assets.submissions import submission_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.assets.rabbitmq_server import RabbitMqServer

pytestmark = pytest.mark.service

SUBMISSIONS_AT_ONCE = 200


@pytest.fixture
def site(rabbitmq_server: RabbitMqServer, tmp_path: Path) -> Iterator[BridgeSite]:
    """An installation and a platform; no bridge yet."""
    with BridgeSite.open(rabbitmq_server, tmp_path) as opened:
        yield opened


def test_the_end_of_an_execution_comes_with_its_result_and_its_model(site: BridgeSite) -> None:
    document = submission_document()
    site.platform.submit(document)
    with site.simulated():
        site.platform.await_ends([document["execution_id"]])
        site.await_all_told()

    queued, running, completed, registered = [one.body for one in site.platform.of(document["execution_id"])]
    begun = {"backend": "training_code_runtime", "execution_id": document["execution_id"]}
    common = {"service_name": "model-training-runtime", "task_id": 1, "message_type": "task.status.update"}
    assert without(queued, "timestamp") == {**common, "status": 0, "message": "queued", "extra_data": begun}
    assert without(running, "timestamp") == {**common, "status": 1, "message": "running", "extra_data": begun}
    execution = site.here.ledger.get(document["execution_id"])
    ended = {**begun, "result": execution.result, "artifacts": execution.artifacts}
    assert without(completed, "timestamp", "message") == {**common, "status": 3, "extra_data": ended}
    model = next(one for one in execution.artifacts if one["artifact"]["deployable"])
    checkpoint = next(one for one in execution.artifacts if one["artifact"]["role"] == "checkpoint")
    assert without(registered, "timestamp") == {
        **common,
        "message_type": "model.registered",
        "model_info": {
            "onnx_save_path": model["object"]["object_key"],
            "save_path": checkpoint["object"]["object_key"],
            "task_kind": "classification",
            "class_names": execution.result["model"]["class_names"],
            "trained_model_name": "digits-task-1",
            "loss": execution.result["metrics"]["loss"],
            "runtime_template": "onnx_classification",
            "execution_id": document["execution_id"],
        },
    }


def test_what_an_execution_says_comes_as_logs_between_its_beginning_and_its_end(site: BridgeSite) -> None:
    document = submission_document()
    site.platform.submit(document)
    with site.simulated():
        site.platform.await_ends([document["execution_id"]])
        site.await_all_told()

    logs = [one.body for one in site.platform.told if one.routing_key == "task.log"]
    assert {(one["task_id"], one["service_name"]) for one in logs} == {(1, "model-training-runtime")}
    assert "epoch 1 val" in "\n".join(one["log_content"] for one in logs)


@pytest.mark.parametrize(("outcome", "message"), [("cancelled", "cancelled"), ("package_raised", "package_raised: ")])
def test_an_execution_that_does_not_succeed_ends_as_status_4(site: BridgeSite, outcome: str, message: str) -> None:
    document = submission_document()
    site.platform.submit(document)
    with site.simulated(outcome):
        site.platform.await_statuses(document["execution_id"], 0, 1, 4)
        site.await_all_told()

    end = site.platform.of(document["execution_id"])[-1].body
    assert end["message"].startswith(message)
    assert end["extra_data"]["result"]["error"]["error_type"] == outcome


def test_the_same_message_five_times_is_one_execution(site: BridgeSite) -> None:
    document = submission_document()
    site.platform.submit(*[document] * 5)
    with site.simulated():
        site.platform.await_ends([document["execution_id"]])
        site.platform.wait_until(lambda: site.platform.waiting() == 0)
        site.await_all_told()

    assert site.platform.statuses(document["execution_id"]) == [0, 1, 3]
    assert len(site.here.ledger.list()) == 1
    assert site.platform.dead_letters() == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe not text", id="no text"),
        pytest.param(b'{"task": ', id="cut"),
        pytest.param(b"[" * 100_000, id="endless nesting"),
        pytest.param(b'{"task": {"task_id": true}}', id="an id that is none"),
        pytest.param(b'{"task": {"task_id": 1}, "task": {"task_id": 2}}', id="an id given twice"),
    ],
)
def test_what_names_no_task_becomes_a_dead_letter_with_the_reason(site: BridgeSite, body: bytes) -> None:
    document = submission_document()
    site.platform.submit(body, document)
    with site.simulated():
        site.platform.await_ends([document["execution_id"]])  # the next one is not held up
        site.await_all_told()

    (letter,) = site.platform.dead_letters()
    assert letter.body == body
    assert letter.headers["x-mtr-code"] == "invalid_document"
    assert letter.headers["x-mtr-reason"]
    assert letter.headers["x-mtr-hint"]
    assert letter.headers["x-mtr-routing-key"] == site.platform.queue


def test_a_refused_submission_is_answered_once_with_the_reason_however_often_it_comes(site: BridgeSite) -> None:
    document = {**submission_document(task={"task_id": 77, "task_kind": "classification"}), "surprise": 1}
    site.platform.submit(*[document] * 3)
    with site.simulated():
        site.platform.await_statuses(document["execution_id"], 4)
        site.platform.wait_until(lambda: site.platform.waiting() == 0)
        site.await_all_told()

    (refused,) = [one.body for one in site.platform.told]
    assert refused["task_id"] == 77
    assert refused["message"].startswith("invalid_document: ")
    assert "surprise" in refused["message"]
    assert refused["extra_data"]["result"]["error"]["error_type"] == "invalid_document"
    assert site.platform.dead_letters() == []


def test_a_refusal_without_an_execution_id_still_fails_the_task(site: BridgeSite) -> None:
    document = without(submission_document(task={"task_id": 78, "task_kind": "classification"}), "execution_id")
    site.platform.submit(document)
    with site.simulated():
        site.platform.wait_until(lambda: len(site.platform.told) == 1)
        site.await_all_told()

    refused = site.platform.told[0].body
    assert (refused["task_id"], refused["status"], refused["extra_data"]["execution_id"]) == (78, 4, None)


def test_what_the_policy_forbids_fails_with_the_setting_that_forbids_it(
    rabbitmq_server: RabbitMqServer, tmp_path: Path
) -> None:
    document = submission_document()
    with BridgeSite.open(rabbitmq_server, tmp_path, MTR_EXECUTION_ENABLED="false") as site:
        site.platform.submit(document)
        with site.simulated():
            site.platform.await_statuses(document["execution_id"], 4)
            site.await_all_told()

        assert "model-training-runtime.execution.enabled is false" in site.platform.told[0].body["message"]


def test_a_submission_that_is_known_stays_accepted_whatever_the_policy_says_by_now(
    rabbitmq_server: RabbitMqServer, tmp_path: Path
) -> None:
    document = submission_document()
    with BridgeSite.open(rabbitmq_server, tmp_path) as site:
        site.platform.submit(document)
        with site.simulated():
            site.platform.await_ends([document["execution_id"]])
        forbidding = site.here.settings.model_copy(update={"execution_enabled": False})
        site.platform.submit(document)
        with Installation.open(forbidding) as here, Bridge(Fixed(here), Dispatcher(here)):
            site.platform.wait_until(lambda: site.platform.waiting() == 0)
            site.await_all_told()

        assert site.platform.statuses(document["execution_id"]) == [0, 1, 3]
        assert site.platform.dead_letters() == []


def test_another_submission_of_the_same_execution_changes_nothing_and_is_a_dead_letter(site: BridgeSite) -> None:
    document = submission_document()
    other = {**document, "resources": {"memory_bytes": 2048}}
    site.platform.submit(document, other)
    with site.recording():
        site.platform.wait_until(lambda: bool(site.logs()))
        site.await_all_told()

    assert site.platform.statuses(document["execution_id"]) == [0]
    (letter,) = site.platform.dead_letters()
    assert json.loads(letter.body) == other
    assert letter.headers["x-mtr-code"] == "conflict"
    assert "resources.memory_bytes" in letter.headers["x-mtr-reason"]
    (warning,) = [one.body for one in site.platform.told if one.routing_key == "task.log"]
    assert (warning["log_level"], "resources.memory_bytes" in warning["log_content"]) == ("warning", True)


@pytest.mark.parametrize("left_out", [("package",), ("package", "execution_id")])
def test_an_unreadable_message_does_not_fail_a_task_that_goes_well(site: BridgeSite, left_out: tuple[str, ...]) -> None:
    document = submission_document()
    site.platform.submit(document, without(document, *left_out))
    with site.recording():
        site.platform.wait_until(lambda: bool(site.logs()))
        site.await_all_told()

    assert site.platform.statuses(document["execution_id"]) == [0]
    assert [letter.headers["x-mtr-code"] for letter in site.platform.dead_letters()] == ["invalid_document"]


def test_an_execution_id_that_was_refused_is_not_executed_later(site: BridgeSite) -> None:
    document = submission_document()
    site.platform.submit({**document, "surprise": 1}, document)
    with site.simulated():
        site.platform.await_statuses(document["execution_id"], 4)
        site.platform.wait_until(lambda: site.platform.waiting() == 0)
        site.await_all_told()

    assert site.platform.statuses(document["execution_id"]) == [4]
    assert [letter.headers["x-mtr-code"] for letter in site.platform.dead_letters()] == ["conflict"]


def test_many_submissions_at_once_with_some_malformed(site: BridgeSite) -> None:
    documents = [
        submission_document(task={"task_id": number, "task_kind": "classification"})
        for number in range(1, SUBMISSIONS_AT_ONCE - 2)
    ]
    refused = {**submission_document(task={"task_id": 900, "task_kind": "classification"}), "surprise": 1}
    unnamed = without(submission_document(task={"task_id": 901, "task_kind": "classification"}), "execution_id")
    everything = [*documents[:50], refused, *documents[50:100], b"no document", *documents[100:], unnamed]
    assert len(everything) == SUBMISSIONS_AT_ONCE
    site.platform.submit(*everything)
    with site.recording():
        for document in documents:
            site.platform.wait_until(lambda one=document["execution_id"]: site.platform.statuses(one) == [0])
            orchestrator.cancel(site.here, document["execution_id"])
        site.platform.await_ends([one["execution_id"] for one in documents])
        site.platform.wait_until(lambda: site.platform.waiting() == 0)
        site.await_all_told()

    assert {tuple(site.platform.statuses(one["execution_id"])) for one in documents} == {(0, 4)}
    assert site.platform.statuses(refused["execution_id"]) == [4]
    ended = [one.body for one in site.platform.told if one.status == 4]
    assert {one["task_id"] for one in ended if one["message"] != "cancelled"} == {900, 901}
    assert [letter.body for letter in site.platform.dead_letters()] == [b"no document"]


def test_two_bridges_share_the_submissions_and_one_of_them_tells(site: BridgeSite) -> None:
    documents = [submission_document() for _ in range(20)]
    with site.simulated(), Installation.open(site.here.settings) as there, Bridge(Fixed(there), Dispatcher(there)):
        site.platform.submit(*documents)
        site.platform.await_ends([one["execution_id"] for one in documents])
        site.await_all_told()

    assert len(site.platform.told) == len(site.here.ledger.messages())


def test_a_replayed_task_is_told_again_in_the_very_same_words(site: BridgeSite) -> None:
    mine, another = (submission_document(task={"task_id": number, "task_kind": "classification"}) for number in (5, 6))
    site.platform.submit(mine, another)
    with site.simulated():
        site.platform.await_ends([mine["execution_id"], another["execution_id"]])
        site.await_all_told()
        told = [one for one in site.platform.told if one.body["task_id"] == 5]
        before = len(site.platform.told)

        assert replay(site.here, 5) == len(told)
        site.platform.wait_until(lambda: len(site.platform.told) >= before + len(told))
        site.await_all_told()

    assert site.platform.told[before:] == told


def test_messages_wait_for_a_platform_that_has_not_bound_its_queue_yet(
    rabbitmq_server: RabbitMqServer, tmp_path: Path
) -> None:
    settings = bridge_settings(rabbitmq_server, tmp_path)
    with Installation.open(settings) as here, BridgeSite(here, None).simulated():
        document = submission_document()
        accepted = here.ledger.accept(_validated(document), label="x", announced=True)
        _await_ended(here, accepted.execution.execution_id)
        names = {"exchange": settings.rabbitmq_exchange, "queue": settings.rabbitmq_queue}
        with Platform(rabbitmq_server.url, **names) as platform:
            platform.await_statuses(document["execution_id"], 0, 1, 3)
            platform.wait_until(lambda: not here.ledger.pending_messages(limit=1))
            logs = {one.message_id for one in here.ledger.messages() if one.kind == "task.log"}
            told = [one for one in platform.told if one.routing_key != "task.log"]
            wanted = [one for one in here.ledger.messages() if one.message_id not in logs]
            require_nothing_lost_or_contradictory(told, wanted)


# --- a broker that is not as it should be -----------------------------------------------------------------------------


def test_the_present_trainers_queue_is_never_consumed(tmp_path: Path) -> None:
    settings = settings_at(tmp_path / "home", RABBITMQ_HOST="127.0.0.1", MTR_RABBITMQ_QUEUE="trainer.task.queue")
    with (
        Installation.open(settings) as here,
        pytest.raises(InvalidSettingsError, match=r"trainer\.task\.queue") as told,
    ):
        Bridge(Fixed(here), Dispatcher(here))
    assert told.value.exit_code == 2


def test_without_a_broker_there_is_no_bridge(tmp_path: Path) -> None:
    with (
        Installation.open(settings_at(tmp_path / "home")) as here,
        pytest.raises(InvalidSettingsError, match="rabbitmq_host is empty"),
    ):
        Bridge(Fixed(here), Dispatcher(here))


def test_an_exchange_of_another_type_is_named_with_both_types(site: BridgeSite) -> None:
    async def declare() -> str:
        connection = await aio_pika.connect(site.platform.url)
        channel = await connection.channel()
        name = f"direct-{uuid.uuid4()}"
        await channel.declare_exchange(name, "direct", durable=True)
        await connection.close()
        return name

    settings = site.here.settings.model_copy(update={"rabbitmq_exchange": site.platform._do(declare())})
    fault = _fault_of(settings)
    assert isinstance(fault, BrokerMismatchError)
    assert (fault.context["wanted"], fault.context["found"]) == ({"type": "'topic'"}, {"type": "'direct'"})


def test_a_queue_that_the_platform_declared_its_own_way_is_used_as_it_is(site: BridgeSite) -> None:
    async def declare() -> str:
        connection = await aio_pika.connect(site.platform.url)
        channel = await connection.channel()
        name = f"limited-{uuid.uuid4()}"
        await channel.declare_queue(name, durable=True, arguments={"x-max-length": 1000, "x-message-ttl": 60_000})
        await connection.close()
        return name

    queue = site.platform._do(declare())
    settings = site.here.settings.model_copy(update={"rabbitmq_queue": queue})
    document = submission_document()
    with Installation.open(settings) as here, BridgeSite(here, site.platform).simulated():
        site.platform.queue = queue
        site.platform.wait_until(lambda: _routes(site.platform, document))
        site.platform.await_statuses(document["execution_id"], 0, 1, 3)


def test_a_password_that_is_wrong_is_a_refusal(site: BridgeSite) -> None:
    wrong = type(site.here.settings.rabbitmq_password)("wrong")
    fault = _fault_of(site.here.settings.model_copy(update={"rabbitmq_password": wrong}))
    assert isinstance(fault, BrokerRefusedError)
    assert "wrong" not in fault.message


def test_a_broker_that_is_not_there_only_delays(tmp_path: Path) -> None:
    fault = _fault_of(settings_at(tmp_path / "home", RABBITMQ_HOST="127.0.0.1", RABBITMQ_PORT="1"))
    assert isinstance(fault, BrokerUnavailableError)


def _fault_of(settings) -> object:
    """What a bridge of these settings says is wrong."""
    with Installation.open(settings) as here, Bridge(Fixed(here), Dispatcher(here)) as bridge:
        Platform.wait_until(_Silent(), lambda: bridge.state.fault is not None)
        assert not bridge.state.consuming
        return bridge.state.fault


class _Silent:
    told = ()


def _validated(document):
    from contracts.submission import TrainingCodeSubmission  # noqa: PLC0415

    return TrainingCodeSubmission.model_validate(document)


def _await_ended(here: Installation, execution_id: str) -> None:
    Platform.wait_until(_Silent(), lambda: here.ledger.get(execution_id).ended)


def _routes(platform: Platform, document) -> bool:
    """Whether the submission reached a queue; until the bridge has bound it, there is none."""
    try:
        platform.submit(document)
    except aio_pika.exceptions.DeliveryError:
        return False
    return True
