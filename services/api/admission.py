"""`/v1/admission/…/validate`: documents that are valid one by one, and whether they agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from contracts.admission import admit_execution, admit_result
from contracts.base import validate
from contracts.errors import InvalidDocumentError, ResultRefusedError
from contracts.execution import ExecutionRequest
from contracts.package import PackageManifest
from contracts.result import TrainingResult
from contracts.strict_json import parse
from contracts.violations import kind_of
from services.api.failures import failure_response

if TYPE_CHECKING:
    from contracts.base import Document

router = APIRouter(prefix="/v1/admission", tags=["admission"])

_MODELS: Final[dict[str, type[Document]]] = {
    "manifest": PackageManifest,
    "execution": ExecutionRequest,
    "result": TrainingResult,
}


@router.post("/execution/validate")
async def validate_execution(request: Request) -> Response:
    """Say whether a package may be executed as requested; a refusal lists everything that does not agree."""
    content = await request.body()
    await to_thread.run_sync(_admit_execution, content)
    return JSONResponse({"valid": True, "scope": "package_execution"})


@router.post("/result/validate")
async def validate_result(request: Request) -> Response:
    """Say whether a result is one that the package promised; a refusal lists everything that does not agree."""
    content = await request.body()
    try:
        await to_thread.run_sync(_admit_result, content)
    except ResultRefusedError as refused:  # of an execution it is the package's failure, here it is the request's
        return failure_response(refused, 422)
    return JSONResponse({"valid": True, "scope": "package_execution_result"})


def _admit_execution(content: bytes) -> None:
    manifest, execution = _documents(content, ("manifest", "execution"))
    admit_execution(manifest, execution)


def _admit_result(content: bytes) -> None:
    manifest, execution, result = _documents(content, ("manifest", "execution", "result"))
    admit_execution(manifest, execution)
    admit_result(manifest, execution, result)


def _documents(content: bytes, names: tuple[str, ...]) -> list[Any]:
    """The named documents, each valid by itself.

    Raises:
        InvalidDocumentError: one is not there or not valid, or there is something else; every violation at once.
    """
    given = parse(content, contract="admission")
    if not isinstance(given, dict):
        raise InvalidDocumentError.of("admission", [{"path": "", "message": f"is {kind_of(given)}, must be an object"}])
    found = [{"path": name, "message": "is not a field here"} for name in given if name not in names]
    documents = []
    for name in names:
        if name not in given:
            found.append({"path": name, "message": "required here"})
            continue
        try:
            documents.append(validate(_MODELS[name], given[name]))
        except InvalidDocumentError as refused:
            violations: Any = refused.context["violations"]
            found += [{**one, "path": f"{name}.{one['path']}".rstrip(".")} for one in violations]
    if found:
        raise InvalidDocumentError.of("admission", found)
    return documents
