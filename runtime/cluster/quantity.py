"""Kubernetes' way to write amounts: `16Gi`, `500m`, `1e9`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_QUANTITY: Final = re.compile(
    r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII
)
_FACTORS: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}


def parse_quantity(text: str) -> float | None:
    """The amount in base units (bytes, cores, pieces); `None` where the text is none.

    Source: the grammar of `resource.Quantity` in Kubernetes' API machinery.
    """
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        return None
    number, exponent, unit = found.groups()
    factor = Decimal(10) ** int(exponent) if exponent else _FACTORS.get(unit, Decimal(1))
    return float(Decimal(number) * factor)
