from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from contracts.base import validate
from contracts.errors import GpuUnavailableError, RuntimeUnavailableError
from contracts.submission import Resources
from runtime.execution.environment import Python, child_environment, find_python, gpus_of, require_gpus
from runtime.execution.workspace import Workspace
from runtime.settings import Settings

EXECUTION = "5b9e3c1e-0000-4000-8000-000000000001"


def settings(tmp_path, **runtimes: Path) -> Settings:
    return Settings(home=tmp_path, runtimes=runtimes)


def program(tmp_path, content: str) -> Path:
    path = tmp_path / "python"
    path.write_text(content)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def environment(tmp_path, *, network: bool = False, environ=None, **resources) -> dict[str, str]:
    return child_environment(
        Workspace(tmp_path, EXECUTION, 1),
        Python(Path("/opt/py/bin/python"), (3, 11), ()),
        validate(Resources, resources),
        network=network,
        environ=environ or {},
    )


def test_the_base_runtime_is_our_own_python(tmp_path) -> None:
    python = find_python("base", settings(tmp_path))
    assert (python.path, python.version) == (Path(sys.executable), sys.version_info[:2])


def test_a_virtual_environment_is_not_resolved_to_what_it_links_to(tmp_path) -> None:
    assert find_python("base", settings(tmp_path)).path == Path(sys.executable)


def test_a_missing_runtime_is_named_with_its_remedy(tmp_path) -> None:
    with pytest.raises(RuntimeUnavailableError, match=r"no Python is configured for runtime 'torch'.*base") as caught:
        find_python("torch", settings(tmp_path))
    assert '[runtimes] "torch" = ' in caught.value.hint


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("#!/bin/sh\necho no module >&2; exit 1\n", "does not start: no module"),
        ("#!/bin/sh\necho hello\n", "is no Python"),
        ('#!/bin/sh\necho \'{"version": [3, 8], "places": []}\'\n', "is Python 3.8; packages need 3.9 or later"),
        ("not a program", "is no Python"),
    ],
)
def test_a_python_that_does_not_work_is_refused(tmp_path, content, says) -> None:
    with pytest.raises(RuntimeUnavailableError, match=says):
        find_python("broken", settings(tmp_path, broken=program(tmp_path, content)))


def test_a_python_that_is_not_there_is_refused(tmp_path) -> None:
    with pytest.raises(RuntimeUnavailableError, match="cannot be found: No such file"):
        find_python("gone", settings(tmp_path, gone=tmp_path / "nothing"))


@pytest.mark.parametrize(
    "name",
    [
        "S3_SECRET_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "PREFECT_API_KEY",
        "MTR_DATABASE_URL",
        "SSH_AUTH_SOCK",
        "PYTHONPATH",
        "HF_TOKEN",
    ],
)
def test_no_credential_reaches_a_package(tmp_path, name) -> None:
    assert name not in environment(tmp_path, environ={name: "secret"}, network=True)


def test_home_is_in_the_workspace(tmp_path) -> None:
    assert environment(tmp_path)["HOME"] == f"{tmp_path}/{EXECUTION}/1/home"


def test_the_temporary_folder_has_a_short_name(tmp_path) -> None:
    # multiprocessing adds 33 bytes to it, and a socket's path has at most 108
    assert len(environment(tmp_path)["TMPDIR"]) < 108 - 33


def test_libraries_start_as_many_threads_as_there_are_cores(tmp_path) -> None:
    assert environment(tmp_path, cpu_cores=3.5)["OMP_NUM_THREADS"] == "3"


def test_less_than_a_core_is_one_thread(tmp_path) -> None:
    assert environment(tmp_path, cpu_cores=0.5)["OMP_NUM_THREADS"] == "1"


def test_a_cpu_training_sees_no_gpu(tmp_path) -> None:
    assert environment(tmp_path, environ={"CUDA_VISIBLE_DEVICES": "0,1"})["CUDA_VISIBLE_DEVICES"] == ""


def test_a_gpu_training_sees_as_many_as_it_asked_for(tmp_path) -> None:
    assert environment(tmp_path, device="cuda", gpu_count=2)["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_of_the_gpus_given_to_us_it_sees_the_first(tmp_path) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "3, GPU-aa,5"}
    made = environment(tmp_path, device="cuda", gpu_count=2, environ=environ)
    assert made["CUDA_VISIBLE_DEVICES"] == "3,GPU-aa"


def test_the_way_to_the_network_is_told_only_with_a_network(tmp_path) -> None:
    environ = {"https_proxy": "http://proxy:3128"}
    assert "https_proxy" not in environment(tmp_path, environ=environ)
    assert environment(tmp_path, environ=environ, network=True)["https_proxy"] == "http://proxy:3128"


def test_a_proxy_with_a_password_is_not_told(tmp_path) -> None:
    environ = {"https_proxy": "http://me:word@proxy:3128"}
    assert "https_proxy" not in environment(tmp_path, environ=environ, network=True)


def test_no_library_of_a_package_reports_to_its_vendor(tmp_path) -> None:
    assert environment(tmp_path, network=True)["ORT_DISABLE_TELEMETRY"] == "1"


@pytest.mark.parametrize(
    ("devices", "visible", "found"),
    [
        (["null", "nvidiactl", "nvidia-uvm"], None, 0),
        (["nvidia0", "nvidia1", "nvidiactl"], None, 2),
        (["nvidia0", "nvidia1"], "1", 1),
        (["nvidia0"], "", 0),
        (["nvidia0"], "-1", 0),
        (["nvidia0", "nvidia1"], "0,-1,1", 1),
        (["nvidia0"], "MIG-a, MIG-b", 2),
        (["null"], "0,1", 0),
        (["kfd"], None, None),
        (["dxg"], "0", 1),
    ],
)
def test_gpus_are_counted_by_their_devices_and_what_we_were_given(tmp_path, devices, visible, found) -> None:
    for name in devices:
        (tmp_path / name).touch()

    assert gpus_of({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}, tmp_path) == found


def test_more_gpus_than_there_are_are_refused_with_what_to_do(tmp_path) -> None:
    with pytest.raises(GpuUnavailableError, match="2 GPU wanted, and this machine has 1") as refused:
        require_gpus(2, Settings(home=tmp_path, gpus=1))

    assert "gpu_pool" in refused.value.hint


def test_a_training_without_gpus_needs_none(tmp_path) -> None:
    require_gpus(0, Settings(home=tmp_path, gpus=0))


def test_as_many_gpus_as_the_operator_says_there_are_may_be_had(tmp_path) -> None:
    require_gpus(2, Settings(home=tmp_path, gpus=2))
