"""Whatever an operator decides, another process of ours that is given it as its environment decides the same."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runtime.settings import Settings, load_settings

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
WHOLE = st.integers(1, 10**15)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "s3_access_key": TEXT,
        "s3_secret_key": TEXT,
        "s3_default_bucket": TEXT,
        "database_url": TEXT,
        "execution_enabled": st.booleans(),
        "allow_script_managed_data": st.booleans(),
        "runtime_ids": st.lists(NAMES, max_size=3).map(tuple),
        "runtimes": st.dictionaries(NAMES, st.just(Path("/opt/python,odd=name")), max_size=3),
        "idle_timeout_seconds": st.floats(0.001, 1e9),
        "max_output_bytes": WHOLE,
        "process_fsize_bytes": st.none() | WHOLE,
        "oom_memory_factor": st.none() | st.floats(1.001, 16),
        "max_attempts": st.integers(1, 100),
        "cpu_pool": st.none() | NAMES,
        "isolation": st.sampled_from(["auto", "none"]),
        "store": st.sampled_from(["", "local", "s3", "s3://lab"]),
    },
)


@given(SETTINGS, st.booleans(), st.booleans())
def test_settings_survive_the_environment(decided, served, nacos) -> None:
    settings = Settings(home=Path("/home/of/it"), use_nacos=nacos, **decided)

    assert load_settings(served=served, directory=Path("/"), environ=settings.to_environment()) == settings
