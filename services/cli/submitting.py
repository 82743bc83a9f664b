"""`mtr submit`: one platform document, executed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contracts.admission import admit_policy
from contracts.base import validate
from contracts.submission import TrainingCodeSubmission
from runtime.acceptance import accept_submission
from runtime.installation import Installation
from runtime.requests import read_document
from services import orchestrator
from services.cli.execution_views import execution_views, exit_code
from services.cli.following import carry_out
from services.cli.options import Detach, Json, command_group, example
from services.cli.terminal import Terminal

app = command_group("Execute one training-code-submit/v1 document.")


@app.command(epilog=example("mtr submit submission.json --detach"))
def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="A training-code-submit/v1 document, or - for stdin.")],
    detached: Detach = False,
    as_json: Json = False,
) -> int:
    """Execute one submission. The same document again goes on where it stopped, or answers what it ended with."""
    with Terminal.open(as_json=as_json) as terminal, Installation.open() as here:
        submission = validate(TrainingCodeSubmission, read_document(file))
        policy = here.settings.policy()
        accepted = accept_submission(here, submission, policy)
        execution = accepted.execution
        if not accepted.created:
            terminal.note(f"execution {execution.execution_id} is known: {execution.state}")
        if not execution.ended:
            admit_policy(submission, policy)  # a known one goes on here, and is left as it is while execution is off
            execution_id = execution.execution_id
            execution = orchestrator.detach(here, execution_id) if detached else carry_out(here, execution_id, terminal)
        attempts = here.ledger.attempts(execution.execution_id)
        terminal.answer(execution.to_document(), *execution_views(execution, attempts))
        return exit_code(execution, attempts)
