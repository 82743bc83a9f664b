"""A Nacos server's HTTP API, for tests: its paths, answers and logins as Nacos 1 to 3 give them, and its bad days.

Written from Nacos's documentation; the server itself is a Java program that cannot be had here.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

GROUP, DATA_ID = "AUTO_ML", "AUTO_ML_CONFIG"


@dataclass
class NacosServer:
    """A server on a free port of 127.0.0.1. A context; within it, it may be stopped and started again on the same port.

    Attributes:
        version: 2 has the v1 API, 3 the v3 API.
        documents: by namespace (`""` is `public`), group and data id.
        users: with passwords; anybody may read while there are none.
        token_seconds: how long a login holds, as the server says it.
        broken: what it does instead of answering: `garbage`, `slow`, `trickle`, `endless`, or a status.
        requests: the path of each request, in order.
    """

    version: int = 3
    documents: dict[tuple[str, str, str], str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    token_seconds: int = 18_000
    broken: str | int = ""
    requests: list[str] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self.tokens: set[str] = set()
        self.ending = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    @property
    def address(self) -> str:
        """As NACOS_SERVER_ADDR has it."""
        return f"127.0.0.1:{self.port}"

    def publish(self, text: str, *, namespace: str = "", group: str = GROUP, data_id: str = DATA_ID) -> None:
        self.documents[namespace, group, data_id] = text

    def start(self) -> None:
        self.ending.clear()
        handler = type("Handler", (_Handler,), {"nacos": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Afterwards a connection to it is refused."""
        if self._server is not None:
            self.ending.set()
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Handler(BaseHTTPRequestHandler):
    nacos: NacosServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        return

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        form = self._one_each(self.rfile.read(length).decode())
        parts = urlsplit(self.path)
        self.nacos.requests.append(self.path)
        try:
            if self.nacos.broken:
                self._break()
            else:
                self._route(self.command, parts.path, self._one_each(parts.query), form)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    @staticmethod
    def _one_each(query: str) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}

    def _route(self, method: str, path: str, query: dict[str, str], form: dict[str, str]) -> None:
        new = self.nacos.version >= 3
        if method == "POST" and path == ("/nacos/v3/auth/user/login" if new else "/nacos/v1/auth/login"):
            self._login(form)
        elif method == "GET" and path == ("/nacos/v3/client/cs/config" if new else "/nacos/v1/cs/configs"):
            if self.nacos.users and not self._is_known():
                self._say(403, {"code": 403, "message": "user not found!", "data": None})
            elif new:
                self._config_v3(query)
            else:
                self._config_v1(query)
        else:
            self._say(404, {"timestamp": "now", "status": 404, "error": "Not Found", "path": path})

    def _config_v3(self, query: dict[str, str]) -> None:
        namespace = query.get("namespaceId", "")
        found = self.nacos.documents.get(
            ("" if namespace == "public" else namespace, query["groupName"], query["dataId"])
        )
        if found is None:
            self._say(404, {"code": 20004, "message": "resource not found", "data": "config data not exist"})
        else:
            data = {"resultCode": 200, "errorCode": 0, "content": found, "contentType": "yaml", "beta": False}
            self._say(200, {"code": 0, "message": "success", "data": data})

    def _config_v1(self, query: dict[str, str]) -> None:
        found = self.nacos.documents.get((query.get("tenant", ""), query["group"], query["dataId"]))
        if found is None:
            self._send(404, b"config data not exist")
        else:
            self._send(200, found.encode())

    def _login(self, form: dict[str, str]) -> None:
        if self.nacos.users.get(form.get("username", "")) != form.get("password"):
            self._send(403, b"unknown user!")
            return
        token = f"token-{len(self.nacos.tokens)}"
        self.nacos.tokens.add(token)
        self._say(200, {"accessToken": token, "tokenTtl": self.nacos.token_seconds, "globalAdmin": False})

    def _is_known(self) -> bool:
        return self.headers.get("Authorization", "").removeprefix("Bearer ") in self.nacos.tokens

    def _break(self) -> None:
        how = self.nacos.broken
        if isinstance(how, int):
            self._send(how, b"<html>no</html>")
        elif how == "garbage":
            self._send(200, b"\x00<html>not what you think</html>: [")
        elif how == "slow":
            self.nacos.ending.wait()
            self.close_connection = True
        else:
            self.send_response(200)
            self.end_headers()
            while not self.nacos.ending.is_set():
                self.wfile.write(b"x" * (1 if how == "trickle" else 1 << 20))
                if how == "trickle":
                    time.sleep(0.05)
            self.close_connection = True

    def _say(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, json.dumps(document).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
