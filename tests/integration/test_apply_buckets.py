"""`mtr apply` on an installation that has an S3 store and no Prefect server: the buckets are all there is to apply."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.assets.s3_server import S3Server

pytestmark = pytest.mark.service

BUCKETS = ["fresh-default", "fresh-datasets", "fresh-models", "fresh-annotations"]


def applied(server: S3Server, home: Path, *options: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-m", "services.cli", "apply", "--json", *options],
        env={"PATH": os.environ["PATH"], "MTR_HOME": str(home), **server.environment("fresh")},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def test_missing_buckets_are_planned_then_made_then_kept(s3_server: S3Server, tmp_path: Path) -> None:
    runs = [applied(s3_server, tmp_path, *options) for options in (["--dry-run"], [], [])]

    (listed,) = [name for name, value in runs[0].items() if isinstance(value, list)]
    actions = [[(entry["action"], entry["name"]) for entry in run[listed]] for run in runs]
    assert actions == [[(action, bucket) for bucket in BUCKETS] for action in ("create", "create", "keep")]
