"""Several processes on one PostgreSQL store: nothing is taken, started or charged twice."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from tests import postgres
from tests.postgres import PostgresServer
from tests.stores.conftest import open_postgres
from tests.stores.jobs import ALICE, NOW, accounts, entry, new_job
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.errors import ConcurrencyReached, StoreUnavailable
from webdata_nb.service.ledger import Charge, Terms
from webdata_nb.service.settings import Retention
from webdata_nb.service.store.job_context import StoreRetry
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.records import (
    LANES_PER_ENDPOINT,
    WEBHOOK_CONTEXT,
    CommitBatch,
    DueEndpoint,
    IdempotencyKey,
    JobRecord,
    Lease,
    UrlOutcome,
)
from webdata_nb.service.store.spool import SpoolDirectory
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sqlite.text_index import SqliteTextIndex
from webdata_nb.service.work.retention import Janitor

REPLICAS: Final = 4
CLAIMERS: Final = 8
MANY_ACCOUNTS: Final = 16


@pytest.fixture
async def replicas(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[list[Store]]:
    """Open one store several times, each with its own connections, all at once."""
    async with AsyncExitStack() as stack:
        opened = [open_postgres(postgres_server, tmp_path) for _ in range(REPLICAS)]
        await asyncio.gather(*map(stack.enter_async_context, opened))
        yield opened


async def start_jobs(stores: list[Store], count: int, **fields: object) -> list[str]:
    jobs = [new_job(f"account-{n % MANY_ACCOUNTS}", **fields) for n in range(count)]
    for n in range(MANY_ACCOUNTS):
        await stores[0].accounts.ensure(f"account-{n}", f"Account {n}", now=NOW)
    starts = (stores[n % len(stores)].accept(job, now=NOW + n) for n, job in enumerate(jobs))
    await asyncio.gather(*starts)
    return [job.id for job in jobs]


@pytest.mark.parametrize("job_count", [240, pytest.param(2000, marks=pytest.mark.slow)])
async def test_no_job_is_claimed_twice(replicas: list[Store], job_count: int) -> None:
    job_ids = await start_jobs(replicas, job_count)

    async def run(number: int) -> list[str]:
        claimed: list[str] = []
        turn = 0
        while True:
            worker = f"w{number}-{turn}"
            jobs = await replicas[number % REPLICAS].claim(worker, max_jobs=3, lease_s=60, now=NOW)
            if not jobs:
                return claimed
            claimed += [job.id for job, _ in jobs]
            turn += 1

    claimed = await asyncio.gather(*map(run, range(CLAIMERS)))
    assert Counter(job_id for ids in claimed for job_id in ids) == Counter(job_ids)
    assert sum(1 for ids in claimed if ids) > 1


async def test_a_cancelled_or_renewed_job_is_not_claimed(replicas: list[Store]) -> None:
    job_ids = await start_jobs(replicas, 60)
    first = await replicas[0].claim("old", max_jobs=60, lease_s=10, now=NOW)
    assert len(first) == len(job_ids)
    later = NOW + 11  # all leases ran out

    async def renew(lease: Lease) -> str | None:
        await replicas[1].renew(lease, lease_s=60, now=later)
        return lease.job_id

    async def cancel(job: JobRecord) -> str | None:
        await replicas[2].cancel(job.account_id, job.id, now=later)
        return job.id

    changes = [renew(lease) if n % 2 else cancel(job) for n, (job, lease) in enumerate(first)]
    claims = [
        replicas[n % REPLICAS].claim(f"w{n}", max_jobs=5, lease_s=60, now=later) for n in range(8)
    ]
    results = await asyncio.gather(*changes, *claims, return_exceptions=True)
    done = {each for each in results[: len(changes)] if isinstance(each, str)}
    renewed = {lease.job_id for n, (_, lease) in enumerate(first) if n % 2} & done
    taken = [job for jobs in results[len(changes) :] if isinstance(jobs, list) for job, _ in jobs]
    for job in taken:
        stored = await replicas[0].job(job.account_id, job.id)
        # A job is claimed before its cancellation or renewal, never after.
        assert stored.state is JobStatus.CANCELLED or job.id not in renewed
    assert len({job.id for job in taken}) == len(taken)


async def test_one_idempotency_key_starts_one_job(replicas: list[Store]) -> None:
    await accounts(replicas[0])
    for attempt in range(50):
        key = IdempotencyKey(f"key-{attempt}", "body")
        results = await asyncio.gather(
            *(store.accept(new_job(), key=key, now=NOW) for store in replicas)
        )
        assert len({job.id for job, _ in results}) == 1
        assert sum(is_new for _, is_new in results) == 1
    assert len(await replicas[0].jobs(ALICE, limit=1000)) == 50


async def test_a_cap_holds_over_replicas(replicas: list[Store]) -> None:
    await replicas[0].accounts.add("a", "Alice", Terms("team", None, 8), now=NOW)
    for _ in range(5):
        results = await asyncio.gather(
            *(replicas[n % REPLICAS].accept(new_job("a"), now=NOW) for n in range(24)),
            return_exceptions=True,
        )
        started = [result[0] for result in results if isinstance(result, tuple)]
        refused = [result for result in results if isinstance(result, ConcurrencyReached)]
        assert (len(started), len(refused)) == (8, 16)
        assert await replicas[1].active_jobs() == 8
        await asyncio.gather(
            *(replicas[n % REPLICAS].cancel("a", job.id, now=NOW) for n, job in enumerate(started))
        )


async def test_credits_are_exact_after_jobs_that_end_together(
    replicas: list[Store],
) -> None:
    await replicas[0].accounts.add("a", "Alice", Terms("team", 100_000, 64), now=NOW)
    for _ in range(3):
        jobs = [new_job("a", max_charges=(Charge("crawl", "page", 5),)) for _ in range(16)]
        await asyncio.gather(*(replicas[n % 4].accept(job, now=NOW) for n, job in enumerate(jobs)))
        claimed = await replicas[0].claim("w", max_jobs=16, lease_s=60, now=NOW)

        async def finish(number: int, lease: Lease) -> None:
            rows = tuple(
                replace(entry(n, position=n), charged=("page",)) for n in range(number % 5 + 1)
            )
            await replicas[number % REPLICAS].finish(
                lease, JobStatus.COMPLETED, error=None, batch=CommitBatch(entries=rows), now=NOW
            )

        await asyncio.gather(*(finish(n, lease) for n, (_, lease) in enumerate(claimed)))
    usage = await replicas[1].accounts.usage("a", now=NOW)
    ledger = await replicas[2].accounts.ledger("a")
    jobs_seen = await replicas[3].jobs("a", limit=100)
    assert usage.active == 0
    assert sum(job.credits or 0 for job in jobs_seen) == sum(line.credits for line in ledger) > 0
    assert usage.account.balance.left == sum(line.monthly + line.topup for line in ledger)
    assert [line.number for line in ledger] == list(range(1, len(ledger) + 1))


async def test_commits_of_a_job_are_applied_in_order(replicas: list[Store]) -> None:
    await accounts(replicas[0])
    jobs = [new_job() for _ in range(8)]
    for job in jobs:
        await replicas[0].accept(job, now=NOW)
    claimed = await replicas[0].claim("w", max_jobs=8, lease_s=60, now=NOW)

    async def write(lease: Lease, batch: CommitBatch) -> None:
        await replicas[0].commit(lease, batch)

    # Each page is stored by one batch and published by a later one; none is awaited in between.
    batches = [
        batch
        for n in range(60)
        for batch in (
            CommitBatch(
                entries=(entry(n),), url_outcomes=(UrlOutcome(f"http://x/{n}", "fetched", ""),)
            ),
            CommitBatch(published=((n, n),)),
        )
    ]
    await asyncio.gather(*(write(lease, batch) for batch in batches for _, lease in claimed))
    for job in jobs:
        stored = await replicas[1].job(ALICE, job.id)
        assert stored.published == 60
        assert len(await replicas[1].rows(ALICE, job.id, start=0, count=100)) == 60
        assert (await replicas[2].receipt(job.id, examples=0)).counts == {"fetched": 60}


async def test_jobs_that_commit_at_once_do_not_fail(replicas: list[Store]) -> None:
    """Starts, commits and ends of 16 jobs at four replicas; accounts and URLs are shared."""
    await start_jobs(replicas, 16)
    claimed = await replicas[0].claim("w", max_jobs=16, lease_s=60, now=NOW)

    async def crawl(number: int, lease: Lease) -> None:
        store = replicas[number % REPLICAS]
        batches = [
            CommitBatch(
                entries=(entry(n),),
                published=((n, n),),
                url_outcomes=(UrlOutcome(f"http://x/{n}", "fetched"), UrlOutcome("http://x", "ok")),
            )
            for n in range(40)
        ]
        await asyncio.gather(*(store.commit(lease, batch) for batch in batches))
        other = replicas[(number + 1) % REPLICAS]
        await other.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
        await other.accept(new_job(f"account-{(number + 3) % MANY_ACCOUNTS}"), now=NOW)

    await asyncio.gather(*(crawl(n, lease) for n, (_, lease) in enumerate(claimed)))
    for job, _ in claimed:
        stored = await replicas[0].job(job.account_id, job.id)
        assert (stored.state, stored.published) == (JobStatus.COMPLETED, 40)
        counts = (await replicas[0].receipt(job.id, examples=0)).counts
        assert counts == {"fetched": 40, "ok": 1}


async def test_no_lease_is_stolen_by_a_process_with_another_clock(
    replicas: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    [job_id] = await start_jobs(replicas, 1)
    [(_, lease)] = await replicas[0].claim("w", lease_s=15, now=replicas[0].now())
    wall_clock = time.time
    for offset_s in (300.0, -300.0):
        monkeypatch.setattr(time, "time", lambda offset_s=offset_s: wall_clock() + offset_s)
        assert await replicas[1].claim("late", lease_s=15, now=replicas[1].now()) == []
        assert abs(replicas[1].now() - wall_clock()) < 5
        await replicas[0].renew(lease, lease_s=15, now=replicas[0].now())
        assert await replicas[2].claim("later", lease_s=15, now=replicas[2].now()) == []
    await replicas[0].commit(lease, CommitBatch(entries=(entry(0, position=0),)))
    assert (await replicas[0].job("account-0", job_id)).published == 1


async def test_a_delivery_is_taken_once(replicas: list[Store]) -> None:
    request = {"url": "http://x/", "webhook_url": "https://hooks.test/secret"}
    await start_jobs(replicas, 60, request=request, context={WEBHOOK_CONTEXT: {"profile": "A"}})
    claimed = await replicas[0].claim("w", max_jobs=60, lease_s=60, now=NOW)
    for _, lease in claimed:
        await replicas[0].finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
    endpoints = await replicas[0].outbox.due(now=NOW)

    async def take_all(store: Store, endpoint: DueEndpoint) -> list[str]:
        taken = []
        while (delivery := await store.outbox.take(endpoint, lease_s=60, now=NOW)) is not None:
            taken.append(delivery.id)
        return taken

    taken = await asyncio.gather(
        *(take_all(store, endpoint) for endpoint in endpoints for store in replicas)
    )
    ids = [delivery_id for part in taken for delivery_id in part]
    assert len(ids) == len(set(ids)) == 60


async def test_lanes_of_an_endpoint_are_counted_over_replicas(replicas: list[Store]) -> None:
    await accounts(replicas[0])
    context = {WEBHOOK_CONTEXT: {"profile": "A"}}
    request = {"url": "http://x/", "webhook_url": "https://hooks.test/secret"}
    for _ in range(12):
        await replicas[0].accept(new_job(request=request, context=context), now=NOW)
    for _, lease in await replicas[0].claim("w", max_jobs=12, lease_s=60, now=NOW):
        await replicas[0].finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
    [endpoint] = await replicas[0].outbox.due(now=NOW)
    assert endpoint.count == LANES_PER_ENDPOINT
    taken = await asyncio.gather(
        *(replicas[n % REPLICAS].outbox.take(endpoint, lease_s=60, now=NOW) for n in range(16))
    )
    assert sum(delivery is not None for delivery in taken) == LANES_PER_ENDPOINT


async def test_exclusive_work_is_done_by_one_replica(replicas: list[Store]) -> None:
    first, second = replicas[:2]
    async with first.exclusive("sweep") as is_first:
        assert is_first
        async with second.exclusive("sweep") as is_second, second.exclusive("other") as is_other:
            assert (is_second, is_other) == (False, True)
    async with second.exclusive("sweep") as is_second:
        assert is_second


async def test_exclusive_work_is_free_when_its_block_ends(
    replicas: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may notice the end of a connection late."""
    open_connections: list[psycopg.Connection[Any]] = []

    def keep_open(connection: psycopg.Connection[Any]) -> None:
        open_connections.append(connection)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "close", keep_open)
        for replica in replicas[:2]:
            async with replica.exclusive("sweep") as is_first:
                assert is_first
    for connection in open_connections:
        connection.close()


async def cancel_while_connecting(database: PostgresDatabase) -> None:
    """Cancel exclusive work while its thread connects."""

    async def enter() -> None:
        async with database.exclusive("sweep"):
            raise AssertionError("cancelled before")

    entering = asyncio.create_task(enter())
    await asyncio.sleep(0)  # its thread starts
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering


async def test_a_caller_that_is_cancelled_holds_no_lock(
    replicas: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = replicas[0].database
    assert isinstance(database, PostgresDatabase)
    connect, opened = database._connect, []

    def open_and_keep() -> Any:
        opened.append(connect())
        return opened[0]

    monkeypatch.setattr(database, "_connect", open_and_keep)
    await cancel_while_connecting(database)
    async with asyncio.timeout(120):
        while not (opened and opened[0].closed):  # noqa: ASYNC110 - a thread closes it
            await asyncio.sleep(0.01)


async def test_closing_a_store_closes_the_connection_of_a_cancelled_lock(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    is_cancelled = threading.Event()

    async with open_postgres(postgres_server, tmp_path) as store:
        database = store.database
        assert isinstance(database, PostgresDatabase)
        connect = database._connect

        def connect_late() -> Any:
            is_cancelled.wait()
            opened.append(connect())
            return opened[0]

        monkeypatch.setattr(database, "_connect", connect_late)
        await cancel_while_connecting(database)
        is_cancelled.set()
    assert [connection.closed for connection in opened] == [True]


async def test_a_killed_session_releases_its_lock(
    postgres_server: PostgresServer, replicas: list[Store]
) -> None:
    async with replicas[0].exclusive("work") as is_first:
        assert is_first
        with psycopg.connect(postgres_server.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE 'SELECT pg_try_advisory_lock%' AND state = 'idle'"
            )
        async with asyncio.timeout(60):
            while True:
                async with replicas[1].exclusive("work") as is_second:
                    if is_second:
                        break
                await asyncio.sleep(0.05)
    async with replicas[0].exclusive("work") as is_first:
        assert is_first


async def test_one_replica_clears_the_store_at_a_time(
    replicas: list[Store], tmp_path: Path
) -> None:
    first, second = replicas[:2]
    await accounts(first)
    job, _ = await first.accept(new_job(), now=NOW)
    await first.cancel(ALICE, job.id, now=NOW)
    spool = SpoolDirectory(tmp_path / "spool")
    (tmp_path / "spool" / job.id).mkdir(parents=True)
    async with SqliteTextIndex(tmp_path / "index.sqlite") as index:
        late = NOW + 1e9
        janitor = Janitor(
            second, index, spool, retention=Retention(48, 720, 2160), clock=lambda: late
        )
        async with first.exclusive("janitor"):
            await janitor.sweep()
            assert [each.id for each in await first.jobs(ALICE, limit=9)] == [job.id]
            assert spool.job_ids() == []  # its own files
        await janitor.sweep()
    assert await first.jobs(ALICE, limit=9) == []


async def test_a_name_is_given_to_one_account(replicas: list[Store]) -> None:
    terms = Terms("team", 10, 2)
    results = await asyncio.gather(
        *(
            store.accounts.add(f"id-{n}", "Alice", terms, now=NOW)
            for n, store in enumerate(replicas)
        ),
        return_exceptions=True,
    )
    assert sum(result is None for result in results) == 1
    assert {str(result).split(";")[0] for result in results if result is not None} == {
        "there is an account named 'Alice' already"
    }


@pytest.mark.slow
async def test_a_store_outlives_a_crash_of_the_server(tmp_path: Path) -> None:
    with postgres.running() as server:
        async with open_postgres(server, tmp_path) as store:
            await accounts(store)
            await store.accept(new_job(), now=NOW)
            [(job, lease)] = await store.claim("w", lease_s=60, now=NOW)
            await store.commit(lease, CommitBatch(entries=(entry(0, position=0),)))
            server.stop("immediate")
            for operation in (
                store.commit(lease, CommitBatch(entries=(entry(1, position=1),))),
                store.job(ALICE, job.id),
            ):
                with pytest.raises(StoreUnavailable) as raised:
                    await operation
                assert server.password not in str(raised.value)
            server.start()
            batch = CommitBatch(entries=(entry(1, position=1),))
            async with asyncio.timeout(60):  # for the next attempt to connect
                await StoreRetry().run(lambda: store.commit(lease, batch))
            assert len(await store.rows(ALICE, job.id, start=0, count=9)) == 2
