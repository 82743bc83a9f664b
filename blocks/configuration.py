"""The installation that a worker's flow works with: this machine's settings, then what the operator wrote into blocks.

Precedence, from weakest to strongest: the defaults, `mtr.toml`, the environment, the blocks. A block changed in the UI
takes effect for the next execution, on every machine, without a restart.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from blocks.execution_policy import ExecutionPolicy
from blocks.object_store import ObjectStore
from runtime.installation import Installation
from runtime.settings import Settings, change_settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefect.blocks.core import Block

BLOCK_NAME = "mtr"
"""The one document of each block type that this product reads."""


@contextlib.contextmanager
def open_served_installation() -> Iterator[Installation]:
    """The installation of a flow that a worker runs.

    Raises:
        InvalidSettingsError: a setting or a block's field is wrong; the message names it.
    """
    with Installation.open(configured(load_settings(served=True))) as installation:
        yield installation


def configured(settings: Settings) -> Settings:
    """`settings` with what the blocks say; a field that is empty in the UI leaves the machine's value.

    Raises:
        InvalidSettingsError: a field's value is not what it must be.
    """
    changes = {**_said(ObjectStore), **_said(ExecutionPolicy)}
    if not changes:
        return settings
    return change_settings(settings, changes, place=f"the Prefect blocks named {BLOCK_NAME!r}")


def _said(kind: type[Block]) -> dict[str, Any]:
    try:
        block = kind.load(BLOCK_NAME)
    except ValueError:  # there is none: what Prefect raises for an unknown document
        return {}
    return {
        name: value
        for name in kind.model_fields
        if name in Settings.model_fields and (value := getattr(block, name)) is not None
    }
