"""The fenced blocks of a page under docs/, so that tests can run what readers will copy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(?P<language>\w+)(?: (?P<label>[^\n]*))?\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block: `label` is what stands behind the language in its first line."""

    language: str
    label: str
    content: str

    @property
    def title(self) -> str:
        """The file name that the block is shown under; empty where it is no file."""
        return self.label.removeprefix("title=") if self.label.startswith("title=") else ""


def blocks(page: str) -> list[Block]:
    """Every block of the page, in order."""
    text = (DOCS / page).read_text()
    return [Block(found["language"], found["label"] or "", found["content"]) for found in BLOCK.finditer(text)]
