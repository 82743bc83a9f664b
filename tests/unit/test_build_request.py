"""From a package and data to a submission that may run, or to a refusal before anything does."""

from __future__ import annotations

import pytest

from contracts.admission import ExecutionPolicy
from contracts.errors import AdmissionError, InvalidDocumentError, NotFoundError, PolicyError, UsageError
from runtime.installation import Installation
from runtime.requests import (
    WantedResources,
    build_request,
    fill_resources,
    find_data,
    find_model_input,
    find_package,
    find_registered_model,
    repeat_submission,
)
from runtime.settings import Settings
from tests.assets.cli_inputs import write_class_folders, write_model_package, write_package

POLICY = ExecutionPolicy(execution_enabled=True, runtime_ids=("base",), allow_script_managed_data=True)


@pytest.fixture
def here(tmp_path):
    with Installation.open(Settings(home=tmp_path / "home", execution_enabled=True)) as installation:
        yield installation


@pytest.fixture
def data(here, tmp_path):
    return find_data(here, str(write_class_folders(tmp_path / "pets")))


@pytest.fixture
def kinds(data):
    return {
        "task_kind": data.snapshot.task_kind,
        "data_modalities": list(data.snapshot.data_modalities),
        "annotation_kinds": list(data.snapshot.annotation_kinds),
    }


@pytest.fixture
def counter(here, tmp_path, kinds):
    def store(**changes):
        folder = write_package(tmp_path / "counter", supported_tasks=[kinds], **changes)
        return find_package(here, str(folder), lambda _: None)

    return store


def build(package, data, **changes):
    arguments = {
        "package": package,
        "data": data,
        "parameters": {},
        "resources": fill_resources(WantedResources()),
        "policy": POLICY,
        "task_id": 7,
        **changes,
    }
    return build_request(**arguments)


def test_a_request_names_package_and_data_as_people_know_them(counter, data) -> None:
    assert build(counter(), data).label == "counter 0.1.0 on pets"


def test_a_request_pins_everything(counter, data) -> None:
    package = counter()
    submission = build(package, data).submission
    assert submission.package_archive.pinned() == package.archive
    assert submission.dataset_source_snapshot.pinned() == data.object
    assert submission.task.task_id == 7
    assert submission.task.task_kind == "classification"


def test_two_requests_are_two_executions(counter, data) -> None:
    package = counter()
    assert build(package, data).submission.execution_id != build(package, data).submission.execution_id


def test_an_edited_package_runs_without_a_new_version(counter, data) -> None:
    first = build(counter(), data).submission
    second = build(counter(name="Edited"), data).submission
    assert first.package.version == second.package.version
    assert first.package.sha256 != second.package.sha256


def test_a_stored_package_is_not_stored_again(counter) -> None:
    assert (counter().created, counter().created) == (True, False)


def test_data_that_is_stored_is_not_new(here, tmp_path, data) -> None:
    again = find_data(here, str(tmp_path / "pets"))
    assert (data.created, again.created, again.uploaded_items) == (True, False, 0)
    assert again.object == data.object


def test_parameters_that_break_the_schema_are_refused_with_every_path(counter, data) -> None:
    with pytest.raises(AdmissionError) as caught:
        build(counter(), data, parameters={"epochs": 0, "colour": "red"})
    assert len(caught.value.context["violations"]) == 2


def test_policy_is_asked_before_anything_else_is_compared(counter, data) -> None:
    with pytest.raises(PolicyError, match=r"model-training-runtime\.execution\.enabled is false"):
        build(counter(), data, policy=ExecutionPolicy(), parameters={"epochs": 0})


def test_a_package_that_needs_data_says_so(counter) -> None:
    with pytest.raises(UsageError) as caught:
        build(counter(), None)
    assert "--data" in caught.value.hint


def test_a_script_managed_run_takes_its_class_names_from_the_command_line(counter) -> None:
    submission = build(counter(input_modes=["script_managed"]), None, class_names=("car", "bus")).submission
    assert submission.input_mode == "script_managed"
    assert submission.script_dataset.class_names == ("car", "bus")


def test_a_script_managed_run_takes_its_class_names_from_the_manifest_otherwise(counter) -> None:
    package = counter(input_modes=["script_managed"], class_names=["a", "b"])
    assert build(package, None).submission.script_dataset.class_names == ("a", "b")


def test_class_names_beside_data_are_refused(counter, data) -> None:
    with pytest.raises(UsageError, match="--class-names"):
        build(counter(), data, class_names=("cat", "dog"))


def test_a_choice_of_task_kinds_must_be_made(here, tmp_path, kinds) -> None:
    tasks = [kinds, {**kinds, "task_kind": "detection"}]
    folder = write_package(tmp_path / "many", supported_tasks=tasks, input_modes=["script_managed"])
    package = find_package(here, str(folder), lambda _: None)
    with pytest.raises(UsageError, match="classification, detection"):
        build(package, None)
    assert build(package, None, task_kind="detection").submission.task.task_kind == "detection"


def test_data_makes_the_choice_of_the_task_kind(here, tmp_path, kinds, data) -> None:
    tasks = [{**kinds, "task_kind": "detection"}, kinds]
    package = find_package(here, str(write_package(tmp_path / "many", supported_tasks=tasks)), lambda _: None)
    assert build(package, data).submission.task.task_kind == "classification"


def test_resources_out_of_range_are_refused(counter, data) -> None:
    resources = fill_resources(WantedResources()) | {"cpu_cores": 257}
    with pytest.raises(InvalidDocumentError, match=r"resources\.cpu_cores"):
        build(counter(), data, resources=resources)


@pytest.mark.parametrize("source", ["gone", "gone.zip", "counter@0.1.0", "Counter@x"])
def test_a_package_that_is_nowhere_is_not_found(here, source: str) -> None:
    with pytest.raises(NotFoundError):
        find_package(here, source, lambda _: None)


def test_a_registered_version_is_found_by_its_name(here, tmp_path) -> None:
    zipped = write_package(tmp_path / "counter")
    stored = find_package(here, str(zipped), lambda _: None)
    from runtime.requests import packed  # noqa: PLC0415

    with packed(zipped, lambda _: None) as archive:
        here.packages.register(archive, archive_name="counter.zip")
    assert find_package(here, "counter@0.1.0", lambda _: None).archive == stored.archive


def test_packing_says_what_it_leaves_out(here, tmp_path) -> None:
    folder = write_package(tmp_path / "counter")
    (folder / "requirements.txt").write_text("numpy")
    said: list[str] = []
    find_package(here, str(folder), said.append)
    assert any("requirements.txt" in line for line in said)


def test_a_model_package_starts_a_training(here, tmp_path) -> None:
    archive = write_model_package(tmp_path / "start.zip")
    given = find_model_input(here, str(archive), resume=False)
    assert given["mode"] == "initialize"
    assert given["artifact"]["source"] == "uploaded_model_package"
    assert given["artifact"]["framework"] == "numpy"


def test_a_model_package_resumes_a_training(here, tmp_path) -> None:
    archive = write_model_package(tmp_path / "start.zip")
    sha256 = here.model_packages.register(archive, archive_name="start.zip").archive.sha256
    given = find_model_input(here, sha256, resume=True)
    assert given["mode"] == "resume"
    assert given["artifact"]["resume_supported"] is True


def test_resuming_without_a_checkpoint_is_refused(here, tmp_path) -> None:
    archive = write_model_package(tmp_path / "start.zip", resume_checkpoint_path=None)
    with pytest.raises(UsageError, match="no resume checkpoint"):
        find_model_input(here, str(archive), resume=True)


def test_an_unknown_model_is_not_found(here) -> None:
    with pytest.raises(NotFoundError):
        find_model_input(here, "yolo11n", resume=False)


def test_a_repeated_submission_is_a_new_execution_of_the_same(counter, data) -> None:
    earlier = build(counter(), data).submission
    repeated = repeat_submission(earlier.to_document(), memory="2GiB", timeout=None, cpus=None, gpus=None)
    assert repeated.execution_id != earlier.execution_id
    assert repeated.resources.memory_bytes == 2 * 1024**3
    same = {"parameters", "package", "package_archive", "task", "dataset_source_snapshot"}
    assert repeated.model_dump(include=same) == earlier.model_dump(include=same)


def test_a_repeated_submission_refuses_what_the_contract_does_not_allow(counter, data) -> None:
    earlier = build(counter(), data).submission.to_document()
    with pytest.raises(UsageError, match="--cpus is 0"):
        repeat_submission(earlier, memory=None, timeout=None, cpus=0, gpus=None)


def test_an_empty_text_never_means_the_current_folder(here, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(write_package(tmp_path / "counter"))
    with pytest.raises(UsageError, match="PACKAGE is empty"):
        find_package(here, "", lambda _: None)
    with pytest.raises(UsageError, match="--data is empty"):
        find_data(here, " ")
    with pytest.raises(UsageError, match="--model is empty"):
        find_model_input(here, "", resume=False)


@pytest.mark.parametrize("version", ["", "x", "-1", "9" * 30])
def test_what_is_no_version_of_a_model_is_refused(here, version: str) -> None:
    with pytest.raises(UsageError, match="no version number"):
        find_registered_model(here, f"digits@{version}")
