"""A bridge as a process of its own, to be killed: `python -m tests.assets.bridge_process [OUTCOME]`.

With an outcome, such as `succeeded`, executions are simulated; without one they are carried out.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.installation import Installation
from runtime.live_installation import Fixed
from runtime.settings import load_settings
from services.bridge import run_bridge
from services.orchestrator import Dispatcher
from services.simulation import SimulatedDispatcher, Simulation

if TYPE_CHECKING:
    from runtime.settings import Settings

ROOT = Path(__file__).parents[2]
TAKES_SUBMISSIONS = "consuming by way of"


def start_bridge(settings: Settings, log: Path, *outcome: str) -> subprocess.Popen[bytes]:
    """The process, started; what it says is added to `log`."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.assets.bridge_process", *outcome],
            env={**kept, **settings.to_environment()},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def main(*outcome: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with Installation.open(load_settings(directory=Path("/"))) as here:
        dispatcher = SimulatedDispatcher(here, Simulation(outcome[0])) if outcome else Dispatcher(here)
        run_bridge(Fixed(here), dispatcher, stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
