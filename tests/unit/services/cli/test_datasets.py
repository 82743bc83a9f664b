"""`mtr dataset`: folders and manifests in, snapshots and names out."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from services.cli.main import app
from tests.assets.cli_inputs import write_class_folders

runner = CliRunner()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MTR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path):
    return write_class_folders(tmp_path / "pets")


def dataset(*arguments: object):
    answered = runner.invoke(app, ["dataset", *map(str, arguments), "--json"])
    return answered.exit_code, json.loads(answered.stdout)


def test_import_answers_the_snapshot(folder) -> None:
    code, document = dataset("import", folder, "--name", "pets")
    assert code == 0
    assert document.keys() == {"sha256", "items", "bytes", "created", "object"}
    assert document["items"] == 6
    assert document["bytes"] == sum(file.stat().st_size for file in folder.rglob("*.png"))
    assert document["created"] is True
    assert document["object"]["object_key"] == f"training-code-runtime/dataset-snapshots/{document['sha256']}.json"


def test_importing_again_creates_nothing(folder) -> None:
    first = dataset("import", folder)[1]
    assert dataset("import", folder) == (0, {**first, "created": False})


def test_a_name_and_a_digest_show_the_same(folder) -> None:
    sha256 = dataset("import", folder, "--name", "pets")[1]["sha256"]
    assert dataset("show", "pets") == dataset("show", sha256)


def test_show_counts_what_is_in_it(folder) -> None:
    dataset("import", folder, "--name", "pets")
    document = dataset("show", "pets")[1]
    assert document["task_kind"] == "classification"
    assert document["class_names"] == ["cat", "dog"]
    assert sum(document["splits"].values()) == 6


def test_list_has_the_names(folder) -> None:
    sha256 = dataset("import", folder, "--name", "pets")[1]["sha256"]
    assert dataset("list") == (0, {"datasets": [{"name": "pets", "sha256": sha256}]})


def test_verify_reads_every_byte_again(folder) -> None:
    imported = dataset("import", folder, "--name", "pets")[1]
    assert dataset("verify", "pets") == (
        0,
        {"sha256": imported["sha256"], "valid": True, "items": 6, "bytes": imported["bytes"]},
    )


def test_verify_finds_a_changed_byte(folder, home) -> None:
    dataset("import", folder, "--name", "pets")
    stored = next((home / "store" / "datasets").rglob("*.png"))
    stored.chmod(0o644)
    stored.write_bytes(stored.read_bytes()[:-1] + b"x")
    code, document = dataset("verify", "pets")
    assert code == 2
    assert document["error"]["code"] == "digest_mismatch"


def test_a_damaged_object_is_made_again_the_way_the_hint_says(folder, home) -> None:
    imported = dataset("import", folder, "--name", "pets")[1]
    stored = next((home / "store" / "datasets").rglob("*.png"))
    stored.chmod(0o644)
    stored.write_bytes(stored.read_bytes()[:-1] + b"x")
    for refusing in (dataset("verify", "pets"), dataset("import", folder)):
        assert re.search("removed? .*from the store", refusing[1]["error"]["hint"])
    stored.unlink()
    assert dataset("import", folder)[1]["sha256"] == imported["sha256"]
    assert dataset("verify", "pets")[0] == 0


def test_an_unknown_name_is_not_found(folder) -> None:
    dataset("import", folder, "--name", "pets")
    code, document = dataset("show", "trucks")
    assert code == 2
    assert document["error"]["code"] == "not_found"
    assert "pets" in document["error"]["message"]


def test_a_folder_that_is_no_data_set_is_refused(tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    code, document = dataset("import", tmp_path / "empty")
    assert code == 2
    assert document["error"]["code"] == "dataset_unreadable"


def test_pin_reads_a_source_manifest(folder, home, tmp_path) -> None:
    imported = dataset("import", folder)[1]
    snapshot = json.loads((home / "store" / "default" / imported["object"]["object_key"]).read_text())
    for item in snapshot["items"]:
        item["media"] = {"bucket": "datasets", "object_key": item["media"]["object_key"]}
        item.pop("annotation", None)
    file = tmp_path / "source.json"
    file.write_text(json.dumps(snapshot))
    code, document = dataset("pin", file, "--name", "again")
    assert code == 0
    assert document.keys() == {"sha256", "items", "bytes", "created", "object"}
    assert document["items"] == 6
    assert dataset("show", "again")[1]["sha256"] == document["sha256"]


def test_pin_refuses_another_document(tmp_path) -> None:
    file = tmp_path / "source.json"
    file.write_text('{"protocol_version": "training-dataset-source-manifest/v1", "items": []}')
    code, document = dataset("pin", file)
    assert code == 2
    assert document["error"]["code"] == "invalid_document"


def test_pin_names_an_object_that_is_not_stored(tmp_path) -> None:
    file = tmp_path / "source.json"
    item = {"item_id": "a", "media": {"bucket": "datasets", "object_key": "gone.png"}}
    header = {"task_kind": "classification", "data_modalities": ["image"]}
    file.write_text(json.dumps({"protocol_version": "training-dataset-source-manifest/v1", **header, "items": [item]}))
    code, document = dataset("pin", file)
    assert code == 2
    assert document["error"]["code"] == "object_missing"
    assert "gone.png" in document["error"]["message"]


def test_a_name_that_reads_like_a_digest_is_refused(folder) -> None:
    code, document = dataset("import", folder, "--name", "0" * 64)
    assert code == 2
    assert document["error"]["code"] == "admission_refused"


def test_people_read_that_nothing_was_new(folder) -> None:
    dataset("import", folder)
    answered = runner.invoke(app, ["dataset", "import", str(folder)])
    assert "nothing was new" in answered.stdout
