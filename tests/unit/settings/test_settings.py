"""Settings: one name everywhere, nothing guessed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from contracts.errors import InvalidSettingsError
from runtime.settings import Settings, change_settings, load_settings


def write(folder: Path, text: str) -> Path:
    file = folder / "mtr.toml"
    file.write_text(text)
    return file


def test_with_nothing_configured_execution_is_on_and_script_managed_data_off(tmp_path) -> None:
    settings = load_settings(directory=tmp_path, environ={})

    assert settings.execution_enabled
    assert not settings.allow_script_managed_data
    assert settings.runtime_ids == ("base",)


def test_served_to_a_platform_execution_is_off_until_a_setting_turns_it_on(tmp_path) -> None:
    assert not load_settings(served=True, directory=tmp_path, environ={}).execution_enabled
    assert load_settings(served=True, directory=tmp_path, environ={"MTR_EXECUTION_ENABLED": "true"}).execution_enabled


def test_home_is_the_users_data_folder_when_there_is_no_settings_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    assert load_settings(directory=tmp_path, environ={}).home == tmp_path / "data" / "mtr"


def test_home_lies_beside_the_settings_file_found_above(tmp_path) -> None:
    write(tmp_path, "")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    settings = load_settings(directory=below, environ={})

    assert settings.home == tmp_path / ".mtr"
    assert settings.workspace_root == tmp_path / ".mtr" / "workspaces"
    assert settings.ledger_url == f"sqlite:///{tmp_path}/.mtr/ledger.db"


def test_relative_paths_begin_where_they_were_written(tmp_path) -> None:
    write(tmp_path, 'workspace_root = "scratch"\n[runtimes]\ntorch = "envs/torch/bin/python"\n')
    below = tmp_path / "below"
    below.mkdir()

    settings = load_settings(directory=below, environ={"MTR_HOME": "here"})

    assert settings.home == below / "here"
    assert settings.workspace_root == tmp_path / "scratch"
    assert settings.runtimes["torch"] == tmp_path / "envs/torch/bin/python"


def test_the_environment_is_stronger_than_the_file_and_ours_than_the_platforms(tmp_path) -> None:
    write(tmp_path, 's3_endpoint = "http://file:1"\ns3_region = "file"\nidle_timeout_seconds = 5\n')

    settings = load_settings(
        directory=tmp_path,
        environ={
            "S3_ENDPOINT": "http://platform:1",
            "S3_REGION": "platform",
            "MTR_S3_ENDPOINT": "http://ours:1",
            "MTR_IDLE_TIMEOUT_SECONDS": "7.5",
        },
    )

    assert settings.s3_endpoint == "http://ours:1"
    assert settings.s3_region == "platform"
    assert settings.idle_timeout_seconds == 7.5


def test_the_platforms_names_switch_to_s3_with_the_platforms_buckets(tmp_path) -> None:
    settings = load_settings(
        directory=tmp_path,
        environ={
            "S3_ENDPOINT": "http://127.0.0.1:9",
            "S3_ACCESS_KEY": "key",
            "S3_SECRET_KEY": "secret",
            "S3_MODELS_BUCKET": "mine",
        },
    )

    assert settings.uses_s3
    assert settings.s3_secret_key.get_secret_value() == "secret"
    assert settings.buckets == {
        "default": "auto-ml-datasets",
        "datasets": "auto-ml-datasets",
        "models": "mine",
        "annotations": "auto-ml-annotations",
    }


def test_a_store_prefix_names_the_buckets_that_have_no_other_name(tmp_path) -> None:
    settings = load_settings(
        directory=tmp_path, environ={"MTR_STORE": "s3://lab", "MTR_S3_DATASETS_BUCKET": "elsewhere"}
    )

    assert settings.uses_s3
    assert settings.buckets == {
        "default": "lab-default",
        "datasets": "elsewhere",
        "models": "lab-models",
        "annotations": "lab-annotations",
    }


def test_a_local_store_stays_local_although_the_platforms_s3_is_named(tmp_path) -> None:
    environ = {"MTR_STORE": "local", "S3_ENDPOINT": "http://127.0.0.1:9"}

    assert not load_settings(directory=tmp_path, environ=environ).uses_s3


def test_base_is_this_python_without_following_its_link(tmp_path) -> None:
    settings = load_settings(directory=tmp_path, environ={"MTR_RUNTIMES": "torch=/opt/torch/bin/python"})

    assert settings.runtimes == {"base": Path(sys.executable), "torch": Path("/opt/torch/bin/python")}


@pytest.mark.parametrize("text", ["base,torch", '["base", "torch"]', " base , torch "])
def test_lists_are_written_with_commas_or_as_json(tmp_path, text: str) -> None:
    assert load_settings(directory=tmp_path, environ={"MTR_RUNTIME_IDS": text}).runtime_ids == ("base", "torch")


def test_a_single_runtime_may_be_plain_text(tmp_path) -> None:
    write(tmp_path, 'runtime_ids = "torch"\n')

    assert load_settings(directory=tmp_path, environ={}).runtime_ids == ("torch",)


def test_a_text_is_not_a_truth_value_and_execution_stays_off(tmp_path) -> None:
    file = write(tmp_path, 'execution_enabled = "true"\n')

    with pytest.raises(InvalidSettingsError) as refused:
        load_settings(directory=tmp_path, environ={})

    assert refused.value.context["violations"] == [
        {"path": f"execution_enabled in {file}", "message": "is text, must be true; execution stays off"}
    ]


def test_an_environment_word_that_is_neither_true_nor_false_is_refused(tmp_path) -> None:
    with pytest.raises(InvalidSettingsError, match="MTR_ALLOW_SCRIPT_MANAGED_DATA: is text, must be true or false"):
        load_settings(directory=tmp_path, environ={"MTR_ALLOW_SCRIPT_MANAGED_DATA": "yes"})


def test_every_wrong_key_is_named_at_once(tmp_path) -> None:
    file = write(tmp_path, 'max_procesess = 3\nmax_output_bytes = "1"\n[runtimes]\ntorch = 3\n')

    with pytest.raises(InvalidSettingsError) as refused:
        load_settings(directory=tmp_path, environ={"MTR_EXECTION_ENABLED": "true", "MTR_MAX_PROCESSES": "many"})

    assert {(violation["path"], violation["message"]) for violation in refused.value.context["violations"]} == {
        (f"max_procesess in {file}", "is no setting; did you mean max_processes?"),
        ("MTR_EXECTION_ENABLED", "is no setting; did you mean MTR_EXECUTION_ENABLED?"),
        (f"max_output_bytes in {file}", "is text, must be an integer"),
        ("MTR_MAX_PROCESSES", "is text, must be an integer"),
        (f"runtimes in {file}: torch", "is a number, must be a path"),
    }


def test_names_that_our_processes_pass_to_each_other_are_not_settings(tmp_path) -> None:
    assert load_settings(directory=tmp_path, environ={"MTR_INTERNAL_TOKEN": "x"}).home


def test_a_file_that_is_not_toml_is_named(tmp_path) -> None:
    file = write(tmp_path, "execution_enabled = yes")

    with pytest.raises(InvalidSettingsError, match="cannot be read as TOML") as refused:
        load_settings(directory=tmp_path, environ={})

    assert str(file) in refused.value.message


def test_secrets_do_not_show_in_a_representation_or_an_error(tmp_path) -> None:
    settings = Settings(home=tmp_path, s3_secret_key="hush", database_url="postgresql://u:hush@h/d")
    assert "hush" not in repr(settings)

    with pytest.raises(InvalidSettingsError) as refused:
        load_settings(directory=tmp_path, environ={"MTR_S3_ENDPOINT": "hush"})
    assert "hush" not in str(refused.value.to_document())


def test_another_process_loads_the_same_settings_from_the_environment(tmp_path) -> None:
    settings = Settings(
        home=tmp_path / "home",
        store="s3://lab",
        s3_secret_key="hush",
        execution_enabled=True,
        runtime_ids=("base", "torch"),
        runtimes={"torch": "/opt/torch/bin/python"},
        oom_memory_factor=2.0,
        process_nofile=None,
        cpu_pool="mtr-cpu",
        use_nacos=False,
    )

    again = load_settings(served=True, directory=tmp_path, environ=settings.to_environment())

    assert again == settings


def test_another_process_asks_no_nacos_that_nobody_decided_on(tmp_path) -> None:
    again = load_settings(served=True, directory=tmp_path, environ=Settings(home=tmp_path).to_environment())

    assert again.use_nacos is False


@pytest.mark.parametrize(("text", "value"), [("true", True), ("True", True), ("FALSE", False), ("", None)])
def test_use_nacos_is_spelled_as_the_platform_s_services_spell_it(tmp_path, text: str, value: object) -> None:
    assert load_settings(directory=tmp_path, environ={"USE_NACOS": text}).use_nacos is value


def test_a_use_nacos_that_is_neither_is_refused(tmp_path) -> None:
    with pytest.raises(InvalidSettingsError, match="USE_NACOS: is text, must be true or false"):
        load_settings(directory=tmp_path, environ={"USE_NACOS": "1"})


@pytest.mark.parametrize(
    "address", ["http://user:secret@nacos:8848", "a b", "ftp://x", "a,,b", "a:65536", "user:secret@a"]
)
def test_an_address_that_is_none_is_refused_without_showing_it(tmp_path, address: str) -> None:
    with pytest.raises(InvalidSettingsError, match="MTR_NACOS_SERVER_ADDR") as refused:
        load_settings(directory=tmp_path, environ={"MTR_NACOS_SERVER_ADDR": address})

    assert "secret" not in str(refused.value.to_document())


@pytest.mark.parametrize("address", ["nacos", "n:8848", "http://n:1/x", "https://n/", "[::1]:9", "a:1, b:2", "a:65535"])
def test_an_address_is_a_host_or_a_url_or_several(tmp_path, address: str) -> None:
    settings = load_settings(directory=tmp_path, environ={"NACOS_SERVER_ADDR": address})

    assert settings.nacos_server_addr == address


def test_the_policy_is_what_the_settings_say(tmp_path) -> None:
    policy = Settings(home=tmp_path, execution_enabled=True, runtime_ids=("a",)).policy()

    assert (policy.execution_enabled, policy.runtime_ids, policy.allow_script_managed_data) == (True, ("a",), False)


def test_settings_decided_elsewhere_replace_only_what_they_name(tmp_path) -> None:
    settings = Settings(home=tmp_path, idle_timeout_seconds=7.0, s3_secret_key="hush")

    changed = change_settings(settings, {"execution_enabled": True}, place="the block mtr")

    assert changed == settings.model_copy(update={"execution_enabled": True})


def test_a_wrong_setting_decided_elsewhere_is_named_with_its_place(tmp_path) -> None:
    with pytest.raises(InvalidSettingsError) as refused:
        change_settings(
            Settings(home=tmp_path), {"execution_enabled": "true", "max_proceses": 3}, place="the block mtr"
        )

    assert refused.value.context["violations"] == [
        {"path": "max_proceses in the block mtr", "message": "is no setting; did you mean max_processes?"},
        {"path": "execution_enabled in the block mtr", "message": "is text, must be true; execution stays off"},
    ]
