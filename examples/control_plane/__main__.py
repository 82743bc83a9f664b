"""What a control plane does with the runtime, one command a step: `python -m examples.control_plane --help`.

Answers are JSON on stdout, so that one command's answer is the next one's input; everything else is said on stderr.
Addresses come from the environment, under the platform's names: `RUNTIME_URL`, `RUNTIME_TOKEN`, `RABBITMQ_…`,
`PREFECT_API_URL`, `S3_…`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx

from . import prefect_runs
from .api import Api, RefusedError
from .broker import Broker
from .documents import source_manifest, submission
from .objects import S3, Folders

APPEARS_WITHIN_SECONDS = 120.0


def main(arguments: list[str] | None = None) -> int:
    """Run one command."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except (RefusedError, httpx.HTTPError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def snapshot(options: argparse.Namespace) -> None:
    """A data set: put its files where the platform keeps such, preview it, have it pinned."""
    objects = S3.from_environment(os.environ) if os.environ.get("S3_ENDPOINT") else Folders(options.store)
    manifest = source_manifest(options.folder, objects)
    preview = _api().preview_snapshot(manifest)
    classes = ", ".join(preview["class_names"])
    print(f"{len(preview['items'])} items, {preview['task_kind']}: {classes}", file=sys.stderr)
    if not options.preview:
        answer(_said(_api().register_snapshot(manifest)))


def import_package(options: argparse.Namespace) -> None:
    """A ZIP of code, or of a model: look at it, then register it, through the runtime or straight into the store."""
    api = _api()
    found = api.inspect_package(options.archive, of_model=options.model)
    print(f"{found['kind']}, {found['archive']['file_count']} files, {found['archive']['sha256']}", file=sys.stderr)
    register = api.upload_package if options.upload else api.register_package
    answer(_said(register(options.archive, of_model=options.model)))


def submit(options: argparse.Namespace) -> None:
    """One execution, by one of the three ways. What is written to stdout is what was sent: keep it."""
    if options.again:
        document = _read(options.again)
    else:
        model_input = None
        if options.model:
            model_input = {"artifact": _read(options.model)["initialize_artifact"], "mode": "initialize"}
        document = submission(
            _read(options.package),
            _read(options.snapshot),
            task_id=options.task,
            parameters=json.loads(options.parameters),
            resources=json.loads(options.resources),
            model_input=model_input,
        )
    answer(document)  # first: whoever dies after sending must know what was sent
    if os.environ.get("RABBITMQ_HOST"):
        Broker.from_environment(os.environ).subscribe()  # else the first messages would find nobody
    if options.by == "http":
        said = _api().submit(document)
        print(f"accepted: execution {said['execution_id']} is {said['state']}", file=sys.stderr)
    elif options.by == "queue":
        Broker.from_environment(os.environ).submit(document)
        print(f"execution {document['execution_id']} is in the queue", file=sys.stderr)
    else:
        run = prefect_runs.submit(os.environ["PREFECT_API_URL"], document)
        print(f"execution {document['execution_id']} is Prefect's run {run['id']}", file=sys.stderr)


def follow(options: argparse.Namespace) -> None:
    """What happens in an execution, one JSON line each, to its end; then the execution itself on stdout."""
    api, execution_id = _api(), _read(options.submission)["execution_id"]
    for event in api.follow(execution_id, appears_within_seconds=APPEARS_WITHIN_SECONDS):
        print(json.dumps(event), file=sys.stderr)
    answer(api.execution(execution_id))


def listen(options: argparse.Namespace) -> None:
    """The messages of a task from the exchange, one JSON line each, to its end."""

    async def print_messages() -> None:
        broker = Broker.from_environment(os.environ)
        async for message in broker.messages_of(options.task, quiet_seconds=options.quiet_seconds):
            print(json.dumps(message), flush=True)

    asyncio.run(print_messages())


def cancel(options: argparse.Namespace) -> None:
    """Ask for an execution's end."""
    answer(_api().cancel(_read(options.submission)["execution_id"]))


def fetch(options: argparse.Namespace) -> None:
    """The model of an execution, written where you say once its digest was checked."""
    api, execution_id = _api(), _read(options.submission)["execution_id"]
    execution = api.execution(execution_id)
    model = execution["model"]
    if model is None:
        raise ValueError(f"execution {execution_id} is {execution['state']} and has no registered model")
    size = api.fetch(execution_id, model["sha256"], options.output)
    print(f"{model['name']} v{model['version']}: {size} bytes in {options.output}", file=sys.stderr)


def answer(document: Any) -> None:
    """Print the command's answer."""
    print(json.dumps(document, indent=1), flush=True)


def _said(registered: dict[str, Any]) -> dict[str, Any]:
    print("newly registered" if registered["created"] else "was registered before", file=sys.stderr)
    return registered["registration"]


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def _api() -> Api:
    return Api(os.environ.get("RUNTIME_URL", "http://127.0.0.1:8012"), os.environ.get("RUNTIME_TOKEN", ""))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.control_plane", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, does: Any) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=does.__doc__, description=does.__doc__)
        made.set_defaults(command=does)
        return made

    one = command("snapshot", snapshot)
    one.add_argument("folder", type=Path, help="folder/SPLIT/CLASS/*.png")
    one.add_argument("--preview", action="store_true", help="only say what it is")
    one.add_argument("--store", type=Path, default=Path(".mtr/store"), help="the local store, where there is no S3")

    one = command("import", import_package)
    one.add_argument("archive", type=Path, help="a ZIP")
    one.add_argument("--model", action="store_true", help="it is a model package")
    one.add_argument("--upload", action="store_true", help="send it straight to the store, however large it is")

    one = command("submit", submit)
    one.add_argument("--package", type=Path, metavar="FILE", help="what `import` answered")
    one.add_argument("--snapshot", type=Path, metavar="FILE", help="what `snapshot` answered")
    one.add_argument("--model", type=Path, metavar="FILE", help="what `import --model` answered: train on from it")
    one.add_argument("--task", type=int, metavar="N", help="the platform's task")
    one.add_argument("--parameters", metavar="JSON", default="{}")
    one.add_argument("--resources", metavar="JSON", default='{"memory_bytes": 2147483648}')
    one.add_argument("--again", type=Path, metavar="FILE", help="instead of all these: what `submit` answered before")
    one.add_argument("--by", choices=("http", "queue", "prefect"), default="http")

    one = command("listen", listen)
    one.add_argument("--task", type=int, metavar="N", required=True)
    one.add_argument("--quiet-seconds", type=float, default=5.0, help="how long to wait for more after the end")

    for name, does in (("follow", follow), ("cancel", cancel), ("fetch", fetch)):
        one = command(name, does)
        one.add_argument("submission", type=Path, help="what `submit` answered")
        if does is fetch:
            one.add_argument("-o", "--output", type=Path, required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())
