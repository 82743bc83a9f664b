"""Metrics as a small picture, since the Prefect UI draws pictures and no charts."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PIL.ImageDraw import ImageDraw

WIDTH: Final = 640
HEIGHT: Final = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 150, 12, 26
_COLORS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_INK, _GRID = "#475569", "#e2e8f0"


def draw_curves(curves: Mapping[str, Sequence[tuple[float, float]]]) -> bytes:
    """A PNG of the curves, each by its title and its (x, y) points; one scale for all of them."""
    from PIL import Image, ImageDraw  # noqa: PLC0415 - 60 ms that a flow without metrics need not pay

    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    low_x, high_x = _bounds([x for points in curves.values() for x, _ in points])
    low_y, high_y = _bounds([y for points in curves.values() for _, y in points])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - low_x) / (high_x - low_x) * (WIDTH - _LEFT - _RIGHT)
        up = (y - low_y) / (high_y - low_y) * (HEIGHT - _TOP - _BOTTOM)
        return _LEFT + across, HEIGHT - _BOTTOM - up

    for part in range(5):
        value = low_y + (high_y - low_y) * part / 4
        left, height = place(low_x, value)
        draw.line([(left, height), (WIDTH - _RIGHT, height)], fill=_GRID)
        draw.text((4, height - 6), f"{value:.3g}", fill=_INK)
    draw.text((_LEFT, HEIGHT - _BOTTOM + 8), f"{low_x:g}", fill=_INK)
    draw.text((WIDTH - _RIGHT - 24, HEIGHT - _BOTTOM + 8), f"{high_x:g}", fill=_INK)
    for number, (title, points) in enumerate(curves.items()):
        _draw(draw, [place(x, y) for x, y in points], title, number)

    content = io.BytesIO()
    image.save(content, "PNG", optimize=True)
    return content.getvalue()


def _draw(draw: ImageDraw, points: list[tuple[float, float]], title: str, number: int) -> None:
    color = _COLORS[number % len(_COLORS)]
    draw.line(points, fill=color, width=2)
    top = _TOP + 16 * number
    draw.line([(WIDTH - _RIGHT + 8, top + 6), (WIDTH - _RIGHT + 22, top + 6)], fill=color, width=3)
    draw.text((WIDTH - _RIGHT + 28, top), title.encode("latin-1", "replace").decode("latin-1")[:20], fill=_INK)


def _bounds(values: list[float]) -> tuple[float, float]:
    """The range that is drawn; never empty, so that a constant metric has a place too."""
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)
