"""What the access log keeps: who asked for what, and never a query, which may be a signature."""

from __future__ import annotations

import logging

import pytest

from services.http_server import log_to_stderr


@pytest.fixture
def access(monkeypatch) -> logging.Logger:
    """The access log; what the test does to any logger is undone."""
    loggers = [
        logging.getLogger(name) for name in ("uvicorn", "uvicorn.access", "uvicorn.error", "services", "runtime")
    ]
    loggers += [logging.getLogger(name) for name in ("tasks", "contracts", "mtr", "aiormq", "aio_pika")]
    for logger in loggers:
        for attribute in ("handlers", "filters", "level", "propagate"):
            monkeypatch.setattr(logger, attribute, getattr(logger, attribute))
        monkeypatch.setattr(logger, "handlers", list(logger.handlers))
        monkeypatch.setattr(logger, "filters", list(logger.filters))
    return logging.getLogger("uvicorn.access")


def request(access: logging.Logger, target: str, status: int) -> None:
    log_to_stderr()  # here: the stderr that a test reads is made for its own call
    access.info('%s - "%s %s HTTP/%s" %d', "127.0.0.1:9", "GET", target, "1.1", status)


def test_a_request_is_logged_without_its_query(access, capsys) -> None:
    request(access, "/v1/uploads/7?signature=secret", 200)
    said = capsys.readouterr().err

    assert '"GET /v1/uploads/7 HTTP/1.1" 200' in said
    assert "secret" not in said


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_what_machines_ask_all_the_time_is_not_logged(access, capsys, path) -> None:
    request(access, path, 200)

    assert capsys.readouterr().err == ""


def test_a_probe_that_failed_is_logged(access, capsys) -> None:
    request(access, "/ready", 503)

    assert "/ready" in capsys.readouterr().err


def test_what_the_bridge_tells_in_a_line_its_library_does_not_tell_in_pages(access, caplog) -> None:
    log_to_stderr()
    logging.getLogger("aiormq.connection").error("Server connection reset", exc_info=ConnectionError("reset"))
    logging.getLogger("aio_pika.connection").warning("Reconnecting")

    assert caplog.records == []


def test_what_parts_of_the_product_say_is_logged(access, capsys) -> None:
    log_to_stderr()
    logging.getLogger("services.bridge").warning("messages wait")
    logging.getLogger("mtr.settings").warning("Nacos is away")

    said = capsys.readouterr().err
    assert "WARNING services.bridge: messages wait" in said
    assert "Nacos is away" in said
