"""Submissions to put into a ledger."""

from __future__ import annotations

import uuid
from typing import Any

from contracts.submission import TrainingCodeSubmission


def submission_document(**changes: Any) -> dict[str, Any]:
    """A valid platform submission with fresh ids; `changes` replace top-level fields."""
    return {
        "protocol_version": "training-code-submit/v1",
        "message_id": str(uuid.uuid4()),
        "execution_id": str(uuid.uuid4()),
        "task": {"task_id": 1, "task_kind": "classification"},
        "package": {"key": "digits", "version": "0.1.0", "sha256": "a" * 64},
        "package_archive": {"bucket": "default", "object_key": "p.zip", "sha256": "a" * 64, "size_bytes": 1},
        "dataset_source_snapshot": {"bucket": "default", "object_key": "d.json", "sha256": "b" * 64, "size_bytes": 1},
        "runtime": {"id": "base"},
        "resources": {"memory_bytes": 1024},
        **changes,
    }


def submission(**changes: Any) -> TrainingCodeSubmission:
    """`submission_document`, validated."""
    return TrainingCodeSubmission.model_validate(submission_document(**changes))
