"""`mtr model`: model packages in, registered models out."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.errors import UsageError
from runtime.archive.inspection import inspect_model_package
from runtime.installation import Installation
from runtime.requests import existing_path, find_registered_model
from runtime.sizes import readable_size
from services.cli.execution_views import model_facts
from services.cli.options import Json, Output, command_group, example
from services.cli.terminal import Terminal, facts, table

if TYPE_CHECKING:
    from runtime.registry.models import RegisteredModel

app = command_group("Model packages in, registered models out.")

Archive = Annotated[Path, typer.Argument(metavar="ZIP", help="A model package's ZIP.")]
Model = Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="A registered model; the newest version if none.")]


@app.command(epilog=example("mtr model inspect pretrained.zip"))
def inspect(source: Archive, as_json: Json = False) -> None:
    """Show a model package's manifest and archive. Its model is not loaded."""
    with Terminal.open(as_json=as_json) as terminal:
        found = inspect_model_package(existing_path(source))
        manifest = found.manifest.to_document()
        document = {
            "kind": "training_model_package",
            "valid": True,
            "archive": {
                "sha256": found.report.sha256,
                "file_count": found.report.file_count,
                "uncompressed_bytes": found.report.uncompressed_bytes,
            },
            "configuration": manifest,
        }
        terminal.answer(
            document,
            facts(
                manifest["name"],
                [
                    ("task", manifest["task_kind"]),
                    ("framework", manifest["framework"]),
                    ("model", f"{manifest['artifact_path']} ({manifest['format']})"),
                    ("resume checkpoint", manifest.get("resume_checkpoint_path")),
                    ("classes", ", ".join(manifest["class_names"]) or None),
                    ("files", f"{found.report.file_count}, {readable_size(found.report.uncompressed_bytes)}"),
                    ("sha256", found.report.sha256),
                ],
            ),
        )


@app.command(epilog=example("mtr model register pretrained.zip"))
def register(source: Archive, as_json: Json = False) -> None:
    """Store a model package, so that training can start from it by its digest."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        path = existing_path(source)
        stored = here.model_packages.register(path, archive_name=path.name)
        terminal.answer(
            {"object": stored.archive.to_document(), "sha256": stored.archive.sha256, "created": stored.created},
            facts(
                stored.manifest.name,
                [
                    ("registered" if stored.created else "was registered already", stored.archive.key),
                    ("use it as", f"mtr run PACKAGE --model {stored.archive.sha256}"),
                ],
            ),
        )


@app.command("list", epilog=example("mtr model list"))
def list_models(as_json: Json = False) -> None:
    """List the registered models, and the model packages that training can start from."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        models = [model.to_document() for model in here.models.list()]
        model_packages = [
            {
                "name": one.manifest.name,
                "task_kind": one.manifest.task_kind,
                "format": one.manifest.format,
                "sha256": one.archive.sha256,
                "object": one.archive.to_document(),
            }
            for one in here.model_packages.list()
        ]
        terminal.answer(
            {"models": models, "model_packages": model_packages},
            table(
                "models",
                ("name", "version", "task", "classes", "opset", "sha256"),
                [
                    (one["name"], one["version"], one["task_kind"], len(one["class_names"]), one["opset"], one["sha256"])
                    for one in models
                ],
            ),
            *_package_table(model_packages),
        )  # fmt: skip


def _package_table(model_packages: list[dict[str, Any]]) -> list[Any]:
    rows = [(one["name"], one["task_kind"], one["format"], one["sha256"]) for one in model_packages]
    return [table("model packages", ("name", "task", "format", "sha256"), rows)] if rows else []


@app.command(epilog=example("mtr model show digits"))
def show(model: Model, as_json: Json = False) -> None:
    """Show a registered model: inputs, outputs, classes, and where it came from."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        document = find_registered_model(here, model).to_document()
        terminal.answer(document, model_facts(document))


@app.command(epilog=example("mtr model export digits -o digits.onnx"))
def export(model: Model, output: Output = None, as_json: Json = False) -> None:
    """Write a registered model's file, verified against its digest while it is read."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        found = find_registered_model(here, model)
        destination = _destination(found, output)
        try:
            destination.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=destination.parent, prefix=".mtr-export-"):
                pass
        except OSError as error:
            raise UsageError(
                f"{destination} cannot be written: {error.strerror or error}",
                hint="Choose another place with --output.",
            ) from error
        here.store.fetch_verified(found.object, destination)
        terminal.answer(
            {
                "path": str(destination),
                "sha256": found.object.sha256,
                "name": found.name,
                "version": found.version,
                "object": found.object.to_document(),
            },
            facts(
                f"model {found.name} v{found.version}",
                [("written to", destination), ("size", readable_size(found.object.size_bytes))],
            ),
        )


def _destination(found: RegisteredModel, output: Path | None) -> Path:
    name = f"{found.name}-v{found.version}{Path(found.object.key).suffix or '.onnx'}"
    if output is None:
        return Path.cwd() / name
    return (output / name if output.is_dir() else output).absolute()
