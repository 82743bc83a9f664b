"""Each example's ZIP, unpacked and run as an execution runs it: in a process that is not trusted."""

from __future__ import annotations

import json

import pytest

from contracts.admission import admit_result
from examples.build import build
from runtime.archive.extraction import extract
from runtime.archive.inspection import inspect_package
from runtime.execution.artifacts import verify_artifacts
from runtime.execution.environment import find_python
from runtime.execution.launch import Launch, ProcessLimits
from runtime.execution.process import train
from runtime.execution.workspace import Workspace
from runtime.onnx.inspection import inspect_model
from runtime.settings import load_settings
from tests.assets.example_runs import EXECUTION_ID, image_items, request_of

DIGITS = [str(digit) for digit in range(10)]


class Heard:
    """Keeps what a training says."""

    def __init__(self):
        self.events, self.lines = [], []

    def started(self, *, pid, isolation):
        pass

    def event(self, event):
        self.events.append(event)

    def output(self, line, left_out):
        self.lines.append(line)


@pytest.fixture(scope="module")
def run_zip(digits, tmp_path_factory):
    """Runs an example from its ZIP; answers the verified artifacts by role, the completion and what was heard."""

    def run(example, *, class_names, on_digits):
        folder = tmp_path_factory.mktemp(example)
        built = build(example, folder)
        manifest = inspect_package(built.path).manifest
        items = image_items(digits) if on_digits else []
        items = [{**item, "media_path": f"dataset/{item['media_path']}"} for item in items]
        request = request_of(manifest, class_names=class_names, items=items)
        workspace = Workspace.create(folder / "workspaces", EXECUTION_ID, 1)
        extract(built.path, workspace.code)
        workspace.dataset_manifest.write_text(json.dumps(request.dataset.to_document()))
        launch = Launch(
            workspace=workspace,
            request=request,
            entrypoint=manifest.entrypoint,
            entrypoint_symbol=manifest.entrypoint_symbol,
            python=find_python("base", load_settings(directory=folder, environ={})),
            output_log=folder / "output.log",
            inputs={"dataset": digits} if on_digits else {},
        )
        heard = Heard()
        end = train(launch, ProcessLimits(timeout_seconds=120, memory_bytes=2 << 30), heard, lambda: False)
        admit_result(manifest, request, end.completion)
        artifacts = verify_artifacts(end.completion, workspace.output)
        return {artifact.role: workspace.output / artifact.path for artifact in artifacts}, end.completion, heard

    return run


@pytest.mark.slow
def test_the_zip_of_digits_trains_in_a_process_of_its_own(run_zip):
    files, completion, heard = run_zip("digits", class_names=DIGITS, on_digits=True)

    assert completion.metrics["test_accuracy"] >= 0.95
    assert len([event for event in heard.events if event.event_type == "metric"]) == 51
    assert inspect_model(files["model"]).outputs[0].shape == ("batch", 10)
    assert files.keys() == {"model", "checkpoint", "report"}


@pytest.mark.slow
def test_the_zip_of_a_package_with_its_own_data_trains_in_a_process_of_its_own(run_zip):
    files, completion, _ = run_zip("script_managed", class_names=["red", "green", "blue"], on_digits=False)

    assert completion.metrics["val_accuracy"] > 0.85
    assert inspect_model(files["model"]).outputs[0].shape == ("batch", 3)


@pytest.mark.slow
def test_the_zip_of_the_template_trains_in_a_process_of_its_own(run_zip):
    files, completion, _ = run_zip("template", class_names=DIGITS, on_digits=True)

    assert completion.metrics["accuracy"] > 0.8
    assert inspect_model(files["model"]).outputs[0].shape == ("batch", 10)
