"""What `mtr doctor` looks at beyond this machine's own parts: the HTTP API and the broker, where they are configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import httpx

from contracts.errors import OrchestratorUnavailableError
from contracts.messages import SERVICE_NAME
from runtime.provenance import product_version
from services.cli.checks import Check, looked_at
from services.orchestrator.stack import API_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.settings import Settings
    from services.broker_report import BrokerReport, QueueReport

HEALTH_SECONDS: Final = 5.0
"""The API answers /health in milliseconds, whatever it does besides."""


def door_checks(settings: Settings) -> Iterator[Check]:
    """One check for the HTTP API, where `base_url` says where it is or where it is found on its usual port, and several for a broker."""
    if settings.base_url:
        yield looked_at("http api", lambda: _api(settings.base_url))
    elif (found := _usual_api()) is not None:
        yield found
    if settings.rabbitmq_host:
        yield from _broker(settings)


# --- the HTTP API ----------------------------------------------------------------------------------------------------


def _api(address: str) -> Check:
    try:
        answer = httpx.get(f"{address.rstrip('/')}/health", timeout=HEALTH_SECONDS)
        said: Any = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        return _no_api(f"no HTTP API answers at {address}: {error or type(error).__name__}")
    if not isinstance(said, dict) or said.get("service") != SERVICE_NAME:
        return _no_api(f"something else answers at {address}: {answer.status_code}")
    message = f"{address} answers, version {said.get('version')}, {said.get('mode')}"
    if said.get("version") != product_version():
        remedy = f"Start `mtr serve` again from this installation, which is {product_version()}."
        return Check("http api", "warning", message, remedy)
    return Check("http api", "ok", message)


def _no_api(message: str) -> Check:
    remedy = "Start `mtr serve` there, or correct base_url, which is where clients reach it."
    return Check("http api", "failed", message, remedy, exit_code=OrchestratorUnavailableError.exit_code)


def _usual_api() -> Check | None:
    """Nobody promised an API where `base_url` is empty: one that is not there, or not ours, is no finding."""
    found = _api(f"http://127.0.0.1:{API_PORT}")
    return None if found.status == "failed" else found


# --- the broker ------------------------------------------------------------------------------------------------------


def _broker(settings: Settings) -> Iterator[Check]:
    from services.broker_report import inspect_broker  # noqa: PLC0415 - a broker's library for those who have one

    reports: list[BrokerReport] = []
    place = f"{settings.rabbitmq_host}:{settings.rabbitmq_port}"

    def connect() -> Check:
        reports.append(inspect_broker(settings))
        return Check("broker", "ok", f"{place} lets {settings.rabbitmq_user} in to {settings.rabbitmq_vhost}")

    yield looked_at("broker", connect)
    for report in reports:
        yield _exchange(settings, report)
        yield _submissions(settings, report.queue)
        if report.dead is not None:
            yield _dead_letters(report.dead)


def _exchange(settings: Settings, report: BrokerReport) -> Check:
    name, found = settings.rabbitmq_exchange, report.exchange
    if found is None:
        remedy = "`mtr bridge` makes it; or correct rabbitmq_exchange, if the platform's has another name."
        return Check("broker exchange", "warning", f"{name} is not there yet", remedy)
    if not found.as_ours:
        message = f"{name} is declared otherwise: there {_listed(found.arguments)}, ours {_listed(found.ours)}"
        remedy = (
            "The bridge needs a topic exchange: name the platform's in rabbitmq_exchange, or declare this one anew."
        )
        return Check("broker exchange", "failed", message, remedy, exit_code=4)
    return Check("broker exchange", "ok", f"{name}: {_listed(found.arguments)}")


def _submissions(settings: Settings, queue: QueueReport | None) -> Check:
    name = settings.rabbitmq_queue
    if queue is None:
        return Check("broker queue", "warning", f"{name} is not there yet", "`mtr bridge` makes it when it starts.")
    standing = f"{_counted(queue.consumers, 'consumer')}, {_counted(queue.messages, 'submission')} waiting"
    if not queue.as_ours:
        message = f"{name}: found, declared otherwise: there {_listed(queue.arguments)}, ours {_listed(queue.ours)}; {standing}"
        remedy = "The bridge takes the queue as it is. Look whether what differs may lose submissions, such as a time to live."
        return Check("broker queue", "warning", message, remedy)
    message = f"{name}: found, arguments match, {standing}"
    if not queue.consumers:
        return Check("broker queue", "warning", message, "Start `mtr bridge`, or `mtr serve --with-bridge`.")
    return Check("broker queue", "ok", message)


def _dead_letters(dead: QueueReport) -> Check:
    if not dead.messages:
        return Check("dead letters", "ok", f"{dead.name}: none")
    remedy = "Each has its reason in the headers x-mtr-code, x-mtr-reason and x-mtr-hint: read it, mend the sender, then remove it."
    return Check("dead letters", "warning", f"{dead.name}: {_counted(dead.messages, 'delivery', 'deliveries')}", remedy)


def _counted(number: int, what: str, many: str = "") -> str:
    return f"{number} {what if number == 1 else many or what + 's'}"


def _listed(arguments: dict[str, Any] | None) -> str:
    if arguments is None:
        return "(not to be found out)"
    return "(" + ", ".join(f"{name}={value}" for name, value in sorted(arguments.items())) + ")"
