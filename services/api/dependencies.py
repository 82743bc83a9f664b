"""What handlers are given: the installation that answers."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from runtime.installation import Installation


async def _current(request: Request) -> Installation:
    here: Installation = request.app.state.source.current()
    return here


def _fresh(request: Request) -> Installation:
    here: Installation = request.app.state.source.fresh()
    return here


Here = Annotated[Installation, Depends(_current)]
"""The installation, at once, by settings that are a few seconds old at most."""

Fresh = Annotated[Installation, Depends(_fresh)]
"""The installation by the settings that the platform has now: for what accepts an execution."""
