"""Where a `RuntimeFault` becomes an exit code and one clear block, or the JSON error document.

Exit codes: 0 done; 1 the execution failed; 2 the input is refused before anything runs; 3 policy refuses; 4 conflict
with what exists; 5 something outside is unavailable, try again; 130 cancelled.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from contracts.errors import InternalError, RuntimeFault
from services.cli.documents import write_document

if TYPE_CHECKING:
    from rich.console import Console

MAX_TRACEBACK_LINES: Final = 40
"""A defect's report needs the place, not the whole stack of a recursion."""

MAX_SHOWN_VIOLATIONS: Final = 50
"""More than fit a screen; the JSON document has all of them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How one error leaves the program."""

    fault: RuntimeFault
    exit_code: int

    @classmethod
    def of(cls, fault: RuntimeFault) -> Failure:
        """The failure whose exit code is the one of the fault's class."""
        return cls(fault, fault.exit_code)

    def show(self, *, as_json: bool) -> None:
        """Afterwards stdout holds exactly one JSON document, or stderr one block: message, evidence, hint."""
        if as_json:
            write_document(sys.stdout, {"error": self.fault.to_document()})
            return
        from rich.console import Console  # noqa: PLC0415 - costs more than the whole of a successful `--json` call

        show_fault(Console(stderr=True, soft_wrap=True, highlight=False), self.fault)


def show_fault(console: Console, fault: RuntimeFault) -> None:
    """Print the block that a person reads: code and message, the violations if there are several, the next action."""
    from rich.text import Text  # noqa: PLC0415 - as above

    listed = fault.context.get("violations")
    violations = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    message = fault.headline if len(violations) > 1 else fault.message
    console.print(Text.assemble((f"{fault.code}: ", "bold red"), message))
    if len(violations) > 1:
        for violation in violations[:MAX_SHOWN_VIOLATIONS]:
            console.print(Text(f"  {violation.get('path') or '(document)'}: {violation.get('message')}"))
        if len(violations) > MAX_SHOWN_VIOLATIONS:
            console.print(Text(f"  … and {len(violations) - MAX_SHOWN_VIOLATIONS} more; --json lists all"))
    trace = fault.context.get("traceback")
    if isinstance(trace, str):
        trace = trace.splitlines()
    if isinstance(trace, list):
        for line in trace[-MAX_TRACEBACK_LINES:]:
            console.print(Text(f"  {line}", style="dim"))
    console.print(Text.assemble(("→ ", "bold"), fault.hint))


def unexpected(defect: Exception) -> Failure:
    """The failure for an exception that nobody foresaw: a defect of ours, with its place as evidence."""
    lines = "".join(traceback.format_exception(defect)).splitlines()
    fault = InternalError(
        f"{type(defect).__name__}: {defect}",
        hint="This is a defect of mtr: report it with the lines above.",
        context={"traceback": lines[-MAX_TRACEBACK_LINES:]},
    )
    return Failure.of(fault)
