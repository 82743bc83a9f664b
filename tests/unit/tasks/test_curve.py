"""Metrics as a picture."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tasks.curve import HEIGHT, WIDTH, draw_curves

VALUES = st.floats(allow_nan=False, allow_infinity=False, width=32)


def picture(curves) -> Image.Image:
    return Image.open(io.BytesIO(draw_curves(curves))).convert("RGB")


@pytest.mark.slow
@given(
    st.dictionaries(
        st.text(max_size=40), st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=9), min_size=1, max_size=6
    )
)
def test_any_finite_metrics_can_be_drawn(curves) -> None:
    assert picture(curves).size == (WIDTH, HEIGHT)


def test_each_curve_has_a_colour_of_its_own() -> None:
    drawn = picture({"loss": [(1, 2.0), (2, 1.0)], "accuracy": [(1, 1.0), (2, 2.0)]})
    colours = {colour for _, colour in drawn.getcolors(maxcolors=100_000)}
    assert {(0x1F, 0x77, 0xB4), (0xD6, 0x27, 0x28)} <= colours


def test_a_falling_curve_falls() -> None:
    drawn = picture({"loss": [(1, 2.0), (2, 1.0)]})
    blue = [(x, y) for x in range(60, 480) for y in range(HEIGHT) if drawn.getpixel((x, y)) == (0x1F, 0x77, 0xB4)]
    assert min(blue)[1] < max(blue)[1]


def test_a_constant_metric_has_a_place_too() -> None:
    assert picture({"loss": [(1, 3.0), (2, 3.0)]}).size == (WIDTH, HEIGHT)
