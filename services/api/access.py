"""Who may write: bearer tokens, two at once while clients change from one to the next.

Whatever changes something needs the token. The gate stands before everything else, so that nobody without one makes us
read a body; a request is open only where this module says so, and a new path is closed until it does.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final

from fastapi import Depends
from fastapi.security import HTTPBearer

from contracts.errors import UnauthorizedError
from services.api.failures import failure_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from runtime.live_installation import Source
    from runtime.settings import Settings

WRITE: Final = Depends(HTTPBearer(auto_error=False, description="Needed where the operator has set `api_token`."))
"""Says in the OpenAPI document that an endpoint needs the token. `TokenGate` is what asks for it."""

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS: Final = re.compile(
    r"/v1/contracts/[^/]+/validate"
    r"|/v1/admission/[^/]+/validate"
    r"|/v1/(?:model-)?packages/archive/(?:validate|inspect)"
    r"|/v1/uploads/[^/]+/content"  # known by the secret in a header
)
"""What takes a body and changes nothing, or asks for a secret of its own."""


class TokenGate:
    """Middleware: a request that would change something goes on only with a token that is valid now."""

    def __init__(self, app: ASGIApp, source: Source) -> None:
        self._app, self._source = app, source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI application."""
        if scope["type"] == "http" and is_write(scope["method"], scope["path"]):
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            if not is_allowed(given, self._source.current().settings):
                await failure_response(_unauthorized(given))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_write(method: str, path: str) -> bool:
    """Whether a request needs the token."""
    return method not in _READING and OPEN_PATHS.fullmatch(path) is None


def is_allowed(given: list[bytes], settings: Settings) -> bool:
    """Whether one of the `Authorization` values is a token of `settings`; anybody is where none is set.

    Digests are compared, of equal length and in constant time, and always with both tokens: the time that it takes tells
    nothing about either.
    """
    tokens = [token.get_secret_value() for token in (settings.api_token, settings.api_previous_token)]
    if not any(tokens):
        return True
    if len(given) != 1:
        return False
    scheme, _, said = given[0].partition(b" ")
    digest = hashlib.sha256(said.strip()).digest()
    matches = [hmac.compare_digest(digest, hashlib.sha256(token.encode()).digest()) & (token != "") for token in tokens]
    return scheme.lower() == b"bearer" and any(matches)


def _unauthorized(given: list[bytes]) -> UnauthorizedError:
    return UnauthorizedError(
        "the token is not valid here" if given else "this needs a token",
        hint="Send `Authorization: Bearer TOKEN` with the api_token that the operator has set.",
    )
