"""The installation of a long-lived program of ours that serves a platform, as the site's settings have it at each moment."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from runtime.installation import Installation
from services.orchestrator.environment import prepare_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.live_installation import LiveInstallation
    from runtime.settings import Settings


@contextlib.contextmanager
def open_source(settings: Settings) -> Iterator[LiveInstallation]:
    """The source of the installation, following the platform's settings for as long as the block lasts.

    Args:
        settings: what this machine says, as `load_settings(served=True)` answers.

    Raises:
        InvalidSettingsError: this machine's settings, or a Prefect block's, are wrong.
    """
    Installation.open(settings).close()  # makes the folder, in which Prefect looks for its own when it is imported
    prepare_environment(settings)
    from blocks.configuration import served_settings  # noqa: PLC0415 - brings Prefect, which reads its environment at import
    from runtime.live_installation import LiveInstallation  # noqa: PLC0415 - as above

    with LiveInstallation(served_settings(settings, long_lived=True)) as source:
        yield source
