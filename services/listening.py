"""A place to listen, taken before anything expensive starts."""

from __future__ import annotations

import errno
import socket

from contracts.errors import ConflictError, UsageError


def listen(host: str, port: int) -> socket.socket:
    """A socket on which nobody else listens; port 0 is any free one.

    Raises:
        ConflictError: somebody does.
        UsageError: `host` is no address of this machine, or the port is not ours to take.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        opened = socket.socket(family, kind)
    except OSError as error:
        raise _unusable(host, port, error) from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(socket.SOMAXCONN)
    except OSError as error:
        opened.close()
        if error.errno != errno.EADDRINUSE:
            raise _unusable(host, port, error) from error
        raise ConflictError(
            f"something listens on port {port} already",
            hint="End it, or choose another --port; --port 0 is any free one.",
            context={"host": host, "port": port},
        ) from error
    return opened


def _unusable(host: str, port: int, error: OSError) -> UsageError:
    return UsageError(
        f"cannot listen on {host} port {port}: {error.strerror or error}",
        hint="Give --host an address of this machine (127.0.0.1, or 0.0.0.0 for all of them) and --port a number from 1024.",
        context={"host": host, "port": port},
    )


def address_of(listening: socket.socket) -> str:
    """The web address at which `listening` is reached from this machine."""
    host, port = listening.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - asked for by whoever started us
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
