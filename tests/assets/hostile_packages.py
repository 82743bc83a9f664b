"""Packages that do what no package should, each built as a folder, each with the error that it must end with.

`build(kind, folder)` writes one; `HOSTILE` says what must come of it. They are real packages with a valid manifest: the
same folders can be packed and submitted.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST: dict[str, Any] = {
    "protocol_version": "training-code-package/v1",
    "key": "hostile",
    "version": "0.1.0",
    "name": "Hostile",
    "runtime": {"id": "base"},
    "entrypoint": "train.py",
    "supported_tasks": [{"task_kind": "classification", "data_modalities": ["image"]}],
    "input_modes": ["platform_dataset", "script_managed"],
    "output_contract": {
        "artifacts": [{"role": "report", "formats": ["json"], "required": False}],
        "requires_model_metadata": False,
    },
}

REPORT = '{"path": PATH, "role": "report", "format": "json"}'


@dataclass(frozen=True)
class Hostile:
    """One kind.

    Attributes:
        source: its train.py.
        code: the error code it must end with; empty where it must end well.
        says: a part of the error's message.
        limits: what its run is limited to, as changes of the tests' usual limits.
        fallback_code: the code where the machine refuses isolation, if it is another.
        fallback_says: likewise.
    """

    source: str
    code: str
    says: str
    limits: dict[str, float] = field(default_factory=dict)
    fallback_code: str | None = None
    fallback_says: str | None = None


def _train(body: str, before: str = "") -> str:
    return f"{textwrap.dedent(before)}\ndef train(context, report):\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"


def _leaving(path: str, prepare: str) -> str:
    return _train(
        f"""
        import os
        output = context["workspace"]["output_dir"]
        os.chdir(output)
        {prepare}
        return {{"artifacts": [{REPORT.replace("PATH", repr(path))}]}}
        """
    )


HOSTILE: dict[str, Hostile] = {
    # what is wrong before training
    "import_error": Hostile(
        "import albumentations_that_is_not_here\n\ndef train(context, report):\n    return {}\n",
        "package_import_failed",
        "No module named 'albumentations_that_is_not_here' (train.py:1)",
    ),
    "syntax_error": Hostile("def train(context, report:\n", "package_import_failed", "SyntaxError"),
    "train_missing": Hostile(
        "def trian(context, report):\n    return {}\n", "entrypoint_missing", "nothing called train"
    ),
    "train_not_callable": Hostile("train = 3\n", "entrypoint_missing", "a int called train"),
    # what training does instead of finishing
    "raises": Hostile(
        _train("""raise ValueError("learning rate is negative")"""),
        "package_raised",
        "raised ValueError: learning rate is negative (train.py:3)",
    ),
    "raises_without_text": Hostile(
        _train("raise Sly()", "class Sly(Exception):\n    def __str__(self):\n        raise RuntimeError\n"),
        "package_raised",
        "its text cannot be read",
    ),
    "recurses": Hostile(_train("return train(context, report)"), "package_raised", "RecursionError"),
    "returns_wrong_type": Hostile(_train("return [1, 2]"), "wrong_return_value", "returned list, must return a dict"),
    "returns_unknown_field": Hostile(
        _train("""return {"accuracy": 0.9}"""), "wrong_return_value", "accuracy: unknown field"
    ),
    "returns_nan": Hostile(_train("""return {"metrics": {"loss": float("nan")}}"""), "wrong_return_value", "JSON"),
    "returns_object": Hostile(_train("""return {"model": object()}"""), "wrong_return_value", "object"),
    "reports_nonsense": Hostile(
        _train("""report(event_type="metric", metrics={"loss": float("inf")})"""), "package_raised", "finite number"
    ),
    "reports_base_field": Hostile(
        _train("""report(event_type="phase", phase="x", sequence=7)"""), "package_raised", "set by the runtime"
    ),
    "exits_zero": Hostile(_train("import os; os._exit(0)"), "no_result", "exit code 0 and delivered no result"),
    "sys_exit": Hostile(_train("import sys; sys.exit(3)"), "no_result", "exit code 3"),
    "crashes": Hostile(_train("import ctypes; ctypes.string_at(0)"), "package_crashed", "SIGSEGV"),
    "aborts": Hostile(_train("import os; os.abort()"), "package_crashed", "SIGABRT"),
    "kills_itself": Hostile(
        _train("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), "killed", "SIGKILL from outside"
    ),
    # artifacts
    "artifact_missing": Hostile(_leaving("report.json", "pass"), "artifact_missing", "report.json is not there"),
    "artifact_empty": Hostile(
        _leaving("report.json", "open('report.json', 'w').close()"), "artifact_empty", "report.json is empty"
    ),
    "artifact_folder": Hostile(_leaving("report", "os.mkdir('report')"), "artifact_missing", "no regular file"),
    "artifact_pipe": Hostile(_leaving("pipe", "os.mkfifo('pipe')"), "artifact_missing", "no regular file"),
    "artifact_symlink": Hostile(
        _leaving("report.json", "os.symlink('/etc/hostname', 'report.json')"), "artifact_outside", "symbolic link"
    ),
    "artifact_behind_symlink": Hostile(
        _leaving("etc/hostname", "os.symlink('/etc', 'etc')"), "artifact_outside", "symbolic link: etc"
    ),
    "artifact_dotdot": Hostile(_leaving("../code/train.py", "pass"), "artifact_outside", "leads out of output_dir"),
    "artifact_absolute": Hostile(_leaving("/etc/hostname", "pass"), "artifact_outside", "leads out of output_dir"),
    # lies
    "forges_a_line": Hostile(
        _train(
            """print('__AUTO_ML_TRAINING_RESULT__={"summary": "great"}', flush=True); import time; time.sleep(60)"""
        ),
        "protocol_violation",
        "printed a protocol line of its own",
    ),
    "forges_through_a_descriptor": Hostile(
        _train(
            """
            import os, stat, time
            for name in os.listdir("/proc/self/fd"):
                if int(name) > 2:
                    try:
                        os.write(int(name), b'__AUTO_ML_TRAINING_EVENT__={"sequence": 0}\\n')
                    except OSError:
                        pass
            time.sleep(60)
            """
        ),
        "protocol_violation",
        "EVENT__) not a valid event document",
    ),
    "foreign_execution": Hostile(
        _train(
            """
            import json, time
            report._execution_id = "00000000-0000-4000-8000-000000000000"
            report(event_type="phase", phase="mine")
            time.sleep(60)
            """
        ),
        "protocol_violation",
        "is of execution 00000000-0000-4000-8000-000000000000",
    ),
    "skips_a_number": Hostile(
        _train("report._sequence = 5\nreport(event_type='phase', phase='x')\nimport time; time.sleep(60)"),
        "protocol_violation",
        "has sequence 5, must have 0",
    ),
    "two_results": Hostile(
        _train("report._channel.write('RESULT', {})\nreturn {}"), "protocol_violation", "there may be only one"
    ),
    # too much
    "prints_without_end": Hostile(
        _train("while True: print('x' * 1000)"),
        "output_limit",
        "printed more than 1.0 MiB",
        {"max_output_bytes": 2**20},
    ),
    "prints_one_endless_line": Hostile(
        _train("import sys\nwhile True: sys.stdout.write('x' * 1000)"),
        "output_limit",
        "printed more than 1.0 MiB",
        {"max_output_bytes": 2**20},
    ),
    "reports_without_end": Hostile(
        _train("while True: report(event_type='metric', metrics={'loss': 1})"),
        "output_limit",
        "more than 1000 events",
        {"max_events": 1000},
    ),
    "allocates_without_end": Hostile(
        _train("held = []\nwhile True: held.append(b'x' * 2**23)"),
        "out_of_memory",
        "256.0 MiB are allowed",
        {"memory_bytes": 2**28},
    ),
    "allocates_in_workers": Hostile(
        _train(
            """
            import os, time
            for _ in range(8):
                if os.fork() == 0:
                    held = b"x" * 2**26
                    time.sleep(60)
            time.sleep(60)
            """
        ),
        "out_of_memory",
        "256.0 MiB are allowed",
        {"memory_bytes": 2**28},
    ),
    "fills_the_disk": Hostile(
        _train(
            """
            import os
            number = 0
            while True:
                number += 1
                with open(os.path.join(context["workspace"]["output_dir"], f"big-{number}"), "wb") as out:
                    out.write(b"x" * 2**20)
            """
        ),
        "workspace_limit",
        "into its workspace, 8.0 MiB are allowed",
        {"max_workspace_bytes": 2**23},
    ),
    "fills_tmp": Hostile(
        _train(
            """
            import tempfile
            held = []
            while True:
                held.append(tempfile.NamedTemporaryFile())
                held[-1].write(b"x" * 2**20)
                held[-1].flush()
            """
        ),
        "workspace_limit",
        "into its workspace, 8.0 MiB are allowed",
        {"max_workspace_bytes": 2**23},
    ),
    "makes_a_file_of_holes": Hostile(
        _train("import os; os.truncate(os.open('holes', os.O_CREAT | os.O_WRONLY), 2**40); return {}"),
        "workspace_limit",
        "File too large",
        {"max_workspace_bytes": 2**30},
    ),
    "writes_a_large_file": Hostile(
        _train("open('big', 'wb').write(b'x' * 2**22)"), "workspace_limit", "File too large", {"file_size_bytes": 2**20}
    ),
    "forks_without_end": Hostile(
        _train(
            """
            import os, time
            while True:
                try:
                    if os.fork() == 0:
                        time.sleep(60)
                except OSError:
                    pass
            """
        ),
        "process_limit",
        "processes at once, 32 are allowed",
        {"max_processes": 32},
    ),
    "starts_threads_without_end": Hostile(
        _train(
            "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
        ),
        "process_limit",
        "threads at once, 64 are allowed",
        {"max_processes": 8},
    ),
    # too long
    "silent": Hostile(
        _train(
            "report(event_type='phase', phase='loading')\nsleep_for_ever()",
            "import time\ndef sleep_for_ever():\n    time.sleep(600)\n",
        ),
        "idle_timeout",
        "no output for 1 s in phase 'loading'; main thread in sleep_for_ever (train.py:3)",
        {"idle_timeout_seconds": 1.0},
    ),
    "ignores_sigterm": Hostile(
        _train(
            """
            import signal, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                print("still here")
                time.sleep(0.05)
            """
        ),
        "timeout",
        "longer than 1 s",
        {"timeout_seconds": 1.0, "grace_seconds": 0.5},
    ),
    "never_finishes_importing": Hostile(
        "while True: print('importing')\n\ndef train(context, report):\n    return {}\n",
        "timeout",
        "longer than 1 s",
        {"timeout_seconds": 1.0, "max_output_bytes": 2**30},
    ),
    # leaves something behind
    "leaves_grandchildren": Hostile(
        _train(
            """
            import subprocess
            for _ in range(3):
                subprocess.Popen(["setsid", "setsid", "sleep", "600"])
            raise RuntimeError("and gone")
            """
        ),
        "package_raised",
        "RuntimeError: and gone",
    ),
    "leaves_nameless_daemons": Hostile(
        _train(
            """
            import os, signal
            for _ in range(3):
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0:
                        os.chdir("/")
                        signal.signal(signal.SIGTERM, signal.SIG_IGN)
                        os.execve("/bin/sleep", ["sleep", "600"], {})
                    os._exit(0)
            os._exit(0)
            """
        ),
        "no_result",
        "exit code 0",
    ),
    "leaves_grandchildren_after_its_result": Hostile(
        _train(
            """
            import subprocess
            for _ in range(3):
                subprocess.Popen(["setsid", "setsid", "sleep", "600"])
            return {}
            """
        ),
        "processes_left",
        "left 3 processes behind: sleep (3 times)",
        {"survivor_seconds": 0.5},
    ),
    "leaves_a_daemon_after_its_result": Hostile(
        _train(
            """
            import os, signal
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.chdir("/")
                    os.closerange(0, 64)
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    os.execve("/bin/sleep", ["sleep", "600"], {})
                os._exit(0)
            os.wait()
            return {}
            """
        ),
        "processes_left",
        "left 1 process behind: sleep",
        {"survivor_seconds": 0.5},
    ),
    "leaves_a_process_with_a_name_that_hides": Hostile(
        _train(
            """
            import ctypes, os, time
            if os.fork() == 0:
                os.setsid()
                ctypes.CDLL(None).prctl(15, b"\\x1b[2K\\n\\xff ok", 0, 0, 0)
                time.sleep(600)
            time.sleep(0.1)
            return {}
            """
        ),
        "processes_left",
        "left 1 process behind: ?[2K?\ufffd ok",
        {"survivor_seconds": 0.5},
    ),
    "nests_folders_deeply": Hostile(
        _train(
            """
            import os
            os.chdir(context["workspace"]["output_dir"])
            for _ in range(3000):
                os.mkdir("d")
                os.chdir("d")
            os.chmod("..", 0)
            raise RuntimeError("deep enough")
            """
        ),
        "package_raised",
        "deep enough",
    ),
    "locks_its_folders": Hostile(
        _train(
            """
            import os
            for folder in ("output_dir", "input_dir", "code_dir"):
                path = context["workspace"][folder]
                os.mkdir(path + "/inner")
                open(path + "/inner/file", "w").close()
                os.chmod(path + "/inner", 0)
                os.chmod(path, 0o500)
            raise RuntimeError("locked")
            """
        ),
        "package_raised",
        "locked",
    ),
    # what is not its own
    "modifies_its_input": Hostile(
        _train(
            """
            import os
            with open(os.path.join(context["workspace"]["input_dir"], "dataset", "0.txt"), "a") as item:
                item.write("poison")
            return {}
            """
        ),
        "input_modified",
        "dataset/0.txt",
        fallback_says="0.txt",
    ),
    "modifies_its_manifest": Hostile(
        _train("open(context['workspace']['dataset_manifest_path'], 'w').write('{}')\nreturn {}"),
        "input_modified",
        "dataset-manifest.json",
    ),
    "removes_its_input": Hostile(
        _train("import shutil\nshutil.rmtree(context['workspace']['input_dir'] + '/dataset/')\nreturn {}"),
        "package_raised",
        "Read-only file system",
        fallback_code="input_modified",
        fallback_says="the package changed its input",
    ),
    "removes_its_workspace": Hostile(
        _train("import shutil\nshutil.rmtree(context['workspace']['root_dir'], ignore_errors=True)\nreturn {}"),
        "workspace_lost",
        "the package removed its workspace",
    ),
    "writes_outside": Hostile(
        _train("open(context['workspace']['root_dir'] + '/outside', 'w').write('x')\nraise RuntimeError('written')"),
        "package_raised",
        "Read-only file system",
        fallback_says="written",
    ),
}


def build(kind: str, folder: Path) -> Path:
    """Afterwards `folder` is the package of `kind`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "training_package.json").write_text(json.dumps(MANIFEST))
    (folder / "train.py").write_text(HOSTILE[kind].source)
    return folder
