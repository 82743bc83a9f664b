"""Collecting everything that is wrong with an archive, to say it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contracts.errors import ArchiveRejectedError

if TYPE_CHECKING:
    from typing import NoReturn

SHOWN = 20
"""How many violations the message names; the context lists all of them."""

HINT = (
    "Correct what is named and pack the folder again: `mtr package build FOLDER` writes an archive that keeps these "
    "rules, and `mtr validate FILE` lists every violation."
)


class Violations:
    """What was found wrong in one archive so far, in the order in which it was found."""

    def __init__(self, archive: str) -> None:
        self._archive = archive
        self._found: list[dict[str, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, path: str, message: str) -> None:
        """Afterwards `message` is recorded for the member `path` (empty: the archive as a whole)."""
        self._found.append({"path": printable(path), "message": message})

    def stop(self, path: str, message: str) -> NoReturn:
        """Records a violation after which nothing else in the archive can be believed, and raises.

        Raises:
            ArchiveRejectedError: always, with everything found so far.
        """
        self.add(path, message)
        raise self._error()

    def raise_if_any(self) -> None:
        """Returns only when nothing was found.

        Raises:
            ArchiveRejectedError: with everything found, each with its path.
        """
        if self._found:
            raise self._error()

    def _error(self) -> ArchiveRejectedError:
        said = "; ".join(f"{found['path'] or '(archive)'}: {found['message']}" for found in self._found[:SHOWN])
        more = f"; and {len(self._found) - SHOWN} more" if len(self._found) > SHOWN else ""
        headline = f"{self._archive} is refused"
        return ArchiveRejectedError(
            f"{headline}: {said}{more}",
            hint=HINT,
            context={"archive": self._archive, "headline": headline, "violations": self._found},
        )


def printable(name: str) -> str:
    """`name` with everything a terminal or a log might act on written as an escape."""
    if name.isprintable():
        return name
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in name
    )
