"""JSON as the contracts mean it."""

from __future__ import annotations

import hashlib
import json

import pytest

from contracts.errors import InvalidDocumentError
from contracts.limits import MAX_DOCUMENT_DEPTH, MAX_REREAD_BYTES
from contracts.strict_json import canonical_chunks, digest_of, dump, dump_canonical, join_path, parse, value_violations


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{} {}", "is not JSON"),
        (b"", "is not JSON"),
        (b'"\xff"', "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        ('"\ud800"', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_strict_json_is_refused(content, said) -> None:
    with pytest.raises(InvalidDocumentError) as refused:
        parse(content)
    assert refused.value.context["violations"][0]["message"].startswith(said)


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ('{"b": 1, "b": 1}', "a[0].b", "is given twice"),
        ('{"b": 1, "\\u0062": 1}', "a[0].b", "is given twice"),
        ('{"b": {"c": 1, "d": 2, "c": 3}}', "a[0].b.c", "is given twice"),
        ('{"b": NaN}', "a[0].b", "is not a finite number"),
        ('{"b": Infinity}', "a[0].b", "is not a finite number"),
        ('{"b": -Infinity}', "a[0].b", "is not a finite number"),
        ('{"b": "\\ud800"}', "a[0].b", "holds half of a surrogate pair, which is no text"),
        ('{"b": ' + "9" * 4_301 + "}", "a[0].b", "has more than 4300 digits"),
    ],
)
def test_what_the_parser_refuses_in_a_field_is_said_with_its_path(value, path, message) -> None:
    with pytest.raises(InvalidDocumentError) as refused:
        parse(f'{{"a": [{value}]}}')
    assert refused.value.context["violations"] == [{"path": path, "message": message}]


def test_all_that_the_parser_refuses_is_said_at_once() -> None:
    with pytest.raises(InvalidDocumentError) as refused:
        parse(b'{"a": NaN, "b": [1e400], "c": 1, "c": 2}')
    assert [found["path"] for found in refused.value.context["violations"]] == ["a", "b[0]", "c"]


def test_a_long_text_is_not_read_twice_to_name_a_field() -> None:
    with pytest.raises(InvalidDocumentError) as refused:
        parse(b'{"a": NaN, "b": "' + b"x" * MAX_REREAD_BYTES + b'"}')
    assert refused.value.context["violations"][0]["message"].startswith("is not JSON")


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400 + ".0"])
def test_a_number_too_large_for_a_double_is_refused_with_its_path(number) -> None:
    with pytest.raises(InvalidDocumentError) as refused:
        parse(f'{{"a": [{{"b": {number}}}]}}')
    assert refused.value.context["violations"] == [{"path": "a[0].b", "message": "is not a finite number"}]


def test_nesting_is_bounded() -> None:
    content = "[" * (MAX_DOCUMENT_DEPTH + 1) + "]" * (MAX_DOCUMENT_DEPTH + 1)
    with pytest.raises(InvalidDocumentError, match="is nested deeper than 100 levels"):
        parse(content)


def test_nesting_up_to_the_bound_is_accepted() -> None:
    content = "[" * MAX_DOCUMENT_DEPTH + "]" * MAX_DOCUMENT_DEPTH
    assert json.dumps(parse(content)) == content


def test_the_error_names_the_contract() -> None:
    with pytest.raises(InvalidDocumentError, match="not a valid package document"):
        parse(b"{", contract="package")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": object()}, "is a Python object, which JSON cannot carry"),
        ({"a": {1, 2}}, "is a Python set, which JSON cannot carry"),
        ({"a": b"x"}, "is a Python bytes, which JSON cannot carry"),
        ({"a": "\ud800"}, "holds half of a surrogate pair, which is no text"),
        ({"a": float("nan")}, "is not a finite number"),
        ({"a": -(10**5_000)}, "has more than 4300 digits"),
    ],
)
def test_python_values_that_are_no_json_are_found(value, message) -> None:
    assert list(value_violations(value)) == [{"path": "a", "message": message}]


@pytest.mark.parametrize("key", [1, None, "\ud800"])
def test_keys_that_are_no_text_are_found(key) -> None:
    (found,) = value_violations({"a": {key: 1}})
    assert (found["path"], found["message"]) == ("a", f"has the key {key!r}, which is no text")


def test_violations_come_in_the_documents_order() -> None:
    bad = float("inf")
    assert [found["path"] for found in value_violations({"b": bad, "a": [bad, {"z": bad}]})] == ["b", "a[0]", "a[1].z"]


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ((), ""),
        (("items", 3, "media", "sha256"), "items[3].media.sha256"),
        (("parameters", "learning-rate"), "parameters.learning-rate"),
        (("properties", "x", "$ref"), "properties.x.$ref"),
        (("parameters", "a b"), 'parameters["a b"]'),
        (("parameters", ""), 'parameters[""]'),
        (("a.b",), '["a.b"]'),
        (("größe",), "größe"),
        (("a\n",), '["a\\n"]'),
        (("k" * 101,), f'["{"k" * 100}…"]'),
    ],
)
def test_paths_read_like_code(steps, path) -> None:
    assert join_path(steps) == path


def test_the_canonical_form_is_sorted_compact_and_unescaped() -> None:
    assert dump_canonical({"b": [1, 2.0, None], "ä": "€", "a": {"z": True, "y": "\n"}}) == (
        '{"a":{"y":"\\n","z":true},"b":[1,2.0,null],"ä":"€"}'.encode()
    )


@pytest.mark.parametrize("value", [{}, [], "x", 1, None, {"a": {}}, {"a": []}])
def test_the_canonical_form_of_small_values_is_pythons(value) -> None:
    assert dump_canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize("entries", [999, 1_000, 1_001, 2_000, 2_500])
def test_a_long_list_is_written_in_pieces_with_the_same_bytes(entries) -> None:
    value = {"a": 1, "items": [{"n": index} for index in range(entries)], "z": "end"}
    assert b"".join(canonical_chunks(value)) == json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def test_no_piece_of_a_long_list_grows_with_the_list() -> None:
    value = {"items": ["x" * 10] * 50_000}
    assert max(map(len, canonical_chunks(value))) < 20_000


def test_the_digest_is_that_of_the_canonical_bytes() -> None:
    assert digest_of({"b": 1, "a": "ß"}) == hashlib.sha256('{"a":"ß","b":1}'.encode()).hexdigest()


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}, "\ud800"])
def test_what_is_no_json_has_no_canonical_form(value) -> None:
    with pytest.raises(ValueError):
        dump_canonical(value)


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**70), 10**40])
def test_an_integer_of_any_length_is_written_as_it_was_read(number) -> None:
    content = json.dumps({"b": [number, 1.5, None], "a": "ü"}, separators=(",", ":"), ensure_ascii=False).encode()
    assert dump(parse(content)) == content
