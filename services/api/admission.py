"""`/v1/admission/…/validate`: documents that are valid one by one, and whether they agree."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from contracts.errors import ResultRefusedError
from contracts.limits import MAX_JSON_BODY_BYTES
from services.api.checking import checked
from services.api.dependencies import Here
from services.api.failures import failure_response

router = APIRouter(prefix="/v1/admission", tags=["admission"])


@router.post("/execution/validate")
async def validate_execution(request: Request, here: Here) -> Response:
    """Say whether a package may be executed as requested; a refusal lists everything that does not agree."""
    return await checked(request, here, "admission_of_execution", MAX_JSON_BODY_BYTES)


@router.post("/result/validate")
async def validate_result(request: Request, here: Here) -> Response:
    """Say whether a result is one that the package promised; a refusal lists everything that does not agree."""
    try:
        return await checked(request, here, "admission_of_result", MAX_JSON_BODY_BYTES)
    except ResultRefusedError as refused:  # of an execution it is the package's failure, here it is the request's
        return failure_response(refused, 422)
