"""The last good document, kept for the next process on this machine.

A worker's flow is a new process for each execution; without this, one moment without Nacos would refuse what was accepted.
The file lies in the installation's home, readable to its owner alone like everything there: it may hold the keys that
`mtr.toml` would hold otherwise.
"""

from __future__ import annotations

import base64
import contextlib
import os
import tempfile
import time
from typing import TYPE_CHECKING, Final

import orjson

from contracts.limits import LAST_GOOD_SECONDS, MAX_PLATFORM_SETTINGS_BYTES

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME: Final = "platform-settings.json"


class LastGood:
    """What a place last gave, on disk.

    Args:
        home: the installation's folder.
        place: of the document; what another place gave is not used.
    """

    def __init__(self, home: Path, place: str) -> None:
        self._file, self._place = home / FILE_NAME, place
        self._kept: bytes | None = None

    def keep(self, content: bytes) -> None:
        """Afterwards `recall` answers `content`; where the disk refuses, it answers less, and that is all."""
        with contextlib.suppress(OSError):
            if content == self._kept:
                os.utime(self._file)  # still good now
                return
            self._kept = None
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            record = {"place": self._place, "document": base64.b64encode(content).decode()}
            # mkstemp makes it readable to its owner alone from the first moment on
            descriptor, name = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=self._file.parent)
            try:
                with os.fdopen(descriptor, "wb") as out:
                    out.write(orjson.dumps(record))
                os.replace(name, self._file)  # noqa: PTH105 - `name` is a text
            except OSError:
                os.unlink(name)  # noqa: PTH108 - as above
                raise
            self._kept = content

    def forget(self) -> None:
        """Afterwards there is nothing to recall."""
        self._kept = None
        with contextlib.suppress(OSError):
            self._file.unlink()

    def recall(self) -> bytes | None:
        """What was kept last, if it is of this place and was good within the last `LAST_GOOD_SECONDS`."""
        try:
            with self._file.open("rb") as source:
                if time.time() - os.fstat(source.fileno()).st_mtime > LAST_GOOD_SECONDS:
                    return None
                record = orjson.loads(source.read(2 * MAX_PLATFORM_SETTINGS_BYTES))
            return base64.b64decode(record["document"]) if record["place"] == self._place else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
