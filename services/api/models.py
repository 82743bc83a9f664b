"""`/v1/models` and `/v1/datasets`: what is registered here, with the bytes of each by HTTPS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from contracts.errors import InvalidDocumentError, NotFoundError
from contracts.limits import MAX_LISTED
from services.api.answering import Address, Shared
from services.api.answers import answered
from services.api.dependencies import Here
from services.api.downloads import DOWNLOAD_ANSWERS, offer
from services.api.execution_answers import DATASETS, MODEL_SHOWN, MODELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.installation import Installation
    from runtime.registry.models import RegisteredModel

router = APIRouter(prefix="/v1", tags=["models and data"])

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}")
_CURSOR: Final = re.compile(rf"({_NAME.pattern})@({_VERSION.pattern})")
_SHOWN: Final = 20
"""Of what exists, in a message about what does not."""

Name = Annotated[str, Path(description="A model's name.", examples=["digits"])]
Version = Annotated[str, Path(description="Its version, a number from 1 on, or `latest`.", examples=["latest", "3"])]
Limit = Annotated[int, Query(ge=1, le=MAX_LISTED, description="At most so many.")]
Cursor = Annotated[str | None, Query(max_length=300, description="`next_cursor` of the page before.")]


@router.get("/models", responses={200: answered("One page.", MODELS)})
def list_models(here: Here, address: Address, limit: Limit = 100, cursor: Cursor = None) -> JSONResponse:
    """List every version of every registered model, by name, the newest version first."""
    return _page(here, address, None, limit, cursor)


@router.get("/models/{name}", responses={200: answered("One page.", MODELS)})
def list_versions(name: Name, here: Here, address: Address, limit: Limit = 100, cursor: Cursor = None) -> JSONResponse:
    """List the versions of a model, the newest first."""
    if not (_NAME.fullmatch(name) and here.models.list(name=name, limit=1)):
        raise _no_model(here, name)
    return _page(here, address, name, limit, cursor)


@router.get("/models/{name}/versions/{version}", responses={200: answered("The model.", MODEL_SHOWN)})
def show_model(name: Name, version: Version, here: Here, address: Address) -> JSONResponse:
    """Show a registered model: inputs, outputs, classes, metrics, what it was made from, and the address of its bytes."""
    return JSONResponse(_document(_find(here, name, version), address))


@router.head("/models/{name}/versions/{version}/content", include_in_schema=False)
@router.get("/models/{name}/versions/{version}/content", responses=DOWNLOAD_ANSWERS, response_class=Response)
async def fetch_model(name: Name, version: Version, request: Request, here: Here, shared: Shared) -> Response:
    """Fetch a model's ONNX file, whole or by `Range`, hashed on the way.

    Where its bytes are not those that were stored, the connection breaks off before its announced length.
    """
    found = await to_thread.run_sync(_find, here, name, version)
    ending = found.object.key.rpartition("/")[2].rpartition(".")[2]
    file_name = f"{found.name}-v{found.version}.{ending or 'onnx'}"
    return await offer(request, shared.downloads(here.store), shared.downloading, found.object, file_name)


@router.get("/datasets", responses={200: answered("All of them.", DATASETS)})
def list_datasets(here: Here) -> JSONResponse:
    """List the data sets that have a name, each with the snapshot that it points at."""
    return JSONResponse(
        {
            "datasets": [
                {
                    "name": one.name,
                    "sha256": one.sha256,
                    "object": one.object.to_document(),
                    "updated_at": one.updated_at.isoformat(),
                }
                for one in here.datasets.list()
            ]
        }
    )


def _page(here: Installation, address: str, name: str | None, limit: int, cursor: str | None) -> JSONResponse:
    after = None
    if cursor is not None:
        read = _CURSOR.fullmatch(cursor)
        if read is None:
            violation = {"path": "cursor", "message": f"is {cursor!r}, which no page ended with"}
            raise InvalidDocumentError.of("query", [violation])
        after = (read[1], int(read[2]))
    found = here.models.list(name=name, after=after, limit=limit + 1)
    shown = found[:limit]
    return JSONResponse(
        {
            "models": [_document(one, address) for one in shown],
            "next_cursor": f"{shown[-1].name}@{shown[-1].version}" if len(found) > limit else None,
        }
    )


def _document(model: RegisteredModel, address: str) -> dict[str, Any]:
    return {
        **model.to_document(),
        "execution_id": model.execution_id,
        "framework": model.framework,
        "metrics": model.metrics,
        "lineage": model.lineage,
        "created_at": model.created_at.isoformat(),
        "url": f"{address}/v1/models/{model.name}/versions/{model.version}/content",
    }


def _find(here: Installation, name: str, version: str) -> RegisteredModel:
    """The model in this version, or its newest one.

    Raises:
        NotFoundError: there is none; the message names what there is.
    """
    versions: Sequence[RegisteredModel] = here.models.list(name=name, limit=_SHOWN) if _NAME.fullmatch(name) else ()
    if not versions:
        raise _no_model(here, name)
    if version == "latest":
        return versions[0]
    if _VERSION.fullmatch(version):
        wanted = int(version)
        exact = here.models.list(name=name, after=(name, wanted + 1), limit=1)
        if exact and exact[0].version == wanted:
            return exact[0]
    known = [one.version for one in versions]
    raise NotFoundError(
        f"model {name} has no version {version[:100]}; the newest are {', '.join(map(str, known))}",
        hint=f"Use one of these, or `latest`; GET /v1/models/{name} lists them all.",
        context={"name": name, "version": version[:100], "versions": known},
    )


def _no_model(here: Installation, name: str) -> NotFoundError:
    known = here.models.names(limit=_SHOWN)
    return NotFoundError(
        f"no registered model {name[:100]}; there {'are: ' + ', '.join(known) if known else 'is none yet'}",
        hint="GET /v1/models lists those that there are.",
        context={"name": name[:100], "known": list(known)},
    )
