"""The processes of a store: who is alive, by the store's clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from webdata_nb.service.store.interface import Store
from webdata_nb.service.store.records import LIVE_S, Replica
from webdata_nb.service.store.sql.store import SqlStore

FIRST = Replica("1", "first", 16, 1.0)
SECOND = Replica("2", "second", 4, 2.0)


@pytest.fixture
def at(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return what sets the store's clock."""

    def set_clock(now: float) -> None:
        monkeypatch.setattr(store.database, "now", lambda: now)

    return set_clock


class TestReplicas:
    async def test_replicas_join_and_leave(self, store: Store) -> None:
        replicas = store.replicas
        assert replicas.count() == 1
        await replicas.join(SECOND)
        await replicas.join(FIRST)
        assert await replicas.live() == [FIRST, SECOND]
        assert replicas.count() == 2
        await replicas.leave(FIRST)
        assert await replicas.live() == [SECOND]

    async def test_a_replica_without_heartbeats_is_dead(
        self, store: Store, at: Callable[[float], None]
    ) -> None:
        replicas = store.replicas
        at(1000.0)
        await replicas.join(FIRST)
        await replicas.join(SECOND)
        at(1000.0 + LIVE_S / 2)
        await replicas.heartbeat(FIRST)
        at(1001.0 + LIVE_S)
        assert await replicas.live() == [FIRST]
        await replicas.heartbeat(SECOND)
        assert await replicas.live() == [FIRST, SECOND]

    async def test_the_count_falls_only_after_a_while(
        self, store: Store, at: Callable[[float], None]
    ) -> None:
        replicas = store.replicas
        at(1000.0)
        await replicas.join(FIRST)
        await replicas.join(SECOND)
        await replicas.leave(FIRST)  # as a crash of the database does
        at(1001.0)
        await replicas.heartbeat(SECOND)
        assert replicas.count() == 2
        at(1001.0 + LIVE_S)
        await replicas.heartbeat(SECOND)
        assert replicas.count() == 1

    async def test_a_replica_that_starts_again_replaces_the_killed_one(self, store: Store) -> None:
        await store.replicas.join(FIRST)
        again = Replica("3", FIRST.name, 8, 3.0)
        await store.replicas.join(again)
        assert await store.replicas.live() == [again]
