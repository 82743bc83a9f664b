"""`mtr dataset`: folders and manifests in, pinned snapshots and their names out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from contracts.errors import DigestMismatchError, RuntimeFault, codes
from runtime.installation import Installation
from runtime.requests import existing_path, find_data, find_snapshot, pin_data, read_source_manifest
from runtime.sizes import readable_size
from services.cli.options import Json, Name, command_group, example
from services.cli.terminal import Terminal, facts, table

if TYPE_CHECKING:
    from runtime.registry.snapshots import VerifyReport
    from runtime.requests import FoundData

app = command_group("Import, pin, verify and list data sets.")

Reference = Annotated[str, typer.Argument(metavar="NAME|SHA256", help="A data set's name, or a snapshot's digest.")]


@app.command("import", epilog=example("mtr dataset import ./vehicles/data.yaml --name vehicles"))
def import_(
    source: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="Class folders, a YOLO data set (data.yaml) or a COCO annotation file."),
    ],
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Upload a local data set and pin it. What is stored already is not uploaded again."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        with terminal.progress("importing") as progress:
            found = find_data(here, str(existing_path(source)), name=name, progress=progress)
        terminal.answer(found.to_document(), _pinned_facts(found, name))


@app.command(epilog=example("mtr dataset pin source-manifest.json --name vehicles"))
def pin(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A training-dataset-source-manifest/v1 document, or - for stdin.")
    ],
    name: Name = None,
    as_json: Json = False,
) -> None:
    """Read and hash every byte that a source manifest names, and store the snapshot."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        manifest = read_source_manifest(source)
        with terminal.progress("reading") as progress:
            found = pin_data(here, manifest, label=name or source.stem, name=name, progress=progress)
        terminal.answer(found.to_document(), _pinned_facts(found, name))


def _pinned_facts(found: FoundData, name: str | None) -> Table:
    return facts(
        f"data set {name}" if name else "data set",
        [
            ("snapshot", found.object.sha256),
            ("items", found.items),
            ("size", readable_size(found.bytes)),
            ("classes", ", ".join(found.snapshot.class_names) or None),
            ("left alone", f"{found.ignored_files} files that are no part of it" if found.ignored_files else None),
            ("new", f"yes, {found.uploaded_items} files uploaded" if found.created else "no, nothing was new"),
        ],
    )


@app.command(epilog=example("mtr dataset verify vehicles"))
def verify(reference: Reference, as_json: Json = False) -> None:
    """Read every byte of a snapshot again and compare it with what was pinned."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        found = find_snapshot(here, reference)
        with terminal.progress("reading") as progress:
            report = here.snapshots.verify(
                found.object.sha256, on_progress=lambda at: progress(at.done_objects, at.total_objects)
            )
        if not report.intact:
            raise _damaged(reference, report)
        terminal.answer(
            {"sha256": report.sha256, "valid": True, "items": report.items, "bytes": report.bytes},
            facts(
                f"data set {reference}",
                [("verified", f"{report.items} items, {readable_size(report.bytes)}, every byte as pinned")],
            ),
        )


def _damaged(reference: str, report: VerifyReport) -> RuntimeFault:
    """The error of a snapshot with damaged objects: the code that they share, else `digest_mismatch`."""
    shared = {damage.code for damage in report.damaged}
    kind = codes()[shared.pop()] if len(shared) == 1 else DigestMismatchError
    first = report.damaged[0]
    more = f", and {len(report.damaged) - 1} more" if len(report.damaged) > 1 else ""
    return kind(
        f"data set {reference} is damaged: {first.message}{more}",
        hint="Restore the named objects, or remove them from the store and import the same files again; what they are now "
        "is another data set.",
        context={
            "sha256": report.sha256,
            "violations": [
                {"path": f"{damage.bucket}/{damage.key}", "message": damage.message} for damage in report.damaged
            ],
        },
    )


@app.command("list", epilog=example("mtr dataset list"))
def list_datasets(as_json: Json = False) -> None:
    """List the named data sets."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        names = here.ledger.dataset_names()
        documents = [{"name": one.name, "sha256": one.sha256} for one in names]
        terminal.answer(
            {"datasets": documents},
            table("data sets", ("name", "snapshot"), [(one["name"], one["sha256"]) for one in documents]),
        )


@app.command(epilog=example("mtr dataset show vehicles"))
def show(reference: Reference, as_json: Json = False) -> None:
    """Show a data set: its task, classes, and how many items each split has."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        found = find_snapshot(here, reference)
        splits = Counter(item.get("split", "unspecified") for item in found.snapshot.items)
        document = {
            "sha256": found.object.sha256,
            "items": found.items,
            "bytes": found.bytes,
            "object": found.object.to_document(),
            "task_kind": found.snapshot.task_kind,
            "data_modalities": list(found.snapshot.data_modalities),
            "annotation_kinds": list(found.snapshot.annotation_kinds),
            "class_names": list(found.snapshot.class_names),
            "splits": dict(sorted(splits.items())),
        }
        terminal.answer(
            document,
            facts(
                f"data set {reference}",
                [
                    ("snapshot", found.object.sha256),
                    ("task", found.snapshot.task_kind),
                    ("items", found.items),
                    ("size", readable_size(found.bytes)),
                    ("splits", ", ".join(f"{name} {count}" for name, count in sorted(splits.items()))),
                    ("classes", ", ".join(found.snapshot.class_names)),
                ],
            ),
        )
