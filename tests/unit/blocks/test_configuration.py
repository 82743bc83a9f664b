"""What an operator's blocks change."""

from pathlib import Path

import pytest

from blocks import configuration
from blocks.execution_policy import ExecutionPolicy
from blocks.object_store import ObjectStore
from contracts.errors import InvalidSettingsError, OrchestratorUnavailableError
from runtime.platform_settings import FileSettings, NacosSettings
from runtime.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, max_processes=7)


def with_blocks(monkeypatch: pytest.MonkeyPatch, *blocks: object) -> None:
    found = {type(block): block for block in blocks}

    def load(kind: type) -> object:
        if kind not in found:
            raise ValueError("Unable to find block document")
        return found[kind]

    for kind in (ExecutionPolicy, ObjectStore):
        monkeypatch.setattr(kind, "load", lambda _name, kind=kind: load(kind))


def test_without_blocks_the_machine_decides(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with_blocks(monkeypatch)
    assert configuration.configured(settings) is settings


def test_an_empty_field_leaves_the_machine_s_value(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with_blocks(monkeypatch, ExecutionPolicy(), ObjectStore())
    assert configuration.configured(settings) == settings


def test_a_block_s_field_wins(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with_blocks(monkeypatch, ExecutionPolicy(execution_enabled=True, runtime_ids=["base", "torch"]))
    changed = configuration.configured(settings)
    assert (changed.execution_enabled, changed.runtime_ids, changed.max_processes) == (True, ("base", "torch"), 7)


def test_a_secret_of_a_block_stays_a_secret(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with_blocks(monkeypatch, ObjectStore(store="s3://lab", s3_secret_key="hush"))
    changed = configuration.configured(settings)
    assert changed.s3_secret_key.get_secret_value() == "hush"
    assert "hush" not in repr(changed)
    assert changed.buckets["models"] == "lab-models"


def test_a_wrong_field_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with_blocks(monkeypatch, ObjectStore(store="ftp://x"))
    with pytest.raises(InvalidSettingsError, match="store in the Prefect blocks named 'mtr': "):
        configuration.configured(settings)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A Prefect server that is away while the list says so; it allows execution."""
    is_away = [True]

    def load(_name: str) -> ExecutionPolicy:
        if is_away[0]:
            raise RuntimeError("Failed to reach API at http://127.0.0.1:9/api")
        return ExecutionPolicy(execution_enabled=True)

    with_blocks(monkeypatch)
    monkeypatch.setattr(ExecutionPolicy, "load", load)
    return is_away


def test_a_flow_fails_where_its_server_does_not_answer(settings: Settings, away: list[bool]) -> None:
    with pytest.raises(
        OrchestratorUnavailableError, match="the Prefect blocks named 'mtr' cannot be read: RuntimeError"
    ):
        configuration.BlockSettings(settings).read()


def test_a_program_that_serves_is_off_until_the_server_answers_and_goes_on_afterwards(
    settings: Settings, away: list[bool]
) -> None:
    source = configuration.BlockSettings(settings.model_copy(update={"execution_enabled": True}), long_lived=True)
    seen = []
    for away[0] in (True, False, True):
        reading = source.read()
        seen.append((reading.settings.execution_enabled, reading.fault is not None, len(reading.warnings)))

    assert seen == [(False, True, 1), (True, False, 0), (True, True, 1)]


@pytest.mark.parametrize(
    ("use_nacos", "server", "kind"),
    [
        (None, "http://127.0.0.1:9/api", NacosSettings),
        (True, "", NacosSettings),
        (False, "http://127.0.0.1:9/api", configuration.BlockSettings),
        (False, "", FileSettings),
    ],
)
def test_a_site_has_one_source(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, use_nacos: object, server: str, kind: type
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", server)

    assert type(configuration.served_settings(settings.model_copy(update={"use_nacos": use_nacos}))) is kind


@pytest.mark.parametrize("kind", [ExecutionPolicy, ObjectStore])
def test_every_field_is_a_setting_of_the_same_name(kind: type) -> None:
    own = {name for name in kind.model_fields if not name.startswith("_")}
    assert own <= set(Settings.model_fields)
