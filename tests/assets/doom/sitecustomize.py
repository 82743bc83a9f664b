"""Ends a process at an exact point, for crash tests: on `PYTHONPATH` of a process under test, Python imports it at start.

`DOOM` in the environment names a file, `{"at": POINT, "kill": WHOM}`. The first process that reaches the point takes the
file away, so that it happens once, and sends SIGKILL. Points: `enter STAGE`, `leave STAGE`, `training started`,
`metric N` (the Nth of a training). Whom: `self`, `training` (the package's process), or a pid.

Nothing of the product is replaced: what it calls at that point is called, before or after.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import sys
import time


def reach(point, training=None):
    spec_file = pathlib.Path(os.environ["DOOM"])
    try:
        spec = json.loads(spec_file.read_text(encoding="utf-8"))
        if spec["at"] != point:
            return
        spec_file.rename(f"{spec_file}.done")
    except FileNotFoundError:
        return
    whom = {"self": os.getpid(), "training": training}.get(spec["kill"], spec["kill"])
    os.kill(int(whom), signal.SIGKILL)
    if whom == os.getpid():
        time.sleep(60)  # the signal is on its way; nothing of ours may run any more


def doom_stages(module):
    run = module.Run
    enter, leave = run.enter, run.leave

    def doomed_enter(self, stage):
        enter(self, stage)
        reach(f"enter {stage}")

    def doomed_leave(self, stage, **fields):
        leave(self, stage, **fields)
        reach(f"leave {stage}")

    run.enter, run.leave = doomed_enter, doomed_leave


def doom_training(module):
    view = module.LiveView
    started, event = view.started, view.event
    pids, metrics = {}, {}

    def doomed_started(self, *, pid, isolation):
        started(self, pid=pid, isolation=isolation)
        pids[id(self)] = pid
        reach("training started", pid)

    def doomed_event(self, said):
        event(self, said)
        if said.event_type == "metric":
            metrics[id(self)] = metrics.get(id(self), 0) + 1
            reach(f"metric {metrics[id(self)]}", pids[id(self)])

    view.started, view.event = doomed_started, doomed_event


def shorten_retries(module):
    module.RETRY_DELAY_SECONDS = (0.5,)


CHANGES = {"tasks.run": doom_stages, "tasks.live": doom_training, "tasks.stage": shorten_retries}


class Doom(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        change = CHANGES.get(name)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


if "DOOM" in os.environ:
    sys.meta_path.insert(0, Doom())
