"""A new ledger: in a file, as one machine has it, and in PostgreSQL, as many have it. Every test holds for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.service)])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as opened:
        yield opened
