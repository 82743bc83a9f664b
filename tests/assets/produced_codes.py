"""A pytest plugin: which error codes did the product itself raise while the tests ran?

An error counts when it is made by a frame of the product's own source, not by a test. With `--require-every-code` a
run that produced fewer codes than `contracts.errors.codes()` fails and names the rest. Processes that tests start
write the codes that they print into the run's own record by `note_codes`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from contracts import errors

REPOSITORY = Path(__file__).parents[2]
LAYERS = tuple(
    f"{REPOSITORY / name}{os.sep}" for name in ("contracts", "runtime", "blocks", "tasks", "flows", "services")
)
REBUILT = ("fault_from_document", "_rebuild")

_produced: set[str] = set()


def note_codes(*codes: str) -> None:
    """Record codes that a product process reported to a test (its `--json` error, a ledger's row)."""
    _produced.update(codes)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-every-code", action="store_true", help="fail unless every error code was produced")


def pytest_configure(config: pytest.Config) -> None:
    plain_init = errors.RuntimeFault.__init__

    def recording_init(self, message, *, hint, context=None) -> None:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_name in ("of", "__init__"):  # a constructor of the product's own
            frame = frame.f_back
        if frame is not None and frame.f_code.co_filename.startswith(LAYERS) and frame.f_code.co_name not in REBUILT:
            _produced.add(type(self).code)
        plain_init(self, message, hint=hint, context=context)

    errors.RuntimeFault.__init__ = recording_init
    config.add_cleanup(lambda: setattr(errors.RuntimeFault, "__init__", plain_init))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    worker_output = getattr(session.config, "workeroutput", None)
    if worker_output is not None:  # a pytest-xdist worker hands its record to the controller
        worker_output["produced_codes"] = json.dumps(sorted(_produced))
        return
    if session.config.getoption("--require-every-code") and exitstatus == 0:
        missing = sorted(set(errors.codes()) - _produced)
        if missing:
            session.config.stash[_MISSING] = missing
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    _produced.update(json.loads(getattr(node, "workeroutput", {}).get("produced_codes", "[]")))


def pytest_terminal_summary(terminalreporter) -> None:
    missing = terminalreporter.config.stash.get(_MISSING, [])
    if missing:
        terminalreporter.section("error codes that no test produced", red=True)
        terminalreporter.write_line(", ".join(missing))


_MISSING = pytest.StashKey[list[str]]()
