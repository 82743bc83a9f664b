"""Publishes the record of a pod's end, read from stdin: `init` starts this as a process of its own, of bounded time."""

from __future__ import annotations

import json
import sys

from contracts.errors import RuntimeFault
from runtime.handover import PodRecord
from runtime.settings import load_settings
from runtime.store.objects import open_store


def main() -> int:
    """0 once the store has this record, or an earlier one of the same attempt, which stays."""
    try:
        record = PodRecord.from_document(json.load(sys.stdin))
        record.publish(open_store(load_settings()))
    except RuntimeFault as fault:
        print(f"{fault.code}: {fault}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
