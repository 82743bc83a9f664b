"""Where a model came from: what would have to be the same for it to be made again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from contracts.submission import TrainingCodeSubmission

_DISTRIBUTION: Final = "model-training-runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Everything that decided the bytes of a model, each by its digest where it has one.

    Attributes:
        execution_id: the execution that trained it; the ledger has its attempts, times and end.
        package_key: which code; `package_version` and `package_sha256` which state of it. A development run's version is
            claimed by nobody: the digest is what counts.
        dataset_sha256: the snapshot, None for a package that brings its own data.
        model_input_sha256: the model that training started from, None for one that started from nothing.
        parameters: as the package was given them.
        runtime_id: the environment that the package ran in.
        product_version: of this product, that ran it.
    """

    execution_id: str
    package_key: str
    package_version: str
    package_sha256: str
    dataset_sha256: str | None
    model_input_sha256: str | None
    parameters: Mapping[str, Any]
    runtime_id: str
    product_version: str

    @classmethod
    def of(cls, submission: TrainingCodeSubmission) -> Lineage:
        """The lineage of whatever executing `submission` with this installation makes."""
        snapshot, model_input = submission.dataset_source_snapshot, submission.model_input
        return cls(
            execution_id=submission.execution_id,
            package_key=submission.package.key,
            package_version=submission.package.version,
            package_sha256=submission.package.sha256,
            dataset_sha256=snapshot.sha256 if snapshot else None,
            model_input_sha256=model_input.artifact.object.sha256 if model_input else None,
            parameters=submission.parameters,
            runtime_id=submission.runtime.id,
            product_version=product_version(),
        )

    def to_document(self) -> dict[str, Any]:
        """JSON values only; a field that does not apply is null."""
        return asdict(self)


@cache
def product_version() -> str:
    """The installed version of this product."""
    return version(_DISTRIBUTION)
