"""Dropping what was uploaded and never completed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.registry.uploads import reap_uploads
from tasks.showing import show_table
from tasks.stage import step

if TYPE_CHECKING:
    from runtime.installation import Installation


@step(retried=True)
def reap_abandoned_uploads(installation: Installation) -> tuple[str, ...]:
    """Nothing is left of uploads that were begun two days ago. In the UI: their ids.

    Retry: safe; what is gone is gone.

    Returns:
        The ids of the uploads that went.
    """
    reaped = reap_uploads(installation.store)
    if reaped:
        show_table("reaped-uploads", [{"upload": upload_id} for upload_id in reaped], "Uploads that nobody completed")
    return reaped
