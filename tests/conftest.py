"""Stores and databases to test against. Everything heavy is imported where it is used: collecting tests must stay quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

# ruff: noqa: PLC0415 - see above

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.store.objects import ObjectStore
    from tests.assets.postgres_server import PostgresServer
    from tests.assets.s3_server import S3Server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One S3 server for the whole session. A test that kills it starts it again; one that may not uses its own."""
    from tests.assets.s3_server import S3Server

    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def local_store(tmp_path: Path) -> ObjectStore:
    """An empty store of local folders."""
    from runtime.store.objects import ObjectStore

    return ObjectStore.local(tmp_path / "store")


@pytest.fixture
def s3_store(s3_server: S3Server) -> ObjectStore:
    """A store in four new, empty S3 buckets."""
    from runtime.store.objects import ObjectStore

    store = ObjectStore.s3(s3_server.settings())
    store.ensure_buckets()
    return store


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.service)])
def any_store(request: pytest.FixtureRequest) -> ObjectStore:
    """The same test, once on local folders and once on S3."""
    store: ObjectStore = request.getfixturevalue(f"{request.param}_store")
    return store


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL for the whole session; each test asks it for a database of its own."""
    from tests.assets.postgres_server import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Where a new ledger in a file goes, as one machine has it."""
    return f"sqlite:///{tmp_path}/home/ledger.db"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """A new, empty database of a server, as many machines have it."""
    return postgres_server.new_database()
