"""One document of a Nacos server, by its HTTP API, in bounded time.

Nacos 3 answers under `/v3/client/cs/config`, Nacos 1 and 2 under `/v1/cs/configs`; which one it is, is found out at the
first answer. A login, where a user is given, is one more request whose token is kept until it is nearly over. Nothing runs
in the background and nothing is written to disk.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import orjson

from contracts.errors import PlatformSettingsUnavailableError
from contracts.limits import MAX_NACOS_ANSWER_BYTES, NACOS_CALL_SECONDS, NACOS_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from runtime.settings import Settings

PUBLIC: Final = "public"
"""The namespace that Nacos also knows as the empty one."""

_NOT_THERE: Final = frozenset({404, 405, 410, 501})
"""What a server says of an API that it does not have; of a document that it does not have, it says more."""
_NO_DOCUMENT: Final = frozenset({20004, 300})
"""Nacos 3's codes for it, of the envelope and of the query inside."""
_REFUSED: Final = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class NacosPlace:
    """Where the document is.

    Attributes:
        servers: base URLs with the context path, tried in this order.
        namespace: the namespace's id; `public` is the default one.
        group: the document's group.
        data_id: the document's name.
        username: who reads it; empty is nobody in particular.
        password: and the proof.
    """

    servers: tuple[str, ...]
    namespace: str
    group: str
    data_id: str
    username: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The place that `settings` name."""
        return cls(
            tuple(map(_base_url, settings.nacos_server_addr.split(","))),
            settings.nacos_namespace.strip() or PUBLIC,
            settings.nacos_group,
            settings.nacos_data_id,
            settings.nacos_username,
            settings.nacos_password.get_secret_value(),
        )

    def __str__(self) -> str:
        """As messages name it."""
        return f"{self.group}/{self.data_id} in namespace {self.namespace} of Nacos at {', '.join(self.servers)}"


def _base_url(address: str) -> str:
    """`host`, `host:port` or a URL as a base URL; Nacos listens on 8848 and answers below `/nacos`."""
    text = address.strip()
    bare = "://" not in text
    parts = urlsplit(f"http://{text}" if bare else text)
    host = parts.hostname or ""
    port = parts.port or (8848 if bare else None)
    literal = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{literal}{f':{port}' if port else ''}{parts.path.rstrip('/') or '/nacos'}"


class NacosClient:
    """Reads one document. For one thread at a time.

    Args:
        place: which document.
        seconds: how long one read may take in all, every server of it included.
    """

    def __init__(self, place: NacosPlace, *, seconds: float = NACOS_SECONDS) -> None:
        self.place = place
        self._seconds = seconds
        self._old: set[str] = set()  # servers that have no v3 API
        self._tokens: dict[str, tuple[str, float]] = {}
        self._http: httpx.Client | None = None

    def fetch(self) -> bytes | None:
        """The document's bytes; None where the server answers that there is none.

        Raises:
            PlatformSettingsUnavailableError: no server gave it: none was reached, answered in time, let us in, or spoke as Nacos.
        """
        import httpx  # noqa: PLC0415 - 0.1 s that a process without Nacos does not pay

        deadline = time.monotonic() + self._seconds
        failures = []
        for server in self.place.servers:
            try:
                return _Call(self._connection(), server, deadline, self).document()
            except httpx.TimeoutException:
                failures.append(f"{server} does not answer in time")
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                failures.append(f"{server}: {error}"[:300])
            except _NoUseError as error:
                failures.append(f"{server} {error}")
        raise PlatformSettingsUnavailableError(
            f"the platform's settings cannot be read: {'; '.join(failures)}",
            hint="Start Nacos or correct NACOS_SERVER_ADDR, NACOS_NAMESPACE, NACOS_USERNAME and NACOS_PASSWORD; "
            "a machine without Nacos sets USE_NACOS=false.",
            context={"place": str(self.place), "failures": failures},
        )

    def _connection(self) -> httpx.Client:
        """One for all reads, since making it loads the machine's certificates; it keeps no connection open."""
        import httpx  # noqa: PLC0415 - see `fetch`

        if self._http is None:
            # No proxy and no .netrc of the caller's environment: the platform's settings are on the platform's network.
            self._http = httpx.Client(
                timeout=NACOS_CALL_SECONDS,
                trust_env=False,
                follow_redirects=False,
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        return self._http

    def close(self) -> None:
        """Afterwards it holds nothing; a further read opens it again."""
        if self._http is not None:
            self._http.close()
            self._http = None


class _NoUseError(Exception):
    """A server answered, and not with a document; the text says what instead and never quotes the answer."""


class _Call:
    """One read from one server."""

    def __init__(self, http: httpx.Client, server: str, deadline: float, client: NacosClient) -> None:
        self._http, self._server, self._deadline, self._client = http, server, deadline, client
        self._place = client.place

    def document(self) -> bytes | None:
        """The document; a token that the server no longer takes is fetched anew, once."""
        known = self._server in self._client._tokens  # noqa: SLF001 - one mechanism in two classes
        try:
            return self._read(self._login())
        except _RefusedError:
            if not known:
                raise
        del self._client._tokens[self._server]  # noqa: SLF001 - as above
        return self._read(self._login())

    def _read(self, headers: Mapping[str, str]) -> bytes | None:
        place, old = self._place, self._client._old  # noqa: SLF001 - as above
        if self._server not in old:
            query = {"namespaceId": place.namespace, "groupName": place.group, "dataId": place.data_id}
            status, body = self._get("/v3/client/cs/config", query, headers)
            envelope = _envelope(body)
            if envelope is not None:
                return self._from_envelope(envelope)
            if status not in _NOT_THERE:
                raise self._no_use(status)
        tenant = {} if place.namespace == PUBLIC else {"tenant": place.namespace}
        query = {"dataId": place.data_id, "group": place.group, **tenant}
        status, body = self._get("/v1/cs/configs", query, headers)
        if status == 200:
            old.add(self._server)
            return body
        if status == 404 and b"config data not exist" in body:
            old.add(self._server)
            return None
        old.discard(self._server)  # it may have been upgraded: the next read finds out
        raise self._no_use(status)

    def _from_envelope(self, envelope: dict[str, Any]) -> bytes | None:
        code, data = envelope["code"], envelope.get("data")
        within = data.get("resultCode") if isinstance(data, dict) else None
        if code in _NO_DOCUMENT or within in _NO_DOCUMENT or (code == 0 and data is None):
            return None
        content = data.get("content") if isinstance(data, dict) else None
        if code == 0 and isinstance(content, str):
            return content.encode("utf-8", "surrogatepass")
        if code in _REFUSED or code == 10001:
            raise self._no_use(403)
        raise _NoUseError(f"answers with Nacos's code {code} and no document")

    def _login(self) -> dict[str, str]:
        """The headers that prove who we are: in headers, since addresses are written into access logs."""
        place, tokens = self._place, self._client._tokens  # noqa: SLF001 - as above
        if not place.username:
            return {}
        token, until = tokens.get(self._server, ("", 0.0))
        if time.monotonic() >= until:
            token, seconds = self._new_token()
            tokens[self._server] = (token, time.monotonic() + 0.9 * seconds)
        return {"Authorization": f"Bearer {token}", "accessToken": token}

    def _new_token(self) -> tuple[str, float]:
        form = {"username": self._place.username, "password": self._place.password}
        refused = None
        for path in ("/v3/auth/user/login", "/v1/auth/login"):
            status, body = self._ask("POST", path, data=form)
            if status != 200:  # an older server may refuse a path that it does not know
                if status not in _NOT_THERE:
                    refused = refused or status
                continue
            answer = _object(body)
            token, seconds = answer.get("accessToken"), answer.get("tokenTtl")
            if isinstance(token, str) and token.isascii() and token.isprintable() and token:
                return token, seconds if isinstance(seconds, int) and seconds > 0 else 60
            raise _NoUseError("answers a login without an accessToken")
        if refused:
            raise _RefusedError(f"refuses the login of {self._place.username!r} (HTTP {refused})")
        raise _NoUseError("has no login; leave NACOS_USERNAME empty, or is this Nacos at all?")

    def _get(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
        status, body = self._ask("GET", path, params=query, headers=headers)
        if status in _REFUSED:
            raise _RefusedError(self._refusal(status))
        return status, body

    def _ask(self, method: str, path: str, **request: Any) -> tuple[int, bytes]:
        """The answer's status and body, both bounds kept: a server may trickle for ever, or never end."""
        self._require_time()
        with self._http.stream(method, f"{self._server}{path}", **request) as answer:
            body = bytearray()
            for part in answer.iter_bytes():
                body += part
                if len(body) > MAX_NACOS_ANSWER_BYTES:
                    raise _NoUseError(f"answers with more than {MAX_NACOS_ANSWER_BYTES} bytes")
                self._require_time()
            self._require_time()
            return answer.status_code, bytes(body)

    def _require_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _NoUseError("does not answer in time")

    def _no_use(self, status: int) -> _NoUseError:
        if status in _REFUSED:
            return _RefusedError(self._refusal(status))
        if status in _NOT_THERE or status == 200:
            return _NoUseError(f"does not answer as Nacos does (HTTP {status})")
        return _NoUseError(f"answers HTTP {status}")

    def _refusal(self, status: int) -> str:
        who = f"{self._place.username!r}" if self._place.username else "us, who give no NACOS_USERNAME,"
        return f"does not let {who} read the document (HTTP {status})"


class _RefusedError(_NoUseError):
    """The server does not let us in."""


def _object(body: bytes) -> dict[str, Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _envelope(body: bytes) -> dict[str, Any] | None:
    """Nacos 3's `{"code", "message", "data"}`; None for anything else, the 404 page of an older server for instance."""
    answer = _object(body)
    code = answer.get("code")
    return answer if isinstance(code, int) and not isinstance(code, bool) and "message" in answer else None
