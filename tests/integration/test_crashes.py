"""`kill -9` of every process of an execution, before, in and after the stage where it hurts; then the same again.

Each case kills one process at an exact point, once, then sends the same submission again. However it went on by itself,
at the end the execution has succeeded, one training was paid for, and one set of everything is there and nothing else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from services.orchestrator.environment import child_environment
from services.orchestrator.processes import PrefectServer
from tasks.stage import STAGES
from tests.assets.executions import Site, doom, mark_of, settings_at, wait_until_none_has, write_images

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.assets.prefect_stack import PrefectStack
    from tests.assets.s3_server import S3Server

pytestmark = pytest.mark.service

CHILD_STAGES = ("materialize_inputs", "train", "verify_artifacts", "persist_artifacts")
PARENT_POINTS = [f"{moment} {stage}" for stage in STAGES for moment in ("enter", "leave")]
STORE_IS_DONE_WITH = ("leave register_model", "enter publish_outcome", "leave publish_outcome")
"""From here on nothing is read from the object store or written to it: its death is not noticed."""
CHILD_POINTS = [f"{moment} {stage}" for stage in CHILD_STAGES for moment in ("enter", "leave")]


def points(chosen: list[str], all_of_them: list[str]) -> list[object]:
    """The chosen points in every run of the tests, the others in `make test-crash`."""
    return [*chosen, *(pytest.param(point, marks=pytest.mark.crash) for point in all_of_them if point not in chosen)]


@pytest.fixture
def inline(prefect_stack: PrefectStack, tmp_path: Path) -> Site:
    """An installation that trains in the parent's own process, shown by the session's Prefect server."""
    return Site(settings_at(tmp_path / "home"), prefect_stack.site.environ)


@pytest.mark.parametrize("at", points(["leave materialize_inputs", "metric 2", "leave train"], PARENT_POINTS))
def test_a_killed_parent_goes_on(inline: Site, prefect_stack: PrefectStack, tmp_path: Path, at: str) -> None:
    submission = inline.submission(data=prefect_stack.data)

    killed = inline.submit(submission, **doom(tmp_path / "doom", at=at, kill="self"))
    assert killed.returncode == -9
    wait_until_none_has(mark_of(submission.execution_id))

    again = inline.submit(submission)
    assert again.returncode == 0, again.stderr
    inline.require_one_clean_success(submission.execution_id)


@pytest.mark.parametrize("at", points(["enter train", "metric 2", "leave train"], CHILD_POINTS))
def test_a_killed_engine_of_a_worker_is_followed_by_another_attempt(prefect_stack: PrefectStack, at: str) -> None:
    site = prefect_stack.site
    submission = site.submission(data=prefect_stack.data)

    doom(prefect_stack.doom, at=at, kill="self")
    done = site.submit(submission)
    assert done.returncode == 0, done.stderr
    assert not prefect_stack.doom.exists(), "the engine was not killed"

    again = site.submit(submission)
    assert again.returncode == 0, again.stderr
    assert again.stdout == done.stdout
    site.require_one_clean_success(submission.execution_id)


@pytest.mark.parametrize("at", ["training started", "metric 1", "metric 3"])
def test_a_killed_training_is_followed_by_another_attempt(
    inline: Site, prefect_stack: PrefectStack, tmp_path: Path, at: str
) -> None:
    submission = inline.submission(data=prefect_stack.data, epochs=3, pause_seconds=0.2)

    done = inline.submit(submission, **doom(tmp_path / "doom", at=at, kill="training"))
    assert done.returncode == 0, done.stderr

    again = inline.submit(submission)
    assert again.returncode == 0, again.stderr
    inline.require_one_clean_success(submission.execution_id)


@pytest.fixture
def own_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server that a test may kill."""
    from tests.assets.s3_server import S3Server  # noqa: PLC0415 - only these tests need it

    with S3Server(tmp_path_factory.mktemp("doomed-s3")) as server:
        yield server


@pytest.mark.parametrize(
    "at",
    points(["enter materialize_inputs", "metric 2", "leave persist_artifacts"], [*PARENT_POINTS, "training started"]),
)
def test_a_killed_s3_server_costs_no_training(
    own_s3: S3Server, prefect_stack: PrefectStack, tmp_path: Path, at: str
) -> None:
    settings = settings_at(tmp_path / "home", **own_s3.environment(f"c{tmp_path.name[-3:]}".replace("_", "x")))
    site = Site(settings, prefect_stack.site.environ)
    from runtime.store.objects import open_store  # noqa: PLC0415 - beside the fixture that needs it

    open_store(settings).ensure_buckets()
    submission = site.submission(data=prefect_stack.data)

    interrupted = site.submit(submission, **doom(tmp_path / "doom", at=at, kill=own_s3.pid))
    assert interrupted.returncode == (0 if at in STORE_IS_DONE_WITH else 5), interrupted.stderr
    own_s3.restart()

    again = site.submit(submission)
    assert again.returncode == 0, again.stderr
    site.require_one_clean_success(submission.execution_id)


@pytest.fixture
def own_prefect(tmp_path: Path) -> Iterator[PrefectServer]:
    """A Prefect server that a test may kill."""
    settings = settings_at(tmp_path / "server")
    settings.home.mkdir()
    environment = child_environment(settings, os.environ)
    server = PrefectServer.launch(environment, log=tmp_path / "server.log", cwd=tmp_path, port=None, ui=True)
    server.wait()
    yield server
    server.stop()


@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("at", "answered"), [("leave admit_execution", 5), ("metric 2", 0), ("leave persist_artifacts", 0)]
)
def test_a_killed_prefect_server_costs_a_view_and_no_truth(
    own_prefect: PrefectServer, tmp_path: Path, at: str, answered: int
) -> None:
    """Without a server no attempt can begin; one that has begun comes to its end, and so does the execution."""
    site = Site(settings_at(tmp_path / "home"), {"PREFECT_API_URL": own_prefect.api_url})
    submission = site.submission(data=write_images(tmp_path / "images"))

    shown_no_more = site.submit(submission, **doom(tmp_path / "doom", at=at, kill=own_prefect.process.process.pid))
    assert shown_no_more.returncode == answered, shown_no_more.stderr

    site.environ.clear()  # from here on with a server of its own
    again = site.submit(submission)
    assert again.returncode == 0, again.stderr
    site.require_one_clean_success(submission.execution_id)
