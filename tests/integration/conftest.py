"""Services that integration tests share, each started once, when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.assets.prefect_stack import PrefectStack
    from tests.assets.rabbitmq_server import RabbitMqServer


@pytest.fixture(scope="session")
def prefect_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectStack]:
    """A Prefect server, its UI, and workers of both pools, with an installation of their own."""
    from tests.assets.prefect_stack import PrefectStack  # noqa: PLC0415 - Prefect takes seconds to import

    started = PrefectStack.start(tmp_path_factory.mktemp("prefect"))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def rabbitmq_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMqServer]:
    """One broker for the whole session; tests share it by names of their own. A test that kills one uses its own."""
    from tests.assets.rabbitmq_server import RabbitMqServer  # noqa: PLC0415 - as above

    with RabbitMqServer(tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server
