"""How a training process ended: the evidence that every error and every success carries."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from contracts.base import validate
from contracts.completion import Completion

if TYPE_CHECKING:
    from collections.abc import Mapping

ISOLATED = "isolated"
NOT_ISOLATED = "not isolated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """What is known of one training process and its tree, measured from outside.

    Attributes:
        attempt: the attempt's number.
        exit_code: of the training process; `None` when a signal ended it.
        signal: the name of that signal, empty without one.
        isolation: `network`, `filesystem` and `processes`, each `isolated` or `not isolated`.
        isolation_refused: why the machine refused what is `not isolated`, by the same names.
        startup_seconds: from the launch to the package's first line.
        training_seconds: from the package's first line to the end.
        cpu_seconds: of the whole tree, as far as it was waited for.
        peak_memory_bytes: the largest resident size of the tree that was seen.
        peak_processes: the most processes that were seen at once.
        workspace_bytes: what lay in the workspace when it was last measured.
        output_bytes: plain output.
        events: typed events.
        ended_survivors: processes that outlived the training process, and their time to end, and were ended by the runtime.
        asked_to_end: whether the process was sent SIGTERM by the runtime.
        ended_by_force: whether the runtime killed the training process.
        kernel_oom_kills: processes that the kernel ended for memory meanwhile, where it can be read.
        output_tail: the last plain lines, for people.
    """

    attempt: int
    exit_code: int | None = None
    signal: str = ""
    isolation: dict[str, str] = field(default_factory=dict)
    isolation_refused: dict[str, str] = field(default_factory=dict)
    startup_seconds: float = 0.0
    training_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    peak_processes: int = 0
    workspace_bytes: int = 0
    output_bytes: int = 0
    events: int = 0
    ended_survivors: int = 0
    asked_to_end: bool = False
    ended_by_force: bool = False
    kernel_oom_kills: int = 0
    output_tail: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """JSON values only; `from_document` reads it again."""
        return {**asdict(self), "output_tail": list(self.output_tail)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The record that `to_document` wrote; fields of a later version are ignored."""
        known = {part.name for part in fields(cls)}
        values = {name: value for name, value in document.items() if name in known}
        return cls(**{**values, "output_tail": tuple(values.get("output_tail", ()))})


@dataclass(frozen=True, slots=True)
class TrainingEnd:
    """A training that finished: what the package says it left, and what was seen of it.

    Attributes:
        completion: what `train` returned, valid by its contract; nothing in it is verified yet.
        record: the process's record.
    """

    completion: Completion
    record: ProcessRecord

    def to_document(self) -> dict[str, Any]:
        """JSON values only."""
        return {"completion": self.completion.to_document(), "record": self.record.to_document()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The end that `to_document` wrote.

        Raises:
            InvalidDocumentError: the completion is not valid.
        """
        return cls(validate(Completion, document["completion"]), ProcessRecord.from_document(document["record"]))
