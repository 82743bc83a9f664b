from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer

from services.cli.main import app
from tests.assets.guide_blocks import DOCS, blocks

PAGE = "../README.md"
ROOT = DOCS.parent
LINES = [
    line.removeprefix("$ ")
    for block in blocks(PAGE)
    if block.language == "console"
    for line in block.content.splitlines()
]
PROGRAM = [line for line in LINES if line.startswith("mtr ")]


@pytest.mark.parametrize("line", PROGRAM)
def test_every_command_is_one_that_the_program_understands(line):
    command: Any = typer.main.get_command(app)
    arguments = shlex.split(line, comments=True)[1:]

    context = command.make_context("mtr", arguments)
    while arguments and hasattr(command, "resolve_command"):  # `mtr bridge` is a command and a group
        name, command, arguments = command.resolve_command(context, arguments)
        context = command.make_context(name, list(arguments), parent=context)

    assert context.params


def test_every_make_target_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert {line.split()[1] for line in LINES if line.startswith("make ")} <= targets


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{page.name}" for page in DOCS.glob("*.md"))]
)
def test_every_link_leads_to_a_file(page):
    path = ROOT / page
    links = re.findall(r"\]\((?!https?://)([^)#]+)[^)]*\)", path.read_text())

    assert [link for link in links if not (path.parent / link).exists()] == []
