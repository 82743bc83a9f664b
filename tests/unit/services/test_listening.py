from __future__ import annotations

import socket

import pytest

from contracts.errors import ConflictError, UsageError
from services.listening import address_of, listen


def test_port_0_is_a_free_one_that_takes_connections() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert address_of(listening) == f"http://127.0.0.1:{port}"
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass


def test_a_port_that_is_taken_is_a_conflict() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(ConflictError, match=f"port {port} already"):
            listen("127.0.0.1", port)


def test_a_port_that_was_just_left_is_free() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port), timeout=5)
        served, _ = listening.accept()
        served.close()  # the side that closes first holds the port for a while
        client.close()

    listen("127.0.0.1", port).close()


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1"):
        listen("192.0.2.1", 0)


def test_an_address_of_all_interfaces_is_reached_on_this_machine() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        assert address_of(listening).startswith("http://127.0.0.1:")


def test_an_address_of_the_sixth_version_is_written_in_brackets() -> None:
    class Sixth:
        def getsockname(self) -> tuple[str, int, int, int]:
            return ("::1", 8012, 0, 0)

    assert address_of(Sixth()) == "http://[::1]:8012"
