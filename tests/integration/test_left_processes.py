"""What a package leaves running after its result: its own time to end, then an error, and nothing that lives."""

from __future__ import annotations

import pytest

from contracts.errors import OutOfMemoryError, PackageRaisedError, ProcessesLeftError
from runtime.execution.survivors import find_survivors
from tests.assets.training_runs import prepare, processes_below, run

pytestmark = pytest.mark.service

ISOLATION = pytest.mark.parametrize("isolation", ["auto", "none"])

LEAVES_TWO = """
import subprocess
def train(context, report):
    for _ in range(2):
        subprocess.Popen(["setsid", "sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    {end}
"""

HONEST = {
    "a_pool_that_nobody_closed": """
import multiprocessing
held = []
def double(value):
    return 2 * value
def train(context, report):
    held.append(multiprocessing.get_context("fork").Pool(2))
    return {"metrics": {"sum": sum(held[0].map(double, range(3)))}}
""",
    "spawned_workers": """
import multiprocessing
def train(context, report):
    spawn = multiprocessing.get_context("spawn")
    lock = spawn.Lock()
    with spawn.Pool(2) as pool:
        return {"metrics": {"sum": sum(pool.map(abs, [-1, -2, -3]))}}
""",
    "an_executor_that_nobody_shut": """
import concurrent.futures
held = []
def train(context, report):
    held.append(concurrent.futures.ProcessPoolExecutor(2))
    return {"metrics": {"sum": sum(held[0].map(abs, [-1, -2, -3]))}}
""",
    "joblib": """
import joblib
def train(context, report):
    done = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(abs)(value) for value in (-1, -2, -3))
    return {"metrics": {"sum": sum(done)}}
""",
    "scikit_learn": """
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
def train(context, report):
    pixels, digits = load_digits(return_X_y=True)
    scores = cross_val_score(LogisticRegression(max_iter=5), pixels[:200], digits[:200], cv=2, n_jobs=2)
    return {"metrics": {"folds": len(scores)}}
""",
    "shared_memory": """
from multiprocessing import shared_memory
def train(context, report):
    memory = shared_memory.SharedMemory(create=True, size=64)
    memory.close()
    memory.unlink()
    return {}
""",
    "a_child_that_ends_by_itself": """
import subprocess
def train(context, report):
    subprocess.Popen(["setsid", "sleep", "0.5"])
    return {}
""",
}


@ISOLATION
@pytest.mark.parametrize("kind", sorted(HONEST))
def test_what_ends_by_itself_in_time_is_no_error(tmp_path, kind, isolation) -> None:
    assert run(prepare(tmp_path, HONEST[kind], isolation=isolation)).record.ended_survivors == 0


@ISOLATION
def test_what_stays_is_the_error_of_a_training_that_finished(tmp_path, isolation) -> None:
    launch = prepare(tmp_path, LEAVES_TWO.format(end="return {}"), isolation=isolation)
    with pytest.raises(ProcessesLeftError) as caught:
        run(launch, survivor_seconds=0.2)
    assert [one["name"] for one in caught.value.context["left_processes"]] == ["sleep", "sleep"]
    assert caught.value.context["process"]["ended_survivors"] == 2
    assert caught.value.context["process"]["exit_code"] == 0
    assert find_survivors(launch.workspace.execution_id, 1, launch.workspace.directory) == []
    assert processes_below(launch.workspace.directory, launch.workspace.execution_id) == []


@ISOLATION
def test_where_it_is_accepted_it_is_ended_and_counted(tmp_path, isolation) -> None:
    launch = prepare(tmp_path, LEAVES_TWO.format(end="return {'summary': 'done'}"), isolation=isolation)
    end = run(launch, survivor_seconds=0.2, fail_on_left_processes=False)
    assert (end.completion.summary, end.record.ended_survivors) == ("done", 2)
    assert processes_below(launch.workspace.directory, launch.workspace.execution_id) == []


@ISOLATION
def test_of_a_training_that_failed_it_is_counted_and_not_waited_for(tmp_path, isolation) -> None:
    launch = prepare(tmp_path, LEAVES_TWO.format(end="raise RuntimeError('first')"), isolation=isolation)
    with pytest.raises(PackageRaisedError, match="first") as caught:
        run(launch, survivor_seconds=3600)
    assert caught.value.context["process"]["ended_survivors"] == 2


@ISOLATION
def test_a_crash_after_the_result_gives_what_it_left_its_time_too(tmp_path, isolation) -> None:
    source = """
import atexit, os, subprocess
def train(context, report):
    subprocess.Popen(["sleep", "0.5"])
    atexit.register(os.abort)
    return {"summary": "stands"}
"""
    end = run(prepare(tmp_path, source, isolation=isolation))
    assert (end.completion.summary, end.record.signal, end.record.ended_survivors) == ("stands", "SIGABRT", 0)


@ISOLATION
def test_its_time_to_end_is_not_cut_by_the_time_that_the_training_process_has(tmp_path, isolation) -> None:
    source = LEAVES_TWO.format(end="return {}").replace("600", "1")
    end = run(prepare(tmp_path, source, isolation=isolation), linger_seconds=0.5)
    assert (end.record.ended_survivors, end.record.ended_by_force) == (0, False)


@ISOLATION
def test_limits_hold_for_what_was_left(tmp_path, isolation) -> None:
    source = """
import os, time
def train(context, report):
    if os.fork() == 0:
        os.setsid()
        while os.getppid() == OWNER:
            time.sleep(0.01)
        held = b"x" * 2**29
        time.sleep(600)
    return {}
OWNER = os.getpid()
"""
    with pytest.raises(OutOfMemoryError):
        run(prepare(tmp_path, source, isolation=isolation), survivor_seconds=60, memory_bytes=2**28)
