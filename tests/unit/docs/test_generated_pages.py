from __future__ import annotations

import pytest

from docs import build


@pytest.mark.parametrize("name", build.PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert (build.FOLDER / name).read_text(encoding="utf-8") == build.PAGES[name]()


def test_stale_pages_are_named(tmp_path, capsys) -> None:
    (tmp_path / "errors.md").write_text("old", encoding="utf-8")

    assert build.main(["--check"], tmp_path) == 2
    assert "errors.md" in capsys.readouterr().err


def test_pages_that_were_just_written_are_current(tmp_path) -> None:
    build.main([], tmp_path)

    assert build.main(["--check"], tmp_path) == 0
