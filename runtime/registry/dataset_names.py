"""Names of data sets: each points at a snapshot and can be used wherever a digest can."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from contracts.errors import AdmissionError, NotFoundError

if TYPE_CHECKING:
    from contracts.references import Pinned
    from runtime.ledger import DatasetName, Ledger
    from runtime.registry.snapshots import PinnedSnapshot, Snapshots

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class DatasetNames:
    """The names of one installation's snapshots."""

    def __init__(self, ledger: Ledger, snapshots: Snapshots) -> None:
        self._ledger = ledger
        self._snapshots = snapshots

    def point(self, name: str, sha256: str, object: Pinned) -> DatasetName:  # noqa: A002 - what documents call it
        """Afterwards `name` means the snapshot `sha256`, stored at `object`, whatever it meant before.

        Raises:
            AdmissionError: `name` is no name, or reads like a digest.
        """
        check_name(name)
        return self._ledger.set_dataset_name(name, sha256, object)

    def resolve(self, text: str) -> PinnedSnapshot:
        """The snapshot that `text` means: a name, or the 64 digits of its digest.

        Raises:
            NotFoundError: nothing has this name or digest; the message says what there is.
        """
        if _DIGEST.fullmatch(text):
            return self._snapshots.find(text)
        found = self._ledger.dataset_name(text)
        if found is not None:
            return self._snapshots.find(found.sha256)
        known = [entry.name for entry in self._ledger.dataset_names()]
        raise NotFoundError(
            f'no data set "{text}"' + (f"; there are: {', '.join(known[:20])}" if known else "; there is none yet"),
            hint="`mtr dataset import FOLDER --name NAME` makes one; `mtr dataset list` shows those that there are.",
            context={"name": text, "known": known[:100]},
        )

    def list(self) -> tuple[DatasetName, ...]:
        """Every name, sorted."""
        return self._ledger.dataset_names()


def check_name(name: str) -> None:
    """Passes names that `resolve` can tell from digests.

    Raises:
        AdmissionError: `name` is no name, or reads like a digest.
    """
    if _NAME.fullmatch(name) and not _DIGEST.fullmatch(name):
        return
    raise AdmissionError(
        f"{name!r} cannot name a data set",
        hint="Use 1 to 128 letters, digits, `.`, `_` and `-`, beginning with a letter or digit, and no digest.",
        context={"violations": [{"path": "name", "message": "is no data set name"}]},
    )
