from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.service
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Of somebody who has configured nothing; the installation is a new one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MTR_", "S3_", "PREFECT_"))}
    return {**kept, "MTR_HOME": str(tmp_path_factory.mktemp("home"))}


@pytest.fixture(scope="module")
def demo(environment, tmp_path_factory):
    """What the demo printed, run twice on one folder."""
    folder = tmp_path_factory.mktemp("demo") / "digits"
    printed = []
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-m", "examples.demo", str(folder)],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        printed.append(ended.stdout)
    return printed


def test_the_demo_ends_with_the_accuracy_of_the_registered_model_on_unseen_images(demo):
    found = re.search(r"accuracy +(\d+\.\d)%: (\d+) of 269 held-out images", demo[0])

    assert found, demo[0]
    assert float(found[1]) >= 95


def test_the_demo_says_where_the_model_is(demo):
    (model,) = re.findall(r"model +(\S+), (\S+)", demo[0])

    assert model[0] == "digits@1"
    assert Path(model[1]).stat().st_size > 1000


def test_the_demo_says_how_to_open_the_ui(demo):
    assert "mtr up" in demo[0]
    assert "http://127.0.0.1:4200" in demo[0]


def test_a_second_demo_copies_no_data_and_registers_the_next_version(demo):
    assert "known already: nothing was copied" in demo[1]
    assert "digits@2" in demo[1]


def test_the_registered_model_is_known_to_the_command_line_afterwards(demo, environment):
    ended = subprocess.run(
        [sys.executable, "-m", "services.cli", "model", "show", "digits@1", "--json"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    model = json.loads(ended.stdout)

    assert model["inputs"] == [{"name": "images", "dtype": "float32", "shape": ["batch", 1, 8, 8]}]
    assert model["class_names"] == [str(digit) for digit in range(10)]
