"""Any outcome of an execution without running anything: what a control plane tests itself against.

Submissions are accepted as ever: the same documents are refused, the same rows are written, the same messages leave. Then a
simulated dispatcher takes the place of the real one. It goes through the stages of a real execution with the functions
that real executions use, so that what it tells cannot drift from theirs, and ends in the outcome that was asked for.

A simulation has a ledger of its own, below `simulation/` in the installation's folder: it never takes up a real
execution, nor one of another outcome.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from contracts.errors import CancelledError, InvalidDocumentError, RuntimeFault, UsageError, codes, fault_from_document
from contracts.references import Pinned
from runtime.handover import AttemptEnd, artifact_place
from runtime.installation import Installation
from runtime.ledger import Ledger, Owner
from runtime.provenance import Lineage
from services.orchestrator import Dispatcher, prepare_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contracts.submission import TrainingCodeSubmission
    from runtime.ledger import Accepted
    from runtime.registry.models import RegisteredModel
    from runtime.settings import Settings
    from tasks.run import Run

# ruff: noqa: PLC0415 - the stages bring Prefect along, which reads its settings when it is imported

SUCCEEDED: Final = "succeeded"
SUMMARY: Final = "simulated: nothing was trained"
SWEEP_SECONDS: Final = 2.0
"""Between two looks for what was accepted and not told: by a bridge in another process, for instance."""

_STAGES_OF_ENDS: Final = {
    "archive_rejected": "check_package",
    "archive_too_large": "check_package",
    "object_missing": "check_package",
    "object_too_large": "pin_dataset",
    "object_changed": "pin_dataset",
    "digest_mismatch": "pin_dataset",
    "admission_refused": "admit_execution",
    "runtime_unavailable": "materialize_inputs",
    "gpu_unavailable": "materialize_inputs",
    "image_pull": "materialize_inputs",
    "unschedulable": "materialize_inputs",
    "quota_exceeded": "materialize_inputs",
    "cluster_refused": "materialize_inputs",
    "cancelled": "train",
    "artifact_missing": "verify_artifacts",
    "artifact_empty": "verify_artifacts",
    "artifact_outside": "verify_artifacts",
    "artifact_changed": "persist_artifacts",
    "result_refused": "verify_artifacts",
    "onnx_invalid": "register_model",
}
"""Where an error ends an execution, if that is not the training."""

_CLASS_NAMES: Final = ("simulated",)
_EPOCHS: Final = 3


@dataclass(frozen=True, slots=True)
class Simulation:
    """One outcome, wanted of every execution.

    Attributes:
        outcome: `succeeded` or the code of an error.
    """

    outcome: str

    def __post_init__(self) -> None:
        """Refuses what is no outcome.

        Raises:
            UsageError: the message lists all that are.
        """
        known = (SUCCEEDED, *codes())
        if self.outcome not in known:
            raise UsageError(
                f"{self.outcome!r} is no outcome that can be simulated; these are: {', '.join(known)}",
                hint="Give one of them, such as `mtr serve --simulate succeeded`.",
                context={"outcomes": list(known)},
            )

    @property
    def at_the_door(self) -> bool:
        """Whether the submission is refused, so that there is never an execution."""
        return self.outcome not in self.ends()

    @staticmethod
    def ends() -> tuple[str, ...]:
        """Every outcome that an execution can have.

        What only a door answers has an HTTP status of its own; what can be answered by nobody but the machine that
        trains has none.
        """
        without_status = (code for code, kind in codes().items() if "http_status" not in vars(kind))
        return (SUCCEEDED, *sorted({*without_status, *_STAGES_OF_ENDS}))

    @property
    def stage(self) -> str:
        """Where it ends the execution."""
        return _STAGES_OF_ENDS.get(self.outcome, "train")

    def fault(self) -> RuntimeFault:
        """The error, as those who get it will see it."""
        kind = codes()[self.outcome]
        said = (kind.__doc__ or kind.code).strip().splitlines()[0].replace("`", "")
        message, hint = f"simulated: {said}", "Nothing ran: this runtime simulates this outcome for every submission."
        context: dict[str, Any] = {"simulated": True}
        if issubclass(kind, InvalidDocumentError):
            context["violations"] = [{"path": "", "message": "is refused by a simulation"}]
        return fault_from_document({"code": kind.code, "message": message, "hint": hint, "context": context})

    def open(self, settings: Settings) -> Installation:
        """The installation in which it happens: the given one's store, a ledger of its own, execution on."""
        home = settings.home / "simulation" / self.outcome  # simulations of one machine must not end each other's
        own = settings.model_copy(
            update={
                "home": home,
                "workspace_root": home / "workspaces",
                "database_url": SecretStr(""),
                "execution_enabled": self.outcome != "policy_refused",
            }
        )
        own.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _SimulatedInstallation(own, self, real=settings)


class _SimulatedInstallation(Installation):
    """Objects of the real installation, executions of the simulated one."""

    def __init__(self, settings: Settings, simulation: Simulation, *, real: Settings) -> None:
        super().__init__(settings)
        self._simulation, self._real = simulation, real

    @property
    def store(self) -> Any:
        """The real installation's store: what the control plane registered is there."""
        from runtime.store.objects import open_store

        return self._once("store", lambda: open_store(self._real))

    @property
    def ledger(self) -> Ledger:
        """The simulated ledger, which refuses whatever the simulation refuses at the door."""
        if not self._simulation.at_the_door:
            return super().ledger

        def opened() -> Ledger:
            ledger = _RefusingLedger.open(self.settings.ledger_url)
            ledger.simulation = self._simulation
            return ledger

        return self._once("ledger", opened)


class _RefusingLedger(Ledger):
    """A ledger that accepts nothing."""

    simulation: Simulation

    def accept(self, submission: TrainingCodeSubmission, **_given: Any) -> Accepted:  # noqa: ARG002 - as the base class
        """Never: the simulated error instead."""
        raise self.simulation.fault()


class SimulatedDispatcher(Dispatcher):
    """Takes every accepted execution to the simulated outcome, in its own thread."""

    def __init__(self, here: Installation, simulation: Simulation) -> None:
        super().__init__(here)
        self._simulation = simulation

    def _sweep(self) -> float:
        """Afterwards whatever has been accepted has its end; how long there is nothing to do unless somebody rings."""
        ledger = self._here.ledger
        found = [*ledger.list(state="queued", limit=None), *ledger.list(state="running", limit=None)]
        failures: list[Exception] = []
        for execution in sorted(found, key=lambda one: one.created_at):
            if self._closing.is_set():
                break
            try:
                simulate(self._here, execution.execution_id, self._simulation)
            except Exception as error:  # noqa: BLE001 - whatever it was, those behind it do not wait for it
                failures.append(error)
        if failures:
            raise failures[0]
        return SWEEP_SECONDS


def simulate(installation: Installation, execution_id: str, simulation: Simulation) -> None:
    """Afterwards the execution has its simulated end, and everybody was told what they are told of a real one.

    Raises:
        RuntimeFault: it has no end: the ledger or the store is away, or another process works on it.
    """
    prepare_environment(installation.settings)
    from tasks.publish_outcome import Outcome, write_end
    from tasks.run import Host, Run

    ledger, owner = installation.ledger, Owner.here()
    execution = ledger.claim(execution_id, owner)
    if execution.ended:
        return
    try:
        host = Host(installation, stage_entered=lambda stage: ledger.enter_stage(execution_id, stage))
        run = Run.of(host, execution_id)
        with run.journal:  # this process goes on, and may have few files open
            played = _Played(run, simulation, execution.model_name)
            try:
                outcome = played.to_the_end()
            except RuntimeFault as fault:
                if fault.retry == "later":
                    raise
                outcome = Outcome.of_fault(execution_id, fault, played.error_stage(fault), played.end)
            with played.stage("publish_outcome"):
                ended, _ = write_end(installation, execution_id, outcome)
                run.tell(
                    "state", state=ended.state, message=SUMMARY if outcome.error is None else outcome.error.message
                )
    finally:
        with contextlib.suppress(RuntimeFault):
            ledger.release(execution_id, owner)


class _Played:
    """The stages of one simulated execution."""

    def __init__(self, run: Run, simulation: Simulation, model_name: str | None) -> None:
        from contracts.base import validate
        from contracts.submission import TrainingCodeSubmission

        self.run, self._simulation = run, simulation
        self._installation = run.installation
        stored = run.installation.ledger.get(run.execution_id)
        self._submission = validate(TrainingCodeSubmission, stored.submission)
        self._model_name = model_name or self._submission.package.key
        self.end: AttemptEnd | None = None

    def to_the_end(self) -> Any:
        """The outcome of a success.

        Raises:
            RuntimeFault: the simulated error.
        """
        from tasks.publish_outcome import Outcome

        for name in ("validate_submission", "check_package", "pin_dataset", "admit_execution"):
            with self.stage(name):
                pass
        self.end = end = self._attempts()
        with self.stage("register_model"):
            model = self._register(end)
        return Outcome.of_success(end, model)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """While the block lasts the execution stands in stage `name`; the simulated error arises here if it belongs here.

        Raises:
            RuntimeFault: it does; or somebody asked for the execution's end.
        """
        started, error = time.monotonic(), None
        self.run.enter(name)
        try:
            if name != "publish_outcome" and self._installation.ledger.cancel_requested(self.run.execution_id):
                raise CancelledError("cancelled while it ran", hint="`mtr executions retry` starts it anew.")
            yield
            if self._simulation.outcome != SUCCEEDED and self._simulation.stage == name:
                raise self._simulation.fault()
        except RuntimeFault as fault:
            error = fault
            raise
        finally:
            self.run.leave(name, seconds=time.monotonic() - started, error=error)

    def error_stage(self, fault: RuntimeFault) -> str:
        """The `error.stage` of the result."""
        from flows.train_package import stage_of

        return stage_of(fault, self.run.stage)

    def _attempts(self) -> AttemptEnd:
        """The attempt that succeeded, after as many as its error is worth."""
        from tasks.states import state_message

        number, most = 1, self._installation.settings.max_attempts
        while True:
            try:
                return self._attempt()
            except RuntimeFault as fault:
                again = fault.retry == "elsewhere" and fault.code != "out_of_memory"
                if not again or number == most:
                    raise
                self.run.tell("log", level="warning", message=f"attempt {number}: {state_message(fault)}")
                number += 1

    def _attempt(self) -> AttemptEnd:
        ledger, execution_id = self._installation.ledger, self.run.execution_id
        attempt = ledger.begin_attempt(execution_id)
        self.run.tell("attempt", attempt=attempt.number)
        outcome, finished, artifacts = SUCCEEDED, False, []
        try:
            with self.stage("materialize_inputs"):
                pass
            with self.stage("train"):
                self._train()
            finished = True
            with self.stage("verify_artifacts"):
                pass
            with self.stage("persist_artifacts"):
                artifacts = self._store_artifacts()
        except RuntimeFault as fault:
            outcome = fault.code
            raise
        finally:
            ledger.end_attempt(
                execution_id,
                attempt.number,
                outcome=outcome,
                record={"simulated": True},
                paid_seconds=0.0,
                training_finished=finished,
            )
        return AttemptEnd(
            execution_id=execution_id,
            attempt=attempt.number,
            outcome=SUCCEEDED,
            completion=self._completion(artifacts),
            artifacts=artifacts,
            training_finished=True,
        )

    def _train(self) -> None:
        self.run.tell("log", level="info", message="training started")
        self.run.tell("phase", phase="train", message="simulated")
        self.run.tell("log", level="info", message="Nothing is trained: this is a simulation.")
        for epoch in range(1, _EPOCHS + 1):
            metrics = {"loss": round(1.0 / epoch, 3), "accuracy": round(1 - 0.5 / epoch, 3)}
            self.run.tell("metric", split="val", epoch=epoch, step=None, metrics=metrics)
        self.run.tell("checkpoint", path="checkpoint.bin", message=None)

    def _class_names(self) -> tuple[str, ...]:
        """The data set's, where it can be read; a control plane's own tests may have none in the store."""
        submission = self._submission
        if submission.script_dataset is not None:
            return submission.script_dataset.class_names or _CLASS_NAMES
        with contextlib.suppress(RuntimeFault):
            if submission.dataset_source_snapshot is not None:
                snapshot = self._installation.snapshots.load(submission.dataset_source_snapshot.pinned())
                return snapshot.class_names or _CLASS_NAMES
        return _CLASS_NAMES

    def _store_artifacts(self) -> list[dict[str, Any]]:
        model = tiny_onnx(len(self._class_names()))
        return [
            self._store("model.onnx", model, role="model", format="onnx", deployable=True),
            self._store("checkpoint.bin", b"simulated\n", role="checkpoint", format="bin", deployable=False),
        ]

    def _store(self, path: str, content: bytes, *, role: str, **described: Any) -> dict[str, Any]:
        sha256 = hashlib.sha256(content).hexdigest()
        bucket, key = artifact_place(self.run.execution_id, role=role, sha256=sha256, file_name=path)
        self._installation.store.publish_bytes(content, bucket, key)
        artifact = {"path": path, "role": role, **described, "metadata": {"simulated": True}}
        return {
            "artifact": {**artifact, "size_bytes": len(content), "sha256": sha256},
            "object": Pinned(bucket, key, sha256, len(content)).to_document(),
        }

    def _completion(self, artifacts: list[dict[str, Any]]) -> dict[str, Any]:
        fields = ("path", "role", "format", "deployable", "metadata")
        return {
            "summary": SUMMARY,
            "metrics": {"loss": 0.333, "accuracy": 0.833},
            "artifacts": [{name: one["artifact"][name] for name in fields} for one in artifacts],
            "model": {
                "task_kind": self._submission.task.task_kind,
                "class_names": list(self._class_names()),
                "framework": "simulated",
                "resume_checkpoint_path": "checkpoint.bin",
                "preprocessing": {},
                "postprocessing": {},
            },
        }

    def _register(self, end: AttemptEnd) -> RegisteredModel:
        stored = end.artifacts[0]["object"]
        classes = self._class_names()
        return self._installation.models.register(
            self._model_name,
            execution_id=self.run.execution_id,
            object=Pinned(stored["bucket"], stored["object_key"], stored["sha256"], stored["size_bytes"]),
            task_kind=self._submission.task.task_kind,
            class_names=classes,
            opset=OPSET,
            inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 1]}],
            outputs=[{"name": "scores", "dtype": "float32", "shape": ["batch", len(classes)]}],
            framework="simulated",
            metrics={"loss": 0.333, "accuracy": 0.833},
            lineage=Lineage.of(self._submission).to_document(),
        )


OPSET: Final = 17
_IR_VERSION: Final = 8


def tiny_onnx(classes: int) -> bytes:
    """A valid ONNX model of a few hundred bytes that scores so many classes; the same bytes each time."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.zeros((1, classes), np.float32), "weights")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weights"], ["scores"])],
        "simulated",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", classes])],
        [weights],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION, producer_name="simulated"
    )
    content: bytes = model.SerializeToString(deterministic=True)
    return content
