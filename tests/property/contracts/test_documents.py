"""What holds for any document: accepted means accepted again, and nothing that the contract forbids slips in."""

from __future__ import annotations

import copy
import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from contracts.base import CONTRACTS, validate
from contracts.dataset import PinnedItem, SourceItem
from contracts.errors import InvalidDocumentError
from contracts.item_columns import Columns
from contracts.schemas import rendered
from contracts.strict_json import dump_canonical, join_path, parse
from tests.assets import documents
from tests.assets.document_strategies import DOCUMENTS, free_values, pinned_items, source_items

if TYPE_CHECKING:
    from collections.abc import Iterator

Steps = tuple[str | int, ...]

JSON_SCHEMAS = {name: Draft202012Validator(json.loads(rendered()[f"{name}.json"])) for name in CONTRACTS}
FREE = {"metadata", "parameters", "parameters_schema", "preprocessing", "postprocessing", "metrics"}
"""Fields that are maps; what is inside them is no field of ours."""

with_numbers = pytest.mark.parametrize(
    "contract", ["dataset_source_manifest", "mq_submission", "execution", "event", "result"]
)
thorough = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
every_contract = pytest.mark.parametrize("contract", CONTRACTS)


def places(value: Any, at: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Every value that the contract gives a type, with its steps; free maps themselves, not what they hold."""
    yield at, value
    if isinstance(value, dict) and not (at and at[-1] in FREE):
        for name, below in value.items():
            yield from places(below, (*at, name))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from places(below, (*at, index))


def replaced(document: Any, at: Steps, value: Any) -> Any:
    document = copy.deepcopy(document)
    place = document
    for step in at[:-1]:
        place = place[step]
    place[at[-1]] = value
    return document


def refused_paths(contract: str, content: Any) -> list[str]:
    with pytest.raises(InvalidDocumentError) as refused:
        validate(contract, content)
    return [found["path"] for found in refused.value.context["violations"]]


@every_contract
@given(data=st.data())
@thorough
def test_what_is_accepted_is_accepted_again_as_it_was_normalized(contract, data) -> None:
    document = validate(contract, json.dumps(data.draw(DOCUMENTS[contract])))
    normalized = document.to_document()
    again = validate(contract, json.dumps(normalized))
    assert again == document
    assert dump_canonical(again.to_document()) == dump_canonical(normalized)


@every_contract
@given(data=st.data())
@thorough
def test_text_and_parsed_values_are_one_document(contract, data) -> None:
    value = data.draw(DOCUMENTS[contract])
    assert validate(contract, value) == validate(contract, json.dumps(value))


@every_contract
@given(data=st.data())
@thorough
def test_an_unknown_field_is_refused_at_every_level(contract, data) -> None:
    value = data.draw(DOCUMENTS[contract])
    objects = [at for at, below in places(value) if isinstance(below, dict) and not (at and at[-1] in FREE)]
    at = (*data.draw(st.sampled_from(objects)), "unknown_field")
    assert join_path(at) in refused_paths(contract, json.dumps(replaced(value, at, None)))


@every_contract
@given(data=st.data())
@thorough
def test_anything_anywhere_is_a_document_or_a_typed_refusal_with_its_violations(contract, data) -> None:
    value = data.draw(DOCUMENTS[contract])
    at = data.draw(st.sampled_from([at for at, _ in places(value) if at] or [()]))
    anything = data.draw(free_values)
    changed = replaced(value, at, anything) if at else anything
    try:
        document = validate(contract, json.dumps(changed))
    except InvalidDocumentError as refused:
        violations = refused.context["violations"]
    else:
        violations = [{"path": "", "message": "none"}]
        assert validate(contract, document.to_document()) == document
    assert violations
    assert all(set(found) == {"path", "message"} and found["message"] for found in violations)


@every_contract
@given(data=st.data())
@thorough
def test_the_json_schema_accepts_what_the_model_accepts(contract, data) -> None:
    value = validate(contract, data.draw(DOCUMENTS[contract])).to_document()
    JSON_SCHEMAS[contract].validate(value)


@pytest.mark.parametrize(
    ("contract", "path"),
    [
        ("package", ("key",)),
        ("package", ("version",)),
        ("package", ("supported_tasks", 0, "task_kind")),
        ("model_package", ("task_kind",)),
        ("dataset_source_manifest", ("items", 0, "media", "sha256")),
        ("dataset_source_manifest", ("items", 0, "media", "bucket")),
        ("dataset_source_manifest", ("items", 0, "split")),
        ("dataset_manifest", ("task_kind",)),
        ("mq_submission", ("execution_id",)),
        ("mq_submission", ("package", "key")),
        ("mq_submission", ("package", "sha256")),
        ("mq_submission", ("input_mode",)),
        ("mq_submission", ("protocol_version",)),
        ("execution", ("package", "version")),
        ("event", ("event_type",)),
        ("result", ("artifacts", 0, "sha256")),
        ("result", ("status",)),
    ],
)
@given(whitespace=st.sampled_from(["\n", "\r\n", "\r", "\u2028", "\x85", "\0"]))
def test_an_anchored_pattern_refuses_a_trailing_newline(contract, path, whitespace) -> None:
    document = documents.WHOLE[contract]()
    place: Any = document
    for step in path:
        place = place[step]
    assert join_path(path) in refused_paths(contract, json.dumps(replaced(document, path, place + whitespace)))


@with_numbers
@given(data=st.data())
@thorough
def test_text_and_truth_are_no_numbers(contract, data) -> None:
    value = validate(contract, data.draw(DOCUMENTS[contract])).to_document()
    at = data.draw(st.sampled_from(_numbers(value) or [None]))
    assume(at is not None)
    wrong = data.draw(st.sampled_from(["3", "", True, False, math.nan, math.inf, -math.inf, [3], {}]))
    assert join_path(at) in refused_paths(contract, replaced(value, at, wrong))


@with_numbers
@given(data=st.data())
@thorough
def test_a_whole_float_is_the_integer(contract, data) -> None:
    value = validate(contract, data.draw(DOCUMENTS[contract])).to_document()
    found = [at for at in _numbers(value) if type(_at(value, at)) is int and _at(value, at) < 2**53]
    at = data.draw(st.sampled_from(found or [None]))
    assume(at is not None)
    same = validate(contract, replaced(value, at, float(_at(value, at)))).to_document()
    assert dump_canonical(same) == dump_canonical(value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
@pytest.mark.parametrize(
    ("contract", "field"),
    [
        ("package", "parameters_schema"),
        ("model_package", "metadata"),
        ("mq_submission", "parameters"),
        ("execution", "parameters"),
        ("event", "metrics"),
        ("completion", "metrics"),
        ("result", "metrics"),
    ],
)
def test_no_number_that_is_none_enters_a_free_map(contract, field, number) -> None:
    document = documents.WHOLE[contract]()
    document[field] = {"type": "object", "n": "HERE"} if field == "parameters_schema" else {"n": "HERE"}
    refused_paths(contract, json.dumps(document).replace('"HERE"', number))


@pytest.mark.parametrize("place", [("items", 0, "metadata"), ("items", 0, "media")])
@pytest.mark.parametrize("number", ["NaN", "1e400"])
def test_no_number_that_is_none_enters_an_item(place, number) -> None:
    document = replaced(documents.source_manifest(), (*place, "size_bytes"), "HERE")
    refused_paths("dataset_source_manifest", json.dumps(document).replace('"HERE"', number))


@every_contract
@given(data=st.data())
@thorough
def test_a_key_given_twice_is_refused_at_every_level(contract, data) -> None:
    value = data.draw(DOCUMENTS[contract])
    filled = [at for at, below in places(value) if isinstance(below, dict) and below]
    assume(filled)
    at = data.draw(st.sampled_from(filled))
    name, first = next(iter(_at(value, at).items()))
    marked = {"MARK": None} | _at(value, at)
    twice = json.dumps(replaced(value, at, marked) if at else marked).replace(
        '"MARK": null', f"{json.dumps(name)}: {json.dumps(first)}"
    )
    assert refused_paths(contract, twice) == [join_path((*at, name))]


@given(items=st.lists(source_items, min_size=1, max_size=6), data=st.data())
@thorough
def test_items_by_column_are_what_they_are_one_by_one(items, data) -> None:
    _same_by_column_and_one_by_one(SourceItem, items, data)


@given(items=st.lists(pinned_items, min_size=1, max_size=6), data=st.data())
@thorough
def test_pinned_items_by_column_are_what_they_are_one_by_one(items, data) -> None:
    _same_by_column_and_one_by_one(PinnedItem, items, data)


def _same_by_column_and_one_by_one(row_type: Any, items: list[Any], data: Any) -> None:
    if data.draw(st.booleans()):  # uniform rows are what columns are for
        names = set(items[0])
        items = [{name: item.get(name, items[0][name]) for name in names} for item in items]
    if data.draw(st.booleans()):
        at = data.draw(st.sampled_from([at for at, _ in places(items) if at]))
        items = replaced(items, at, data.draw(free_values | st.just("x\n") | st.just(3.0)))
    one_by_one: TypeAdapter[Any] = TypeAdapter(list[row_type])
    by_column = Columns(row_type).normalized(copy.deepcopy(items), owned=data.draw(st.booleans()))
    try:
        expected = one_by_one.validate_python(items)
    except ValidationError:
        assert by_column is None
    else:
        assert by_column is None or dump_canonical(by_column) == dump_canonical(expected)


@given(value=free_values)
@thorough
def test_the_canonical_form_is_read_back_as_it_was(value) -> None:
    assert dump_canonical(parse(dump_canonical(value))) == dump_canonical(value)


@given(value=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), free_values))
@thorough
def test_the_canonical_form_does_not_depend_on_the_order_of_keys(value) -> None:
    assert dump_canonical(dict(reversed(value.items()))) == dump_canonical(value)


def _at(value: Any, at: Steps) -> Any:
    for step in at:
        value = value[step]
    return value


def _numbers(value: Any) -> list[Steps]:
    """The places of typed numbers; a metric map's values are typed, what free maps hold is not."""
    found = [at for at, below in places(value) if type(below) in (int, float)]
    for at, below in places(value):
        if at and at[-1] == "metrics":
            found += [(*at, name) for name in below]
    return found
