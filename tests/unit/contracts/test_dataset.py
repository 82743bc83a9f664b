"""The three forms of a data set."""

from __future__ import annotations

import json

import pytest

from contracts.base import validate
from contracts.dataset import DatasetManifest, DatasetSnapshot, DatasetSourceManifest
from contracts.errors import InvalidDocumentError
from tests.assets import documents


def violations(model, document) -> dict[str, str]:
    with pytest.raises(InvalidDocumentError) as refused:
        validate(model, document)
    return {found["path"]: found["message"] for found in refused.value.context["violations"]}


def with_item(**changes) -> dict:
    document = documents.source_manifest()
    document["items"][1] |= changes
    return document


def reference(bucket: str, **changes) -> dict:
    return documents.pinned(bucket, "a.png") | changes


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"item_id": ""}, "item_id", "is empty"),
        ({"item_id": "x" * 257}, "item_id", "has 257 characters, may have 256"),
        ({"split": "training"}, "split", "is 'training', must be one of 'train', 'val', 'test' or 'unspecified'"),
        ({"media": reference("default")}, "media.bucket", "is 'default', must be 'datasets'"),
        ({"annotation": reference("datasets")}, "annotation.bucket", "is 'datasets', must be 'annotations'"),
        ({"media": reference("datasets", url="x")}, "media.url",
         "unknown field; known here: bucket, object_key, sha256, size_bytes"),
        ({"media": reference("datasets", size_bytes=-1)}, "media.size_bytes", "is -1, must be at least 0"),
        ({"media": reference("datasets", sha256="AB" * 32)}, "media.sha256",
         f"is {repr('AB' * 32)[:59]}…, must match ^[0-9a-f]{{64}}$"),
        ({"media": reference("datasets", sha256="ab" * 32 + "\n")}, "media.sha256",
         f"is {repr('ab' * 32)[:59]}…, must match ^[0-9a-f]{{64}}$"),
        ({"media": "a.png"}, "media", "is text, must be an object"),
        ({"metadata": {"a": float("inf")}}, "metadata.a", "is not a finite number"),
        ({"path": "a.png"}, "path", "unknown field; known here: item_id, split, media, annotation, metadata"),
        ({"item_id": "item-0"}, "item_id", "repeats 'item-0' of items[0]"),
    ],
)  # fmt: skip
def test_an_item_that_breaks_the_contract_is_named(changes, path, message) -> None:
    found = violations(DatasetSourceManifest, with_item(**changes))
    assert found == {f"items[1].{path}": message}


def test_every_broken_item_is_named() -> None:
    document = documents.source_manifest(items=5_000)
    document["items"][10]["media"]["size_bytes"] = "12"
    document["items"][4_999]["split"] = None
    assert list(violations(DatasetSourceManifest, document)) == ["items[10].media.size_bytes", "items[4999].split"]


def test_a_source_manifest_has_an_item() -> None:
    found = violations(DatasetSourceManifest, documents.source_manifest(items=0))
    assert found == {"items": "has 0 entries, must have at least 1"}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("data_modalities", [], "has 0 entries, must have at least 1"),
        ("data_modalities", ["a"] * 9, "has 9 entries, may have 8"),
        ("annotation_kinds", ["a"] * 17, "has 17 entries, may have 16"),
    ],
)
@pytest.mark.parametrize("contract", ["dataset_source_manifest", "dataset_manifest"])
def test_the_header_is_bounded(contract, field, value, message) -> None:
    assert violations(contract, documents.WHOLE[contract]() | {field: value}) == {field: message}


@pytest.mark.parametrize("missing", ["sha256", "size_bytes"])
@pytest.mark.parametrize("part", ["media", "annotation"])
def test_a_snapshot_has_only_pinned_references(part, missing) -> None:
    document = documents.source_manifest()
    del document["items"][0][part][missing]
    assert violations(DatasetSnapshot, document) == {f"items[0].{part}.{missing}": "required here"}


def test_a_dataset_manifest_may_have_no_items() -> None:
    assert validate(DatasetManifest, documents.dataset_manifest(items=0)).items == []


@pytest.mark.parametrize("field", ["media_path", "annotation_path"])
def test_local_paths_are_relative(field) -> None:
    document = documents.dataset_manifest()
    document["items"][0][field] = "/data/a.png"
    assert list(violations(DatasetManifest, document)) == [f"items[0].{field}"]


def test_validation_of_a_parsed_document_leaves_it_as_it_was() -> None:
    document = documents.source_manifest()
    for item in document["items"]:
        del item["metadata"], item["media"]["size_bytes"]
    before = json.loads(json.dumps(document))
    validate(DatasetSourceManifest, document)
    assert document == before


def test_items_get_defaults_of_their_own() -> None:
    document = documents.source_manifest()
    for item in document["items"]:
        del item["metadata"]
    items = validate(DatasetSourceManifest, json.dumps(document)).items
    items[0]["metadata"]["changed"] = True
    assert items[1]["metadata"] == {}
