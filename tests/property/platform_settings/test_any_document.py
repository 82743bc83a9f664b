"""Whatever the platform writes: execution is on only where it says exactly true, twice."""

from __future__ import annotations

import contextlib
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import InvalidSettingsError
from runtime.platform_settings.decision import decide
from runtime.platform_settings.document import SECTIONS, read_document
from runtime.settings import Settings, decide_settings

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["true", "on", "yes"])
)
VALUES = st.recursive(
    SCALARS, lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=8), some), max_leaves=8
)
EXECUTION = st.dictionaries(
    st.sampled_from(
        ["enabled", "runtime_ids", "python_executable", "workspace_root", "max_processes", "process_nofile"]
    ),
    VALUES,
)
STORAGE = st.dictionaries(st.sampled_from(["endpoint", "access_key", "region", "bucket_name"]), VALUES)
RUNTIME = st.fixed_dictionaries(
    {},
    optional={
        "enabled": SCALARS | st.just(True),
        "execution": VALUES | EXECUTION | st.just({"enabled": True}),
        "storage": VALUES | STORAGE,
        "token": VALUES,
        "base_url": VALUES,
        "allow_script_managed_data": VALUES,
    },
)
DOCUMENTS = st.dictionaries(
    st.sampled_from(["model-training-runtime", "training-code-runtime", "local-s3-config", "gateway"]), RUNTIME | VALUES
)
MACHINE = Settings(home=Path("/home/of/it"), execution_enabled=True, allow_script_managed_data=True)


def settled(document: dict) -> Settings:
    decision = decide(document, MACHINE)
    return decide_settings(MACHINE, decision.changes, place="Nacos", origins=decision.origins)


@given(DOCUMENTS)
def test_execution_is_on_only_where_it_is_exactly_true_in_both_places(document: dict) -> None:
    name = "model-training-runtime" if "model-training-runtime" in document else "training-code-runtime"
    section = document.get(name)
    section = section if isinstance(section, dict) else {}
    execution = section.get("execution")
    twice = section.get("enabled") is True and isinstance(execution, dict) and execution.get("enabled") is True

    settings = settled(document)

    assert twice or not settings.execution_enabled
    assert section.get("allow_script_managed_data") is True or not settings.allow_script_managed_data


@given(DOCUMENTS)
def test_what_is_off_says_which_setting_keeps_it_off(document: dict) -> None:
    policy = settled(document).policy()

    assert policy.execution_enabled or all(
        origin.reason != "" and origin.setting for origin in policy.origins_of("execution_enabled")
    )


@given(DOCUMENTS)
def test_a_document_that_was_written_as_yaml_decides_the_same(document: dict) -> None:
    written = yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass")
    try:
        read = read_document(written)
    except InvalidSettingsError:
        return  # a character that is none
    assert settled(read).execution_enabled == settled(document).execution_enabled


@given(st.binary(max_size=400) | st.text("{}[]:,-&*!#|>'\"% \n\tabtrue<", max_size=200).map(str.encode))
def test_bytes_are_read_or_refused_and_nothing_else(content: bytes) -> None:
    with contextlib.suppress(InvalidSettingsError):
        assert set(read_document(content)) <= set(SECTIONS)
