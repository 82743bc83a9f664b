from __future__ import annotations

from pathlib import Path

from runtime.execution.inputs import Inputs
from runtime.execution.view import hidden_places, trace, view_of
from runtime.settings import Settings
from tests.assets.training_runs import prepare


def test_a_path_without_links_is_itself(tmp_path) -> None:
    real = tmp_path.resolve()
    assert trace(str(real / "a")) == ([], str(real / "a"))


def test_every_link_on_the_way_is_found(tmp_path) -> None:
    root = tmp_path.resolve()
    (root / "real").mkdir()
    (root / "second").symlink_to("real")
    (root / "first").symlink_to(root / "second")
    links, at = trace(str(root / "first" / "file"))
    assert links == [(f"{root}/first", f"{root}/second"), (f"{root}/second", "real")]
    assert at == f"{root}/real/file"


def test_a_circle_of_links_ends(tmp_path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert trace(str(tmp_path / "a"))[1].startswith(str(tmp_path.resolve()))


def test_the_installation_is_hidden_with_its_settings_and_database(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    home, database = tmp_path / ".mtr", tmp_path / "elsewhere.db"
    for folder in (home, tmp_path / "prefect"):
        folder.mkdir()
    (tmp_path / "mtr.toml").touch()
    database.touch()
    settings = Settings(home=home, database_url=f"sqlite:///{database}")
    assert set(hidden_places(settings)) == {home, tmp_path / "prefect", tmp_path / "mtr.toml", database}


def test_only_its_own_folders_are_writable(tmp_path) -> None:
    launch = prepare(tmp_path, "")
    own = launch.workspace
    assert view_of(launch, 1)["writable"] == [str(p) for p in (own.code, own.input, own.output, own.tmp, own.home)]


def test_the_user_s_home_is_covered(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert str((tmp_path / "home").resolve()) in view_of(prepare(tmp_path, ""), 1)["covered"]


def test_the_root_is_never_covered(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert "/" not in view_of(prepare(tmp_path, ""), 1)["covered"]


def test_where_inputs_cannot_be_mounted_they_are_linked(tmp_path) -> None:
    launch = prepare(tmp_path, "")
    inputs = Inputs(launch)
    inputs.prepare()
    inputs.settle(read_only=False)
    assert (launch.workspace.input / "dataset").readlink() == (tmp_path / "materialized").resolve()
    assert inputs.changed() == ()


def test_a_replaced_link_is_a_changed_input(tmp_path) -> None:
    launch = prepare(tmp_path, "")
    inputs = Inputs(launch)
    inputs.prepare()
    inputs.settle(read_only=False)
    place = launch.workspace.input / "dataset"
    place.unlink()
    place.symlink_to(Path("/etc"))
    assert inputs.changed() == ("dataset",)


def test_a_changed_file_and_back_is_still_a_changed_input(tmp_path) -> None:
    launch = prepare(tmp_path, "")
    inputs = Inputs(launch)
    inputs.prepare()
    inputs.settle(read_only=False)
    manifest = launch.workspace.dataset_manifest
    content = manifest.read_text()
    manifest.write_text("other")
    manifest.write_text(content)
    assert inputs.changed() == ("dataset-manifest.json",)


def test_an_earlier_launch_s_links_are_no_obstacle(tmp_path) -> None:
    launch = prepare(tmp_path, "")
    for _ in range(2):
        inputs = Inputs(launch)
        inputs.prepare()
        inputs.settle(read_only=False)
    assert (launch.workspace.input / "dataset").is_symlink()
