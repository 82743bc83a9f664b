"""`GET /metrics`: what an operator watches, in the form that Prometheus reads.

What concerns executions is read from the ledger at each scrape, so every API process of an installation tells the same and
none has to be asked after another. What concerns this process alone, bytes and requests, it counts itself.
"""

from __future__ import annotations

import time
from collections import Counter
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Final, get_args

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from contracts.errors import RuntimeFault, codes
from runtime.ledger.records import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from runtime.live_installation import Source

router = APIRouter(tags=["operation"])

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_EXAMPLE: Final = (
    "# HELP mtr_executions Executions that the ledger has, by state and error code.\n"
    "# TYPE mtr_executions gauge\n"
    'mtr_executions{code="",state="succeeded"} 41.0\n'
    'mtr_executions{code="out_of_memory",state="failed"} 1.0\n'
)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traffic:
    """What went through this process's HTTP server. Counted in the event loop's one thread."""

    def __init__(self) -> None:
        self.received_bytes = 0
        self.sent_bytes = 0
        self.requests: Counter[tuple[str, str]] = Counter()
        self.open_requests = 0


class TrafficCount:
    """Middleware that counts requests, and the bytes of their bodies, whoever answers them."""

    def __init__(self, app: ASGIApp, traffic: Traffic) -> None:
        self._app, self._traffic = app, traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        traffic = self._traffic
        method = scope["method"] if scope["method"] in _METHODS else "other"
        status = "none"  # the client left, or the application broke, before there was one

        async def count_received() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                traffic.received_bytes += len(message.get("body", b""))
            return message

        async def count_sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            elif message["type"] == "http.response.body":
                traffic.sent_bytes += len(message.get("body", b""))
            await send(message)

        traffic.open_requests += 1
        try:
            await self._app(scope, count_received, count_sent)
        finally:
            traffic.open_requests -= 1
            traffic.requests[method, status] += 1


class RuntimeCollector(Collector):
    """Reads the ledger when it is scraped, and tells what this process counted.

    A ledger that does not answer is a figure too, `mtr_ledger_up` 0: the scrape itself must not fail then.
    """

    def __init__(self, source: Source, traffic: Traffic) -> None:
        self._source, self._traffic = source, traffic

    def collect(self) -> Iterator[Metric]:
        """Every family, in a stable order."""
        yield InfoMetricFamily("mtr_build", "What runs here.", {"version": version("model-training-runtime")})
        try:
            told = list(self._of_the_ledger())
        except RuntimeFault:
            told = []
        yield _gauge("mtr_ledger_up", "Whether the ledger answers: 1 or 0.", float(bool(told)))
        yield from told
        yield from self._of_this_process()

    def _of_the_ledger(self) -> Iterator[Metric]:
        ledger = self._source.current().ledger
        figures, now = ledger.figures(), time.time()
        executions = GaugeMetricFamily(
            "mtr_executions",
            "Executions that the ledger has, by state and error code.",
            labels=("state", "code"),
        )
        counted: Counter[tuple[str, str]] = Counter(dict.fromkeys(((state, "") for state in get_args(State)), 0))
        for (state, code), count in figures.executions.items():
            counted[state, _known_code(code)] += count
        for labels, count in sorted(counted.items()):
            executions.add_metric(labels, count)
        yield executions
        seconds = CounterMetricFamily(
            "mtr_stage_seconds", "Seconds that executions spent in each stage.", labels=("stage",)
        )
        for stage, spent in sorted(ledger.stage_seconds().items()):
            seconds.add_metric((stage,), spent)
        yield seconds
        totals = ledger.totals()
        items = CounterMetricFamily(
            "mtr_dataset_items", "Items of data sets that attempts used, by where they came from.", labels=("source",)
        )
        items.add_metric(("cache",), totals.get("cached_items", 0))
        items.add_metric(("store",), totals.get("downloaded_items", 0))
        yield items
        oldest, pending = figures.oldest_queued_at, figures.oldest_pending_at
        yield _gauge(
            "mtr_queue_oldest_age_seconds",
            "How long the execution that has waited longest has been queued; 0 when none is.",
            max(0.0, now - oldest.timestamp()) if oldest else 0.0,
        )
        yield _gauge(
            "mtr_outbox_pending_messages", "Messages that no broker has confirmed yet.", figures.pending_messages
        )
        yield _gauge(
            "mtr_outbox_oldest_pending_age_seconds",
            "How long the first of them has waited; 0 when none does.",
            max(0.0, now - pending.timestamp()) if pending else 0.0,
        )

    def _of_this_process(self) -> Iterator[Metric]:
        traffic = self._traffic
        yield CounterMetricFamily(
            "mtr_http_received_bytes", "Bytes of request bodies that this process took.", value=traffic.received_bytes
        )
        yield CounterMetricFamily(
            "mtr_http_sent_bytes", "Bytes of response bodies that this process gave.", value=traffic.sent_bytes
        )
        requests = CounterMetricFamily(
            "mtr_http_requests", "Requests that this process answered.", labels=("method", "status")
        )
        for (method, status), count in sorted(traffic.requests.items()):
            requests.add_metric((method, status), count)
        yield requests
        yield _gauge("mtr_http_open_requests", "Requests that are being answered.", traffic.open_requests)


class Metrics:
    """What `/metrics` answers: a registry of this application's own, so that several of them share a process."""

    def __init__(self, source: Source, traffic: Traffic) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(RuntimeCollector(source, traffic))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """In the text format."""
        return generate_latest(self._registry)


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=value)


def _known_code(code: str | None) -> str:
    """An error code as a label: one of the table's, so that no text from outside ever becomes a series."""
    return "" if code is None else code if code in codes() else "other"


def _metrics(request: Request) -> Metrics:
    state = request.app.state
    if not hasattr(state, "metrics"):
        state.metrics = Metrics(state.source, state.traffic)
    made: Metrics = state.metrics
    return made


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={
        200: {"description": "The text format of Prometheus.", "content": {"text/plain": {"example": _EXAMPLE}}}
    },
)
def metrics(kept: Annotated[Metrics, Depends(_metrics)]) -> Response:
    """Tell what an operator watches, for Prometheus."""
    return Response(kept.text(), media_type=CONTENT_TYPE)
