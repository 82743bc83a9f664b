"""What a well-behaved package can rely on, and what the runtime knows of it afterwards."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import (
    CancelledError,
    ExecutionBusyError,
    InternalError,
    KilledError,
    PackageRaisedError,
    RuntimeUnavailableError,
    WorkspaceLimitError,
)
from runtime.execution import supervisor
from runtime.execution.environment import Python
from runtime.execution.journal import Journal
from runtime.execution.process import train
from runtime.execution.protocol import Metric, Phase
from runtime.execution.record import ISOLATED, NOT_ISOLATED
from tests.assets.training_runs import Heard, limits, prepare, request_for, run

pytestmark = pytest.mark.service

ISOLATION = pytest.mark.parametrize("isolation", ["auto", "none"])


def body(*lines: str, before: str = "") -> str:
    return before + "\ndef train(context, report):\n" + "".join(f"    {line}\n" for line in lines)


@ISOLATION
def test_a_completion_comes_back(tmp_path, isolation) -> None:
    end = run(prepare(tmp_path, body("return {'summary': 'fine', 'metrics': {'accuracy': 1}}"), isolation=isolation))
    assert (end.completion.summary, end.completion.metrics, end.record.exit_code) == ("fine", {"accuracy": 1.0}, 0)


def test_an_asynchronous_train_is_awaited(tmp_path) -> None:
    source = "import asyncio\nasync def train(context, report):\n    await asyncio.sleep(0)\n    return {'summary': 'later'}\n"
    assert run(prepare(tmp_path, source)).completion.summary == "later"


@ISOLATION
def test_the_context_has_real_paths_that_exist(tmp_path, isolation) -> None:
    launch = prepare(
        tmp_path,
        body(
            "import os",
            "paths = context['workspace']",
            "assert all(os.path.exists(path) for path in paths.values()), paths",
            "items = [open(os.path.join(paths['input_dir'], i['media_path'])).read() for i in context['dataset']['items']]",
            "return {'summary': ','.join(items)}",
        ),
        isolation=isolation,
    )
    assert run(launch).completion.summary == "item 0,item 1,item 2"


def test_the_context_is_a_plain_dict_as_the_contract_says(tmp_path) -> None:
    launch = prepare(
        tmp_path,
        body(
            "assert type(context) is dict",
            "assert 'package_manifest' not in context",
            "assert context['dataset']['class_names'] == ['cat', 'dog']",
            "assert context['parameters'] == {'epochs': 2}",
            "return {}",
        ),
    )
    assert run(launch).record.exit_code == 0


def test_events_arrive_typed_and_in_order(tmp_path) -> None:
    heard = Heard()
    source = body(
        "report(event_type='phase', phase='fit')",
        "for epoch in range(3):",
        "    report(event_type='metric', epoch=epoch, metrics={'loss': 1 / (epoch + 1)})",
        "return {}",
    )
    run(prepare(tmp_path, source), heard=heard)
    assert [type(event) for event in heard.events] == [Phase, Metric, Metric, Metric]
    assert [event.epoch for event in heard.events[1:]] == [0, 1, 2]


def test_numbers_of_numpy_are_numbers(tmp_path) -> None:
    source = body(
        "import numpy",
        "report(event_type='metric', epoch=numpy.int64(1), metrics={'loss': numpy.float32(0.5)})",
        "return {'metrics': {'loss': numpy.float64(0.25)}}",
    )
    heard = Heard()
    end = run(prepare(tmp_path, source), heard=heard)
    assert (heard.events[0].metrics, end.completion.metrics) == ({"loss": 0.5}, {"loss": 0.25})


def test_an_unfinished_print_swallows_no_event(tmp_path) -> None:
    heard = Heard()
    source = body("print('half a line', end='', flush=True)", "report(event_type='phase', phase='x')", "return {}")
    launch = prepare(tmp_path, source)
    run(launch, heard=heard)
    assert [event.phase for event in heard.events] == ["x"]
    assert launch.output_log.read_text() == "half a line"


def test_all_that_is_printed_is_in_the_log_in_its_order(tmp_path) -> None:
    source = body(
        "import os, sys",
        "for n in range(500):",
        "    print('out', n); print('err', n, file=sys.stderr)",
        "os.system('echo from a program')",
        "return {}",
    )
    launch = prepare(tmp_path, source)
    run(launch)
    expected = "".join(f"out {n}\nerr {n}\n" for n in range(500)) + "from a program\n"
    assert launch.output_log.read_text() == expected


def test_output_that_nobody_can_read_reaches_listeners_in_part(tmp_path) -> None:
    heard = Heard()
    run(prepare(tmp_path, body("for n in range(20000): print(n)", "return {}")), heard=heard)
    assert 200 <= len(heard.lines) < 1000


@pytest.mark.parametrize(
    "entrypoint", ["train.py", "src/train.py", "code.py", "my-train.py", "train.v2.py", "./train.py"]
)
def test_an_entry_file_may_be_called_anything(tmp_path, entrypoint) -> None:
    beside = Path(entrypoint).parent / "beside.py"
    files = {entrypoint: body("import beside", "return {'summary': beside.TEXT}"), str(beside): "TEXT = 'found'\n"}
    assert run(prepare(tmp_path, files, entrypoint=entrypoint)).completion.summary == "found"


def test_a_package_s_module_is_not_shadowed_by_ours(tmp_path) -> None:
    files = {"train.py": body("import journal, protocol", "return {'summary': journal.X + protocol.X}")}
    files |= {"journal.py": "X = 'own'\n", "protocol.py": "X = 's'\n"}
    assert run(prepare(tmp_path, files)).completion.summary == "owns"


@ISOLATION
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_worker_processes_work(tmp_path, method, isolation) -> None:
    source = (
        "import multiprocessing\ndef square(n):\n    print('in a worker')\n    return n * n\n"
        f"def train(context, report):\n    with multiprocessing.get_context('{method}').Pool(2) as pool:\n"
        "        return {'metrics': {'sum': sum(pool.map(square, range(4)))}}\n"
    )
    assert run(prepare(tmp_path, source, isolation=isolation)).completion.metrics == {"sum": 14.0}


def test_workers_that_report_are_told_not_to(tmp_path) -> None:
    source = body(
        "import os",
        "pid = os.fork()",
        "if pid == 0:",
        "    try:",
        "        report(event_type='phase', phase='x')",
        "    except RuntimeError:",
        "        os._exit(7)",
        "    os._exit(0)",
        "return {'metrics': {'code': os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}}",
    )
    assert run(prepare(tmp_path, source)).completion.metrics == {"code": 7.0}


def test_what_it_writes_to_its_code_home_and_tmp_is_allowed(tmp_path) -> None:
    source = body(
        "import os, tempfile",
        "open('beside.txt', 'w').write('x')",
        "open(os.path.expanduser('~/.cache-file'), 'w').write('x')",
        "tempfile.NamedTemporaryFile(mode='w').write('x')",
        "open(context['workspace']['input_dir'] + '/labels.cache', 'w').write('x')",
        "return {}",
    )
    assert run(prepare(tmp_path, source)).record.exit_code == 0


@ISOLATION
def test_temporary_files_lie_in_the_workspace(tmp_path, isolation) -> None:
    source = body("import tempfile", "handle, path = tempfile.mkstemp(prefix='kept')", "return {'summary': path}")
    launch = prepare(tmp_path, source, isolation=isolation)
    path = run(launch).completion.summary
    assert [file.name for file in launch.workspace.tmp.iterdir() if file.name.startswith("kept")] == [Path(path).name]
    assert not launch.workspace.short_tmp.is_symlink()


def test_the_record_tells_what_it_took(tmp_path) -> None:
    source = body(
        "held = b'x' * 2**27",
        "open(context['workspace']['output_dir'] + '/f', 'wb').write(b'x' * 2**21)",
        "end = __import__('time').process_time() + 0.3",
        "while __import__('time').process_time() < end: pass",
        "return {}",
    )
    record = run(prepare(tmp_path, source)).record
    assert record.peak_memory_bytes >= 2**27
    assert record.workspace_bytes >= 2**21
    assert record.cpu_seconds >= 0.3
    assert record.peak_processes == 1


def test_after_its_result_an_exit_handler_that_hangs_is_ended_and_the_result_stands(tmp_path) -> None:
    source = body("import atexit, time", "atexit.register(time.sleep, 600)", "return {'summary': 'done'}")
    end = run(prepare(tmp_path, source), linger_seconds=0.5)
    assert (end.completion.summary, end.record.ended_by_force) == ("done", True)


def test_files_that_are_closed_only_at_exit_are_whole(tmp_path) -> None:
    source = "held = []\n" + body(
        "held.append(open(context['workspace']['output_dir'] + '/f', 'w'))", "held[0].write('content')", "return {}"
    )
    launch = prepare(tmp_path, source)
    run(launch)
    assert (launch.workspace.output / "f").read_text() == "content"


def test_an_integer_of_any_length_reaches_the_package_and_comes_back_however_often_the_end_is_read(tmp_path) -> None:
    source = body(
        "model = {'task_kind': 'classification', 'class_names': ['a'], 'framework': 'none',",
        "         'preprocessing': context['parameters'], 'postprocessing': {}}",
        "return {'model': model}",
    )
    launch = prepare(tmp_path, source)
    launch = replace(launch, request=request_for(launch.request.execution_id, parameters={"seed": 2**70}))
    for _ in range(2):
        assert run(launch).completion.model.preprocessing == {"seed": 2**70}


def test_a_training_that_finished_is_not_run_again(tmp_path) -> None:
    launch = prepare(tmp_path, body("print('paid work')", "return {'summary': 'once'}"))
    first = run(launch)
    assert run(launch) == first
    assert launch.output_log.read_text() == "paid work\n"


def test_a_training_that_failed_runs_again_in_its_workspace(tmp_path) -> None:
    source = body(
        "import os",
        "marker = context['workspace']['output_dir'] + '/marker'",
        "if not os.path.exists(marker):",
        "    open(marker, 'w').close()",
        "    raise RuntimeError('first')",
        "return {'summary': 'second'}",
    )
    launch = prepare(tmp_path, source)
    with pytest.raises(PackageRaisedError):
        run(launch)
    assert run(launch).completion.summary == "second"


def test_cancelling_asks_first(tmp_path) -> None:
    source = body(
        "import signal, sys, time",
        "def stop(*_):",
        "    print('checkpoint written', flush=True)",
        "    sys.exit(0)",
        "signal.signal(signal.SIGTERM, stop)",
        "print('ready', flush=True)",
        "time.sleep(600)",
    )
    heard = Heard()
    launch = prepare(tmp_path, source)
    with pytest.raises(CancelledError) as caught:
        run(launch, heard=heard, cancelled=lambda: "ready" in heard.lines, grace_seconds=30)
    assert launch.output_log.read_text() == "ready\ncheckpoint written\n"
    assert caught.value.context["process"]["asked_to_end"] is True
    assert caught.value.context["process"]["ended_by_force"] is False


def test_what_is_cancelled_before_it_starts_never_starts(tmp_path) -> None:
    launch = prepare(tmp_path, body("print('ran')", "return {}"))
    with pytest.raises(CancelledError):
        run(launch, cancelled=lambda: True)
    assert not launch.output_log.exists()


def test_an_error_of_the_listener_ends_the_training_and_is_raised(tmp_path) -> None:
    pids = []

    def fail(pid: int) -> None:
        pids.append(pid)
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        run(prepare(tmp_path, body("import time; time.sleep(600)")), heard=Heard(fail))
    assert not Path(f"/proc/{pids[0]}").exists()


def test_two_trainings_in_one_workspace_do_not_happen(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("runtime.execution.process._LOCK_SECONDS", 0.2)
    launch = prepare(tmp_path, body("print('ready', flush=True)", "import time; time.sleep(600)"))
    heard = Heard()
    stop = threading.Event()
    ended: list[str] = []

    def first() -> None:
        try:
            train(launch, limits(), heard, stop.is_set)
        except CancelledError as error:
            ended.append(error.code)

    thread = threading.Thread(target=first)
    thread.start()
    try:
        while "ready" not in heard.lines:
            time.sleep(0.01)
        with pytest.raises(ExecutionBusyError):
            run(launch)
    finally:
        stop.set()
        thread.join(30)
    assert ended == ["cancelled"]


def test_a_python_that_never_reaches_the_first_line_is_the_runtime_s_fault(tmp_path) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(slow.stat().st_mode | stat.S_IXUSR)
    launch = prepare(tmp_path, body("return {}"), python=Python(slow, (3, 11), (slow,)))
    with pytest.raises(RuntimeUnavailableError, match=r"did not reach the package's first line within 0\.5 s"):
        run(launch, startup_seconds=0.5)


def test_a_python_that_cannot_start_is_the_runtime_s_fault(tmp_path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such library >&2\nexit 3\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    launch = prepare(tmp_path, body("return {}"), python=Python(broken, (3, 11), (broken,)))
    with pytest.raises(
        RuntimeUnavailableError, match="ended with exit code 3 before the package's first line: no such library"
    ):
        run(launch)


def test_the_record_says_that_nothing_is_isolated_when_nothing_is(tmp_path) -> None:
    record = run(prepare(tmp_path, body("return {}"), isolation="none")).record
    assert set(record.isolation.values()) == {NOT_ISOLATED}
    assert set(record.isolation) == {"network", "filesystem", "processes"} == set(record.isolation_refused)


def test_a_kernel_that_cannot_make_mounts_read_only_loses_no_more_than_that(tmp_path, monkeypatch) -> None:
    old = tmp_path / "supervisor.py"
    old.write_text(
        Path(supervisor.__file__)
        .read_text()
        .replace(
            "SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442",
            "SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 9999",
        )
    )
    monkeypatch.setattr("runtime.execution.process._SUPERVISOR", old)
    record = run(prepare(tmp_path, body("return {}"))).record
    assert (record.isolation["filesystem"], record.isolation["processes"]) == (NOT_ISOLATED, NOT_ISOLATED)
    assert (record.isolation["network"] == ISOLATED) == ("network" not in record.isolation_refused)


def test_a_defect_of_the_supervisor_is_ours(tmp_path, monkeypatch) -> None:
    broken = tmp_path / "supervisor.py"
    broken.write_text("raise SystemError('broken')\n")
    monkeypatch.setattr("runtime.execution.process._SUPERVISOR", broken)
    with pytest.raises(InternalError, match="the supervisor failed: SystemError: broken"):
        run(prepare(tmp_path, body("return {}")))


# --- what a machine that allows namespaces protects --------------------------------------------------------------------


@pytest.fixture
def isolated(tmp_path):
    """Answers the summary of a package that ran isolated; where this machine refuses, what it must say instead."""

    def answer(*lines: str, **changes) -> tuple[str | None, dict[str, str]]:
        end = run(prepare(tmp_path, body(*lines), **changes))
        return end.completion.summary, end.record.isolation

    return answer


def test_the_network_is_away_but_loopback_works(isolated) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        said, isolation = isolated(
            "import socket",
            "def reach(port):",
            "    try: socket.create_connection(('127.0.0.1', port), 2); return 'reached'",
            "    except OSError: return 'away'",
            "own = socket.create_server(('127.0.0.1', 0))",
            f"return {{'summary': reach({port}) + ' ' + reach(own.getsockname()[1])}}",
        )
    assert said == ("away reached" if isolation["network"] == ISOLATED else "reached reached")


def test_with_a_network_it_reaches_others_and_the_record_says_so(isolated) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        said, isolation = isolated(
            "import socket",
            f"socket.create_connection(('127.0.0.1', {ours.getsockname()[1]}), 2)",
            "return {'summary': 'reached'}",
            network=True,
        )
    assert (said, isolation["network"]) == ("reached", NOT_ISOLATED)


def test_hidden_places_are_empty(isolated, tmp_path) -> None:
    hidden = tmp_path / "installation"
    hidden.mkdir()
    (hidden / "secret").write_text("x")
    said, isolation = isolated(
        "import os",
        f"return {{'summary': str(os.path.exists({str(hidden / 'secret')!r}))}}",
        hidden=(hidden,),
    )
    assert said == str(isolation["filesystem"] == NOT_ISOLATED)


def test_the_runtime_s_own_folder_is_hidden(isolated, tmp_path) -> None:
    said, isolation = isolated(
        "import glob",
        "return {'summary': str(len(glob.glob(context['workspace']['root_dir'] + '.private/*')))}",
        hidden=(tmp_path / "workspaces",),
    )
    assert (said == "0") == (isolation["filesystem"] == ISOLATED)


def test_other_processes_are_not_seen(isolated) -> None:
    said, isolation = isolated(
        "import os", "return {'summary': str(len([name for name in os.listdir('/proc') if name.isdecimal()]))}"
    )
    assert (int(said or 0) == 2) == (isolation["processes"] == ISOLATED)


def test_it_has_no_privilege(isolated) -> None:
    said, _ = isolated(
        "fields = dict(line.split(':', 1) for line in open('/proc/self/status'))",
        "caps = {fields[n].strip() for n in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb')}",
        "return {'summary': ' '.join(sorted(caps)) + ' ' + fields['NoNewPrivs'].strip()}",
    )
    assert said == "0000000000000000 1"


def test_it_cannot_look_into_the_runtime(isolated, monkeypatch) -> None:
    monkeypatch.setenv("MTR_INTERNAL_TEST_CREDENTIAL", "very-secret-value")
    said, _ = isolated(
        "import os",
        "found = 0",
        f"for pid in {{os.getppid(), {os.getpid()}}}:",
        "    try: found += b'very-secret-value' in open(f'/proc/{pid}/environ', 'rb').read()",
        "    except OSError: pass",
        "return {'summary': str(found)}",
        isolation="none",
    )
    assert said == "0"


def test_descriptors_of_ours_do_not_reach_it(isolated, tmp_path) -> None:
    with (tmp_path / "ours").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        said, _ = isolated(
            "import os",
            "links = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{n}')]",
            "return {'summary': ' '.join(link for link in links if not link.startswith(('pipe:', '/dev/null', '/proc/')))}",
        )
    assert said == ""


def test_shared_memory_counts(tmp_path) -> None:
    source = body("open('/dev/shm/hoard', 'wb').write(b'x' * 2**26)", "import time; time.sleep(1)", "return {}")
    record = run(prepare(tmp_path, source)).record
    assert record.peak_memory_bytes >= 2**26 or record.isolation["filesystem"] == NOT_ISOLATED


def test_a_loader_s_shared_pages_are_counted_once(tmp_path) -> None:
    source = body(
        "import os, time",
        "held = b'x' * 2**27",
        "pids = []",
        "for _ in range(6):",
        "    pid = os.fork()",
        "    if pid == 0:",
        "        time.sleep(1); os._exit(0)",
        "    pids.append(pid)",
        "for pid in pids: os.waitpid(pid, 0)",
        "return {}",
    )
    assert run(prepare(tmp_path, source), memory_bytes=2**28).record.exit_code == 0


def test_a_model_input_lies_where_the_context_says(tmp_path) -> None:
    weights = tmp_path / "weights.pt"
    weights.write_text("weights")
    artifact = {
        "source": "uploaded_model_package",
        "object": {"bucket": "models", "object_key": "a/weights.pt", "sha256": "0" * 64, "size_bytes": 7},
        "format": "pt",
        "task_kind": "classification",
        "display_name": "start",
    }
    launch = prepare(tmp_path, body("return {'summary': open(context['model_input_path']).read()}"))
    launch = prepare(
        tmp_path,
        body("return {'summary': open(context['model_input_path']).read()}"),
        inputs={**launch.inputs, "model-input/weights.pt": weights},
    )
    request = request_for(
        launch.workspace.execution_id,
        model_input={"artifact": artifact, "mode": "initialize"},
        model_input_path="/workspace/input/model-input/weights.pt",
    )
    object.__setattr__(launch, "request", request)
    assert run(launch).completion.summary == "weights"


def test_it_is_all_in_the_journal(tmp_path) -> None:
    launch = prepare(
        tmp_path,
        body("report(event_type='phase', phase='fit')", "print('line')", "return {}"),
        output_log=tmp_path / "o",
    )
    with Journal.of(tmp_path / "executions", launch.workspace.execution_id) as journal:
        train(launch, limits(), journal.listener(), lambda: False)
    assert sorted(entry["kind"] for entry in journal.read()) == ["log", "output", "phase"]


def test_a_disk_that_is_nearly_full_ends_it_while_there_is_room_to_say_so(tmp_path) -> None:
    with pytest.raises(WorkspaceLimitError, match="the workspace's disk is full"):
        run(prepare(tmp_path, body("import time; time.sleep(600)")), min_free_disk_bytes=2**60)


def test_a_listener_without_room_is_a_full_disk(tmp_path) -> None:
    def fail(_pid: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(WorkspaceLimitError, match="No space left on device"):
        run(prepare(tmp_path, body("import time; time.sleep(600)")), heard=Heard(fail))


def test_a_kill_from_outside_is_told_as_one(tmp_path) -> None:
    heard = Heard(lambda pid: os.kill(pid, 9))
    with pytest.raises(KilledError, match="SIGKILL from outside") as caught:
        run(prepare(tmp_path, body("import time; time.sleep(600)")), heard=heard)
    assert caught.value.context["process"]["signal"] == "SIGKILL"


def test_this_python_runs_it(tmp_path) -> None:
    end = run(prepare(tmp_path, body("import sys", "return {'summary': sys.executable}")))
    assert end.completion.summary == sys.executable
