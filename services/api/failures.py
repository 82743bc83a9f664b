"""One body for every refusal: `{"detail", "code", "hint", "context"}`."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from contracts.errors import (
    InternalError,
    InvalidDocumentError,
    MethodNotAllowedError,
    NotFoundError,
    RuntimeFault,
    UnauthorizedError,
)

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

_log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 5
"""What `Retry-After` says while something outside is away."""


class Refusal(BaseModel):
    """What every refusal says.

    Attributes:
        detail: what happened.
        code: the stable name to match on; docs/errors.md has all of them.
        hint: what to do next.
        context: the evidence, such as `violations`, each `{"path", "message"}`.
    """

    detail: str
    code: str
    hint: str
    context: dict[str, Any]


def failure_response(fault: RuntimeFault, status: int | None = None) -> JSONResponse:
    """The answer that tells `fault`; its status is the code's own unless another is given."""
    status = status or fault.http_status
    headers = {}
    if isinstance(fault, UnauthorizedError):
        headers["WWW-Authenticate"] = "Bearer"
    if status == HTTPStatus.SERVICE_UNAVAILABLE and fault.retry == "later":
        headers["Retry-After"] = str(_AGAIN_SECONDS)
    body = {"detail": fault.message, "code": fault.code, "hint": fault.hint, "context": fault.context}
    return JSONResponse(body, status, headers)


def install_failures(application: FastAPI) -> None:
    """Afterwards whatever goes wrong in a handler is answered by a `Refusal`."""
    application.add_exception_handler(RuntimeFault, _answer_fault)
    application.add_exception_handler(RequestValidationError, _answer_invalid)
    application.add_exception_handler(HTTPException, _answer_http)
    application.add_exception_handler(Exception, _answer_defect)


async def _answer_fault(_request: Request, error: Exception) -> Response:
    return failure_response(_fault_in(error) or _defect())


async def _answer_invalid(_request: Request, error: Exception) -> Response:
    """What the framework found wrong with a path, a query or a small body."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    violations = [
        {"path": ".".join(map(str, issue["loc"][1:] or issue["loc"])), "message": str(issue["msg"])} for issue in found
    ]
    return failure_response(InvalidDocumentError.of("request", violations))


async def _answer_http(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: an unknown path, a method that a path does not take, an unreadable body."""
    within = _fault_in(error.__cause__)
    if within is not None:
        return failure_response(within)
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.INTERNAL_SERVER_ERROR
    if status == HTTPStatus.NOT_FOUND:
        return failure_response(
            NotFoundError(
                f"there is no {request.method} {request.url.path[:200]}",
                hint="/openapi.json lists what there is.",
                context={"path": request.url.path[:200]},
            )
        )
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        refused = failure_response(
            MethodNotAllowedError(
                f"{request.url.path[:200]} does not take {request.method[:20]}",
                hint="/openapi.json lists the methods of each path.",
                context={"path": request.url.path[:200], "method": request.method[:20]},
            )
        )
        refused.headers.update(getattr(error, "headers", None) or {})
        return refused
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
        violation = {"path": "", "message": str(getattr(error, "detail", "cannot be read"))}
        return failure_response(InvalidDocumentError.of("request", [violation]))
    return failure_response(_defect())


async def _answer_defect(request: Request, error: Exception) -> Response:
    """A defect of ours: the log has all of it, the answer nothing that could be a secret."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return failure_response(_defect())


def _fault_in(error: BaseException | None) -> RuntimeFault | None:
    return error if isinstance(error, RuntimeFault) else None


def _defect() -> InternalError:
    return InternalError("the request failed for a defect of ours", hint="Report it; the log of the API has more.")
