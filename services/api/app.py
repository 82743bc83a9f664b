"""`uvicorn services.api.app:app`: the HTTP API by the settings that hold where it is started."""

from __future__ import annotations

from services.api.served import ServedApplication

app = ServedApplication()
"""Opens nothing before the server starts it."""
