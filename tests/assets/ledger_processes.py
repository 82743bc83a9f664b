"""Processes that work on a ledger, to race, to hold on and to be killed: `python -m tests.assets.ledger_processes COMMAND URL ...`."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

from contracts.errors import RuntimeFault
from contracts.messages import log
from contracts.references import Pinned
from runtime.execution.journal import Journal
from runtime.execution.telling import Teller
from runtime.ledger import Ledger, OutboxMessage, Owner, migration
from runtime.registry.models import Models
from tests.assets.submissions import submission

ROOT = Path(__file__).parents[2]


def start(command: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that runs one of the commands below; it prints a line when it has done what it is for."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.assets.ledger_processes", command, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )


def race(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Lets all of them go at once when all are ready; what each printed then."""
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate()[0].strip() for process in processes]


def open_together(url: str) -> None:
    """Opens the ledger at the same moment as others."""
    _wait_for_the_others()
    Ledger.open(url).close()
    print("opened", flush=True)


def die_migrating(url: str) -> None:
    """Is killed when the new schema is written and not yet committed."""
    upgrade = migration._upgrade

    def upgrade_and_die(connection) -> None:
        upgrade(connection)
        os.kill(os.getpid(), signal.SIGKILL)

    migration._upgrade = upgrade_and_die
    Ledger.open(url)


def claim(url: str, execution_id: str) -> None:
    """Claims an execution, enters a stage, and holds on until it is ended."""
    ledger = Ledger.open(url)
    ledger.claim(execution_id, Owner.here())
    ledger.enter_stage(execution_id, "train")
    print("claimed", flush=True)
    sys.stdin.read()


def accept_together(url: str, execution_id: str, memory_bytes: str) -> None:
    """Accepts a submission at the same moment as others, and prints what came of it."""
    wanted = submission(
        execution_id=execution_id,
        message_id="00000000-0000-0000-0000-000000000001",
        resources={"memory_bytes": int(memory_bytes)},
    )
    with Ledger.open(url) as ledger:
        _wait_for_the_others()
        try:
            print("created" if ledger.accept(wanted, label="x").created else "again", flush=True)
        except RuntimeFault as error:
            print(error.code, flush=True)


def count_tasks(url: str, times: str) -> None:
    """Takes numbers at the same time as others and prints them."""
    with Ledger.open(url) as ledger:
        _wait_for_the_others()
        print(*(ledger.next_task_id() for _ in range(int(times))), flush=True)


def lease_together(url: str) -> None:
    """Asks for a lease at the same moment as others and prints whether it got it."""
    with Ledger.open(url) as ledger:
        _wait_for_the_others()
        print(ledger.lease("publisher", str(os.getpid()), 60), flush=True)


def tell_together(url: str, execution_id: str, journal: str) -> None:
    """Tells lines of a journal of its own at the same time as others and prints how many."""
    with Ledger.open(url) as ledger:
        _wait_for_the_others()
        for place in range(20):
            line = log(task_id=1, timestamp="2030-01-31T12:00:00Z", level="info", content=f"{journal} {place}")
            assert ledger.tell(execution_id, journal, after=place, upto=place + 1, logs=[line])
        print(20, flush=True)


def tell_forever(url: str, execution_id: str, path: str) -> None:
    """Writes lines into a journal and tells them, until it is killed."""
    with Ledger.open(url) as ledger, Journal(Path(path)) as journal:
        teller = Teller(ledger, journal.path, ledger.get(execution_id))
        print("working", flush=True)
        for number in itertools.count():
            journal.append("log", level="info", message=f"{os.getpid()} {number}")
            if number % 3 == 0:
                teller.tell()


def register_models(url: str, name: str, times: str) -> None:
    """Registers models of one name at the same time as others and prints their versions."""
    with Ledger.open(url) as ledger:
        _wait_for_the_others()
        models = Models(ledger)
        versions = [
            models.register(
                name,
                execution_id=f"{os.getpid()}-{index}",
                object=Pinned("models", "m.onnx", f"{index:064x}", 1),
                task_kind="classification",
                class_names=["a"],
                opset=21,
                inputs=[],
                outputs=[],
            ).version
            for index in range(int(times))
        ]
    print(*versions, flush=True)


def finish_forever(url: str) -> None:
    """Takes executions to their end, with two messages each, until it is killed."""
    with Ledger.open(url) as ledger:
        print("working", flush=True)
        while True:
            execution_id = ledger.accept(submission(), label="x").execution.execution_id
            ledger.claim(execution_id, Owner.here())
            ledger.begin_attempt(execution_id)
            ledger.finish(
                execution_id,
                state="succeeded",
                result={"execution_id": execution_id},
                error=None,
                artifacts=[],
                model=None,
                messages=[OutboxMessage("task.status.update", 1, {}), OutboxMessage("model.registered", 1, {})],
            )


def _wait_for_the_others() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
