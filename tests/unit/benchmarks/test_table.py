from __future__ import annotations

import pytest

from benchmarks.__main__ import figures, names


def verdicts(**measured: float) -> dict[str, str]:
    return {figure.name: figure.verdict for figure in figures(measured)}


def test_a_figure_up_to_its_goal_meets_it():
    assert verdicts(ratio=3.0, goal_ratio=3.0) == {"ratio": "met"}


def test_a_figure_over_its_goal_misses_it():
    assert verdicts(ratio=3.1, goal_ratio=3.0) == {"ratio": "missed"}


@pytest.mark.parametrize(("lines", "verdict"), [(300_000, "met"), (299_999, "missed")])
def test_a_floor_is_the_least_that_a_figure_should_be(lines, verdict):
    assert verdicts(lines_per_second=lines, floor_lines=300_000) == {"lines_per_second": verdict}


def test_a_figure_without_a_goal_has_no_verdict():
    assert verdicts(milliseconds=12.0, goal_ratio=3.0) == {"milliseconds": ""}


def test_the_longest_name_of_a_goal_that_fits_decides():
    assert verdicts(ratio_cold=5.0, ratio_warm=0.2, goal_ratio=10.0, goal_ratio_warm=0.05) == {
        "ratio_cold": "met",
        "ratio_warm": "missed",
    }


def test_every_benchmark_can_be_named():
    assert "manifest_validation" in names()
    assert "__main__" not in names()
