"""Calls of a connection pool while PostgreSQL is away, and while it allows no more connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import TupleRow

from tests import postgres
from tests.postgres import PostgresServer
from tests.stores.conftest import open_postgres
from tests.stores.jobs import accounts
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.store.postgres.pool import CONNECTION, Availability, DeadlineConnection
from webdata_nb.service.store.sql.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """Run a server that the tests stop."""
    with postgres.running() as server:
        yield server


@pytest.fixture
async def store(own_server: PostgresServer, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_postgres(own_server, tmp_path) as opened:
        await accounts(opened)
        yield opened


async def test_no_call_waits_for_a_server_that_is_away(
    own_server: PostgresServer, store: Store
) -> None:
    await asyncio.to_thread(own_server.stop)
    calls = [store.active_jobs() for _ in range(100)]
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(error) for error in errors} == {StoreUnavailable}
    assert not [error for error in errors if "get a connection" in str(error)]
    assert "accepts no connections" in str(errors[-1])
    await asyncio.to_thread(own_server.start)
    async with asyncio.timeout(60):
        while True:
            if not await is_away(store):
                return
            await asyncio.sleep(0.05)


async def is_away(store: Store) -> bool:
    try:
        await store.active_jobs()
    except StoreUnavailable:
        return True
    return False


async def test_calls_share_connections_if_the_server_allows_no_more(
    own_server: PostgresServer, store: Store
) -> None:
    with psycopg.connect(own_server.url, dbname="template1", autocommit=True) as connection:
        connection.execute("ALTER DATABASE postgres ALLOW_CONNECTIONS false")
        try:
            for _ in range(5):
                await asyncio.gather(*(store.active_jobs() for _ in range(100)))
        finally:
            connection.execute("ALTER DATABASE postgres ALLOW_CONNECTIONS true")


def test_a_server_that_does_not_answer_ends_a_call(own_server: PostgresServer) -> None:
    with DeadlineConnection[TupleRow].connect(own_server.url, **CONNECTION) as connection:
        connection.answer_s = 0.5
        with pytest.raises(psycopg.OperationalError, match="does not answer"):
            connection.execute("SELECT pg_sleep(60)")
        assert connection.broken
        with pytest.raises(psycopg.OperationalError, match="closed"):
            connection.execute("SELECT 1")  # it does not wait again


def test_waiting_for_signals_has_a_deadline_of_its_own(own_server: PostgresServer) -> None:
    with DeadlineConnection[TupleRow].connect(own_server.url, **CONNECTION) as connection:
        connection.answer_s = 0.1
        connection.execute("LISTEN idle")
        assert list(connection.notifies(timeout=0.5, stop_after=1)) == []
        connection.execute("NOTIFY idle")
        assert len(list(connection.notifies(timeout=60, stop_after=1))) == 1


def test_the_server_ends_sessions_of_lost_machines(own_server: PostgresServer) -> None:
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_user_timeout")
    with DeadlineConnection[TupleRow].connect(own_server.url, **CONNECTION) as connection:
        connection.limit_server()
        values = [connection.execute(f"SHOW {name}".encode()).fetchone() for name in names]
    assert values == [("5",), ("3",), ("8000",)]


def test_one_failed_attempt_is_no_outage_while_connections_work() -> None:
    availability = Availability()
    for _ in range(3):
        availability.connection_worked()
        availability.attempt_failed("refused")
        assert not availability.is_away
    availability.attempt_failed("refused")
    assert availability.is_away
    availability.connection_worked()
    assert not availability.is_away
    availability.connection_lost()
    availability.attempt_failed("refused")
    assert availability.is_away


def test_an_outage_is_logged_once_until_a_connection_is_opened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    availability = Availability()
    availability.connection_worked(is_new=True)
    for _ in range(3):  # a server that stops refuses connections and ends statements
        availability.attempt_failed("refused")
        availability.attempt_failed("refused")
        availability.connection_worked()
    availability.connection_worked(is_new=True)
    assert caplog.messages == [
        "the database accepts no connections: refused",
        "the database accepts connections again",
    ]
