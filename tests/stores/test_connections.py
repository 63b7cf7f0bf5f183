"""Connections to PostgreSQL that fail, are closed, or ran a transaction that was refused."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.stores.conftest import open_postgres
from tests.stores.jobs import ALICE, NOW, accepted, accounts, claimed, entry, new_job
from webdata_nb.service.errors import ConcurrencyReached, LeaseLost
from webdata_nb.service.ledger import Terms
from webdata_nb.service.store.records import CommitBatch, Lease
from webdata_nb.service.store.sql.store import Store


@pytest.fixture
async def store(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_postgres(postgres_server, tmp_path) as opened:
        await accounts(opened)
        yield opened


@pytest.fixture
async def lease(store: Store) -> Lease:
    """Return the lease of a running job."""
    await accepted(store)
    return (await claimed(store))[1]


class TestRefusedTransactions:
    """Each of few connections runs commits and refused transactions, in every order."""

    async def test_commits_between_lost_leases(self, store: Store, lease: Lease) -> None:
        old = Lease(lease.job_id, "another worker", lease.attempt)

        async def refuse() -> None:
            with pytest.raises(LeaseLost):
                await store.commit(old, CommitBatch(entries=(entry(1000),)))

        await commit_between(store, lease, refuse)

    async def test_commits_between_refused_starts(self, store: Store, lease: Lease) -> None:
        await store.accounts.set_terms("Alice", Terms("team", 1000, 1), now=NOW)

        async def refuse() -> None:
            with pytest.raises(ConcurrencyReached):
                await store.accept(new_job(ALICE), now=NOW)

        await commit_between(store, lease, refuse)


async def commit_between(store: Store, lease: Lease, refuse: Callable[[], Awaitable[None]]) -> None:
    chance = random.Random(1)
    for ordinal in range(30):
        for _ in range(chance.randrange(3)):
            await refuse()
        await store.commit(lease, CommitBatch(entries=(entry(ordinal),)))
    assert len(await store.journal(lease.job_id)) == 30
