"""`/v1/contracts/…/validate`: one document, every violation of it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response

from contracts.base import CONTRACTS
from contracts.limits import MAX_JSON_BODY_BYTES, MAX_VALIDATED_BODY_BYTES
from services.api.checking import checked
from services.api.dependencies import Here

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

router = APIRouter(prefix="/v1/contracts", tags=["contracts"])

PATHS: Final = {
    "package": "package",
    "dataset-manifest": "dataset_manifest",
    "dataset-source-manifest": "dataset_source_manifest",
    "execution": "execution",
    "event": "event",
    "result": "result",
    "mq-submission": "mq_submission",
}
"""Path segment -> name of the contract."""


def _endpoint(name: str, most: int) -> Callable[[Request, Here], Awaitable[Response]]:
    async def check(request: Request, here: Here) -> Response:
        return await checked(request, here, name, most)

    check.__name__ = f"validate_{name}"
    check.__doc__ = f"Check a `{CONTRACTS[name].version}` document; the answer has it with every default filled in."
    return check


for _segment, _name in PATHS.items():
    _most = MAX_VALIDATED_BODY_BYTES if _segment.startswith("dataset-") else MAX_JSON_BODY_BYTES
    router.add_api_route(
        f"/{_segment}/validate", _endpoint(_name, _most), methods=["POST"], operation_id=f"validate_{_name}"
    )
