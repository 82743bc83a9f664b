from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.assets.guide_blocks import blocks

pytestmark = pytest.mark.service
ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_every_command_of_the_guide_works_in_the_order_of_the_page(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("MTR_", "S3_", "PREFECT_"))},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "MTR_HOME": str(tmp_path / "home"),
    }

    commands = [
        line
        for block in blocks("package-author-guide.md")
        if block.language == "console"
        for line in block.content.splitlines()
    ]
    assert len(commands) >= 8
    for command in commands:
        ended = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"$ {command}\n{ended.stdout}\n{ended.stderr}"
