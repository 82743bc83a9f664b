"""`mtr package`: deterministic ZIPs and their registration."""

from __future__ import annotations

import hashlib
import json

import pytest
from typer.testing import CliRunner

from services.cli.main import app
from tests.assets.cli_inputs import write_package

runner = CliRunner()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MTR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path):
    return write_package(tmp_path / "counter")


def package(*arguments: object):
    answered = runner.invoke(app, ["package", *map(str, arguments), "--json"])
    return answered.exit_code, json.loads(answered.stdout)


def test_build_writes_the_zip_that_it_names(folder, tmp_path) -> None:
    code, document = package("build", folder)
    assert code == 0
    content = (tmp_path / "counter-0.1.0.zip").read_bytes()
    assert document == {
        "path": str(tmp_path / "counter-0.1.0.zip"),
        "sha256": hashlib.sha256(content).hexdigest(),
        "created": True,
    }


def test_building_again_makes_the_same_bytes_and_says_that_nothing_was_new(folder) -> None:
    first = package("build", folder)[1]
    second = package("build", folder)[1]
    assert second == {**first, "created": False}


def test_build_says_what_it_left_out(folder) -> None:
    (folder / "requirements.txt").write_text("numpy")
    answered = runner.invoke(app, ["package", "build", str(folder), "--json"])
    assert "requirements.txt" in answered.stderr
    assert answered.exit_code == 0


def test_build_warns_of_an_entry_file_that_clearly_lacks_the_function(folder) -> None:
    (folder / "train.py").write_text("import os\n")
    answered = runner.invoke(app, ["package", "build", str(folder)])
    assert answered.exit_code == 0
    assert "warning: entrypoint_symbol: train.py defines nothing called train" in answered.stderr


def test_inspect_warns_likewise(folder) -> None:
    (folder / "train.py").write_text("import os\n")
    answered = runner.invoke(app, ["package", "inspect", str(folder)])
    assert answered.exit_code == 0
    assert "warning: entrypoint_symbol: train.py defines nothing called train" in answered.stderr


def test_build_in_the_folder_itself_writes_beside_it(folder, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    assert package("build", ".")[1]["path"] == str(tmp_path / "counter-0.1.0.zip")


def test_build_refuses_to_write_into_the_folder_that_it_packs(folder) -> None:
    code, document = package("build", folder, "-o", folder / "out.zip")
    assert code == 2
    assert document["error"]["code"] == "usage"


def test_build_refuses_a_package_that_nobody_could_register(tmp_path) -> None:
    broken = write_package(tmp_path / "broken", entrypoint="gone.py")
    code, document = package("build", broken, "-o", tmp_path / "out.zip")
    assert code == 2
    assert document["error"]["code"] == "archive_rejected"
    assert not (tmp_path / "out.zip").exists()


def test_build_names_a_folder_that_is_not_there(tmp_path) -> None:
    code, document = package("build", tmp_path / "gone")
    assert code == 2
    assert document["error"]["code"] == "not_found"


def test_inspect_answers_archive_and_manifest(folder) -> None:
    code, document = package("inspect", folder)
    assert code == 0
    assert document.keys() == {"kind", "valid", "archive", "configuration"}
    assert document["kind"] == "training_code_package"
    assert document["archive"].keys() == {"sha256", "file_count", "uncompressed_bytes"}
    assert document["configuration"]["key"] == "counter"


def test_a_registered_package_can_be_inspected_by_key_and_version(folder) -> None:
    registered = package("register", folder)[1]
    document = package("inspect", "counter@0.1.0")[1]
    assert document["archive"]["sha256"] == registered["sha256"]


def test_register_answers_where_the_bytes_are(folder) -> None:
    code, document = package("register", folder)
    assert code == 0
    assert document.keys() == {"object", "sha256", "created"}
    assert document["created"] is True
    assert document["object"]["object_key"] == (
        f"training-code-runtime/packages/counter/0.1.0/{document['sha256']}.zip"
    )
    assert document["object"].keys() == {"bucket", "object_key", "sha256", "size_bytes"}


def test_registering_again_creates_nothing(folder) -> None:
    first = package("register", folder)[1]
    assert package("register", folder) == (0, {**first, "created": False})


def test_other_content_under_the_same_version_is_a_conflict(folder) -> None:
    package("register", folder)
    (folder / "train.py").write_text("def train(context, report): ...")
    code, document = package("register", folder)
    assert code == 4
    assert document["error"]["code"] == "conflict"


def test_list_names_what_is_registered(folder) -> None:
    sha256 = package("register", folder)[1]["sha256"]
    code, document = package("list")
    assert code == 0
    assert [(one["key"], one["version"], one["sha256"]) for one in document["packages"]] == [
        ("counter", "0.1.0", sha256)
    ]


def test_an_unregistered_version_is_not_found() -> None:
    code, document = package("inspect", "counter@9.9.9")
    assert code == 2
    assert document["error"]["code"] == "not_found"


def test_people_read_names_and_digests(folder) -> None:
    answered = runner.invoke(app, ["package", "inspect", str(folder)])
    assert answered.exit_code == 0
    assert "counter 0.1.0" in answered.stdout
    assert "epochs" in answered.stdout
