"""Stage 3: the data set is pinned down to its last byte."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from contracts.dataset import DatasetManifest
from runtime.sizes import readable_size
from tasks.showing import show_table
from tasks.stage import stage

if TYPE_CHECKING:
    from contracts.dataset import DatasetSnapshot
    from contracts.submission import TrainingCodeSubmission
    from tasks.run import Run


@stage(retried=True)
def pin_dataset(run: Run, submission: TrainingCodeSubmission) -> DatasetManifest:
    """The pinned data of `submission`, read from the store and verified: its kinds and class names, without items. In the UI: item count, bytes, digest.

    Retry: safe, nothing is changed.

    Raises:
        DigestMismatchError: the snapshot is not what was pinned.
        ObjectMissingError: it is not in the store.
        InvalidDocumentError: it is no snapshot.
        StorageUnavailableError: the store does not answer.
    """
    reference = submission.dataset_source_snapshot
    if reference is None:
        assert submission.script_dataset is not None  # noqa: S101 - the contract asks for exactly one of the two
        show_table("data", [{"": "data", "value": "brought by the package"}], "The data that training reads")
        return submission.script_dataset
    pinned = reference.pinned()
    snapshot = run.installation.snapshots.load(pinned)
    show_table("data", _rows(snapshot, pinned.sha256), "The data that training reads")
    return _header_of(snapshot)


def _header_of(snapshot: DatasetSnapshot) -> DatasetManifest:
    return DatasetManifest(
        task_kind=snapshot.task_kind,
        data_modalities=snapshot.data_modalities,
        annotation_kinds=snapshot.annotation_kinds,
        class_names=snapshot.class_names,
    )


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
