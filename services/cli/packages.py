"""`mtr package`: deterministic ZIPs of training packages, what is in them, and which are registered."""

from __future__ import annotations

import filecmp
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from contracts.errors import UsageError
from runtime.archive.entrypoint import note_missing_symbol
from runtime.archive.inspection import inspect_package
from runtime.archive.packing import pack_folder
from runtime.installation import Installation
from runtime.requests import archive_name, existing_path, note_left_out, packed, read_versioned
from runtime.sizes import readable_size
from services.cli.options import Json, Output, command_group, example
from services.cli.terminal import Terminal, facts, table

app = command_group("Build, inspect, register and list training packages.")

Source = Annotated[Path, typer.Argument(metavar="FOLDER|ZIP", help="A package's folder, or its ZIP.")]


@app.command(epilog=example("mtr package build examples/digits -o digits.zip"))
def build(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder with training_package.json.")],
    output: Output = None,
    compress: Annotated[
        bool, typer.Option("--compress", help="Deflate instead of storing; the bytes then depend on zlib's version.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the folder's ZIP: the same files give the same bytes everywhere. What is left out is said."""
    with Terminal.open(as_json=as_json) as terminal, tempfile.TemporaryDirectory(prefix="mtr-build-") as scratch:
        if not existing_path(folder).is_dir():
            raise UsageError(f"{folder} is no folder", hint="`mtr package inspect` looks into a ZIP.")
        made = pack_folder(folder, Path(scratch) / "package.zip", compress=compress)
        note_left_out(made, terminal.note)
        manifest = inspect_package(made.path).manifest
        note_missing_symbol(made.path, manifest, terminal.note)
        destination = _destination(folder, output, f"{manifest.key}-{manifest.version}.zip")
        created = _place(made.path, destination)
        terminal.answer(
            {"path": str(destination), "sha256": made.sha256, "created": created},
            facts(
                f"{manifest.key} {manifest.version}",
                [
                    ("written to" if created else "unchanged", destination),
                    ("size", readable_size(made.size_bytes)),
                    ("sha256", made.sha256),
                ],
            ),
        )


def _destination(folder: Path, output: Path | None, name: str) -> Path:
    """Where the ZIP goes: never into the folder, where the next build would pack it."""
    inside = folder.resolve()
    if output is None:
        here = Path.cwd()
        return (inside.parent if here.resolve().is_relative_to(inside) else here) / name
    destination = output / name if output.is_dir() else output
    if destination.resolve().is_relative_to(inside):
        raise UsageError(
            f"--output {output} lies inside the folder that is packed",
            hint="Write it elsewhere: the next build would contain it.",
        )
    return destination


def _place(made: Path, destination: Path) -> bool:
    """Afterwards `destination` holds the bytes of `made`; False when it did before."""
    if destination.is_file() and filecmp.cmp(made, destination, shallow=False):
        return False
    partial = destination.with_name(f".{destination.name}.partial")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, partial)
        partial.replace(destination)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(
            f"{destination} cannot be written: {error.strerror or error}", hint="Choose another place with --output."
        ) from error
    return True


@app.command(epilog=example("mtr package inspect digits.zip"))
def inspect(
    source: Annotated[str, typer.Argument(metavar="FOLDER|ZIP|KEY@VERSION", help="A package, wherever it is.")],
    as_json: Json = False,
) -> None:
    """Show a package's manifest and archive. Its code is neither imported nor run."""
    with Terminal.open(as_json=as_json) as terminal:
        versioned = None if Path(source).exists() else read_versioned(source)
        if versioned:
            with Installation.open() as here, tempfile.TemporaryDirectory(prefix="mtr-inspect-") as scratch:
                archive = Path(scratch) / "package.zip"
                here.store.fetch_verified(here.packages.find(*versioned).archive, archive)
                found = inspect_package(archive)
        else:
            with packed(existing_path(Path(source)), terminal.note) as archive:
                found = inspect_package(archive)
                note_missing_symbol(archive, found.manifest, terminal.note)
        report, manifest = found.report, found.manifest
        configuration = manifest.to_document()
        document = {
            "kind": "training_code_package",
            "valid": True,
            "archive": {
                "sha256": report.sha256,
                "file_count": report.file_count,
                "uncompressed_bytes": report.uncompressed_bytes,
            },
            "configuration": configuration,
        }
        terminal.answer(document, *_manifest_tables(configuration, report))


def _manifest_tables(manifest: dict[str, Any], report: Any) -> list[Any]:
    declared = manifest["output_contract"]["artifacts"]
    parameters = manifest["parameters_schema"].get("properties", {})
    return [
        facts(
            f"{manifest['key']} {manifest['version']}",
            [
                ("name", manifest["name"]),
                ("description", manifest.get("description")),
                ("runtime", manifest["runtime"]["id"]),
                ("entrypoint", f"{manifest['entrypoint']}:{manifest['entrypoint_symbol']}"),
                ("tasks", ", ".join(task["task_kind"] for task in manifest["supported_tasks"])),
                ("input", ", ".join(manifest["input_modes"])),
                ("classes", ", ".join(manifest["class_names"]) or "those of the data set"),
                ("files", f"{report.file_count}, {readable_size(report.uncompressed_bytes)}"),
                ("sha256", report.sha256),
            ],
        ),
        table(
            "parameters",
            ("name", "type", "default", "description"),
            [
                (name, about.get("type"), about.get("default"), about.get("description"))
                for name, about in parameters.items()
                if isinstance(about, dict)
            ],
        ),
        table(
            "artifacts",
            ("role", "formats", "required", "deployable"),
            [(one["role"], ", ".join(one["formats"]), one["required"], one["deployable"]) for one in declared],
        ),
    ]


@app.command(epilog=example("mtr package register examples/digits"))
def register(source: Source, as_json: Json = False) -> None:
    """Store a package under its key and version, for good: other content needs another version."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        path = existing_path(source)
        with packed(path, terminal.note) as archive:
            stored = here.packages.register(archive, archive_name=archive_name(path))
        terminal.answer(
            {"object": stored.archive.to_document(), "sha256": stored.archive.sha256, "created": stored.created},
            facts(
                f"{stored.manifest.key} {stored.manifest.version}",
                [
                    ("registered" if stored.created else "was registered already", stored.archive.key),
                    ("sha256", stored.archive.sha256),
                    ("use it as", f"{stored.manifest.key}@{stored.manifest.version}"),
                ],
            ),
        )


@app.command("list", epilog=example("mtr package list"))
def list_packages(as_json: Json = False) -> None:
    """List the registered packages."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        stored = here.packages.list()
        documents: list[dict[str, Any]] = [
            {
                "key": one.manifest.key,
                "version": one.manifest.version,
                "name": one.manifest.name,
                "runtime": one.manifest.runtime.id,
                "task_kinds": [task.task_kind for task in one.manifest.supported_tasks],
                "sha256": one.archive.sha256,
                "object": one.archive.to_document(),
            }
            for one in stored
        ]
        terminal.answer(
            {"packages": documents},
            table(
                "packages",
                ("key", "version", "name", "tasks", "runtime", "sha256"),
                [
                    (one["key"], one["version"], one["name"], ", ".join(one["task_kinds"]), one["runtime"], one["sha256"][:12])
                    for one in documents
                ],
            ),
        )  # fmt: skip
