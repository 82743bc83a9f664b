"""What Prefect is told before it is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from contracts.errors import InternalError
from runtime.settings import Settings
from services.orchestrator import environment


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def test_a_worker_gets_no_secret_of_its_starter(settings: Settings) -> None:
    given = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "hush", "GITHUB_TOKEN": "hush", "PREFECT_API_URL": "http://x/api"}
    made = environment.child_environment(settings, given)
    assert "hush" not in made.values()
    assert (made["PATH"], made["PREFECT_API_URL"]) == ("/bin", "http://x/api")


def test_prefect_sends_nothing_to_its_vendor_and_keeps_to_our_folder(settings: Settings) -> None:
    made = environment.child_environment(settings, {})
    assert made["PREFECT_HOME"] == str(settings.home / "prefect")
    assert (made["PREFECT_SERVER_ANALYTICS_ENABLED"], made["DO_NOT_TRACK"]) == ("false", "1")


def test_what_the_caller_says_about_prefect_stays(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", "/elsewhere")
    environment.prepare_environment(settings)
    assert environment.os.environ["PREFECT_HOME"] == "/elsewhere"


def test_prefect_imported_too_early_is_a_defect(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prefect", sys.modules[__name__])
    monkeypatch.delenv("PREFECT_HOME")
    with pytest.raises(InternalError):
        environment.prepare_environment(settings)


def test_the_command_line_knows_the_orchestrator_without_importing_prefect() -> None:
    code = "import sys, services.orchestrator; sys.exit('prefect' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("given", "found"), [({}, False), ({"PREFECT_API_URL": ""}, False), ({"PREFECT_API_URL": "x"}, True)]
)
def test_a_server_is_configured_by_its_url(given, found) -> None:
    assert environment.has_server(given) is found
