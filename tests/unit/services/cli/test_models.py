"""`mtr model`: model packages in, registered models out."""

from __future__ import annotations

import hashlib
import json
import uuid

import pytest
from typer.testing import CliRunner

from contracts.references import Pinned
from runtime.installation import Installation
from services.cli.main import app
from tests.assets.cli_inputs import write_model_package

runner = CliRunner()
CONTENT = b"a model"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("MTR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with Installation.open() as installation:
        yield installation


@pytest.fixture
def registered(here):
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    pinned = Pinned("models", f"training-code-runtime/executions/x/{sha256}/model.onnx", sha256, len(CONTENT))
    here.store.publish_bytes(CONTENT, pinned.bucket, pinned.key)
    return here.models.register(
        "digits",
        execution_id=str(uuid.uuid4()),
        object=pinned,
        task_kind="classification",
        class_names=["0", "1"],
        opset=17,
        inputs=[{"name": "image", "dtype": "float32", "shape": ["batch", 64]}],
        outputs=[{"name": "scores", "dtype": "float32", "shape": ["batch", 2]}],
    )


def model(*arguments: object):
    answered = runner.invoke(app, ["model", *map(str, arguments), "--json"])
    return answered.exit_code, json.loads(answered.stdout)


def test_inspect_answers_archive_and_manifest(tmp_path) -> None:
    code, document = model("inspect", write_model_package(tmp_path / "m.zip"))
    assert code == 0
    assert document["kind"] == "training_model_package"
    assert document["configuration"]["artifact_path"] == "model.bin"


def test_register_answers_where_the_bytes_are(tmp_path) -> None:
    code, document = model("register", write_model_package(tmp_path / "m.zip"))
    assert code == 0
    assert document.keys() == {"object", "sha256", "created"}
    assert document["created"] is True
    assert document["object"]["bucket"] == "models"


def test_registering_again_creates_nothing(tmp_path) -> None:
    archive = write_model_package(tmp_path / "m.zip")
    first = model("register", archive)[1]
    assert model("register", archive) == (0, {**first, "created": False})


def test_show_is_the_model_of_an_execution(registered) -> None:
    code, document = model("show", "digits")
    assert code == 0
    assert document == registered.to_document()
    assert document.keys() == {
        "name", "version", "object", "sha256", "task_kind", "class_names", "opset", "inputs", "outputs",
    }  # fmt: skip


@pytest.mark.parametrize("reference", ["digits@1", "digits@v1"])
def test_a_version_may_be_given(registered, reference: str) -> None:
    assert model("show", reference)[1]["version"] == registered.version


def test_a_version_that_is_no_number_is_a_usage_error(registered) -> None:
    code, document = model("show", "digits@latest")
    assert code == 2
    assert document["error"]["code"] == "usage"


def test_an_unknown_model_is_not_found(registered) -> None:
    code, document = model("show", "digits@2")
    assert code == 2
    assert document["error"]["code"] == "not_found"


def test_list_has_models_and_model_packages(registered, tmp_path) -> None:
    model("register", write_model_package(tmp_path / "m.zip"))
    document = model("list")[1]
    assert [one["name"] for one in document["models"]] == ["digits"]
    assert [one["name"] for one in document["model_packages"]] == ["Start"]


def test_export_writes_the_registered_bytes(registered, tmp_path) -> None:
    code, document = model("export", "digits", "-o", tmp_path / "out.onnx")
    assert code == 0
    assert (tmp_path / "out.onnx").read_bytes() == CONTENT
    assert document["path"] == str(tmp_path / "out.onnx")
    assert document["sha256"] == registered.object.sha256


def test_export_names_the_file_after_the_model(registered, tmp_path) -> None:
    assert model("export", "digits")[1]["path"] == str(tmp_path / "digits-v1.onnx")


def test_export_to_a_place_that_cannot_be_written_is_a_usage_error(registered, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    code, document = model("export", "digits", "-o", tmp_path / "file" / "out.onnx")
    assert code == 2
    assert document["error"]["code"] == "usage"
