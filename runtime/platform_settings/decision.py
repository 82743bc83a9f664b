"""What the platform's document decides here, setting by setting, and what is wrong with it.

Everything is off unless it is exactly `true`. A value that cannot be used is as if it were not there, with a warning that
names it; the others hold. Where that could open a door or move data, execution stays off besides: half of a store's
address is another store.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from contracts.admission import SETTING_EXECUTION_ENABLED, SETTING_SCRIPT_MANAGED, Origin
from runtime.platform_settings.document import OLDER_RUNTIME_SECTION, RUNTIME_SECTION, STORAGE_SECTION
from runtime.settings import complaint_about

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime.settings import Settings

_STORAGE: Final = {
    "endpoint": "s3_endpoint",
    "access_key": "s3_access_key",
    "secret_key": "s3_secret_key",
    "region": "s3_region",
    "bucket_name": "s3_default_bucket",
    "datasets_bucket_name": "s3_datasets_bucket",
    "models_bucket_name": "s3_models_bucket",
    "annotations_bucket_name": "s3_annotations_bucket",
}
_LIMITS: Final = ("idle_timeout_seconds", "max_output_bytes", "max_processes", "process_fsize_bytes", "process_nofile")
_RUNTIME_KEYS: Final = frozenset({"enabled", "base_url", "token", "allow_script_managed_data", "storage", "execution"})
_EXECUTION_KEYS: Final = frozenset({"enabled", "runtime_ids", "python_executable", "workspace_root", *_LIMITS})
_NOBODYS_TOKEN: Final = secrets.token_urlsafe(32)
"""One for the whole process, so that two readings of the same are equal."""
_SAID: Final = {str: "text", bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "a table"}


@dataclass(slots=True)
class Decision:
    """What a document decides.

    Attributes:
        changes: settings by our names; those it does not decide are left out.
        places: where in the document each of them was decided.
        origins: of a field of the policy, the document's settings that stand for it.
        warnings: what is wrong, each with the full name of the setting.
    """

    changes: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    origins: dict[str, tuple[Origin, ...]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def decide(self, name: str, value: Any, place: str) -> None:
        """Afterwards `name` is `value`."""
        self.changes[name], self.places[name] = value, place


def decide(document: Mapping[str, Any], machine: Settings) -> Decision:
    """What the sections of `document` decide on a machine that says `machine` itself."""
    return _Reader(machine).read(document)


def all_off(reason: str) -> Decision:
    """What holds where no document was ever read: nothing may run, and `reason` says why."""
    decision = Decision()
    decision.decide("execution_enabled", False, SETTING_EXECUTION_ENABLED)
    decision.decide("allow_script_managed_data", False, SETTING_SCRIPT_MANAGED)
    decision.origins = {
        "execution_enabled": (Origin(SETTING_EXECUTION_ENABLED, f"is not known: {reason}"),),
        "allow_script_managed_data": (Origin(SETTING_SCRIPT_MANAGED, f"is not known: {reason}"),),
    }
    return decision


def lock_api(decision: Decision, machine: Settings) -> None:
    """Afterwards nobody can write by HTTP unless this machine has a token of its own: an unknown token is not no token."""
    if not machine.api_token.get_secret_value():
        decision.decide("api_token", _NOBODYS_TOKEN, f"{RUNTIME_SECTION}.token")


class _Reader:
    """One reading of one document."""

    def __init__(self, machine: Settings) -> None:
        self._machine = machine
        self._decision = Decision()
        self._blocked: list[Origin] = []

    def read(self, document: Mapping[str, Any]) -> Decision:
        name = self._runtime_section(document)
        section = self._table(document.get(name), name, whose="execution stays off")
        self._unknown(section, _RUNTIME_KEYS, name)
        execution = self._table(section.get("execution"), f"{name}.execution", whose="execution stays off")
        self._unknown(execution, _EXECUTION_KEYS, f"{name}.execution")

        self._storage(document.get(STORAGE_SECTION), STORAGE_SECTION)
        if "storage" in section:
            self._storage(section["storage"], f"{name}.storage")
            if isinstance(section["storage"], dict):
                self._unknown(section["storage"], _STORAGE, f"{name}.storage")
        self._token(section, name)
        self._plain("base_url", section.get("base_url"), f"{name}.base_url")
        for key in _LIMITS:
            self._plain(key, execution.get(key), f"{name}.execution.{key}")
        self._runtimes(execution, f"{name}.execution")
        self._workspace_root(execution, f"{name}.execution")
        self._switch("allow_script_managed_data", [(section, name, "allow_script_managed_data")])
        switches = [(section, name, "enabled"), (execution, f"{name}.execution", "enabled")]
        self._switch("execution_enabled", switches)
        return self._decision

    def _runtime_section(self, document: Mapping[str, Any]) -> str:
        if RUNTIME_SECTION in document:
            if OLDER_RUNTIME_SECTION in document:
                self._warn(OLDER_RUNTIME_SECTION, f"is not used, since {RUNTIME_SECTION} is there")
            return RUNTIME_SECTION
        if OLDER_RUNTIME_SECTION in document:
            return OLDER_RUNTIME_SECTION
        self._warn(RUNTIME_SECTION, "is not in the document; execution stays off")
        return RUNTIME_SECTION

    def _table(self, value: Any, path: str, *, whose: str) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._warn(path, f"is {_SAID.get(type(value), 'something else')}, must be a table; {whose}")
            return {}
        return value

    def _unknown(self, table: Mapping[Any, Any], known: Iterable[str], path: str) -> None:
        for key in table:
            if key not in known:
                self._warn(f"{path}.{key}", "is no setting of this service; it is not used")

    def _switch(self, name: str, switches: list[tuple[Mapping[str, Any], str, str]]) -> None:
        """On when each of them is exactly `true`."""
        off = []
        for table, path, key in switches:
            value = table.get(key)
            reason = "is false" if value is False else "is not set"
            if value is not None and not isinstance(value, bool):
                reason = f"is {_SAID.get(type(value), 'something else')}, must be true"
                said = "execution stays off" if name == "execution_enabled" else "it stays off"
                self._warn(f"{path}.{key}", f"{reason}; {said}")
            if value is not True:
                off.append(Origin(f"{path}.{key}", reason))
        if name == "execution_enabled":
            off += self._blocked
        place = " and ".join(f"{path}.{key}" for _, path, key in switches)
        self._decision.decide(name, not off, place)
        self._decision.origins[name] = tuple(off) or tuple(Origin(f"{path}.{key}") for _, path, key in switches)

    def _plain(self, name: str, value: Any, path: str) -> bool:
        """Whether it may be what it says; nothing is as if it were not there."""
        if value is None:
            return True
        complaint = complaint_about(name, value)
        if complaint is None:
            self._decision.decide(name, value, path)
            return True
        if isinstance(value, int | float) and complaint.endswith("must be text"):
            complaint += ", so write it in quotes"
        self._warn(path, f"{complaint}; it is not used")
        return False

    def _storage(self, table: Any, path: str) -> None:
        if table is not None and not isinstance(table, dict):
            self._warn(path, f"is {_SAID.get(type(table), 'something else')}, must be a table; execution stays off")
            self._blocked.append(Origin(path, "is no table"))
            return
        for key, name in _STORAGE.items():
            value = (table or {}).get(key)
            if value == "" and name != "s3_region":
                continue  # a key that was prepared and not filled in
            if not self._plain(name, value, f"{path}.{key}"):
                self._blocked.append(Origin(f"{path}.{key}", "cannot be used"))

    def _token(self, section: Mapping[str, Any], path: str) -> None:
        if section.get("token") != "" and not self._plain("api_token", section.get("token"), f"{path}.token"):
            lock_api(self._decision, self._machine)

    def _runtimes(self, execution: Mapping[str, Any], path: str) -> None:
        given = execution.get("runtime_ids")
        where = f"{path}.runtime_ids"
        self._decision.origins["runtime_ids"] = (Origin(where),)
        if given is not None:
            entries = given if isinstance(given, list) else [given]
            allowed = [entry.strip() for entry in entries if isinstance(entry, str) and entry.strip()]
            if len(allowed) < len(entries):
                self._warn(where, "has an entry that is no runtime's name; that entry allows nothing")
            self._decision.decide("runtime_ids", tuple(dict.fromkeys(allowed)), where)
        self._python(execution.get("python_executable"), f"{path}.python_executable")

    def _python(self, given: Any, path: str) -> None:
        """The Python of every allowed runtime for which this machine names none of its own."""
        if given is None or not self._absolute(given, path):
            return
        ids = self._decision.changes.get("runtime_ids", self._machine.runtime_ids)
        added = {name: given for name in ids if name not in self._machine.runtimes}
        self._decision.decide("runtimes", {**added, **self._machine.runtimes}, path)

    def _workspace_root(self, execution: Mapping[str, Any], path: str) -> None:
        given = execution.get("workspace_root")
        if given is not None and self._absolute(given, f"{path}.workspace_root"):
            self._plain("workspace_root", given, f"{path}.workspace_root")

    def _absolute(self, value: Any, path: str) -> bool:
        """Several machines read one document: a path that begins where a program was started is none."""
        if isinstance(value, str) and PurePosixPath(value).is_absolute() and "\0" not in value:
            return True
        self._warn(path, "must be an absolute path; it is not used")
        return False

    def _warn(self, path: str, message: str) -> None:
        self._decision.warnings.append(f"{path} {message}")
