"""`/health` and `/v1/contracts`: what runs here. Neither waits for anything."""

from __future__ import annotations

from typing import Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from contracts.base import ANNOUNCED, CONTRACTS
from runtime.provenance import product_version
from services.api.answers import exemplified
from services.api.dependencies import Here

router = APIRouter(tags=["service"])

SERVICE_NAME = "model-training-runtime"


class Health(BaseModel):
    """What runs here.

    Attributes:
        status: that it answers.
        service: the product.
        version: of the product.
        mode: whether executions are carried out.
        execution_enabled: the same, as a truth value.
        mq_consumer_enabled: whether this process consumes submissions from the broker.
    """

    status: Literal["ok"] = "ok"
    service: str = SERVICE_NAME
    version: str
    mode: Literal["in_service_execution", "contract_validation_only"]
    execution_enabled: bool
    mq_consumer_enabled: bool


class Contracts(BaseModel):
    """The documents that are spoken here.

    Attributes:
        service: the product.
        experimental: whether these contracts may still change.
        contracts: name -> version.
    """

    service: str = SERVICE_NAME
    experimental: bool = False
    contracts: dict[str, str]


def _contracts() -> Contracts:
    return Contracts(contracts={name: CONTRACTS[name].version for name in ANNOUNCED})


_CONTRACTS: Final = _contracts().model_dump()
_HEALTH: Final = Health(
    version=product_version(), mode="in_service_execution", execution_enabled=True, mq_consumer_enabled=False
).model_dump()


@router.get("/health", responses={200: exemplified("It answers.", _HEALTH)})
async def health(request: Request, here: Here) -> Health:
    """Say that this process answers, and whether it executes."""
    enabled = here.settings.execution_enabled
    return Health(
        version=product_version(),
        mode="in_service_execution" if enabled else "contract_validation_only",
        execution_enabled=enabled,
        mq_consumer_enabled=request.app.state.consumes,
    )


@router.get("/v1/contracts", responses={200: exemplified("All of them.", _CONTRACTS)})
async def list_contracts() -> Contracts:
    """List the contracts and their versions."""
    return _contracts()
