"""What the platform's document decides here, row by row of its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.platform_settings.decision import decide
from runtime.settings import Settings, decide_settings, load_settings

ON = {"enabled": True, "execution": {"enabled": True}}
SECTION = "model-training-runtime"


def settled(document: dict, **machine: object) -> Settings:
    base = Settings.model_validate({"home": Path("/home/of/it"), **machine})
    decision = decide(document, base)
    return decide_settings(base, decision.changes, place="Nacos", origins=decision.origins)


def warnings_of(document: dict, **machine: object) -> list[str]:
    return decide(document, Settings.model_validate({"home": Path("/h"), **machine})).warnings


def runtime(**changes: object) -> dict:
    return {SECTION: {**ON, **changes}}


def execution(**changes: object) -> dict:
    return {SECTION: {"enabled": True, "execution": {"enabled": True, **changes}}}


def test_true_in_both_places_turns_execution_on_without_a_warning() -> None:
    assert settled(runtime()).execution_enabled
    assert warnings_of(runtime()) == []


@pytest.mark.parametrize(
    ("section", "origins"),
    [
        ({}, [("enabled", "is not set"), ("execution.enabled", "is not set")]),
        ({"enabled": True}, [("execution.enabled", "is not set")]),
        ({"enabled": True, "execution": {"enabled": False}}, [("execution.enabled", "is false")]),
        ({"enabled": False, "execution": {"enabled": True}}, [("enabled", "is false")]),
        ({"enabled": "true", "execution": {"enabled": True}}, [("enabled", "is text, must be true")]),
        ({"enabled": 1, "execution": {"enabled": True}}, [("enabled", "is a number, must be true")]),
        ({"enabled": True, "execution": {"enabled": [True]}}, [("execution.enabled", "is a list, must be true")]),
    ],
)
def test_anything_else_leaves_it_off_and_the_policy_names_the_setting(section: dict, origins: list) -> None:
    settings = settled({SECTION: section}, execution_enabled=True)

    policy = settings.policy()
    assert not policy.execution_enabled
    found = [(origin.setting, origin.reason) for origin in policy.origins_of("execution_enabled")]
    assert found == [(f"{SECTION}.{name}", reason) for name, reason in origins]


def test_text_for_true_is_warned_about_by_its_full_name() -> None:
    assert warnings_of({SECTION: {"enabled": True, "execution": {"enabled": "true"}}}) == [
        f"{SECTION}.execution.enabled is text, must be true; execution stays off"
    ]


def test_the_older_name_of_the_section_is_read() -> None:
    settings = settled({"training-code-runtime": {"enabled": True, "execution": {}}})

    names = [origin.setting for origin in settings.policy().origins_of("execution_enabled")]
    assert names == ["training-code-runtime.execution.enabled"]


def test_the_newer_name_wins_whole() -> None:
    document = {SECTION: {"base_url": "http://new"}, "training-code-runtime": {**ON, "token": "old"}}
    settings = settled(document)

    assert (settings.base_url, settings.execution_enabled) == ("http://new", False)
    assert settings.api_token.get_secret_value() == ""
    assert warnings_of(document) == ["training-code-runtime is not used, since model-training-runtime is there"]


def test_a_document_without_the_section_leaves_execution_off() -> None:
    assert warnings_of({}) == ["model-training-runtime is not in the document; execution stays off"]


def test_script_managed_data_is_off_unless_exactly_true_whatever_the_machine_says() -> None:
    said = [
        settled(runtime(**given), allow_script_managed_data=True).allow_script_managed_data
        for given in ({}, {"allow_script_managed_data": "true"}, {"allow_script_managed_data": True})
    ]

    assert said == [False, False, True]
    assert warnings_of(runtime(allow_script_managed_data="yes")) == [
        f"{SECTION}.allow_script_managed_data is text, must be true; it stays off"
    ]


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (["pytorch-2.5-cu124", "base"], ("pytorch-2.5-cu124", "base")),
        ("ultralytics-8.3.0-pytorch-2.5-cu124", ("ultralytics-8.3.0-pytorch-2.5-cu124",)),
        (["a", "a", " b "], ("a", "b")),
        ([], ()),
        (None, ("base",)),
        (["a", 5], ("a",)),
        ({"a": 1}, ()),
        (7, ()),
    ],
)
def test_runtime_ids_are_a_list_or_one_text(given: object, ids: tuple[str, ...]) -> None:
    assert settled(execution(runtime_ids=given)).runtime_ids == ids


def test_the_platform_s_python_is_that_of_every_allowed_runtime_without_one_of_its_own() -> None:
    settings = settled(
        execution(runtime_ids=["base", "torch", "own"], python_executable="/opt/t/bin/python"),
        runtimes={"base": Path("/b/python"), "own": Path("/o/python")},
    )

    assert settings.runtimes == {
        "base": Path("/b/python"),
        "own": Path("/o/python"),
        "torch": Path("/opt/t/bin/python"),
    }


@pytest.mark.parametrize("key", ["python_executable", "workspace_root"])
def test_a_path_that_is_not_absolute_is_not_used(key: str) -> None:
    assert settled(execution(**{key: "bin/python"})).workspace_root == Path("/home/of/it/workspaces")
    assert warnings_of(execution(**{key: "bin/python"})) == [
        f"{SECTION}.execution.{key} must be an absolute path; it is not used"
    ]


def test_limits_and_places_are_taken_over() -> None:
    given = {
        "workspace_root": "/scratch",
        "idle_timeout_seconds": 240,
        "max_output_bytes": 2**21,
        "max_processes": 32,
        "process_fsize_bytes": 50 * 2**20,
        "process_nofile": 512,
    }
    settings = settled(execution(**given))

    assert {name: getattr(settings, name) for name in given} == {**given, "workspace_root": Path("/scratch")}


def test_what_is_not_set_has_our_defaults() -> None:
    settings = settled(execution(), idle_timeout_seconds=180)

    assert settings.idle_timeout_seconds == 180
    assert (settings.process_fsize_bytes, settings.process_nofile) == (None, None)


def test_a_wrong_limit_is_warned_about_and_the_other_settings_hold() -> None:
    document = execution(max_processes="many", process_nofile=1.5, idle_timeout_seconds=0, max_output_bytes=99)
    settings = settled(document)

    assert settings.execution_enabled
    assert settings.max_output_bytes == 99
    assert warnings_of(document) == [
        f"{SECTION}.execution.idle_timeout_seconds input should be greater than 0; it is not used",
        f"{SECTION}.execution.max_processes is text, must be an integer; it is not used",
        f"{SECTION}.execution.process_nofile is a number, must be an integer; it is not used",
    ]


def test_an_unknown_key_in_our_section_is_warned_about_and_not_refused() -> None:
    document = {**runtime(tokn="x", storage={"bucket": "y"}), "gateway": {"tokn": 1}, "local-s3-config": {"other": 2}}
    document[SECTION]["execution"] = {"enabled": True, "enabld": True}

    assert settled(document).execution_enabled
    assert warnings_of(document) == [
        f"{SECTION}.tokn is no setting of this service; it is not used",
        f"{SECTION}.execution.enabld is no setting of this service; it is not used",
        f"{SECTION}.storage.bucket is no setting of this service; it is not used",
    ]


def test_base_url_and_token_are_the_api_s() -> None:
    settings = settled(runtime(base_url="https://t.example", token="s3cret"))

    assert (settings.base_url, settings.api_token.get_secret_value()) == ("https://t.example", "s3cret")


def test_a_token_that_cannot_be_used_does_not_open_the_api() -> None:
    settings = settled(runtime(token=123456))

    assert len(settings.api_token.get_secret_value()) >= 32
    assert warnings_of(runtime(token=123456)) == [
        f"{SECTION}.token is a number, must be text, so write it in quotes; it is not used"
    ]


def test_a_token_of_this_machine_stands_in_for_one_that_cannot_be_used() -> None:
    assert settled(runtime(token=[]), api_token="mine").api_token.get_secret_value() == "mine"


STORAGE = {
    "endpoint": "s3_endpoint",
    "access_key": "s3_access_key",
    "secret_key": "s3_secret_key",
    "region": "s3_region",
    "bucket_name": "s3_default_bucket",
    "datasets_bucket_name": "s3_datasets_bucket",
    "models_bucket_name": "s3_models_bucket",
    "annotations_bucket_name": "s3_annotations_bucket",
}
VARIABLES = {
    name: (name.upper() if name != "s3_region" else "S3_REGION") for name in STORAGE.values()
}  # fmt: skip
DEFAULTS = {
    "s3_endpoint": "",
    "s3_access_key": "",
    "s3_secret_key": "",
    "s3_region": "us-east-1",
    "s3_default_bucket": "auto-ml-datasets",
    "s3_datasets_bucket": "auto-ml-datasets",
    "s3_models_bucket": "auto-ml-models",
    "s3_annotations_bucket": "auto-ml-annotations",
}


def in_force(settings: Settings, name: str) -> str:
    if name.endswith("_bucket"):
        return settings.buckets[name.removeprefix("s3_").removesuffix("_bucket")]
    value = getattr(settings, name)
    return value if isinstance(value, str) else value.get_secret_value()


def text_for(name: str, source: str) -> str:
    return f"http://{source}.example" if name == "s3_endpoint" else f"of-{source}"


@pytest.mark.parametrize("strongest", ["storage", "platform", "environment", "default"])
@pytest.mark.parametrize(("key", "name"), STORAGE.items())
def test_storage_wins_over_local_s3_config_over_the_environment_over_the_defaults(
    key: str, name: str, strongest: str, tmp_path: Path
) -> None:
    sources = ["storage", "platform", "environment", "default"]
    held = sources[sources.index(strongest) :]
    document = runtime()
    if "platform" in held:
        document["local-s3-config"] = {key: text_for(name, "platform")}
    if "storage" in held:
        document[SECTION]["storage"] = {key: text_for(name, "storage")}
    environ = {"MTR_HOME": str(tmp_path), VARIABLES[name]: text_for(name, "environment")}
    base = load_settings(
        served=True, directory=tmp_path, environ=environ if "environment" in held else {"MTR_HOME": str(tmp_path)}
    )
    decision = decide(document, base)
    settings = decide_settings(base, decision.changes, place="Nacos", origins=decision.origins)

    assert in_force(settings, name) == (DEFAULTS[name] if strongest == "default" else text_for(name, strongest))


def test_two_logical_buckets_may_be_one() -> None:
    settings = settled({**runtime(), "local-s3-config": {"bucket_name": "one", "models_bucket_name": "one"}})

    assert (settings.buckets["default"], settings.buckets["models"]) == ("one", "one")


def test_a_key_that_was_prepared_and_left_empty_decides_nothing() -> None:
    settings = settled(runtime(storage={"endpoint": "", "access_key": None}), s3_endpoint="http://machine")

    assert settings.s3_endpoint == "http://machine"
    assert settings.execution_enabled


def test_a_store_s_address_that_cannot_be_used_keeps_execution_off() -> None:
    document = runtime(storage={"endpoint": "minio:9000", "secret_key": 5})
    settings = settled(document)

    found = [(origin.setting, origin.reason) for origin in settings.policy().origins_of("execution_enabled")]
    assert found == [
        (f"{SECTION}.storage.endpoint", "cannot be used"),
        (f"{SECTION}.storage.secret_key", "cannot be used"),
    ]
    assert f"{SECTION}.storage.secret_key is a number, must be text, so write it in quotes; it is not used" in (
        warnings_of(document)
    )


@pytest.mark.parametrize(
    "document",
    [
        {SECTION: "on"},
        {SECTION: {"enabled": True, "execution": "on"}},
        {**runtime(storage=["x"])},
        {**runtime(), "local-s3-config": "x"},
    ],
)
def test_a_section_that_is_no_table_keeps_execution_off(document: dict) -> None:
    assert not settled(document).execution_enabled
    assert [warning for warning in warnings_of(document) if warning.endswith("must be a table; execution stays off")]


def test_a_process_of_ours_gets_the_machine_s_settings_and_asks_nacos_itself() -> None:
    environ = settled(runtime(token="hush"), max_processes=7).to_environment()

    assert (environ["MTR_USE_NACOS"], environ["MTR_MAX_PROCESSES"], environ["MTR_API_TOKEN"]) == ("true", "7", "")
    assert environ["MTR_EXECUTION_ENABLED"] == "false"
