"""`GET /ready`: whether this service can take work now, and how each of its dependencies answers."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from services.api.probes import Probes, probes_of

router = APIRouter(tags=["operation"])

_EXAMPLE: Final[dict[str, Any]] = {
    "status": "degraded",
    "checks": {
        "store": {"state": "ok", "needed": True, "seconds": 0.0021, "message": "S3"},
        "ledger": {"state": "ok", "needed": True, "seconds": 0.0009, "message": "postgresql"},
        "prefect": {"state": "unused", "needed": False, "seconds": 0.0, "message": "none is configured"},
        "broker": {
            "state": "unavailable",
            "needed": False,
            "seconds": 0.0004,
            "message": "[Errno 111] Connection refused",
        },
    },
}
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "`ready`, or `degraded`: something that is not needed to take work does not answer.",
        "content": {"application/json": {"example": _EXAMPLE}},
    },
    503: {
        "description": "`unavailable`: store or ledger does not answer, so nothing can be accepted.",
        "content": {
            "application/json": {
                "example": {
                    "status": "unavailable",
                    "checks": {
                        **_EXAMPLE["checks"],
                        "ledger": {
                            "state": "unavailable",
                            "needed": True,
                            "seconds": 2.0,
                            "message": "no answer for 2.0 s",
                        },
                    },
                }
            }
        },
    },
}


async def _probes(request: Request) -> Probes:
    state = request.app.state
    if not hasattr(state, "probes"):
        state.probes = probes_of(state.source)
    made: Probes = state.probes
    return made


@router.get("/ready", responses=_ANSWERS)
async def ready(probes: Annotated[Probes, Depends(_probes)]) -> JSONResponse:
    """Ask store, ledger, Prefect and broker, at once and for two seconds at most.

    Asked often it costs the dependencies nothing: for a second the same answers are given again.
    """
    answers = await probes.answers()
    down = [answer for answer in answers.values() if answer.state == "unavailable"]
    status = "unavailable" if any(answer.needed for answer in down) else "degraded" if down else "ready"
    document = {"status": status, "checks": {name: answer.to_document() for name, answer in answers.items()}}
    return JSONResponse(
        document, status_code=503 if status == "unavailable" else 200, headers={"Cache-Control": "no-store"}
    )
