"""What may run, and within which limits: the operator's switches, in the Prefect UI."""

from __future__ import annotations

from typing import ClassVar

from prefect.blocks.core import Block
from pydantic import Field


class ExecutionPolicy(Block):
    """What may run here. Each field has the name of its setting; an empty one leaves each machine's own value.

    Attributes:
        execution_enabled: whether packages run at all.
        runtime_ids: the allow-list of `runtime.id`.
        allow_script_managed_data: whether packages may bring their own data, and so reach the network.
        idle_timeout_seconds: how long a package may say nothing.
        max_output_bytes: how much plain output it may print.
        max_processes: how many processes it may have.
        max_workspace_bytes: how much it may write in all.
        fail_on_left_processes: whether a package fails whose processes outlive its training.
        max_attempts: how often a machine's failure may cost an execution a new attempt.
        oom_memory_factor: after out of memory, one more attempt with so many times the memory.
    """

    _block_type_name: ClassVar[str] = "MTR Execution Policy"
    _block_type_slug: ClassVar[str] = "mtr-execution-policy"
    _description: ClassVar[str] = "What the model training runtime may run, and within which limits."

    execution_enabled: bool | None = Field(default=None, description="Whether packages run at all.")
    runtime_ids: list[str] | None = Field(default=None, description="The runtimes that packages may ask for.")
    allow_script_managed_data: bool | None = Field(
        default=None, description="Whether packages may bring their own data, and so reach the network."
    )
    idle_timeout_seconds: float | None = Field(default=None, gt=0, description="How long a package may say nothing.")
    max_output_bytes: int | None = Field(default=None, gt=0, description="How much plain output it may print.")
    max_processes: int | None = Field(default=None, gt=0, description="How many processes it may have.")
    max_workspace_bytes: int | None = Field(default=None, gt=0, description="How much it may write in all.")
    fail_on_left_processes: bool | None = Field(
        default=None, description="Whether a package fails whose processes outlive its training."
    )
    max_attempts: int | None = Field(
        default=None, ge=1, le=100, description="How often a machine's failure may cost an execution a new attempt."
    )
    oom_memory_factor: float | None = Field(
        default=None, gt=1, le=16, description="After out of memory, one more attempt with so many times the memory."
    )
