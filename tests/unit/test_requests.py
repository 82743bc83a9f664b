"""From typed text to a submission."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import NotFoundError, UsageError
from contracts.limits import GIB, MIB
from runtime.requests import (
    WantedResources,
    existing_path,
    fill_resources,
    machine_cores,
    machine_memory_bytes,
    read_document,
    read_duration,
    read_names,
    read_parameter,
    read_parameters,
    read_size,
    read_versioned,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("8GiB", 8 * GIB), ("8gib", 8 * GIB), ("512M", 512 * MIB), ("1.5 GiB", 3 * GIB // 2), ("2GB", 2_000_000_000), ("1024", 1024)],
)  # fmt: skip
def test_a_size_is_read_with_its_unit(text: str, size_bytes: int) -> None:
    assert read_size(text, "--memory") == size_bytes


@pytest.mark.parametrize("text", ["", "GiB", "8 GiBs", "-1GiB", "0", "0.2", "8GiB\n8GiB", "1e9", "٣GiB"])
def test_what_is_no_size_is_refused_with_the_option_named(text: str) -> None:
    with pytest.raises(UsageError, match="--memory"):
        read_size(text, "--memory")


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("1.5h", 5400), ("2d", 172_800)])
def test_a_time_is_read_with_its_unit(text: str, seconds: int) -> None:
    assert read_duration(text, "--timeout") == seconds


def test_what_is_no_time_is_refused_with_an_example() -> None:
    with pytest.raises(UsageError) as caught:
        read_duration("soon", "--timeout")
    assert "1h" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("epochs=3", 3),
        ("rate=0.5", 0.5),
        ("on=true", True),
        ("note=hello world", "hello world"),
        ("sizes=[1, 2]", [1, 2]),
        ("empty=", ""),
        ("equation=a=b", "a=b"),
        ("none=NaN", "NaN"),
    ],
)
def test_a_parameter_is_json_where_it_can_be_and_text_otherwise(text: str, value: object) -> None:
    assert read_parameter(text) == (text.partition("=")[0], value)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.none() | st.booleans() | st.integers() | st.text()
    )
)
def test_every_json_value_survives_being_given_as_a_parameter(values: dict[str, object]) -> None:
    given_texts = [f"{name}={json.dumps(value)}" for name, value in values.items()]
    assert read_parameters(given_texts, None) == values


def test_a_parameter_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="'=3'"):
        read_parameter("=3")


def test_a_parameter_on_the_command_line_replaces_the_one_of_the_file(tmp_path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"epochs": 5, "rate": 0.1}')
    assert read_parameters(["epochs=7"], file) == {"epochs": 7, "rate": 0.1}


def test_parameters_may_be_yaml(tmp_path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text("epochs: 5\nlayers: [8, 8]\n")
    assert read_parameters([], file) == {"epochs": 5, "layers": [8, 8]}


@pytest.mark.parametrize(
    ("name", "content"), [("a.json", "[1]"), ("a.yaml", "- 1"), ("b.yaml", "{"), ("c.yaml", "1: 2")]
)
def test_a_parameter_file_without_an_object_is_refused(tmp_path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(UsageError, match="--params"):
        read_parameters([], file)


def test_class_names_keep_their_order() -> None:
    assert read_names("car, bus,van") == ("car", "bus", "van")


def test_a_blank_class_name_is_refused() -> None:
    with pytest.raises(UsageError, match="blank"):
        read_names("car,,bus")


def test_a_version_is_recognised() -> None:
    assert read_versioned("digits@0.1.0") == ("digits", "0.1.0")


@pytest.mark.parametrize("text", ["digits", "Digits@1", "@1.0.0", "./digits@1.0.0"])
def test_what_is_no_version_is_none(text: str) -> None:
    assert read_versioned(text) is None


def test_a_file_that_is_not_there_is_named(tmp_path) -> None:
    with pytest.raises(NotFoundError, match=r"gone\.json"):
        read_document(tmp_path / "gone.json")


def test_a_folder_is_no_document(tmp_path) -> None:
    with pytest.raises(NotFoundError, match="cannot be read"):
        read_document(tmp_path)


def test_a_document_over_the_limit_is_not_read_to_its_end(tmp_path) -> None:
    file = tmp_path / "big.json"
    file.write_bytes(bytes(100))
    with pytest.raises(UsageError, match="larger than 99"):
        read_document(file, max_bytes=99)


def test_a_path_that_is_not_there_is_refused(tmp_path) -> None:
    with pytest.raises(NotFoundError):
        existing_path(tmp_path / "gone")


def test_what_nobody_asked_for_is_the_machines() -> None:
    filled = fill_resources(WantedResources())
    assert filled == {
        "device": "cpu",
        "gpu_count": 0,
        "cpu_cores": machine_cores(),
        "memory_bytes": int(machine_memory_bytes() * 0.8),
        "timeout_seconds": 86_400,
    }


def test_what_was_asked_for_is_kept() -> None:
    wanted = WantedResources(device="cuda", gpus=2, cpus=1.5, memory="2GiB", timeout="30m")
    assert fill_resources(wanted) == {
        "device": "cuda",
        "gpu_count": 2,
        "cpu_cores": 1.5,
        "memory_bytes": 2 * GIB,
        "timeout_seconds": 1800,
    }


def test_gpus_alone_mean_cuda() -> None:
    assert fill_resources(WantedResources(gpus=1))["device"] == "cuda"


def test_cuda_alone_means_one_gpu() -> None:
    assert fill_resources(WantedResources(device="cuda"))["gpu_count"] == 1


@pytest.mark.parametrize("wanted", [WantedResources(device="cpu", gpus=1), WantedResources(device="cuda", gpus=0)])
def test_device_and_gpus_must_agree(wanted: WantedResources) -> None:
    with pytest.raises(UsageError, match="contradict"):
        fill_resources(wanted)


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(UsageError, match="'tpu'"):
        fill_resources(WantedResources(device="tpu"))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (WantedResources(cpus=257), "--cpus is 257, must be at most 256"),
        (WantedResources(cpus=float("nan")), "--cpus is not a finite number"),
        (WantedResources(gpus=-1), "--gpus is -1, must be at least 0"),
        (WantedResources(timeout="8d"), "--timeout is 691200, must be at most 604800"),
        (WantedResources(memory="9999999TiB"), "--memory is "),
    ],
)
def test_what_the_contract_does_not_allow_is_said_of_the_option(wanted: WantedResources, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        fill_resources(wanted)


def test_a_number_beyond_all_numbers_is_no_size() -> None:
    with pytest.raises(UsageError, match="--memory"):
        read_size("9" * 400 + "GiB", "--memory")


def test_a_class_name_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="'car' twice"):
        read_names("car,bus, car")
