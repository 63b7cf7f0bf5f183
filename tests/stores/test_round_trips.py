"""How often a store waits for its PostgreSQL server, counted on the wire."""

from __future__ import annotations

import asyncio
import re
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg

from tests.postgres import PostgresServer
from tests.sockets import reset_on_close
from tests.stores.jobs import ALICE, NOW, accounts, claimed, entry, new_job
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.encryption import FixedKeys, SecretCipher, new_key
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.records import EMPTY_BATCH, CommitBatch, UrlOutcome
from webdata_nb.service.store.sql.batches import write_batches
from webdata_nb.service.store.sql.connection import Transaction
from webdata_nb.service.store.sql.store import Store

# What sends a notification: its statement, and the channel, which a prepared one sends alone.
NOTIFICATION = re.compile(rb"pg_notify|webdata_test_")
# The Flush message after a pipeline, which may be sent by itself. It has no answer of its own.
FLUSH = b"H\0\0\0\4"
SSL_REQUEST = struct.pack("!ii", 8, 80877103)


class CountingProxy:
    """Relays connections to a server, and counts how often a client waits for an answer.

    Notifications, which other connections send, do not count.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self.round_trips = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Listen; yield the port."""
        relays: set[asyncio.Task[None]] = set()

        def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            relays.add(asyncio.create_task(self._relay(reader, writer)))

        server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
        async with server:
            try:
                yield server.sockets[0].getsockname()[1]
            finally:
                await asyncio.gather(*relays)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        is_waiting = False

        # A client that closes its connection with unread notifications resets it.
        async def forward() -> None:
            nonlocal is_waiting
            with suppress(ConnectionError):
                while data := await reader.read(1 << 20):
                    if data != FLUSH:
                        self.round_trips += not is_waiting and not NOTIFICATION.search(data)
                        is_waiting = True
                    server_writer.write(data)
            server_writer.close()

        async def backward() -> None:
            nonlocal is_waiting
            with suppress(ConnectionError):
                while data := await server_reader.read(1 << 20):
                    is_waiting = False
                    writer.write(data)
            writer.close()

        await asyncio.gather(forward(), backward())
        for each in (writer, server_writer):
            with suppress(OSError):
                await each.wait_closed()


@asynccontextmanager
async def counted_store(server: PostgresServer) -> AsyncIterator[tuple[Store, CountingProxy]]:
    """Open a store behind a proxy."""
    proxy = CountingProxy(server.port)
    async with proxy.running() as port:
        url = server.new_schema().replace(f":{server.port}/", f":{port}/")
        async with Store(PostgresDatabase(url), SecretCipher(FixedKeys((new_key(),)))) as store:
            await accounts(store)
            yield store, proxy


def page_batch(number: int) -> CommitBatch:
    """Return what a crawl commits for a page."""
    url = f"http://x/{number}"
    outcomes = (UrlOutcome(url, "fetched"), UrlOutcome(f"{url}?again", "duplicate"))
    return CommitBatch(
        entries=(entry(number),),
        published=((number, number),),
        url_outcomes=outcomes,
        total=100,
        completed=number + 1,
    )


async def test_the_proxy_accepts_that_its_client_resets_the_connection(
    postgres_server: PostgresServer,
) -> None:
    # As a client that closes its connection before it has read a notification.
    proxy = CountingProxy(postgres_server.port)
    async with proxy.running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(SSL_REQUEST)
        assert await reader.read(1) == b"N"
        reset_on_close(writer.get_extra_info("socket"))
        writer.close()
    assert proxy.round_trips == 1


async def test_commits_of_pages_take_one_round_trip_together(
    postgres_server: PostgresServer,
) -> None:
    async with counted_store(postgres_server) as (store, proxy):
        await store.accept(new_job(), now=NOW)
        job, lease = await claimed(store)
        for number in range(12):  # connections are made, statements prepared
            await store.commit(lease, page_batch(number))
        before = proxy.round_trips
        await store.commit(lease, page_batch(12))
        assert proxy.round_trips - before == 1
        before = proxy.round_trips
        await asyncio.gather(*(store.commit(lease, page_batch(number)) for number in range(13, 23)))
        # The first goes alone, the others wait for it and go together.
        assert proxy.round_trips - before <= 2
        stored = await store.job(ALICE, job.id)
        assert (stored.published, stored.completed, stored.total) == (23, 23, 100)
        counts = (await store.receipt(job.id, examples=0)).counts
        assert counts == {"fetched": 23, "duplicate": 23}


async def test_a_batch_with_stored_parts_counts_only_new_ones(
    postgres_server: PostgresServer,
) -> None:
    async with counted_store(postgres_server) as (store, _):
        await store.accept(new_job(), now=NOW)
        job, lease = await claimed(store)
        await store.commit(lease, page_batch(0))
        # With page 0 again, its outcomes, and a page whose row was stored without a position.
        await store.commit(lease, CommitBatch(entries=(entry(1),)))
        await asyncio.gather(
            store.commit(lease, page_batch(0)),
            store.commit(lease, page_batch(1)),
            store.commit(lease, CommitBatch(url_outcomes=(UrlOutcome("http://x/0", "failed"),))),
        )
        assert (await store.job(ALICE, job.id)).published == 2
        assert len(await store.rows(ALICE, job.id, start=0, count=9)) == 2
        counts = (await store.receipt(job.id, examples=0)).counts
        assert counts == {"fetched": 2, "duplicate": 2}


async def test_commit_that_waits_for_another_transaction_of_its_job_sees_what_it_wrote(
    postgres_server: PostgresServer,
) -> None:
    # As a commit that is repeated while the server still runs its first attempt.
    async with counted_store(postgres_server) as (store, _):
        await store.accept(new_job(), now=NOW)
        job, lease = await claimed(store)
        has_written, may_commit = threading.Event(), threading.Event()

        def write_slowly(transaction: Transaction) -> None:
            write_batches(transaction, lease, [page_batch(0)])
            has_written.set()
            may_commit.wait(30)

        first = asyncio.create_task(store.database.change(write_slowly))
        await asyncio.to_thread(has_written.wait)
        second = asyncio.create_task(store.commit(lease, page_batch(0)))
        with psycopg.connect(postgres_server.url, autocommit=True) as connection:
            waiting = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted"
            while connection.execute(waiting).fetchone() == (0,):  # noqa: ASYNC110 - of the server
                await asyncio.sleep(0.01)
        may_commit.set()
        await asyncio.gather(first, second)
        await store.commit(lease, page_batch(1))
        stored = await store.job(ALICE, job.id)
        assert (stored.published, stored.completed) == (2, 2)
        counts = (await store.receipt(job.id, examples=0)).counts
        assert counts == {"fetched": 2, "duplicate": 2}


async def test_starts_and_ends_of_jobs_take_few_round_trips(
    postgres_server: PostgresServer,
) -> None:
    async with counted_store(postgres_server) as (store, proxy):
        for _ in range(12):  # connections are made, statements prepared
            await store.accept(new_job(), now=NOW)
        starts = []
        for _ in range(5):  # the pool may open another connection meanwhile
            before = proxy.round_trips
            await store.accept(new_job(), now=NOW)
            starts.append(proxy.round_trips - before)
        assert min(starts) <= 3  # the account, its active jobs, the commit
        outcomes = page_batch(0).url_outcomes
        ends = [
            {"batch": EMPTY_BATCH},
            {"batch": CommitBatch(entries=(entry(0, position=0),), url_outcomes=outcomes)},
        ] * 6
        trips: tuple[list[int], list[int]] = ([], [])
        for number, end in enumerate(ends):
            _, lease = await claimed(store)
            before = proxy.round_trips
            snapshot = await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW, **end)
            trips[number % 2].append(proxy.round_trips - before)
            assert snapshot.receipt.counts == ({"duplicate": 1, "fetched": 1} if number % 2 else {})
            assert len(snapshot.rows) == number % 2
        # What the end finds, what it writes.
        assert max(map(min, trips)) <= 2
