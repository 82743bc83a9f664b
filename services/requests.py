"""Moved to `runtime.requests`, which the form of the Prefect UI uses too."""

from runtime.requests import *  # noqa: F403 - a name that other work may still use
