"""The program's frame: help, version, and every error's one way out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from contracts.errors import ConflictError, InternalError, InvalidDocumentError, PolicyError, RuntimeFault, codes
from services.cli import validating
from services.cli.main import COMMANDS, CommandTable, app

runner = CliRunner()


def test_help_lists_every_command() -> None:
    answered = runner.invoke(app, ["--help"])
    assert answered.exit_code == 0
    assert all(name in answered.stdout for name in COMMANDS)


def test_listing_the_commands_imports_none_of_them() -> None:
    """What `mtr --help` costs is Typer and Rich alone."""
    script = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from services.cli.main import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "heavy = {'prefect', 'sqlalchemy', 'onnx', 'opendal', 'pydantic', 'numpy', 'runtime'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_version_is_said() -> None:
    answered = runner.invoke(app, ["--version"])
    assert answered.exit_code == 0
    assert answered.stdout.startswith("mtr 0.")


def test_no_command_is_answered_with_the_help() -> None:
    answered = runner.invoke(app, [])
    assert answered.exit_code == 2
    assert "Commands" in answered.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    answered = runner.invoke(app, [name, "--help"])
    assert answered.exit_code == 0
    assert name in answered.stdout


PROMISED = [
    "",
    "run",
    "submit",
    "validate",
    "package build",
    "package inspect",
    "package register",
    "package list",
    "dataset import",
    "dataset pin",
    "dataset verify",
    "dataset list",
    "dataset show",
    "model inspect",
    "model register",
    "model list",
    "model show",
    "model export",
    "executions list",
    "executions show",
    "executions logs",
    "executions artifacts",
    "executions cancel",
    "executions retry",
    "executions resume",
    "up",
    "apply",
    "doctor",
    "",
][1:-1]


@pytest.mark.parametrize("command", PROMISED)
def test_the_help_of_a_command_shows_an_example_and_the_json_switch(command: str) -> None:
    answered = runner.invoke(app, [*command.split(), "--help"])
    assert answered.exit_code == 0
    assert f"mtr {command}" in answered.stdout.split("Example:")[1]
    assert "--json" in answered.stdout


def test_a_wrong_option_is_a_usage_error_on_stderr() -> None:
    answered = runner.invoke(app, ["validate", "--nonsense"])
    assert answered.exit_code == 2
    assert answered.stdout == ""
    assert "usage: No such option" in answered.stderr
    assert "mtr validate --help" in answered.stderr


def test_a_wrong_option_with_json_is_a_document_on_stdout() -> None:
    answered = runner.invoke(app, ["validate", "--nonsense", "--json"])
    assert answered.exit_code == 2
    error = json.loads(answered.stdout)["error"]
    assert error.keys() == {"code", "message", "hint", "context"}
    assert error["code"] == "usage"


def test_an_unknown_command_is_a_usage_error() -> None:
    answered = runner.invoke(app, ["rum", "--json"])
    assert answered.exit_code == 2
    assert "rum" in json.loads(answered.stdout)["error"]["message"]


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(validating, "_verdict", fail)


@pytest.mark.parametrize("kind", codes().values(), ids=codes())
def test_every_code_leaves_with_its_exit_code_and_no_traceback(monkeypatch, kind: type[RuntimeFault]) -> None:
    _raising(monkeypatch, kind("what happened", hint="what to do", context={"a": 1}))

    answered = runner.invoke(app, ["validate", "x", "--json"])

    assert answered.exit_code == kind.exit_code
    assert json.loads(answered.stdout) == {
        "error": {"code": kind.code, "message": "what happened", "hint": "what to do", "context": {"a": 1}}
    }
    assert "Traceback" not in answered.stderr


def test_a_fault_is_shown_as_one_block_with_the_next_action(monkeypatch) -> None:
    _raising(monkeypatch, ConflictError("[0.1.0] exists", hint="raise the version"))
    answered = runner.invoke(app, ["validate", "x"])
    assert answered.exit_code == 4
    assert answered.stdout == ""
    assert answered.stderr == "conflict: [0.1.0] exists\n→ raise the version\n"


def test_several_violations_are_shown_one_a_line(monkeypatch) -> None:
    violations = [{"path": "a", "message": "is wrong"}, {"path": "", "message": "is worse"}]
    _raising(monkeypatch, PolicyError("two", hint="h", context={"violations": violations}))
    answered = runner.invoke(app, ["validate", "x"])
    assert "  a: is wrong\n  (document): is worse\n" in answered.stderr


def test_violations_that_the_message_names_are_shown_once(monkeypatch) -> None:
    violations = [{"path": "key", "message": "is empty"}, {"path": "", "message": "is worse"}]
    _raising(monkeypatch, InvalidDocumentError.of("package", violations))
    answered = runner.invoke(app, ["validate", "x"])
    assert answered.stderr.startswith(
        "invalid_document: not a valid package document\n  key: is empty\n  (document): is worse\n→ "
    )


def test_a_defect_is_an_internal_error_with_its_place(monkeypatch) -> None:
    _raising(monkeypatch, ZeroDivisionError("by zero"))
    answered = runner.invoke(app, ["validate", "x", "--json"])
    assert answered.exit_code == InternalError.exit_code
    error = json.loads(answered.stdout)["error"]
    assert error["code"] == "internal"
    assert any("ZeroDivisionError" in line for line in error["context"]["traceback"])


def test_an_interrupt_leaves_with_130(monkeypatch) -> None:
    _raising(monkeypatch, KeyboardInterrupt())
    answered = runner.invoke(app, ["validate", "x", "--json"])
    assert answered.exit_code == 130
    assert json.loads(answered.stdout)["error"]["code"] == "cancelled"


def test_what_prints_to_stdout_on_the_way_does_not_spoil_the_document(monkeypatch, tmp_path) -> None:
    file = tmp_path / "a.json"
    file.write_text("{}")
    original = validating.guess_contract

    def chatty(document: object) -> str:
        print("chatter")
        return original(document)

    monkeypatch.setattr(validating, "guess_contract", chatty)
    answered = runner.invoke(app, ["validate", str(file), "--json"])
    assert json.loads(answered.stdout)["valid"] is False
    assert "chatter" in answered.stderr


def test_calling_from_python_answers_the_exit_code() -> None:
    table = typer.main.get_command(app)
    assert isinstance(table, CommandTable)
    assert table.main(["validate", "/gone.json"], standalone_mode=False) == 2
