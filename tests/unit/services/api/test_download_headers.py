"""The headers of a download: what a range means, and a file name that no header and no client can trip over."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.api.downloads import disposition, read_range


@pytest.mark.parametrize(
    ("header", "meant"),
    [
        ("bytes=0-0", range(1)),
        ("bytes=5-", range(5, 10)),
        ("bytes=-3", range(7, 10)),
        ("bytes=-30", range(10)),
        ("bytes=2-99999999999999999999", range(2, 10)),
        (" bytes=1-2 ", range(1, 3)),
    ],
)
def test_a_range_is_cut_to_what_there_is(header: str, meant: range) -> None:
    assert read_range(header, 10) == meant


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=-0"])
def test_a_range_behind_the_end_is_empty(header: str) -> None:
    part = read_range(header, 10)

    assert part is not None
    assert part.start >= part.stop


@pytest.mark.parametrize("header", ["", "bytes=", "bytes=-", "bytes=3-1", "bytes=0-1,3-4", "lines=0-1", "bytes=١-٢"])
def test_what_is_no_range_of_ours_is_ignored(header: str) -> None:
    assert read_range(header, 10) is None


@given(name=st.text())
def test_any_name_makes_a_header_of_plain_ascii_without_a_path(name: str) -> None:
    said = disposition(name)
    found = re.fullmatch(
        r'attachment; filename="([A-Za-z0-9._ -]+)"(?:; filename\*=UTF-8\'\'([A-Za-z0-9._~%-]+))?', said
    )

    assert found is not None
    decoded = unquote(found[2] or found[1])
    assert not {"/", "\\", "\0", "\r", "\n"} & set(decoded)
    assert not decoded.startswith(".")


def test_a_name_in_another_script_is_kept_for_those_who_can_read_it() -> None:
    assert disposition("out/модель.onnx") == (
        "attachment; filename=\"______.onnx\"; filename*=UTF-8''%D0%BC%D0%BE%D0%B4%D0%B5%D0%BB%D1%8C.onnx"
    )
