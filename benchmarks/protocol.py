"""Reading what a training process says: typed lines a second, against a child that prints as fast as it can.

Run with `python -m benchmarks protocol`. The goal is 0.3 million metric lines a second, twice what a child can print.
"""

from __future__ import annotations

import statistics
import time

import msgspec
import orjson

from contracts.base import validate
from runtime.execution.protocol import EVENT, ProtocolReader

EXECUTION = "5b9e3c1e-0000-4000-8000-000000000001"
LINES = 50_000
CHUNK = 64 * 1024
ROUNDS = 7
FLOOR_MILLIONS = 0.3


def metric_lines(count: int = LINES) -> list[bytes]:
    """Metric events as our runner writes them, about 250 bytes each."""
    return [
        EVENT
        + orjson.dumps(
            {
                "protocol_version": "training-event/v1",
                "execution_id": EXECUTION,
                "sequence": number,
                "occurred_at": "2030-01-31T12:00:00.123456Z",
                "event_type": "metric",
                "split": "train",
                "epoch": number // 100,
                "step": number,
                "metrics": {"loss": 0.1234, "accuracy": 0.93},
            }
        )
        for number in range(count)
    ]


def _read(chunks: list[bytes]) -> None:
    reader = ProtocolReader(EXECUTION, max_events=LINES)
    read = sum(1 for chunk in chunks for _ in reader.feed(chunk))
    assert read == LINES


def _parse_only(lines: list[bytes]) -> None:
    for line in lines:
        orjson.loads(line[len(EVENT) :])


def _by_contract(lines: list[bytes]) -> None:
    for line in lines[: LINES // 10]:
        validate("event", line[len(EVENT) :])


def _untyped(lines: list[bytes]) -> None:
    decoder = msgspec.json.Decoder()
    for line in lines:
        decoder.decode(line[len(EVENT) :])


def measure() -> dict[str, float]:
    """Median million lines a second of interleaved rounds: read by the protocol, parsed by orjson, checked by the contract."""
    lines = metric_lines()
    stream = b"\n".join(lines) + b"\n"
    chunks = [stream[at : at + CHUNK] for at in range(0, len(stream), CHUNK)]
    contenders = {
        "protocol": (lambda: _read(chunks), LINES),
        "orjson_untyped": (lambda: _parse_only(lines), LINES),
        "msgspec_untyped": (lambda: _untyped(lines), LINES),
        "contract": (lambda: _by_contract(lines), LINES // 10),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, (contender, _) in contenders.items():
            started = time.perf_counter()
            contender()
            seconds[name].append(time.perf_counter() - started)
    millions = {name: contenders[name][1] / statistics.median(taken) / 1e6 for name, taken in seconds.items()}
    return {
        "protocol_million_lines_per_s": millions.pop("protocol"),
        "floor_protocol": FLOOR_MILLIONS,
        **{f"peer_{name}_million_lines_per_s": value for name, value in millions.items()},
    }
