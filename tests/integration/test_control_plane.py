"""The example control plane against `mtr up` on a real S3 and a real RabbitMQ: by HTTP, by the broker, by a Prefect run.

Everything it does is a command of `examples/control_plane/README.md`, run as it stands there. A consumer of its own plays the
platform and looks at every field of what it is told.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import onnxruntime
import pytest

from contracts.base import validate
from examples.build import build
from examples.control_plane.broker import Broker
from examples.digits_data import write_digits
from tests.assets.mtr_program import Mtr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.assets.rabbitmq_server import RabbitMqServer
    from tests.assets.s3_server import S3Server

pytestmark = [pytest.mark.service, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
README = ROOT / "examples" / "control_plane" / "README.md"
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"```(?:console|shell)\n(.*?)```", README.read_text(), re.DOTALL)
    for line in block.splitlines()
    if line.startswith("python -m examples.control_plane")
]
IMAGES_OF_A_CLASS = 12
BY_HTTP, BY_QUEUE, BY_PREFECT, CANCELLED = 4711, 4712, 4713, 4714
COMMAND_SECONDS = 600


@dataclass
class ControlPlane:
    """A folder in which the example's commands are typed, while `mtr up` runs elsewhere."""

    folder: Path
    environment: dict[str, str]
    http: httpx.Client

    def type(self, line: str) -> subprocess.CompletedProcess[str]:
        """One command line, as a person types it."""
        line = line.replace("python -m", f"{sys.executable} -m", 1)
        done = subprocess.run(
            line, shell=True, cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done

    def read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    def execution(self, name: str) -> dict[str, Any]:
        """The execution of the submission in file `name`, as the API shows it."""
        return self.http.get(f"/v1/executions/{self.read(name)['execution_id']}").raise_for_status().json()


@pytest.fixture(scope="module")
def platform(rabbitmq_server: RabbitMqServer) -> Broker:
    """The exchange, and a queue of the platform's own that hears everything."""
    broker = Broker(rabbitmq_server.url, f"auto_ml_exchange.{uuid.uuid4().hex[:8]}", "platform")
    broker.subscribe()
    return broker


@pytest.fixture(scope="module")
def control_plane(
    tmp_path_factory, s3_server: S3Server, rabbitmq_server: RabbitMqServer, platform: Broker
) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("control-plane")
    own = {
        **s3_server.environment(f"cp{uuid.uuid4().hex[:8]}"),
        **rabbitmq_server.environment,
        "RABBITMQ_EXCHANGE": platform.exchange,
    }
    mtr = Mtr(folder / "home")
    up = mtr.start("up", "--port", "0", "--api-port", "0", "--json", **own)
    try:
        links = json.loads("".join(iter(lambda: _line(up), "}\n")) + "}")
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
            **own,
            "PYTHONPATH": str(ROOT),
            "RUNTIME_URL": links["runtime_api"],
            "PREFECT_API_URL": links["api"],
        }
        with httpx.Client(base_url=links["runtime_api"], timeout=60) as http:
            yield ControlPlane(folder, environment, http)
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=120)


def _line(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return line


@pytest.fixture(scope="module")
def walked(control_plane: ControlPlane) -> ControlPlane:
    """The README's walk-through, done: by HTTP to the fetched model, then by the broker to the task's end."""
    (control_plane.folder / "dist").mkdir()
    build("digits", control_plane.folder / "dist")
    whole = control_plane.folder / "whole"
    write_digits(whole)
    for class_folder in whole.glob("*/*"):
        target = control_plane.folder / "digits-png" / class_folder.relative_to(whole)
        target.mkdir(parents=True)
        for image in sorted(class_folder.iterdir())[:IMAGES_OF_A_CLASS]:
            image.rename(target / image.name)
    for command in COMMANDS:
        control_plane.type(command)
    return control_plane


@pytest.fixture(scope="module")
def told(walked: ControlPlane, platform: Broker) -> dict[int, list[dict[str, Any]]]:
    """What the platform heard of each task, after a Prefect run and a cancelled execution were added."""
    submit = "python -m examples.control_plane submit --package package.json --snapshot data.json"
    walked.type(f"{submit} --task {BY_PREFECT} --parameters '{{\"epochs\": 2}}' --by prefect > third.json")
    walked.type(f"{submit} --task {CANCELLED} --parameters '{{\"epochs\": 10000}}' > fourth.json")
    walked.type("python -m examples.control_plane cancel fourth.json")
    for name in ("third.json", "fourth.json"):
        walked.type(f"python -m examples.control_plane follow {name} > ended.json")

    async def hear() -> dict[int, list[dict[str, Any]]]:
        heard: dict[int, list[dict[str, Any]]] = {}
        async for message in platform.messages():
            heard.setdefault(message["body"]["task_id"], []).append(message)
            last = {task: messages[-1]["body"] for task, messages in heard.items()}
            models = [task for task, body in last.items() if body["message_type"] == "model.registered"]
            if len(models) == 3 and last.get(CANCELLED, {}).get("status") == 4:
                return heard
        raise AssertionError(heard)

    return asyncio.run(asyncio.wait_for(hear(), COMMAND_SECONDS))


def test_the_walk_through_ends_with_a_model_that_loads(walked) -> None:
    fetched = walked.folder / "digits.onnx"
    model = walked.read("execution.json")["model"]

    assert hashlib.sha256(fetched.read_bytes()).hexdigest() == model["sha256"]
    assert onnxruntime.InferenceSession(fetched, providers=["CPUExecutionProvider"]).get_outputs()


def test_sent_again_it_is_the_same_execution(walked) -> None:
    task = walked.http.get("/v1/executions", params={"task_id": BY_HTTP}).json()["executions"]

    assert [one["execution_id"] for one in task] == [walked.read("submission.json")["execution_id"]]


def test_a_package_may_go_straight_to_the_store(walked) -> None:
    said = walked.type("python -m examples.control_plane import dist/digits-0.1.0.zip --upload")

    assert json.loads(said.stdout) == walked.read("package.json")
    assert "was registered before" in said.stderr


def test_all_three_ways_are_told_alike(told) -> None:
    def story(task_id: int) -> list[Any]:
        kinds = [message["body"].get("status", message["routing_key"]) for message in told[task_id]]
        return [kind for kind, before in zip(kinds, [None, *kinds], strict=False) if kind != before]

    assert story(BY_HTTP) == story(BY_QUEUE) == story(BY_PREFECT) == [0, 1, "task.log", 3, "model.registered"]


def test_all_three_ways_have_one_name_for_people(told, walked) -> None:
    labels = {walked.execution(name)["label"] for name in FILES.values()}

    assert labels == {f"digits 0.1.0 on {walked.read('data.json')['object']['sha256'][:12]}"}


def test_every_message_comes_once_on_the_routing_key_of_its_kind(told) -> None:
    messages = [message for heard in told.values() for message in heard]

    assert all(message["routing_key"] == message["body"]["message_type"] for message in messages)
    assert len({message["message_id"] for message in messages}) == len(messages)


FILES = {BY_HTTP: "submission.json", BY_QUEUE: "second.json", BY_PREFECT: "third.json"}


@pytest.mark.parametrize("task_id", FILES)
def test_every_field_is_as_specified(told, walked, task_id) -> None:
    execution = walked.execution(FILES[task_id])
    statuses, logs, models = [], [], []
    for message in told[task_id]:
        body = dict(message["body"])
        assert body.pop("service_name") == "model-training-runtime"
        assert body.pop("task_id") == task_id
        assert datetime.fromisoformat(body.pop("timestamp")).utcoffset() is not None
        kinds = {"task.status.update": statuses, "task.log": logs, "model.registered": models}
        kinds[body.pop("message_type")].append(body)

    about = {"backend": "training_code_runtime", "execution_id": execution["execution_id"]}
    assert statuses[:2] == [
        {"status": 0, "message": "queued", "extra_data": about},
        {"status": 1, "message": "running", "extra_data": about},
    ]
    (ended,) = statuses[2:]
    assert ended.keys() == {"status", "message", "extra_data"}
    assert ended["extra_data"] == {**about, "result": execution["result"], "artifacts": execution["artifacts"]}
    assert validate("result", ended["extra_data"]["result"]).status == "succeeded"

    assert all(log.keys() == {"log_content", "log_level"} for log in logs)
    assert all(log["log_level"] in {"debug", "info", "warning", "error"} for log in logs)
    assert all(1 <= len(log["log_content"]) <= 16_000 for log in logs)
    assert any("epoch 1 val" in log["log_content"] for log in logs)

    keys = {one["artifact"]["role"]: one["object"]["object_key"] for one in execution["artifacts"]}
    assert models == [
        {
            "model_info": {
                "onnx_save_path": keys["model"],
                "save_path": keys["checkpoint"],
                "task_kind": "classification",
                "class_names": list("0123456789"),
                "trained_model_name": f"digits-task-{task_id}",
                "loss": None,
                "runtime_template": "onnx_classification",
                "execution_id": execution["execution_id"],
            }
        }
    ]


def test_a_cancelled_execution_is_told_as_cancelled(told, walked) -> None:
    last = told[CANCELLED][-1]["body"]

    assert (last["status"], last["message"]) == (4, "cancelled")
    assert last["extra_data"]["result"]["status"] == "cancelled"
    assert walked.execution("fourth.json")["state"] == "cancelled"
