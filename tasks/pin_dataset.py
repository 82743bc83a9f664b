"""Stage 3: the data set is pinned down to its last byte."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contracts.dataset import DatasetManifest
from tasks.showing import readable_size, show_table
from tasks.stage import stage

if TYPE_CHECKING:
    from contracts.dataset import DatasetSnapshot
    from contracts.submission import TrainingCodeSubmission
    from tasks.run import Run


@dataclass(frozen=True, slots=True)
class PinnedData:
    """What training will read.

    Attributes:
        header: kinds, modalities and class names, without items.
        items: how many examples there are; 0 where the package brings its own data.
    """

    header: DatasetManifest
    items: int


@stage(retried=True)
def pin_dataset(run: Run, submission: TrainingCodeSubmission) -> PinnedData:
    """The pinned data of `submission`, read from the store and verified. In the UI: item count, bytes, digest.

    Retry: safe, nothing is changed.

    Raises:
        DigestMismatchError: the snapshot is not what was pinned.
        ObjectMissingError: it is not in the store.
        InvalidDocumentError: it is no snapshot.
        StorageUnavailableError: the store does not answer.
    """
    if submission.dataset_source_snapshot is None:
        header = submission.script_dataset or _header_of(submission.task.task_kind)
        show_table("data", [{"": "data", "value": "brought by the package"}], "The data that training reads")
        return PinnedData(header, 0)
    pinned = submission.dataset_source_snapshot.pinned()
    snapshot = run.installation.snapshots.load(pinned)
    show_table("data", _rows(snapshot, pinned.sha256), "The data that training reads")
    return PinnedData(header_of(snapshot), len(snapshot.items))


def header_of(snapshot: DatasetSnapshot) -> DatasetManifest:
    """Everything of `snapshot` but its items."""
    return DatasetManifest(
        task_kind=snapshot.task_kind,
        data_modalities=snapshot.data_modalities,
        annotation_kinds=snapshot.annotation_kinds,
        class_names=snapshot.class_names,
    )


def _header_of(task_kind: str) -> DatasetManifest:
    return DatasetManifest(task_kind=task_kind, data_modalities=("unspecified",))


def _rows(snapshot: DatasetSnapshot, sha256: str) -> list[dict[str, object]]:
    splits = Counter(item["split"] for item in snapshot.items)
    sizes = {}
    for item in snapshot.items:
        for reference in (item["media"], item.get("annotation")):
            if reference is not None:
                sizes[reference["bucket"], reference["object_key"]] = reference["size_bytes"]
    names = ", ".join(snapshot.class_names[:20])
    more = f" and {len(snapshot.class_names) - 20} more" if len(snapshot.class_names) > 20 else ""
    said = {
        "digest": sha256,
        "items": len(snapshot.items),
        "bytes": f"{sum(sizes.values())} ({readable_size(sum(sizes.values()))})",
        "task kind": snapshot.task_kind,
        "modalities": ", ".join(snapshot.data_modalities),
        "annotations": ", ".join(snapshot.annotation_kinds) or "none",
        "classes": f"{len(snapshot.class_names)}: {names}{more}",
        **{f"split {name}": count for name, count in sorted(splits.items())},
    }
    return [{"": name, "value": str(value)} for name, value in said.items()]
