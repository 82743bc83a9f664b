from __future__ import annotations

import errno

import pytest

from contracts.errors import CancelledError
from runtime.execution.process import main_thread_place
from runtime.execution.protocol import Failure
from runtime.execution.record import ProcessRecord
from runtime.execution.verdict import Evidence, Survivor, fault_of

RAISED = Failure("raised", "ValueError", "no", file="train.py", line=3)


def judge(*, limit=None, signal="", exit_code=0, oom=0, tail=(), peak=0, outlived=0, **evidence):
    record = ProcessRecord(
        attempt=1,
        signal=signal,
        exit_code=exit_code,
        kernel_oom_kills=oom,
        output_tail=tail,
        peak_memory_bytes=peak,
        ended_survivors=outlived,
    )
    return fault_of(Evidence(record=record, limit=limit or {}, input_dir="/w/input", **evidence))


def code(**evidence) -> str:
    fault = judge(**evidence)
    return fault.code if fault else ""


def test_a_completion_is_no_fault() -> None:
    assert judge(completed=True) is None


def test_a_completion_stands_though_its_process_crashed_in_an_exit_handler() -> None:
    assert judge(completed=True, signal="SIGSEGV", exit_code=None) is None


def test_what_a_completed_training_left_is_named_and_counted() -> None:
    left = (Survivor(7, "wandb"), Survivor(8, "python3"), Survivor(9, "python3"))
    fault = judge(completed=True, survivors=left, outlived=3)
    assert (fault.code, fault.message) == (
        "processes_left",
        "the package left 3 processes behind: wandb, python3 (2 times)",
    )
    assert fault.context["left_processes"][0] == {"pid": 7, "name": "wandb"}


def test_of_many_names_the_message_has_the_first_and_the_true_number() -> None:
    left = tuple(Survivor(number, f"job-{number}") for number in range(50))
    fault = judge(completed=True, survivors=left, outlived=700)
    assert fault.message == (
        "the package left 700 processes behind: job-0, job-1, job-2, job-3, job-4 and 45 other names"
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a\x1b[31m\nb", "a?[31m?b"), ("\u202eevil", "?evil"), ("   ", "(no name)"), ("x" * 99, "x" * 64)],
)
def test_a_name_is_one_bounded_line_of_printable_characters(name, shown) -> None:
    assert judge(completed=True, survivors=(Survivor(7, name),)).context["left_processes"][0]["name"] == shown


def test_what_a_failed_training_left_is_not_its_error() -> None:
    assert code(failure=RAISED, survivors=(Survivor(7, "sleep"),), outlived=1) == "package_raised"


def test_why_the_runtime_ended_it_wins() -> None:
    stopped = CancelledError("cancelled", hint="-")
    assert judge(stopped=stopped, failure=RAISED, lost="output", signal="SIGKILL") is stopped


def test_a_lost_workspace_wins_over_what_the_package_says() -> None:
    assert code(lost="output", completed=True) == "workspace_lost"


def test_a_changed_input_wins_over_a_completion() -> None:
    assert code(changed_inputs=("a",), completed=True) == "input_modified"


def test_many_changed_inputs_are_shortened_in_the_message_only() -> None:
    fault = judge(changed_inputs=tuple(f"f{n}" for n in range(20)), completed=True)
    assert "and 15 more" in fault.message
    assert len(fault.context["changed"]) == 20


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_from_outside_is_a_kill(signal) -> None:
    assert code(signal=signal, exit_code=None) == "killed"


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"])
def test_a_signal_of_its_own_is_a_crash(signal) -> None:
    assert code(signal=signal, exit_code=None) == "package_crashed"


def test_a_kill_while_the_kernel_counts_one_for_memory_is_out_of_memory() -> None:
    assert code(signal="SIGKILL", exit_code=None, oom=1) == "out_of_memory"


def test_a_loader_that_the_kernel_killed_is_out_of_memory() -> None:
    failure = Failure("raised", "RuntimeError", "DataLoader worker (pid 7) is killed by signal: Killed.")
    assert code(failure=failure, oom=1) == "out_of_memory"


def test_another_executions_kill_is_not_ours() -> None:
    assert code(failure=RAISED, oom=1) == "package_raised"


def test_out_of_memory_asks_for_twice_as_much() -> None:
    fault = judge(limit={"limit": "memory", "measured": 9 * 2**30, "most": 8 * 2**30}, peak=9 * 2**30, phase="fit")
    assert fault.message == "the package's processes reached 9.0 GiB of memory, 8.0 GiB are allowed, in phase 'fit'"
    assert "--memory 18GiB" in fault.hint


def test_before_its_first_line_it_is_the_runtime_s_python() -> None:
    fault = judge(started=False, exit_code=1, tail=("No module named encodings",), runtime_id="torch")
    assert fault.code == "runtime_unavailable"
    assert "'torch' ended with exit code 1 before the package's first line: No module named encodings" in fault.message


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_is_a_workspace_limit(number) -> None:
    failure = Failure("raised", "OSError", "no room", errno=number, path="/w/output/x")
    assert code(failure=failure) == "workspace_limit"


def test_writing_a_read_only_input_is_a_modified_input() -> None:
    failure = Failure("raised", "OSError", "x", errno=errno.EROFS, path="/w/input/dataset/a.png")
    assert judge(failure=failure).context["changed"] == ["dataset/a.png"]


def test_writing_another_read_only_place_says_where_it_may_write() -> None:
    fault = judge(failure=Failure("raised", "OSError", "x", errno=errno.EROFS, path="/etc/x"))
    assert (fault.code, "output_dir" in fault.hint) == ("package_raised", True)


def test_a_full_disk_says_how_much_the_package_wrote() -> None:
    fault = judge(limit={"limit": "disk", "measured": 100, "most": 2**29})
    assert fault.message == "the workspace's disk is full: 100 B are left, 512.0 MiB must stay free"


def test_the_place_of_an_error_is_in_its_message_and_hint() -> None:
    fault = judge(failure=RAISED)
    assert fault.message == "the package raised ValueError: no (train.py:3)"
    assert "at train.py:3" in fault.hint


def test_the_main_thread_is_the_last_of_the_first_process() -> None:
    stacks = """process 7
Thread 0x01 (most recent call first):
  File "/lib/threading.py", line 5 in run

Current thread 0x02 (most recent call first):
  File "/p/loader.py", line 633 in __next__
  File "/p/train.py", line 9 in train
process 8
Current thread 0x03 (most recent call first):
  File "/p/worker.py", line 1 in work
"""
    assert main_thread_place(stacks) == "__next__ (loader.py:633)"


@pytest.mark.parametrize("stacks", ["", "process 7\n", "nonsense"])
def test_without_stacks_there_is_no_place(stacks) -> None:
    assert main_thread_place(stacks) == ""
