"""The state of record: what was asked, what was tried, how it ended, what must still be told to whom."""

from runtime.ledger.ledger import Ledger
from runtime.ledger.owners import Owner
from runtime.ledger.records import (
    ATTEMPT_LOST,
    END_STATES,
    Accepted,
    Attempt,
    DatasetName,
    EndState,
    Execution,
    ExecutionSummary,
    Figures,
    Finished,
    OutboxMessage,
    PendingMessage,
    RecordedMessage,
    Standing,
    State,
    Told,
    Unfinished,
)

__all__ = [
    "ATTEMPT_LOST",
    "END_STATES",
    "Accepted",
    "Attempt",
    "DatasetName",
    "EndState",
    "Execution",
    "ExecutionSummary",
    "Figures",
    "Finished",
    "Ledger",
    "OutboxMessage",
    "Owner",
    "PendingMessage",
    "RecordedMessage",
    "Standing",
    "State",
    "Told",
    "Unfinished",
]
