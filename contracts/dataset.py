"""Data sets: what the platform names (source manifest), what is pinned (snapshot), what a package reads (manifest).

Items are plain dicts (typed ones): a data set has up to ten million of them, and an object each costs too much.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict

from contracts.base import Document, FreeMap, RelativePath, Split, TaskKind, Text
from contracts.item_columns import ByColumn
from contracts.limits import MAX_DATASET_ITEMS
from contracts.objects import ItemReference, PinnedItemReference
from contracts.violations import quoted, several

ItemId = Annotated[Text, StringConstraints(min_length=1, max_length=256)]
Modalities = Annotated[tuple[Text, ...], Field(min_length=1, max_length=8)]
AnnotationKinds = Annotated[tuple[Text, ...], Field(max_length=16)]
ClassNames = tuple[Text, ...]
"""In the order that labels count in. Only a manifest that names its classes for good has a bound on them."""

_SHOWN_DUPLICATES = 100


class SourceMedia(ItemReference):
    """An item's file, in bucket `datasets`."""

    bucket: Literal["datasets"]  # type: ignore[misc]


class SourceAnnotation(ItemReference):
    """An item's annotation, in bucket `annotations`."""

    bucket: Literal["annotations"]  # type: ignore[misc]


class PinnedMedia(PinnedItemReference):
    """An item's file, in bucket `datasets`, with its digest and size."""

    bucket: Literal["datasets"]  # type: ignore[misc]


class PinnedAnnotation(PinnedItemReference):
    """An item's annotation, in bucket `annotations`, with its digest and size."""

    bucket: Literal["annotations"]  # type: ignore[misc]


class SourceItem(TypedDict):
    """One example as the platform names it."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    item_id: ItemId
    split: NotRequired[Annotated[Split, Field(default="unspecified")]]
    media: SourceMedia
    annotation: NotRequired[Annotated[SourceAnnotation | None, Field(default=None)]]
    metadata: NotRequired[Annotated[FreeMap, Field(default_factory=dict)]]


class PinnedItem(TypedDict):
    """One example of a snapshot."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    item_id: ItemId
    split: NotRequired[Annotated[Split, Field(default="unspecified")]]
    media: PinnedMedia
    annotation: NotRequired[Annotated[PinnedAnnotation | None, Field(default=None)]]
    metadata: NotRequired[Annotated[FreeMap, Field(default_factory=dict)]]


class LocalItem(TypedDict):
    """One example as package code reads it: paths relative to `input_dir`."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    item_id: ItemId
    split: NotRequired[Annotated[Split, Field(default="unspecified")]]
    media_path: RelativePath
    annotation_path: NotRequired[Annotated[RelativePath | None, Field(default=None)]]
    metadata: NotRequired[Annotated[FreeMap, Field(default_factory=dict)]]


def _unique_items(items: list[Any]) -> list[Any]:
    if len({item["item_id"] for item in items}) == len(items):
        return items
    first: dict[str, int] = {}
    found: list[dict[str, str]] = []
    for index, item in enumerate(items):
        at = first.setdefault(item["item_id"], index)
        if at != index and len(found) < _SHOWN_DUPLICATES:
            message = f"repeats {quoted(item['item_id'])} of items[{at}]"
            found.append({"path": f"[{index}].item_id", "message": message})
    raise several(found)


class DatasetSourceManifest(Document):
    """A data set as the platform names it: references that may still change."""

    protocol_version: Literal["training-dataset-source-manifest/v1"] = "training-dataset-source-manifest/v1"
    task_kind: TaskKind
    data_modalities: Modalities
    annotation_kinds: AnnotationKinds = ()
    class_names: ClassNames = ()
    items: Annotated[
        list[SourceItem],
        Field(min_length=1, max_length=MAX_DATASET_ITEMS),
        ByColumn(MAX_DATASET_ITEMS),
        AfterValidator(_unique_items),
    ]


class DatasetSnapshot(Document):
    """A source manifest with every reference pinned: the same digest is the same data, for ever."""

    protocol_version: Literal["training-dataset-source-manifest/v1"] = "training-dataset-source-manifest/v1"
    task_kind: TaskKind
    data_modalities: Modalities
    annotation_kinds: AnnotationKinds = ()
    class_names: ClassNames = ()
    items: Annotated[
        list[PinnedItem],
        Field(min_length=1, max_length=MAX_DATASET_ITEMS),
        ByColumn(MAX_DATASET_ITEMS),
        AfterValidator(_unique_items),
    ]


class DatasetManifest(Document):
    """A data set as package code reads it. Of a `script_managed` execution it has no items."""

    protocol_version: Literal["training-dataset-manifest/v1"] = "training-dataset-manifest/v1"
    task_kind: TaskKind
    data_modalities: Modalities
    annotation_kinds: AnnotationKinds = ()
    class_names: ClassNames = ()
    items: Annotated[
        list[LocalItem], Field(max_length=MAX_DATASET_ITEMS), ByColumn(MAX_DATASET_ITEMS), AfterValidator(_unique_items)
    ] = Field(default_factory=list)
