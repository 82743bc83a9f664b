"""What `mtr doctor` says of the platform's settings: found or not, what is wrong with them, what is in force from where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import SecretStr

from runtime.platform_settings import NacosSettings
from services.cli.checks import Check, looked_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.platform_settings import Reading
    from runtime.settings import Settings

NAME = "platform settings"


def platform_checks(settings: Settings) -> Iterator[Check]:
    """One line where Nacos is not asked; else whether it answers, each warning, and each setting that it decides."""
    machine = settings.machine
    if not machine.use_nacos:
        yield Check(NAME, "ok", _not_asked(machine))
        return
    reading: list[Reading] = []

    def read() -> Check:
        source = NacosSettings(machine)
        found = source.read()
        reading.append(found)
        if found.fault is not None:
            return Check(NAME, "failed", found.warnings[0], found.fault.hint, found.fault.exit_code)
        return Check(NAME, "ok", f"read {source.name}")

    yield looked_at(NAME, read)
    for found in reading:
        for warning in found.warnings[1 if found.fault else 0 :]:
            yield Check(NAME, "warning", warning, "Correct it in the document; docs/platform-settings.md has its keys.")
        yield Check("in force", "ok", _in_force(found))


def _not_asked(machine: Settings) -> str:
    if machine.use_nacos is None:
        return (
            "not asked: USE_NACOS is not set here. mtr serve, mtr bridge and workers ask Nacos at "
            f"{machine.nacos_server_addr} unless USE_NACOS=false; with USE_NACOS=true this command does too"
        )
    return "not asked: use_nacos is false"


def _in_force(reading: Reading) -> str:
    decided = [
        f"{name} = {_shown(getattr(reading.settings, name))} from {place}"
        for name, place in sorted(reading.places.items())
    ]
    return "; ".join(decided) or "this machine's own settings"


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return "(secret)"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "nothing"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {path}" for name, path in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)
