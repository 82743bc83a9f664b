"""The ledger: the first write wins, everything that belongs together is one transaction, and any process may die anywhere."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import and_, delete, func, select, true, update

from contracts.errors import ConflictError, ExecutionBusyError, InvalidDocumentError, NotFoundError
from contracts.limits import CLAIM_EXPIRY_SECONDS
from contracts.messages import FAILED, TaskStatusUpdate
from contracts.references import Pinned
from contracts.strict_json import digest_of
from runtime.ledger.database import Database, insert_all_once, insert_once, lock_for_execution, moment_of
from runtime.ledger.migration import bring_forward
from runtime.ledger.outbox import (
    enqueue,
    enqueue_logs,
    enqueue_queued,
    enqueue_running,
    last_log,
    recorded,
    set_told_bytes,
    told_bytes,
)
from runtime.ledger.owners import Owner
from runtime.ledger.records import (
    ATTEMPT_LOST,
    END_STATES,
    Accepted,
    Attempt,
    DatasetName,
    EndState,
    Execution,
    ExecutionSummary,
    Figures,
    Finished,
    OutboxMessage,
    PendingMessage,
    RecordedMessage,
    Standing,
    State,
    Told,
    Unfinished,
)
from runtime.ledger.schema import attempts, counters, dataset_names, executions, leases, outbox, stage_times

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from types import TracebackType

    from sqlalchemy import ColumnElement, Connection, Row

    from contracts.messages import TaskLog
    from contracts.submission import TrainingCodeSubmission

_SUMMARY = tuple(
    executions.c[name]
    for name in (
        "id", "state", "stage", "label", "task_id", "task_kind", "package_key", "package_version", "model_name",
        "retry_of", "announced", "created_at", "started_at", "ended_at", "cancel_requested_at", "flow_run_id", "ui_url", "error",
    )
)  # fmt: skip
_TOTAL = "total:"
"""Begins the names of counters that add up what attempts did."""
_ID: Final = re.compile(r"[0-9a-f-]{1,36}")
"""What an execution's id looks like. Nothing else is looked up: PostgreSQL fails on text that it cannot hold."""
_NOBODY: dict[str, Any] = {
    "owner_host": None,
    "owner_boot_id": None,
    "owner_pid_namespace": None,
    "owner_pid": None,
    "owner_process_started": None,
    "owner_seen_at": None,
}


class Ledger:
    """The state of record of one installation. Safe to share between threads and processes.

    Every method raises `LedgerUnavailableError` when the database does not answer; then nothing was half-written and the
    same call may be repeated. One that names an execution raises `NotFoundError` when there is none of that id.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def open(cls, url: str) -> Self:
        """The ledger at `url`, its schema brought forward. Safe while other processes open the same one.

        Raises:
            InvalidSettingsError: `url` names no usable database.
            LedgerUnavailableError: it does not answer, or a newer program has changed it.
        """
        database = Database.connect(url)
        try:
            bring_forward(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        """Afterwards no connection is open."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- executions ---------------------------------------------------------------------------------------------------

    def accept(
        self,
        submission: TrainingCodeSubmission,
        *,
        label: str,
        model_name: str | None = None,
        retry_of: str | None = None,
        announced: bool = False,
    ) -> Accepted:
        """Afterwards the ledger has this submission. The first one with an execution id wins.

        Two submissions are the same when they differ in nothing but `message_id`. Then `label`, `model_name`,
        `retry_of` and `announced` stay those of the first.

        Args:
            submission: what to execute.
            label: what people will recognise it by.
            model_name: what a registered model is called; `None` leaves it to the package's key.
            retry_of: the execution that this one tries again.
            announced: the platform is told of it, from `queued` on: its task is one of the platform's.

        Raises:
            ConflictError: the execution id belongs to another submission; the message names the first difference. Or the
                platform was told that a submission with it failed, which stays the last word.
        """
        document = submission.to_document()
        execution_id = str(document["execution_id"])
        sha256 = submission.content_sha256()
        task_id = submission.task.task_id
        now = _now()
        with self.database.writing() as connection:
            created = insert_once(
                connection,
                executions,
                {
                    "id": execution_id,
                    "submission_sha256": sha256,
                    "submission": document,
                    "label": label,
                    "task_id": task_id,
                    "task_kind": document["task"]["task_kind"],
                    "package_key": document["package"]["key"],
                    "package_version": document["package"]["version"],
                    "model_name": model_name,
                    "retry_of": retry_of,
                    "announced": announced,
                    "state": "queued",
                    "created_at": now,
                },
            )
            if created and announced:
                lock_for_execution(connection, execution_id)
                _require_not_refused(connection, execution_id)
                enqueue_queued(connection, execution_id, task_id, now)
            stored = _execution(connection, execution_id)
        if stored.submission_sha256 != sha256:
            earlier = {name: value for name, value in stored.submission.items() if name != "message_id"}
            difference = first_difference(earlier, submission.to_content())
            raise ConflictError(
                f"execution {execution_id} exists with another submission: differs at {difference}",
                hint="Send exactly the first submission to see its state, or use a new execution_id for the new one.",
                context={"execution_id": execution_id, "expected": stored.submission_sha256, "found": sha256},
            )
        return Accepted(created, stored)

    def get(self, execution_id: str) -> Execution:
        """The execution with exactly this id."""
        with self.database.reading() as connection:
            return _execution(connection, execution_id)

    def find(self, prefix: str) -> Execution:
        """The one execution whose id begins so.

        Raises:
            NotFoundError: none does, or several do; the message then lists them.
        """
        wanted = prefix.strip().lower()
        if not _ID.fullmatch(wanted):
            raise _no_execution(prefix)
        query = select(executions.c.id, executions.c.label).where(
            executions.c.id >= wanted,
            executions.c.id < wanted + "g",  # the first text after every id that begins so
        )
        with self.database.reading() as connection:
            matches = connection.execute(query.order_by(executions.c.created_at.desc()).limit(6)).all()
            if not matches:
                raise _no_execution(prefix)
            if len(matches) > 1:
                count = connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()
                shown = ", ".join(f"{match.id[:13]} ({match.label})" for match in matches[:5])
                raise NotFoundError(
                    f"{count} executions match {prefix}: {shown}{', …' if count > 5 else ''}",
                    hint="Give more characters of the id.",
                    context={"matches": [match.id for match in matches[:5]], "count": count},
                )
            return _execution(connection, matches[0].id)

    def list(
        self,
        *,
        state: State | Collection[State] | None = None,
        package: str | None = None,
        task_id: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        limit: int | None = 100,
    ) -> tuple[ExecutionSummary, ...]:
        """Executions, the newest first.

        Args:
            state: only those in this state, or in one of these.
            package: only those of this package, `key` or `key@version`.
            task_id: only those of this task of the platform.
            since: only those accepted at or after this moment (with its zone).
            until: only those accepted before this moment.
            after: only those after the one with this `cursor`: the next page. Executions that were accepted meanwhile
                move nothing.
            limit: at most so many; `None` is all.

        Raises:
            InvalidDocumentError: `after` is no cursor.
        """
        query = select(*_SUMMARY).order_by(executions.c.created_at.desc(), executions.c.id.desc())
        if state is not None:
            query = query.where(executions.c.state.in_([state] if isinstance(state, str) else list(state)))
        if package is not None:
            if "\0" in package or not package.isascii():
                return ()  # no package is called so, and databases fail on it
            key, _, version = package.partition("@")
            query = query.where(executions.c.package_key == key)
            if version:
                query = query.where(executions.c.package_version == version)
        if task_id is not None:
            query = query.where(executions.c.task_id == task_id)
        if since is not None:
            query = query.where(executions.c.created_at >= since)
        if until is not None:
            query = query.where(executions.c.created_at < until)
        if after is not None:
            moment, execution_id = _read_cursor(after)
            earlier = executions.c.created_at < moment
            query = query.where(earlier | ((executions.c.created_at == moment) & (executions.c.id < execution_id)))
        with self.database.reading() as connection:
            return tuple(ExecutionSummary(**_summary(row)) for row in connection.execute(query.limit(limit)))

    def unfinished(self, *, unattended: bool = False, limit: int | None = 100) -> tuple[Unfinished, ...]:
        """Executions that are queued or running, the oldest first.

        Args:
            unattended: only those that no live process holds: somebody must take them up.
            limit: at most so many; `None` is all.
        """
        owned = [executions.c[name] for name in _NOBODY]
        query = (
            select(*_SUMMARY, *owned)
            .where(executions.c.state.in_(["queued", "running"]))
            .order_by(executions.c.created_at, executions.c.id)
        )
        now = _now()
        with (
            self.database.reading() as connection,
            connection.execution_options(yield_per=200).execute(query) as rows,
        ):
            found = (_unfinished(row, now) for row in rows)
            return tuple(itertools.islice((one for one in found if not (unattended and one.attended)), limit))

    def figures(self) -> Figures:
        """How much there is of everything that waits or has ended. Cheap: asked by every scrape of the metrics."""
        states = select(executions.c.state, executions.c.error_code, func.count().label("many")).group_by(
            executions.c.state, executions.c.error_code
        )
        oldest_queued = select(func.min(executions.c.created_at)).where(executions.c.state == "queued")
        pending = outbox.c.sent_at.is_(None)
        first_pending = select(outbox.c.created_at).where(pending).order_by(outbox.c.id).limit(1)
        with self.database.reading() as connection:
            return Figures(
                executions={(row.state, row.error_code): row.many for row in connection.execute(states)},
                oldest_queued_at=connection.execute(oldest_queued).scalar(),
                pending_messages=connection.execute(select(func.count()).where(pending)).scalar_one(),
                oldest_pending_at=connection.execute(first_pending).scalar(),
            )

    def standings(self, execution_ids: Collection[str]) -> dict[str, Standing]:
        """How each of these executions stands, by id, without its documents; those that there are not are left out."""
        columns = (executions.c[name] for name in ("id", "state", "stage", "error", "ended_at", "owner_host"))
        query = select(*columns).where(executions.c.id.in_(execution_ids))
        with self.database.reading() as connection:
            return {
                row.id: Standing(
                    state=row.state,
                    stage=row.stage,
                    error=row.error,
                    ended_at=row.ended_at,
                    owner_host=row.owner_host,
                )
                for row in connection.execute(query)
            }

    def stage_seconds(self) -> dict[str, float]:
        """Seconds that all executions together spent in each stage."""
        query = select(stage_times.c.stage, func.sum(stage_times.c.seconds).label("seconds")).group_by(
            stage_times.c.stage
        )
        with self.database.reading() as connection:
            return {row.stage: float(row.seconds) for row in connection.execute(query)}

    # --- who works on it ----------------------------------------------------------------------------------------------

    def claim(self, execution_id: str, owner: Owner) -> Execution:
        """Afterwards `owner` holds the execution and it is `running`; one that has ended is answered as it is, unheld.

        An owner that is seen to be gone has lost the execution at once. One on another machine has lost it when it was
        silent for `CLAIM_EXPIRY_SECONDS`. The first claim of an announced execution tells the platform that it runs,
        unless its end was asked for before.

        Raises:
            ExecutionBusyError: another live process holds it.
        """
        with self.database.writing() as connection:
            row = _locked(connection, execution_id)
            if row.state in END_STATES:
                return _execution(connection, execution_id)
            now = _now()
            holder = _owner(row)
            if holder is not None and holder != owner:
                if _is_alive(holder, row.owner_seen_at, now):
                    raise ExecutionBusyError(
                        f"{row.label} is being worked on by {holder}",
                        hint=f"Follow it with `mtr executions logs {execution_id[:8]}`, or end it with "
                        f"`mtr executions cancel {execution_id[:8]}`; repeat this once it has ended.",
                        context={"execution_id": execution_id, "host": holder.host, "pid": holder.pid},
                    )
                _settle_stage(connection, row, until=row.owner_seen_at)
            connection.execute(
                update(executions)
                .where(executions.c.id == execution_id)
                .values(
                    state="running",
                    started_at=row.started_at or now,
                    owner_host=owner.host,
                    owner_boot_id=owner.boot_id,
                    owner_pid_namespace=owner.pid_namespace,
                    owner_pid=owner.pid,
                    owner_process_started=owner.process_started,
                    owner_seen_at=now,
                )
            )
            if row.announced and row.started_at is None and row.cancel_requested_at is None:
                enqueue_running(connection, execution_id, row.task_id, now)
            return _execution(connection, execution_id)

    def heartbeat(self, execution_id: str, owner: Owner) -> bool:
        """Whether `owner` still holds the execution; if so it is now known to have been alive at this moment."""
        with self.database.writing() as connection:
            done = connection.execute(
                update(executions).where(executions.c.id == execution_id, *_held_by(owner)).values(owner_seen_at=_now())
            )
            return done.rowcount == 1

    def release(self, execution_id: str, owner: Owner) -> None:
        """Afterwards `owner` does not hold the execution; another's hold is left alone."""
        with self.database.writing() as connection:
            row = _locked(connection, execution_id)
            if _owner(row) != owner:
                return
            _settle_stage(connection, row, until=_now())
            connection.execute(update(executions).where(executions.c.id == execution_id).values(**_NOBODY))

    def enter_stage(self, execution_id: str, stage: str) -> None:
        """Afterwards the execution is in `stage`, and the time since the last stage counts for that one.

        An execution that has ended stays as it is: a process that comes late changes no truth.
        """
        with self.database.writing() as connection:
            row = _locked(connection, execution_id)
            if row.state in END_STATES:
                return
            now = _now()
            _settle_stage(connection, row, until=now)
            _add_seconds(connection, execution_id, stage, 0.0)
            values: dict[str, Any] = {"stage": stage, "stage_entered_at": now}
            if row.owner_host is not None:
                values["owner_seen_at"] = now
            connection.execute(update(executions).where(executions.c.id == execution_id).values(**values))

    def add_stage_seconds(self, execution_id: str, seconds: Mapping[str, float]) -> None:
        """Afterwards these times count too: stages that ran where no ledger is reached, taken from their end record."""
        with self.database.writing() as connection:
            _locked(connection, execution_id)
            for stage, spent in seconds.items():
                _add_seconds(connection, execution_id, stage, max(0.0, spent))

    def set_flow_run(self, execution_id: str, flow_run_id: str, ui_url: str | None) -> None:
        """Afterwards the execution names the Prefect run that shows it."""
        self._change(execution_id, flow_run_id=flow_run_id, ui_url=ui_url)

    def set_workspace_cleaned(self, execution_id: str, cleaned: bool) -> None:  # noqa: FBT001 - the value, not a switch
        """Afterwards the execution says whether its workspace is gone. No part of its end: it may come later."""
        self._change(execution_id, workspace_cleaned=cleaned)

    def request_cancel(self, execution_id: str) -> Execution:
        """Afterwards whoever works on the execution, now or later, knows that it must end. One that has ended stays so."""
        with self.database.writing() as connection:
            row = _locked(connection, execution_id)
            if row.state not in END_STATES and row.cancel_requested_at is None:
                connection.execute(
                    update(executions).where(executions.c.id == execution_id).values(cancel_requested_at=_now())
                )
            return _execution(connection, execution_id)

    def cancel_requested(self, execution_id: str) -> bool:
        """Whether somebody asked for the execution's end. Cheap: asked once a second."""
        if not _ID.fullmatch(execution_id):
            raise _no_execution(execution_id)
        with self.database.reading() as connection:
            found = connection.execute(
                select(executions.c.cancel_requested_at).where(executions.c.id == execution_id)
            ).one_or_none()
        if found is None:
            raise _no_execution(execution_id)
        return found.cancel_requested_at is not None

    # --- attempts -----------------------------------------------------------------------------------------------------

    def begin_attempt(self, execution_id: str, *, flow_run_id: str | None = None) -> Attempt:
        """A new attempt, numbered one above the last.

        An earlier one that is still open is closed as lost: whoever begins anew holds the execution and has looked.

        Raises:
            ConflictError: the execution has ended.
        """
        with self.database.writing() as connection:
            row = _locked(connection, execution_id)
            if row.state in END_STATES:
                raise ConflictError(
                    f"execution {execution_id} has ended ({row.state}): no further attempt",
                    hint=f"`mtr executions retry {execution_id[:8]}` makes a new execution of the same submission.",
                    context={"execution_id": execution_id, "state": row.state},
                )
            now = _now()
            connection.execute(
                update(attempts)
                .where(attempts.c.execution_id == execution_id, attempts.c.ended_at.is_(None))
                .values(ended_at=now, outcome=ATTEMPT_LOST, record={})
            )
            last = connection.execute(
                select(func.max(attempts.c.number)).where(attempts.c.execution_id == execution_id)
            ).scalar()
            number = (last or 0) + 1
            connection.execute(
                attempts.insert().values(
                    execution_id=execution_id,
                    number=number,
                    flow_run_id=flow_run_id,
                    started_at=now,
                    paid_seconds=0.0,
                    training_finished=False,
                )
            )
            return _attempt(connection, execution_id, number)

    def end_attempt(
        self,
        execution_id: str,
        number: int,
        *,
        outcome: str,
        record: Mapping[str, Any],
        paid_seconds: float,
        training_finished: bool,
        counted: Mapping[str, int] | None = None,
    ) -> Attempt:
        """Afterwards the attempt has its end; the first one stays, except that evidence replaces `attempt_lost`.

        Args:
            execution_id: whose attempt.
            number: which one.
            outcome: `succeeded` or the code of its error.
            record: what the supervisor saw.
            paid_seconds: time in which the package's code ran.
            training_finished: training came to its end.
            counted: what it adds to the `totals`, once.

        Raises:
            ConflictError: the attempt has ended otherwise.
        """
        with self.database.writing() as connection:
            _locked(connection, execution_id)
            found = _attempt(connection, execution_id, number)
            if found.ended_at is not None and found.outcome != ATTEMPT_LOST:
                if found.outcome == outcome:
                    return found
                raise ConflictError(
                    f"attempt {number} of execution {execution_id} ended with {found.outcome}, not {outcome}",
                    hint="The first end stays. Nothing is to be done; report it if nobody ran the attempt twice.",
                    context={
                        "execution_id": execution_id,
                        "number": number,
                        "expected": found.outcome,
                        "found": outcome,
                    },
                )
            connection.execute(
                update(attempts)
                .where(attempts.c.execution_id == execution_id, attempts.c.number == number)
                .values(
                    ended_at=found.ended_at or _now(),
                    outcome=outcome,
                    record=dict(record),
                    paid_seconds=max(0.0, paid_seconds),
                    training_finished=training_finished,
                )
            )
            for name, amount in sorted(
                (counted or {}).items()
            ):  # in one order, so that two writers never wait for each other
                insert_once(connection, counters, {"name": f"{_TOTAL}{name}", "value": 0})
                connection.execute(
                    update(counters)
                    .where(counters.c.name == f"{_TOTAL}{name}")
                    .values(value=counters.c.value + max(0, amount))
                )
            return _attempt(connection, execution_id, number)

    def totals(self) -> dict[str, int]:
        """What all attempts that ended added up to, by the names that `end_attempt` was given."""
        query = select(counters).where(counters.c.name.startswith(_TOTAL, autoescape=True))
        with self.database.reading() as connection:
            return {row.name.removeprefix(_TOTAL): row.value for row in connection.execute(query)}

    def attempts(self, execution_id: str) -> tuple[Attempt, ...]:
        """Every attempt of the execution, the first one first."""
        query = select(attempts).where(attempts.c.execution_id == execution_id).order_by(attempts.c.number)
        with self.database.reading() as connection:
            return tuple(_attempt_of(row) for row in connection.execute(query))

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(
        self,
        execution_id: str,
        *,
        state: EndState,
        result: Mapping[str, Any],
        error: Mapping[str, Any] | None,
        artifacts: Sequence[Mapping[str, Any]],
        model: Mapping[str, Any] | None,
        messages: Iterable[OutboxMessage] = (),
    ) -> Finished:
        """Afterwards the execution has its end and the outbox has `messages`, both or neither. The first end stays.

        Args:
            execution_id: which execution.
            state: how it ended.
            result: the `training-result/v1` document.
            error: the typed error of a failed or cancelled one.
            artifacts: `[{"artifact", "object"}]`.
            model: the registered model, as the command line shows it.
            messages: what the platform must be told.

        Raises:
            ConflictError: the execution has ended otherwise; the message names the first difference.
        """
        end = {
            "state": state,
            "result": dict(result),
            "error": None if error is None else dict(error),
            "artifacts": [dict(artifact) for artifact in artifacts],
            "model": None if model is None else dict(model),
        }
        sha256 = digest_of(end)
        with self.database.writing() as connection:
            row = _locked(connection, execution_id)
            if row.state in END_STATES:
                stored = _execution(connection, execution_id)
                if row.end_sha256 == sha256:
                    return Finished(created=False, execution=stored)
                earlier = {name: getattr(stored, name) for name in end}
                raise ConflictError(
                    f"execution {execution_id} has ended ({row.state}); another end differs at "
                    f"{first_difference(earlier, end)}",
                    hint=f"The first end stays: see it with `mtr executions show {execution_id[:8]}`.",
                    context={"execution_id": execution_id, "expected": row.end_sha256, "found": sha256},
                )
            now = _now()
            _settle_stage(connection, row, until=now)
            connection.execute(
                update(executions)
                .where(executions.c.id == execution_id)
                .values(
                    **end,
                    **_NOBODY,
                    error_code=None if error is None else error.get("code"),
                    end_sha256=sha256,
                    ended_at=now,
                    started_at=row.started_at or now,
                )
            )
            enqueue(connection, execution_id, row.task_id, messages, now)
            return Finished(created=True, execution=_execution(connection, execution_id))

    # --- what the platform must be told -------------------------------------------------------------------------------

    def enqueue(self, execution_id: str, messages: Iterable[OutboxMessage]) -> None:
        """Afterwards the outbox has these messages; one that it had keeps its first body."""
        with self.database.writing() as connection:
            row = _locked(connection, execution_id)
            enqueue(connection, execution_id, row.task_id, messages, _now())

    def refuse(self, refusal_id: str, message: TaskStatusUpdate, execution_id: str | None = None) -> bool:
        """Afterwards the outbox has `message`, about a submission that never became an execution, once.

        Args:
            refusal_id: the same for the same submission, however often it comes: the digest of its bytes.
            message: the failed status that names the reason.
            execution_id: the execution that the submission names, if any: it has failed by this, once and for all.

        Returns:
            False where the ledger has that execution: it tells its own story, and nothing else is said about it.
        """
        told = OutboxMessage.of(message)
        now = _now()
        with self.database.writing() as connection:
            if execution_id is not None:
                lock_for_execution(connection, execution_id)
                known = select(executions.c.id).where(executions.c.id == execution_id)
                if connection.execute(known).first() is not None:
                    return False
            row = {
                "message_id": told.message_id(f"refused/{execution_id or refusal_id}"),
                "task_id": message.task_id,
                "execution_id": None,
                "kind": told.kind,
                "number": told.number,
                "body": dict(told.body),
                "created_at": now,
            }
            insert_all_once(connection, outbox, [row])
            return True

    def told(self, execution_id: str, journal: str) -> Told:
        """How far `journal`, a name that no other file has, has become messages, and how many the execution has."""
        with self.database.reading() as connection:
            return Told(told_bytes(connection, execution_id, journal), last_log(connection, execution_id))

    def tell(self, execution_id: str, journal: str, *, after: int, upto: int, logs: Sequence[TaskLog]) -> bool:
        """Whether this call made messages of the lines of `journal` from byte `after` up to `upto`, all or none.

        It does not where somebody else was there before, and where the execution has ended: nothing follows its end.
        Beyond `MAX_TOLD_LOGS` messages of an execution a last one says where the rest is.
        """
        with self.database.writing() as connection:
            row = _locked(connection, execution_id)
            if row.state in END_STATES or told_bytes(connection, execution_id, journal) != after:
                return False
            enqueue_logs(connection, execution_id, row.task_id, logs, _now())
            set_told_bytes(connection, execution_id, journal, upto)
            return True

    def pending_messages(self, *, limit: int = 100) -> tuple[PendingMessage, ...]:
        """The oldest messages that nobody confirmed as sent, in the order in which they must be sent."""
        return self._messages(outbox.c.sent_at.is_(None), limit)

    def messages(
        self, *, execution_id: str | None = None, task_id: int | None = None, limit: int | None = None
    ) -> tuple[RecordedMessage, ...]:
        """Every message of an execution, or of a task of the platform, sent or not, in the order of sending."""
        wanted = [] if execution_id is None else [outbox.c.execution_id == execution_id]
        wanted += [] if task_id is None else [outbox.c.task_id == task_id]
        return self._messages(and_(true(), *wanted), limit)

    def mark_sent(self, *message_ids: str) -> None:
        """Afterwards these messages are not pending. Call it only once the broker has confirmed."""
        with self.database.writing() as connection:
            connection.execute(
                update(outbox)
                .where(outbox.c.message_id.in_(message_ids), outbox.c.sent_at.is_(None))
                .values(sent_at=_now())
            )

    def replay(self, *, task_id: int) -> int:
        """How many messages of the task are pending again: the same ids and bodies in the same order."""
        with self.database.writing() as connection:
            done = connection.execute(
                update(outbox).where(outbox.c.task_id == task_id, outbox.c.sent_at.is_not(None)).values(sent_at=None)
            )
            return done.rowcount

    def _messages(self, wanted: ColumnElement[bool], limit: int | None) -> tuple[RecordedMessage, ...]:
        query = select(outbox).where(wanted).order_by(outbox.c.id).limit(limit)
        with self.database.reading() as connection:
            return tuple(map(recorded, connection.execute(query)))

    # --- leases -------------------------------------------------------------------------------------------------------

    def lease(self, name: str, holder: str, seconds: float) -> bool:
        """Whether `holder` has the lease `name` for `seconds` from now: of several that ask, one at a time does.

        Ask again before the time is over to keep it. One that nobody renewed is free for whoever asks next, and so is one
        whose holder (`Owner.new_holder`) can be seen to be gone: a process that was killed on this machine. The clock is the
        database's where it has one, so that machines need not agree on the time.
        """
        with self.database.writing() as connection:
            now = moment_of(connection)
            values = {"holder": holder, "expires_at": now + timedelta(seconds=seconds)}
            if insert_once(connection, leases, {"name": name, **values}):
                return True
            there = connection.execute(select(leases.c.holder).where(leases.c.name == name)).scalar_one_or_none()
            owner = None if there is None else Owner.of_holder(there)
            left = there if owner is not None and owner.is_gone() else holder
            mine_or_free = leases.c.holder.in_((holder, left)) | (leases.c.expires_at <= now)
            done = connection.execute(update(leases).where(leases.c.name == name, mine_or_free).values(**values))
            return done.rowcount == 1

    def release_lease(self, name: str, holder: str) -> None:
        """Afterwards `holder` does not have the lease; another's is left alone."""
        with self.database.writing() as connection:
            connection.execute(delete(leases).where(leases.c.name == name, leases.c.holder == holder))

    # --- names and numbers --------------------------------------------------------------------------------------------

    def next_task_id(self) -> int:
        """A number that no earlier call returned."""
        with self.database.writing() as connection:
            insert_once(connection, counters, {"name": "task_id", "value": 0})
            number: int = connection.execute(
                update(counters)
                .where(counters.c.name == "task_id")
                .values(value=counters.c.value + 1)
                .returning(counters.c.value)
            ).scalar_one()
            return number

    def set_dataset_name(self, name: str, sha256: str, pinned: Pinned) -> DatasetName:
        """Afterwards `name` points at the snapshot `sha256`, stored at `pinned`. The last write wins."""
        values = {
            "sha256": sha256,
            "bucket": pinned.bucket,
            "object_key": pinned.key,
            "object_sha256": pinned.sha256,
            "object_size_bytes": pinned.size_bytes,
            "updated_at": _now(),
        }
        with self.database.writing() as connection:
            if not insert_once(connection, dataset_names, {"name": name, **values}):
                connection.execute(update(dataset_names).where(dataset_names.c.name == name).values(**values))
            return _dataset_name(connection.execute(select(dataset_names).where(dataset_names.c.name == name)).one())

    def dataset_name(self, name: str) -> DatasetName | None:
        """Where `name` points; `None` when nobody gave it."""
        with self.database.reading() as connection:
            row = connection.execute(select(dataset_names).where(dataset_names.c.name == name)).one_or_none()
        return None if row is None else _dataset_name(row)

    def dataset_names(self) -> tuple[DatasetName, ...]:
        """Every name, sorted."""
        with self.database.reading() as connection:
            found = map(_dataset_name, connection.execute(select(dataset_names)))
            return tuple(sorted(found, key=lambda one: one.name))  # databases differ in what comes first

    def _change(self, execution_id: str, **values: Any) -> None:
        with self.database.writing() as connection:
            done = connection.execute(update(executions).where(executions.c.id == execution_id).values(**values))
            if done.rowcount == 0:
                raise _no_execution(execution_id)


def first_difference(earlier: Any, later: Any, path: str = "") -> str:
    """The path of the first value that differs, such as `resources.memory_bytes`; empty when none does."""
    if isinstance(earlier, dict) and isinstance(later, dict):
        for name in [*earlier, *(name for name in later if name not in earlier)]:
            inner = f"{path}.{name}" if path else str(name)
            if name not in earlier or name not in later:
                return inner
            if found := first_difference(earlier[name], later[name], inner):
                return found
        return ""
    if isinstance(earlier, list) and isinstance(later, list):
        for index, (one, other) in enumerate(zip(earlier, later, strict=False)):
            if found := first_difference(one, other, f"{path}[{index}]"):
                return found
        return "" if len(earlier) == len(later) else f"{path}[{min(len(earlier), len(later))}]"
    return "" if earlier == later and isinstance(earlier, bool) == isinstance(later, bool) else path or "(document)"


def _now() -> datetime:
    return datetime.now(UTC)


def _no_execution(execution_id: str) -> NotFoundError:
    return NotFoundError(
        f"no execution {execution_id}",
        hint="`mtr executions list` shows those that there are.",
        context={"execution_id": execution_id},
    )


def _require_not_refused(connection: Connection, execution_id: str) -> None:
    refusal = OutboxMessage(TaskStatusUpdate.kind, FAILED, {}).message_id(f"refused/{execution_id}")
    if connection.execute(select(outbox.c.id).where(outbox.c.message_id == refusal)).first() is not None:
        raise ConflictError(
            f"execution {execution_id} was refused before, and the platform was told that it failed",
            hint="Use a new execution_id: the end of an execution never changes.",
            context={"execution_id": execution_id},
        )


def _locked(connection: Connection, execution_id: str) -> Row[Any]:
    """The execution's row without its documents, locked against other writers (SQLite's writer is alone anyway)."""
    light = [column for column in executions.c if column.name not in {"submission", "result", "artifacts", "model"}]
    if not _ID.fullmatch(execution_id):
        raise _no_execution(execution_id)
    row = connection.execute(select(*light).where(executions.c.id == execution_id).with_for_update()).one_or_none()
    if row is None:
        raise _no_execution(execution_id)
    return row


def _execution(connection: Connection, execution_id: str) -> Execution:
    if not _ID.fullmatch(execution_id):
        raise _no_execution(execution_id)
    row = connection.execute(select(executions).where(executions.c.id == execution_id)).one_or_none()
    if row is None:
        raise _no_execution(execution_id)
    times = (
        select(stage_times.c.stage, stage_times.c.seconds)
        .where(stage_times.c.execution_id == execution_id)
        .order_by(stage_times.c.position)
    )
    return Execution(
        **_summary(row),
        submission=row.submission,
        submission_sha256=row.submission_sha256,
        result=row.result,
        artifacts=row.artifacts or [],
        model=row.model,
        workspace_cleaned=row.workspace_cleaned,
        timings={found.stage: round(found.seconds, 3) for found in connection.execute(times)},
        owner=_owner(row),
    )


def _summary(row: Row[Any]) -> dict[str, Any]:
    return {
        "execution_id": row.id,
        "state": row.state,
        "stage": row.stage,
        "label": row.label,
        "task_id": row.task_id,
        "task_kind": row.task_kind,
        "package_key": row.package_key,
        "package_version": row.package_version,
        "model_name": row.model_name,
        "retry_of": row.retry_of,
        "announced": row.announced,
        "created_at": row.created_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "cancel_requested": row.cancel_requested_at is not None,
        "flow_run_id": row.flow_run_id,
        "ui_url": row.ui_url,
        "error": row.error,
    }


def _unfinished(row: Row[Any], now: datetime) -> Unfinished:
    holder = _owner(row)
    attended = holder is not None and _is_alive(holder, row.owner_seen_at, now)
    return Unfinished(execution=ExecutionSummary(**_summary(row)), owner=holder, attended=attended)


def _read_cursor(cursor: str) -> tuple[datetime, str]:
    moment, _, execution_id = cursor.partition("_")
    try:
        created_at = datetime.strptime(moment, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)
    except ValueError:
        created_at = None
    if created_at is None or not _ID.fullmatch(execution_id):
        raise InvalidDocumentError.of(
            "list", [{"path": "after", "message": "is no cursor: use the one that came with the page before"}]
        )
    return created_at, execution_id


def _owner(row: Row[Any]) -> Owner | None:
    if row.owner_host is None:
        return None
    return Owner(
        host=row.owner_host,
        boot_id=row.owner_boot_id,
        pid_namespace=row.owner_pid_namespace,
        pid=row.owner_pid,
        process_started=row.owner_process_started,
    )


def _held_by(owner: Owner) -> tuple[Any, ...]:
    return (
        executions.c.owner_host == owner.host,
        executions.c.owner_boot_id == owner.boot_id,
        executions.c.owner_pid_namespace == owner.pid_namespace,
        executions.c.owner_pid == owner.pid,
        executions.c.owner_process_started == owner.process_started,
    )


def _is_alive(holder: Owner, seen_at: datetime, now: datetime) -> bool:
    gone = holder.is_gone()
    if gone is None:
        return now - seen_at < timedelta(seconds=CLAIM_EXPIRY_SECONDS)
    return not gone


def _settle_stage(connection: Connection, row: Row[Any], *, until: datetime) -> None:
    """Afterwards the time since the open stage was entered counts for it, and no stage is open."""
    if row.stage is None or row.stage_entered_at is None:
        return
    spent = max(0.0, (until - row.stage_entered_at).total_seconds())  # clocks are set back, too
    _add_seconds(connection, row.id, row.stage, spent)
    connection.execute(update(executions).where(executions.c.id == row.id).values(stage_entered_at=None))


def _add_seconds(connection: Connection, execution_id: str, stage: str, seconds: float) -> None:
    position = connection.execute(
        select(func.count()).select_from(stage_times).where(stage_times.c.execution_id == execution_id)
    ).scalar_one()
    row = {"execution_id": execution_id, "stage": stage, "position": position, "seconds": seconds}
    if not insert_once(connection, stage_times, row) and seconds:
        connection.execute(
            update(stage_times)
            .where(stage_times.c.execution_id == execution_id, stage_times.c.stage == stage)
            .values(seconds=stage_times.c.seconds + seconds)
        )


def _attempt(connection: Connection, execution_id: str, number: int) -> Attempt:
    row = connection.execute(
        select(attempts).where(attempts.c.execution_id == execution_id, attempts.c.number == number)
    ).one_or_none()
    if row is None:
        raise NotFoundError(
            f"execution {execution_id} has no attempt {number}",
            hint=f"`mtr executions show {execution_id[:8]}` lists its attempts.",
            context={"execution_id": execution_id, "number": number},
        )
    return _attempt_of(row)


def _attempt_of(row: Row[Any]) -> Attempt:
    return Attempt(
        execution_id=row.execution_id,
        number=row.number,
        flow_run_id=row.flow_run_id,
        started_at=row.started_at,
        ended_at=row.ended_at,
        outcome=row.outcome,
        record=row.record or {},
        paid_seconds=row.paid_seconds,
        training_finished=row.training_finished,
    )


def _dataset_name(row: Row[Any]) -> DatasetName:
    return DatasetName(
        name=row.name,
        sha256=row.sha256,
        object=Pinned(row.bucket, row.object_key, row.object_sha256, row.object_size_bytes),
        updated_at=row.updated_at,
    )
