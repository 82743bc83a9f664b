"""`python -m services.api.pinning`: pins the source manifest on its standard input, beside the API and not within it.

A listing of an S3 store holds the interpreter's lock, too, for as long as a server takes that does not answer.
"""

from __future__ import annotations

import sys

from contracts.base import validate
from contracts.dataset import DatasetSourceManifest
from contracts.strict_json import dump
from runtime.installation import Installation
from services.api.apart import answer_standard_input


def pin(here: Installation, content: bytes) -> bytes:
    """`{"created", "object"}` of the snapshot that `content` is from now on.

    Raises:
        RuntimeFault: as `Snapshots.pin`, or the manifest is not valid.
    """
    pinned = here.snapshots.pin(validate(DatasetSourceManifest, content))
    return dump({"created": pinned.created, "object": pinned.object.to_document()})


def main() -> int:
    """The settings are this process's environment."""
    with Installation.open() as here:
        return answer_standard_input(lambda content: pin(here, content))


if __name__ == "__main__":
    sys.exit(main())
