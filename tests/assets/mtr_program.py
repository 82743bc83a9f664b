"""The program `mtr` as people and scripts start it: a process of its own, on an installation of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.assets.produced_codes import note_codes

if TYPE_CHECKING:
    from pathlib import Path

WAIT_SECONDS = 120


@dataclass
class Answered:
    """What one call of `mtr` left."""

    code: int
    document: Any
    stderr: str


class Mtr:
    """The program, on the installation under `home`, with nothing else configured."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MTR_", "PREFECT_", "S3_"))}
        self.environment = {**kept, "MTR_HOME": str(home), "COLUMNS": "200"}

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """The program, started, in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "services.cli", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environment, **environment},
            start_new_session=True,
        )

    def __call__(self, *arguments: object, **environment: str) -> Answered:
        """The JSON answer of one command."""
        return self.ended(self.start(*arguments, "--json", **environment))

    @staticmethod
    def ended(process: subprocess.Popen[str]) -> Answered:
        """What the program answered, once it has ended. Fails where stdout is not exactly one JSON document."""
        stdout, stderr = process.communicate(timeout=WAIT_SECONDS)
        try:
            document = json.loads(stdout)
        except json.JSONDecodeError:
            pytest.fail(f"stdout is not one JSON document: {stdout!r}; stderr: {stderr}")
        if isinstance(document, dict) and document.get("error"):
            note_codes(document["error"]["code"])
        return Answered(process.returncode, document, stderr)
