"""A simulated execution tells the platform what a real one of the same outcome tells it, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from runtime.installation import Installation
from services.simulation import Simulation, simulate
from tests.assets.executions import Site, settings_at, write_images

if TYPE_CHECKING:
    from pathlib import Path

    from contracts.submission import TrainingCodeSubmission

pytestmark = pytest.mark.service

FREE_MAPS = {"metrics", "metadata", "preprocessing", "postprocessing"}
"""What a package chooses."""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Site:
    return Site(settings_at(tmp_path_factory.mktemp("installation") / "home"))


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"))


def shape(value: Any) -> Any:
    """What a reader of `value` relies on: its fields, down to where a package chooses."""
    if isinstance(value, dict):
        return {name: None if name in FREE_MAPS else shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "a value"


def story(bodies: list[dict[str, Any]]) -> list[Any]:
    """The shape and status of each message, in order; of neighbours that look alike, one."""
    told = [(body["message_type"], body.get("status"), shape(body)) for body in bodies]
    return [one for one, before in zip(told, [None, *told], strict=False) if one != before]


@dataclass
class Both:
    """What was told of one submission, really carried out and simulated."""

    real: list[dict[str, Any]]
    simulated: list[dict[str, Any]]

    @classmethod
    def of(cls, site: Site, submission: TrainingCodeSubmission, outcome: str) -> Both:
        site.submit(submission)
        with Installation.open(site.settings) as here:
            real = [message.body for message in here.ledger.messages(execution_id=submission.execution_id)]
        with Simulation(outcome).open(site.settings) as here:
            here.ledger.accept(submission, label="quick 1.0.0", announced=True)
            simulate(here, submission.execution_id, Simulation(outcome))
            simulated = [message.body for message in here.ledger.messages(execution_id=submission.execution_id)]
        return cls(real, simulated)


@pytest.fixture(scope="module")
def success(site, images) -> Both:
    return Both.of(site, site.submission(data=images), "succeeded")


def test_a_success_is_told_like_a_real_one(success) -> None:
    assert [kind for kind, _, _ in story(success.real)] == [
        *["task.status.update"] * 2, "task.log", "task.status.update", "model.registered",
    ]  # fmt: skip
    assert story(success.simulated) == story(success.real)


def test_a_failure_is_told_like_a_real_one(site, images) -> None:
    failure = Both.of(site, site.submission(data=images, fail="as asked"), "package_raised")

    assert [status for _, status, _ in story(failure.real)] == [0, 1, None, 4]
    assert story(failure.simulated) == story(failure.real)


def test_the_model_is_told_as_a_real_one_is(success) -> None:
    real, simulated = success.real[-1]["model_info"], success.simulated[-1]["model_info"]

    for field in ("task_kind", "class_names", "trained_model_name", "runtime_template", "execution_id"):
        assert simulated[field] == real[field]
