"""What an operator's blocks change."""

from pathlib import Path

import pytest

from blocks import configuration
from blocks.execution_policy import ExecutionPolicy
from blocks.object_store import ObjectStore
from contracts.errors import InvalidSettingsError
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


@pytest.mark.parametrize("kind", [ExecutionPolicy, ObjectStore])
def test_every_field_is_a_setting_of_the_same_name(kind: type) -> None:
    own = {name for name in kind.model_fields if not name.startswith("_")}
    assert own <= set(Settings.model_fields)
