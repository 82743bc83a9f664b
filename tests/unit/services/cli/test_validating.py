"""`mtr validate`: documents and ZIPs, every violation with its path."""

from __future__ import annotations

import json
import zipfile

import pytest
from typer.testing import CliRunner

from services.cli.main import app
from tests.assets.cli_inputs import package_manifest, write_model_package, write_package

runner = CliRunner()


def validate(*arguments: object, stdin: str | None = None):
    answered = runner.invoke(app, ["validate", *map(str, arguments), "--json"], input=stdin)
    return answered.exit_code, json.loads(answered.stdout)


@pytest.fixture
def manifest(tmp_path):
    file = tmp_path / "training_package.json"
    file.write_text(json.dumps(package_manifest()))
    return file


def test_a_valid_document_is_answered_normalized(manifest) -> None:
    code, document = validate(manifest)
    assert code == 0
    assert document.keys() == {"valid", "contract", "normalized"}
    assert document["valid"] is True
    assert document["contract"] == "training-code-package/v1"
    assert document["normalized"]["entrypoint_symbol"] == "train"


def test_an_invalid_document_is_answered_with_every_violation_and_exit_2(tmp_path) -> None:
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(package_manifest(version="one", colour="red")))
    code, document = validate(file)
    assert code == 2
    assert document.keys() == {"valid", "violations"}
    assert document["valid"] is False
    assert {violation["path"] for violation in document["violations"]} == {"version", "colour"}
    assert all(violation.keys() == {"path", "message"} for violation in document["violations"])


def test_what_is_no_json_is_a_violation_of_the_document(tmp_path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"a": 1, "a": 2}')
    code, document = validate(file)
    assert code == 2
    assert "twice" in document["violations"][0]["message"]


def test_a_document_that_does_not_say_what_it_is_is_refused(tmp_path) -> None:
    file = tmp_path / "nothing.json"
    file.write_text("{}")
    code, document = validate(file)
    assert code == 2
    assert document["violations"][0]["path"] == "protocol_version"


@pytest.mark.parametrize("name", ["package", "training-code-package/v1"])
def test_the_contract_may_be_said(manifest, name: str) -> None:
    assert validate(manifest, "--as", name)[0] == 0


def test_a_document_of_another_contract_than_was_said_is_refused(manifest) -> None:
    code, document = validate(manifest, "--as", "dataset-source-manifest")
    assert code == 2
    assert document["valid"] is False


def test_an_unknown_contract_is_a_usage_error(manifest) -> None:
    code, document = validate(manifest, "--as", "recipe")
    assert code == 2
    assert document["error"]["code"] == "usage"
    assert "mq_submission" in document["error"]["hint"]


def test_a_document_may_come_on_stdin() -> None:
    code, document = validate("-", stdin=json.dumps(package_manifest()))
    assert code == 0
    assert document["valid"] is True


def test_a_file_that_is_not_there_is_an_error(tmp_path) -> None:
    code, document = validate(tmp_path / "gone.json")
    assert code == 2
    assert document["error"]["code"] == "not_found"


def test_a_package_folder_is_judged_as_the_zip_that_it_packs_to(tmp_path) -> None:
    code, document = validate(write_package(tmp_path / "package"))
    assert code == 0
    assert document["contract"] == "training-code-package/v1"


def test_a_folder_that_cannot_be_packed_gets_a_verdict(tmp_path) -> None:
    write_package(tmp_path / "package")
    (tmp_path / "package" / "TRAIN.PY").write_text("")
    code, document = validate(tmp_path / "package")
    assert code == 2
    assert document["valid"] is False
    assert [violation["path"] for violation in document["violations"]] == ["train.py"]


def test_a_model_package_is_recognised(tmp_path) -> None:
    code, document = validate(write_model_package(tmp_path / "model.zip"))
    assert code == 0
    assert document["contract"] == "training-model-package/v1"
    assert document["normalized"]["name"] == "Start"


def test_a_broken_model_package_is_judged_as_one(tmp_path) -> None:
    code, document = validate(write_model_package(tmp_path / "model.zip", artifact_path="gone.bin"))
    assert code == 2
    assert any("gone.bin" in violation["message"] + violation["path"] for violation in document["violations"])


def test_a_zip_that_breaks_the_rules_is_refused_with_the_member_named(tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("training_package.json", json.dumps(package_manifest()))
        archive.writestr("train.py", "def train(context, report): ...")
        archive.writestr("sub/.env", "TOKEN=1")
    code, document = validate(tmp_path / "bad.zip")
    assert code == 2
    assert [violation["path"] for violation in document["violations"]] == ["sub/.env"]


def test_what_only_looks_like_a_zip_is_refused(tmp_path) -> None:
    file = tmp_path / "a.zip"
    file.write_bytes(b"PK\x03\x04 and nothing")
    code, document = validate(file)
    assert code == 2
    assert document["valid"] is False


def test_an_archive_is_no_submission(tmp_path) -> None:
    code, document = validate(write_model_package(tmp_path / "m.zip"), "--as", "mq-submission")
    assert code == 2
    assert document["error"]["code"] == "usage"


def test_several_files_are_answered_in_one_document(manifest, tmp_path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("[]")
    code, document = validate(manifest, broken)
    assert code == 2
    assert document["valid"] is False
    assert [(one["path"], one["valid"]) for one in document["documents"]] == [
        (str(manifest), True),
        (str(broken), False),
    ]


def test_people_read_a_table_of_violations(tmp_path) -> None:
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(package_manifest(version="[red]one")))
    answered = runner.invoke(app, ["validate", str(file)])
    assert answered.exit_code == 2
    assert "refused" in answered.stdout
    assert "[red]one" in answered.stdout


def test_a_package_whose_entry_file_clearly_lacks_the_function_is_warned_of_and_valid(tmp_path) -> None:
    folder = write_package(tmp_path / "package")
    (folder / "train.py").write_text("def trian(context, report):\n    return {}\n")
    answered = runner.invoke(app, ["validate", str(folder), "--json"])
    assert (answered.exit_code, json.loads(answered.stdout)["valid"]) == (0, True)
    assert answered.stderr == (
        "warning: entrypoint_symbol: train.py defines nothing called train; did you mean trian?\n"
    )
