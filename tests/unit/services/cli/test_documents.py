"""One JSON document on a stream, whatever it holds and whatever the stream can encode."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from services.cli.documents import write_document


def written(document: object, encoding: str = "utf-8") -> bytes:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    write_document(stream, document)
    return stream.detach().getvalue()


def test_text_stays_readable_where_the_stream_can_carry_it() -> None:
    assert "猫".encode() in written({"name": "猫"})


@pytest.mark.parametrize(("text", "encoding"), [("猫", "ascii"), ("a\udcffb", "utf-8")])
def test_what_the_stream_cannot_carry_is_escaped(text: str, encoding: str) -> None:
    assert json.loads(written({"name": text}, encoding)) == {"name": text}


def test_evidence_that_is_no_json_becomes_text() -> None:
    assert json.loads(written({"path": Path("/a")})) == {"path": "/a"}
