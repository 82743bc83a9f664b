"""Names of data sets: each points at a snapshot and can be used wherever a digest can."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from contracts.base import SHA256_PATTERN
from contracts.errors import AdmissionError, NotFoundError

if TYPE_CHECKING:
    from contracts.references import Pinned
    from runtime.ledger import DatasetName, Ledger
    from runtime.registry.snapshots import PinnedSnapshot, Snapshots

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(SHA256_PATTERN)
_SHOWN_NAMES: Final = 20


class DatasetNames:
    """The names of one installation's snapshots."""

    def __init__(self, ledger: Ledger, snapshots: Snapshots) -> None:
        self._ledger = ledger
        self._snapshots = snapshots

    def set(self, name: str, sha256: str, object: Pinned) -> DatasetName:  # noqa: A002 - what documents call it
        """Afterwards `name` means the snapshot `sha256`, stored at `object`, whatever it meant before.

        Raises:
            AdmissionError: `name` is no name, or reads like a digest.
        """
        return self._ledger.set_dataset_name(check_name(name), sha256, object)

    def find(self, name: str) -> DatasetName:
        """Where `name` points.

        Raises:
            NotFoundError: nothing has this name; the message says which names there are.
        """
        found = self._ledger.dataset_name(name)
        if found is not None:
            return found
        known = [entry.name for entry in self._ledger.dataset_names()]
        more = f" and {len(known) - _SHOWN_NAMES} more" if len(known) > _SHOWN_NAMES else ""
        said = f"; there are: {', '.join(known[:_SHOWN_NAMES])}{more}" if known else "; there is none yet"
        raise NotFoundError(
            f'no data set "{name}"{said}',
            hint="`mtr dataset import PATH --name NAME` makes one; a path that was meant must exist.",
            context={"name": name, "known": known[:100]},
        )

    def resolve(self, text: str) -> PinnedSnapshot:
        """The snapshot that `text` means: a name, or the 64 digits of its digest.

        Raises:
            NotFoundError: nothing has this name or digest.
            StorageUnavailableError: safe to call again.
        """
        return self._snapshots.find(text if _DIGEST.fullmatch(text) else self.find(text).sha256)

    def list(self) -> tuple[DatasetName, ...]:
        """Every name, sorted."""
        return self._ledger.dataset_names()


def check_name(name: str) -> str:
    """`name`, if it can be told from a digest.

    Raises:
        AdmissionError: it is no name, or reads like a digest.
    """
    if _NAME.fullmatch(name) and not _DIGEST.fullmatch(name):
        return name
    raise AdmissionError(
        f"{name!r} cannot name a data set",
        hint="Use 1 to 128 letters, digits, `.`, `_` and `-`, beginning with a letter or digit, and no digest.",
        context={"violations": [{"path": "name", "message": "is no data set name"}]},
    )
