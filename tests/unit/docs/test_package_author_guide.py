from __future__ import annotations

import ast
import json
import re
from datetime import UTC, datetime

from pydantic import TypeAdapter

from contracts.base import validate
from contracts.completion import Completion
from contracts.errors import codes
from contracts.event import Event
from contracts.package import MANIFEST_NAME, PackageManifest
from examples.digits_data import write_digits
from tests.assets.example_runs import EXECUTION_ID, image_items, run_package
from tests.assets.guide_blocks import DOCS, blocks

PAGE = "package-author-guide.md"


def block(language: str, label: str) -> str:
    (found,) = [one.content for one in blocks(PAGE) if (one.language, one.label) == (language, label)]
    return found


def test_every_block_is_one_that_a_test_runs():
    kinds = {(one.language, one.label) for one in blocks(PAGE)}

    assert kinds == {
        ("json", f"title={MANIFEST_NAME}"),
        ("python", "title=train.py"),
        ("python", "events"),
        ("python", "completion"),
        ("console", ""),  # by the integration test of the same name
    }


def test_the_smallest_package_runs(tmp_path):
    write_digits(tmp_path / "digits")
    package = tmp_path / "package"
    package.mkdir()
    for one in blocks(PAGE):
        if one.title:
            (package / one.title).write_text(one.content)

    run = run_package(
        package,
        tmp_path / "output",
        class_names=[str(digit) for digit in range(10)],
        items=image_items(tmp_path / "digits"),
        input_dir=tmp_path / "digits",
    )

    assert run.completion.summary == "1797 images of 10 classes"
    assert sum(json.loads((run.output / "counts.json").read_text()).values()) == 1797


def test_every_reported_event_is_valid():
    reported = []

    def report(**fields):
        base = {"execution_id": EXECUTION_ID, "sequence": len(reported), "occurred_at": datetime.now(UTC).isoformat()}
        document = {"protocol_version": "training-event/v1", **base, **fields}
        reported.append(TypeAdapter(Event).validate_json(json.dumps(document)))

    exec(block("python", "events"), {"report": report})

    assert {event.event_type for event in reported} == {"phase", "log", "metric", "checkpoint"}


def test_the_completion_is_valid():
    completion = validate(Completion, ast.literal_eval(block("python", "completion")))

    assert completion.model is not None


def test_every_field_of_the_manifest_is_explained():
    table = (DOCS / PAGE).read_text().split("## The manifest")[1].split("\n## ")[0]
    explained = set(re.findall(r"`([a-z_]+)(?:\.id)?`", "".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE))))

    assert explained == PackageManifest.model_fields.keys() - {"protocol_version"}


def test_every_named_error_is_in_the_table_of_errors():
    section = (DOCS / PAGE).read_text().split("## What is refused")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"\| ([^|]*) \|$", section, re.MULTILINE))))

    assert len(named) > 15
    assert named <= codes().keys()
