"""What every test run has: the record of which error codes the product really raised, and Ctrl-C as a terminal gives it."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.assets.produced_codes", "tests.assets.prefect_settings"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it puts into the background with SIGINT ignored, and every program that a test starts would
    # inherit that: none could be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine must not decide what a test says.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

os.environ["USE_NACOS"] = "false"  # no test may meet, at the default address, a Nacos that is not its own
