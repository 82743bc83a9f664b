"""Amounts as Kubernetes writes them."""

from __future__ import annotations

import pytest

from runtime.cluster.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("16Gi", 16 * 1024**3),
        ("1.5Ki", 1536),
        ("500m", 0.5),
        ("8", 8),
        ("1e3", 1000),
        ("12E2", 1200),
        ("2E", 2e18),
        ("1M", 1_000_000),
        ("100k", 100_000),
        (".5", 0.5),
        ("7n", 7e-9),
    ],
)
def test_an_amount_is_read(text: str, amount: float) -> None:
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gb", "0x10", "1e", "--1", "1Gii", "١"])
def test_what_is_none_is_none(text: str) -> None:
    assert parse_quantity(text) is None
