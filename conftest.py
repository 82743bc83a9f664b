"""What every test run has: the record of which error codes the product really raised."""

from __future__ import annotations

pytest_plugins = ["tests.assets.produced_codes", "tests.assets.prefect_settings"]
