"""Which ids can be read of a delivery that is no submission."""

from __future__ import annotations

import pytest

from contracts.limits import MAX_COUNT
from services.bridge.submissions import Named


@pytest.mark.parametrize("task_id", [1, MAX_COUNT])
def test_a_task_is_named_beside_a_number_that_nobody_reads(task_id: int) -> None:
    body = b'{"x": %s, "task": {"task_id": %d}}' % (b"9" * 5_000, task_id)

    assert Named.of(body).task_id == task_id


@pytest.mark.parametrize("task_id", [b"0", b"-1", b"7.0", b'"7"', b"true", b"%d" % (MAX_COUNT + 1), b"9" * 5_000])
def test_what_is_no_task_names_none(task_id: bytes) -> None:
    assert Named.of(b'{"task": {"task_id": %s}}' % task_id) == Named()
