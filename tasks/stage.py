"""What makes a function a stage: its Prefect task, its retry rule, and an end whose name says what happened.

A stage is called like the function it was made from. Around the call it

1. tells the run that the stage began, so that the ledger and the journal know where an execution stands;
2. runs the function as a Prefect task of the stage's name, in the calling thread (never `.submit()`: a worker thread is
   not interrupted by a cancellation, and what it started would survive);
3. gives a failed task run the name and the one line that people read (`OutOfMemory`: cause and next action);
4. raises the function's own error to the caller, whatever Prefect made of it.

Arguments and results pass through one opaque holder: Prefect walks every parameter of a task in search of other tasks'
results, which would read through a manifest of ten million items.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast

import httpx
from prefect import State, task
from prefect.cache_policies import NO_CACHE
from prefect.context import TagsContext, TaskRunContext
from prefect.exceptions import PrefectException

from contracts.errors import InternalError, OrchestratorUnavailableError, RuntimeFault
from tasks.states import failed_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from prefect import Task
    from prefect.client.schemas import TaskRun

    from tasks.run import Run

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

RETRY_DELAY_SECONDS: Final = (1.0, 5.0, 15.0)
"""Between tries of a stage whose store was away; each try has the store's own deadline and retries inside."""

STAGES: Final = (
    "validate_submission",
    "check_package",
    "pin_dataset",
    "admit_execution",
    "materialize_inputs",
    "train",
    "verify_artifacts",
    "persist_artifacts",
    "register_model",
    "publish_outcome",
)
"""The names that scripts, the platform and the UI see, in order."""


def something_was_away(_task: Task[Any, Any], _run: TaskRun, state: State[Any]) -> bool:
    """Whether a try failed for something outside that may come back.

    Read from `state.data`, which is the exception; the documented `state.result()` is a coroutine for async tasks.
    """
    return isinstance(state.data, RuntimeFault) and state.data.retry == "later"


class _Call(Generic[Result]):
    """One call's way in and out; deliberately nothing that Prefect looks into."""

    def __init__(self, function: Callable[[], Result]) -> None:
        self.function = function
        self.result: Result | None = None
        self.error: Exception | None = None
        self.ended = False

    def run(self) -> None:
        self.error, self.ended = None, False
        try:
            self.result = self.function()
            self.ended = True
        except RuntimeFault as fault:
            self.error = fault
            raise
        except Exception as error:
            self.error = InternalError(
                f"{type(error).__name__}: {error}",
                hint="This is a defect of the runtime: report it with the log of the run.",
                context={"type": type(error).__name__},
            )
            self.error.__cause__ = error
            raise self.error from error

    def outcome(self) -> Result:
        """What the function returned, or its error raised."""
        if self.error is not None:
            raise self.error
        return cast("Result", self.result)


def stage(
    *, retried: bool = False
) -> Callable[
    [Callable[Concatenate[Run, Arguments], Result]],
    Callable[Concatenate[Run, Arguments], Result],
]:
    """A decorator: afterwards the function is the stage of its name, one of `STAGES`.

    Args:
        retried: whether the stage is tried again while something outside is away (the object store, the ledger).
            Only for functions that may run twice.
    """

    def decorate(
        function: Callable[Concatenate[Run, Arguments], Result],
    ) -> Callable[Concatenate[Run, Arguments], Result]:
        name = function.__name__
        if name not in STAGES:
            raise ValueError(f"{name} is no stage")
        run_task = _task_of(name, function.__doc__, retried=retried)

        @functools.wraps(function)
        def call_stage(run: Run, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            call = _Call(functools.partial(function, run, *args, **kwargs))
            started = time.monotonic()
            run.enter(name)
            try:
                run_task(call)
            finally:
                run.leave(name, seconds=time.monotonic() - started, error=call.error)
            return call.outcome()

        return cast("Callable[Concatenate[Run, Arguments], Result]", call_stage)

    return decorate


def step(*, retried: bool = False) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """As `stage`, for what belongs to no execution: registering and pinning on their own."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        run_task = _task_of(function.__name__, function.__doc__, retried=retried)

        @functools.wraps(function)
        def call_step(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            call = _Call(functools.partial(function, *args, **kwargs))
            run_task(call)
            return call.outcome()

        return call_step

    return decorate


def _task_of(name: str, description: str | None, *, retried: bool) -> Callable[[_Call[Any]], None]:
    """What runs a call as a Prefect task of `name`; it raises nothing, the call knows how it ended."""

    @task(
        name=name,
        task_run_name=name,
        description=description,
        retries=len(RETRY_DELAY_SECONDS) if retried else 0,
        retry_delay_seconds=list(RETRY_DELAY_SECONDS) if retried else 0,
        retry_condition_fn=something_was_away if retried else None,
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    def run_call(call: _Call[Any]) -> State[Any] | None:
        try:
            call.run()
        except RuntimeFault as fault:
            if retried and fault.retry == "later" and _tries_left():
                raise
            return failed_state(fault)
        return None

    def run_and_forget(call: _Call[Any]) -> None:
        # The call itself knows its result and its error; Prefect's copy of them may be a reference or a coroutine.
        try:
            with TagsContext(current_tags=set()):  # a tagged task asks the server for its tag's slots first
                run_call(call, return_state=True)
        except (httpx.HTTPError, PrefectException) as error:
            if not call.ended and call.error is None:
                raise OrchestratorUnavailableError(
                    f"Prefect could not begin {name}: {error or type(error).__name__}",
                    hint="Repeat once its server answers: nothing that was achieved is lost.",
                ) from error

    return run_and_forget


def _tries_left() -> bool:
    context = TaskRunContext.get()
    return context is not None and context.task_run.run_count <= context.task.retries
