"""`mtr serve` and `mtr bridge`: the doors that a platform's control plane knocks on."""

from __future__ import annotations

import contextlib
import ipaddress
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.limits import MAX_COUNT
from runtime.installation import Installation
from runtime.settings import load_settings
from services import orchestrator
from services.cli.interrupts import ended_by_sigterm
from services.cli.options import Json, command_group, example
from services.cli.terminal import Terminal, facts
from services.listening import address_of, listen

if TYPE_CHECKING:
    from runtime.live_installation import Source
    from runtime.settings import Settings
    from services.simulation import Simulation

# ruff: noqa: PLC0415 - a web framework and a broker's library are imported by the command that needs them

app = command_group("The HTTP API and the RabbitMQ bridge.")
bridge_group = command_group("Carry submissions in from RabbitMQ, and what the platform is told out to it.")
app.add_typer(bridge_group, name="bridge")


@app.command(epilog=example("mtr serve --host 0.0.0.0 --port 8012 --with-bridge"))
def serve(
    host: Annotated[str, typer.Option(metavar="HOST", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="PORT", help="0 is any free one.")] = 8012,
    with_bridge: Annotated[
        bool, typer.Option("--with-bridge", help="Run the RabbitMQ bridge in this process, too.")
    ] = False,
    simulate: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Run nothing: give every submission this outcome, succeeded, cancelled or the code of an error.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve the HTTP API to a platform, and have what it accepts carried out. Ctrl-C ends it; executions go on.

    Execution is off until a setting turns it on: this works for others.
    """
    with (
        Terminal.open(as_json=as_json) as terminal,
        ended_by_sigterm(),
        contextlib.suppress(KeyboardInterrupt),  # the way that it is meant to end, also while it starts
        contextlib.ExitStack() as held,
    ):
        settings = load_settings(served=True)
        simulation = _simulation(simulate)
        if with_bridge:
            _require_broker(settings)
        listening = held.enter_context(listen(host, port))
        terminal.note("starting the HTTP API …")
        from services import http_server
        from services.api.application import create_application

        http_server.log_to_stderr()
        source, dispatcher = _opened(held, settings, simulation)
        application = create_application(source, dispatcher=dispatcher, consumes=with_bridge)
        bridge = _bridge(source, dispatcher) if with_bridge else None
        held.enter_context(dispatcher)
        if bridge is not None:
            held.enter_context(bridge)
        address = address_of(listening)

        def ready() -> None:
            _warn(terminal, source, host, simulation)
            terminal.answer(
                _document(source, url=address, with_bridge=with_bridge, simulation=simulation),
                facts(
                    "the HTTP API answers",
                    [
                        ("address", address),
                        ("its description", f"{address}/docs"),
                        ("bridge", _where(source.current().settings) if with_bridge else None),
                        ("simulates", simulation.outcome if simulation else None),
                        ("to stop", "Ctrl-C"),
                    ],
                ),
            )

        http_server.run(application, listening, ready=ready)


@bridge_group.callback(invoke_without_command=True, epilog=example("mtr bridge"))
def bridge(ctx: typer.Context, as_json: Json = False) -> None:
    """Carry submissions in from RabbitMQ, and what the platform is told out to it. Ctrl-C ends it; executions go on.

    A broker or a ledger that is away only delays. Several bridges may run: one at a time publishes.
    """
    if ctx.invoked_subcommand is not None:
        return
    with (
        Terminal.open(as_json=as_json) as terminal,
        ended_by_sigterm(),
        contextlib.suppress(KeyboardInterrupt),
        contextlib.ExitStack() as held,
    ):
        settings = load_settings(served=True)
        _require_broker(settings)
        terminal.note("starting the bridge …")
        from services.http_server import log_to_stderr

        log_to_stderr()
        source, dispatcher = _opened(held, settings, None)
        bridge = _bridge(source, dispatcher)
        held.enter_context(dispatcher)
        held.enter_context(bridge)
        _warn(terminal, source, "127.0.0.1", None)
        terminal.answer(
            _document(source, url=None, with_bridge=True, simulation=None),
            facts("the bridge works", [("broker", _where(source.current().settings)), ("to stop", "Ctrl-C")]),
        )
        threading.Event().wait()


@bridge_group.command(epilog=example("mtr bridge replay --task 4711"))
def replay(
    task: Annotated[int, typer.Option("--task", min=1, max=MAX_COUNT, metavar="N", help="A task of the platform.")],
    as_json: Json = False,
) -> None:
    """Have everything that the platform was told about a task sent again: the same messages, ids included, in the same order.

    Whichever bridge runs sends them, or the next one that does.
    """
    from services.bridge import replay as replay_messages

    with (
        Terminal.open(as_json=as_json) as terminal,
        Installation.open(load_settings(served=True)) as here,
    ):
        count = replay_messages(here, task)
        terminal.answer(
            {"task_id": task, "messages": count},
            facts(f"task {task}", [("messages to be sent again", count)]),
        )


def _simulation(outcome: str | None) -> Simulation | None:
    if outcome is None:
        return None
    from services.simulation import Simulation

    return Simulation(outcome)


def _opened(
    held: contextlib.ExitStack, settings: Settings, simulation: Simulation | None
) -> tuple[Source, orchestrator.Dispatcher]:
    """Who knows the installation, open as long as `held` is, and who carries out what it accepts, not started yet."""
    if simulation is None:
        source = held.enter_context(orchestrator.open_source(settings))
        return source, orchestrator.Dispatcher(source.current())
    from runtime.live_installation import Fixed
    from services.simulation import SimulatedDispatcher

    here = held.enter_context(simulation.open(settings))
    return Fixed(here), SimulatedDispatcher(here, simulation)


def _require_broker(settings: Settings) -> None:
    """Nothing, or the error of a bridge that could not work, before anything slow is started.

    Raises:
        InvalidSettingsError: no broker is configured, or it names the queue of the legacy trainer.
    """
    from services.bridge import Topology

    Topology.of(settings)


def _bridge(source: Source, dispatcher: orchestrator.Dispatcher) -> contextlib.AbstractContextManager[Any]:
    from services.bridge import Bridge

    return Bridge(source, dispatcher)


def _document(source: Source, *, url: str | None, with_bridge: bool, simulation: Simulation | None) -> dict[str, Any]:
    settings = source.current().settings
    return {
        "url": url,
        "broker": _where(settings) if with_bridge else None,
        "execution_enabled": settings.execution_enabled,
        "simulates": simulation.outcome if simulation else None,
    }


def _where(settings: Settings) -> str:
    return f"{settings.rabbitmq_host}:{settings.rabbitmq_port}, {settings.rabbitmq_exchange}, {settings.rabbitmq_queue}"


def _warn(terminal: Terminal, source: Source, host: str, simulation: Simulation | None) -> None:
    """Say what whoever starts this would want to know at once, not from the first refusal."""
    settings = source.current().settings
    if simulation is not None:
        said = f"every submission ends as {simulation.outcome}: nothing is run, and real executions are left alone"
        terminal.note(said, style="yellow")
    elif not settings.execution_enabled:
        terminal.note(
            "execution is off: submissions are refused. To turn it on: execution_enabled = true in mtr.toml, "
            "MTR_EXECUTION_ENABLED=true, or model-training-runtime.execution.enabled in the platform's settings "
            "(a machine without Nacos sets USE_NACOS=false).",
            style="yellow",
        )
    if not settings.api_token.get_secret_value() and not _is_own(host):
        terminal.note(
            f"no api_token is set: whoever reaches {host} may register and submit. Set api_token, and send it as a bearer token.",
            style="yellow",
        )


def _is_own(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
