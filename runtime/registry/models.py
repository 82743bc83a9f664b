"""Registered models: a name, versions that count up, and where each one came from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select

from contracts.errors import AdmissionError, NotFoundError
from contracts.references import Pinned
from runtime.ledger.database import insert_once
from runtime.ledger.schema import models

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Row

    from runtime.ledger import Ledger

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredModel:
    """One version of a model.

    Attributes:
        name: what people call it; `version` counts up from 1 within the name.
        execution_id: the execution that trained it.
        object: where the ONNX file lies, in bucket `models`.
        opset: of the default ONNX domain.
        inputs: `[{"name", "dtype", "shape"}]`; `outputs` likewise.
        metrics: what the completion reported.
        lineage: package, data, parameters and models that it was made from.
    """

    name: str
    version: int
    execution_id: str
    object: Pinned
    task_kind: str
    class_names: tuple[str, ...]
    opset: int
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    framework: str | None
    metrics: dict[str, Any]
    lineage: dict[str, Any]
    created_at: datetime

    def to_document(self) -> dict[str, Any]:
        """The `model` object that the command line and an execution's end show."""
        return {
            "name": self.name,
            "version": self.version,
            "object": self.object.to_document(),
            "sha256": self.object.sha256,
            "task_kind": self.task_kind,
            "class_names": list(self.class_names),
            "opset": self.opset,
            "inputs": self.inputs,
            "outputs": self.outputs,
        }


class Models:
    """The registered models of one installation, kept in its ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def register(
        self,
        name: str,
        *,
        execution_id: str,
        object: Pinned,  # noqa: A002 - what documents call it
        task_kind: str,
        class_names: Sequence[str],
        opset: int,
        inputs: Sequence[Mapping[str, Any]],
        outputs: Sequence[Mapping[str, Any]],
        framework: str | None = None,
        metrics: Mapping[str, Any] | None = None,
        lineage: Mapping[str, Any] | None = None,
    ) -> RegisteredModel:
        """The model as the next version of `name`; the same execution's same bytes are registered once, ever.

        Nothing is overwritten: registering again answers the first registration.

        Args:
            name: letters, digits, `.`, `_` and `-`, at most 128.
            execution_id: the execution that trained it.
            object: the stored ONNX file.
            task_kind: what it is for.
            class_names: its classes, in the order of its outputs.
            opset: of the default ONNX domain.
            inputs: `[{"name", "dtype", "shape"}]`.
            outputs: likewise.
            framework: what trained it.
            metrics: what the completion reported.
            lineage: what it was made from.

        Raises:
            AdmissionError: `name` is no name.
            LedgerUnavailableError: safe to call again.
        """
        check_model_name(name)
        values = {
            "execution_id": execution_id,
            "bucket": object.bucket,
            "object_key": object.key,
            "object_sha256": object.sha256,
            "object_size_bytes": object.size_bytes,
            "task_kind": task_kind,
            "class_names": list(class_names),
            "opset": opset,
            "inputs": [dict(tensor) for tensor in inputs],
            "outputs": [dict(tensor) for tensor in outputs],
            "framework": framework,
            "metrics": dict(metrics or {}),
            "lineage": dict(lineage or {}),
            "created_at": datetime.now(UTC),
        }
        same = select(models).where(
            models.c.name == name, models.c.execution_id == execution_id, models.c.object_sha256 == object.sha256
        )
        with self._database.writing() as connection:
            while (row := connection.execute(same).one_or_none()) is None:
                last = connection.execute(select(func.max(models.c.version)).where(models.c.name == name)).scalar()
                # Another process may take the number between the two statements (not on SQLite): then count again.
                insert_once(connection, models, {"name": name, "version": (last or 0) + 1, **values})
            return _model(row)

    def get(self, name: str, version: int | None = None) -> RegisteredModel:
        """The model `name` in `version`, or its newest one.

        Raises:
            NotFoundError: there is none.
        """
        query = select(models).where(models.c.name == name).order_by(models.c.version.desc()).limit(1)
        if version is not None:
            query = query.where(models.c.version == version)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise NotFoundError(
                f"no registered model {name}" + ("" if version is None else f" v{version}"),
                hint="`mtr model list` shows those that there are.",
                context={"name": name, "version": version},
            )
        return _model(row)

    def list(
        self, *, name: str | None = None, after: tuple[str, int] | None = None, limit: int | None = None
    ) -> tuple[RegisteredModel, ...]:
        """Every version of every model (or of `name`), by name, the newest version first.

        Args:
            name: only its versions.
            after: name and version of the last one of an earlier answer; only what follows it.
            limit: at most so many; `None` is all.
        """
        query = select(models).order_by(models.c.name, models.c.version.desc()).limit(limit)
        if name is not None:
            query = query.where(models.c.name == name)
        if after is not None:
            last_name, last_version = after
            later_version = (models.c.name == last_name) & (models.c.version < last_version)
            query = query.where((models.c.name > last_name) | later_version)
        with self._database.reading() as connection:
            return tuple(map(_model, connection.execute(query)))

    def names(self, *, limit: int | None = None) -> tuple[str, ...]:
        """The names that there are, sorted, at most `limit` of them."""
        query = select(models.c.name).distinct().order_by(models.c.name).limit(limit)
        with self._database.reading() as connection:
            return tuple(connection.execute(query).scalars())


def check_model_name(name: str) -> str:
    """`name`, if a model can be registered under it. To be asked before a training, not after it.

    Raises:
        AdmissionError: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise AdmissionError(
            f"{name!r} cannot name a model",
            hint="Use 1 to 128 letters, digits, `.`, `_` and `-`, beginning with a letter or digit.",
            context={"violations": [{"path": "model_name", "message": "is no model name"}]},
        )
    return name


def _model(row: Row[Any]) -> RegisteredModel:
    return RegisteredModel(
        name=row.name,
        version=row.version,
        execution_id=row.execution_id,
        object=Pinned(row.bucket, row.object_key, row.object_sha256, row.object_size_bytes),
        task_kind=row.task_kind,
        class_names=tuple(row.class_names),
        opset=row.opset,
        inputs=row.inputs,
        outputs=row.outputs,
        framework=row.framework,
        metrics=row.metrics,
        lineage=row.lineage,
        created_at=row.created_at,
    )
