"""How a submission becomes an execution, the same at every door: HTTP, RabbitMQ and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contracts.admission import admit_policy
from runtime.requests import label_of

if TYPE_CHECKING:
    from contracts.admission import ExecutionPolicy
    from contracts.submission import TrainingCodeSubmission
    from runtime.installation import Installation
    from runtime.ledger import Accepted


def accept_submission(here: Installation, submission: TrainingCodeSubmission, policy: ExecutionPolicy) -> Accepted:
    """Afterwards the ledger has the submission, announced to the platform.

    One that it has already is answered as it stands, whatever the policy says by now: nothing begins by that. For every other
    one policy comes before conflict.

    Raises:
        PolicyError: the settings refuse it; the message names them.
        ConflictError: its execution id belongs to another submission; the message names the first difference.
        LedgerUnavailableError: safe to send again.
    """
    known = here.ledger.standings([submission.execution_id])
    if not known or here.ledger.get(submission.execution_id).submission_sha256 != submission.content_sha256():
        admit_policy(submission, policy)
    return here.ledger.accept(submission, label=label_of(here, submission), announced=True)
