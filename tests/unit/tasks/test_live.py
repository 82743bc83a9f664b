"""A training that runs, as Markdown."""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from runtime.execution.journal import Journal
from runtime.execution.protocol import Checkpoint, Log, Metric, Phase
from tasks import live
from tasks.live import LOG_BURST, MAX_POINTS, TAIL_LINES, LiveView, TrainingView
from tests.assets.documents import EXECUTION_ID

BASE = {
    "protocol_version": "training-event/v1",
    "execution_id": EXECUTION_ID,
    "sequence": 0,
    "occurred_at": "2026-01-01T00:00:00Z",
}


def phase(name: str, message: str | None = None) -> Phase:
    return Phase(**BASE, phase=name, message=message)


def metric(epoch: int | None, *, step: int | None = None, split: str = "val", **metrics: float) -> Metric:
    return Metric(**BASE, split=split, epoch=epoch, step=step, metrics=metrics)


class Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def view(said: Said, monkeypatch: pytest.MonkeyPatch) -> TrainingView:
    log = logging.getLogger("mtr.test")
    log.setLevel(logging.DEBUG)
    log.handlers.clear()
    log.addHandler(said)
    monkeypatch.setattr(live, "update", lambda *_: None)
    return TrainingView(SimpleNamespace(log=log), "cpu, 2 cores, 1.0 GiB")


@pytest.fixture
def listener(view: TrainingView, tmp_path: Path) -> LiveView:
    return LiveView(Journal(tmp_path / "journal.jsonl").listener(), view)


def test_the_last_phase_is_the_headline(view: TrainingView, listener: LiveView) -> None:
    listener.event(phase("load images"))
    listener.event(phase("train"))
    assert view.text().startswith("**train** · cpu, 2 cores, 1.0 GiB")
    assert "Phases: load images → train" in view.text()


def test_metrics_show_their_latest_value_and_where(view: TrainingView, listener: LiveView) -> None:
    listener.event(metric(1, loss=2.0))
    listener.event(metric(2, loss=1.5))
    listener.event(metric(None, split="test", accuracy=0.9))
    assert "| val loss | 1.5 | epoch 2 |" in view.text()
    assert "| test accuracy | 0.9 |  |" in view.text()


def test_a_curve_is_shown_once_there_are_two_points(view: TrainingView, listener: LiveView) -> None:
    listener.event(metric(1, loss=2.0))
    assert "data:image/png" not in view.text()
    listener.event(metric(2, loss=1.0))
    assert "data:image/png;base64," in view.text()


def test_a_long_training_keeps_a_bounded_curve_from_its_first_point(view: TrainingView, listener: LiveView) -> None:
    for step in range(20_000):
        view.point(metric(None, step=step, loss=1.0))
    points = view.curves["val loss"]
    assert len(points) <= 2 * MAX_POINTS
    assert (points[0][0], points[-1][0]) == (0.0, 19_999.0)


def test_the_tail_is_the_last_lines(view: TrainingView, listener: LiveView) -> None:
    for number in range(100):
        listener.output(f"line {number}", 0)
    assert list(view.tail) == [f"line {number}" for number in range(100 - TAIL_LINES, 100)]


def test_lines_that_nobody_could_read_are_counted(view: TrainingView, listener: LiveView) -> None:
    listener.output("now", 5_000)
    assert list(view.tail) == ["… 5000 lines", "now"]


def test_what_a_package_says_cannot_break_out_of_its_place(view: TrainingView, listener: LiveView) -> None:
    listener.event(phase("a | b\n<script>"))
    listener.output("```\n# injected\x1b[2J", 0)
    text = view.text()
    assert "a \\| b &lt;script>" in text
    assert text.count("```") == 2
    assert "\x1b" not in text


def test_prefect_gets_a_sample_and_the_journal_everything(
    said: Said, view: TrainingView, listener: LiveView, tmp_path: Path
) -> None:
    for number in range(1_000):
        listener.output(f"line {number}", 0)
    assert len(said.lines) <= LOG_BURST + 5
    assert len(Journal(tmp_path / "journal.jsonl").read()) == 1_000


def test_a_warning_is_always_passed_on(said: Said, listener: LiveView) -> None:
    for number in range(100):
        listener.output(f"line {number}", 0)
    listener.event(Log(**BASE, level="warning", message="the loss is not a number"))
    assert said.lines[-1] == "the loss is not a number"


def test_a_checkpoint_is_told(said: Said, listener: LiveView) -> None:
    listener.event(Checkpoint(**BASE, path="best.pt", message=None))
    assert said.lines == ["checkpoint best.pt"]


def test_the_view_is_renewed_every_two_seconds_at_most(
    view: TrainingView, listener: LiveView, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    monkeypatch.setattr(live, "update", lambda _artifact, text: shown.append(text))
    for epoch in range(50):
        listener.event(metric(epoch, loss=1.0))
    assert len(shown) == 1
    view.close()
    assert "epoch 49" in shown[-1]
