"""Names of files: safe everywhere, told apart, and the same every time."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.base import validate
from contracts.dataset import DatasetSnapshot
from runtime.materialization.layout import layout_of


def snapshot(*items: tuple[str, str, str | None]) -> DatasetSnapshot:
    """Items as (id, media key, annotation key)."""

    def reference(bucket: str, key: str) -> dict[str, Any]:
        return {"bucket": bucket, "object_key": key, "sha256": "0" * 64, "size_bytes": 1}

    return validate(
        DatasetSnapshot,
        {
            "protocol_version": "training-dataset-source-manifest/v1",
            "task_kind": "detection",
            "data_modalities": ["image"],
            "class_names": ["a"],
            "items": [
                {
                    "item_id": item_id,
                    "media": reference("datasets", media),
                    "annotation": reference("annotations", annotation) if annotation else None,
                }
                for item_id, media, annotation in items
            ],
        },
    )


def paths(*items: tuple[str, str, str | None]) -> list[tuple[str, str | None]]:
    listed = layout_of(snapshot(*items)).manifest["items"]
    return [(item["media_path"], item["annotation_path"]) for item in listed]


def test_items_are_numbered_folders_with_their_files() -> None:
    assert paths(("cat-1", "a/cat.png", "b/cat.txt"), ("dog", "dog.jpg", None)) == [
        ("dataset/00000000_cat-1/cat.png", "dataset/00000000_cat-1/cat.txt"),
        ("dataset/00000001_dog/dog.jpg", None),
    ]


@pytest.mark.parametrize(
    ("item_id", "folder"),
    [
        ("../../etc", "00000000_.._.._etc"),
        ("a b/ü", "00000000_a_b_"),
        ("…", "00000000__"),
        ("x" * 256, "00000000_" + "x" * 80),
    ],
)
def test_an_item_id_becomes_a_safe_name(item_id: str, folder: str) -> None:
    assert paths((item_id, "f.png", None))[0][0] == f"dataset/{folder}/f.png"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("a/.hidden", "hidden"),
        ("a/...", "file"),
        ("a/ü ü.png", "_.png"),
        ("a/" + "x" * 200 + ".jpeg", "x" * 115 + ".jpeg"),
        ("a/" + "x" * 200, "x" * 120),
    ],
)
def test_a_file_name_is_safe_and_keeps_its_suffix(key: str, name: str) -> None:
    assert paths(("i", key, None))[0][0] == f"dataset/00000000_i/{name}"


@pytest.mark.parametrize(("media", "annotation"), [("a/1.txt", "b/1.txt"), ("a/X.txt", "b/x.TXT")])
def test_an_annotation_of_the_same_name_does_not_hide_its_media(media: str, annotation: str) -> None:
    [(media_path, annotation_path)] = paths(("i", media, annotation))

    assert annotation_path is not None
    assert media_path.casefold() != annotation_path.casefold()


@given(
    item_id=st.text(min_size=1, max_size=256).filter(lambda text: text.strip() != "" and text.isprintable()),
    key=st.from_regex(r"[^\x00/\\\s:.][^\x00/\\:]{0,200}", fullmatch=True).filter(str.isprintable),
)
def test_no_name_leads_anywhere_else(item_id: str, key: str) -> None:
    [(media_path, _)] = paths((item_id, f"k/{key}", None))

    assert re.fullmatch(r"dataset/00000000_[A-Za-z0-9._-]{1,80}/[A-Za-z0-9_-][A-Za-z0-9._-]{0,119}", media_path)


def test_the_same_snapshot_has_the_same_layout() -> None:
    items = (("cat-1", "a/cat.png", "b/cat.txt"), ("dog", "dog.jpg", None))

    assert layout_of(snapshot(*items)) == layout_of(snapshot(*items))
