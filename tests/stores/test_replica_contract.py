"""The processes of a store: who is alive, by the store's clock."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest

from tests.stores.jobs import NOW, entry, new_job
from webdata_nb.service.errors import LeaseLost
from webdata_nb.service.store.records import LIVE_S, CommitBatch, Replica
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.work import runner

FIRST = Replica("1", "first", 16, 1.0)
SECOND = Replica("2", "second", 4, 2.0)


def open_membership(store: Store, name: str, id_file: Path) -> runner.Membership:
    return runner.Membership(
        store.replicas, name, 16, kind="serve", id_file=id_file, now=store.now()
    )


@pytest.fixture
def at(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
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

    async def test_a_replica_continues_the_jobs_of_its_killed_process_at_once(
        self, store: Store, tmp_path: Path
    ) -> None:
        await start_jobs(store, {"alice": 2})
        for attempt in (1, 2):  # each process is killed after its claim
            process = open_membership(store, "first", tmp_path / "id")
            await process.refresh()
            jobs = await store.claim(process.replica.id, max_jobs=9, lease_s=15, now=NOW)
            assert [job.attempts_since_progress for job, _ in jobs] == [attempt] * 2

    async def test_jobs_of_others_keep_their_leases_when_a_replica_starts(
        self, store: Store, tmp_path: Path
    ) -> None:
        await start_jobs(store, {"alice": 2})
        claims = []
        for name in ("first", "second"):
            process = open_membership(store, name, tmp_path / name)
            await process.refresh()
            claims += await store.claim(process.replica.id, max_jobs=9, lease_s=15, now=NOW)
        assert len(claims) == 2

    async def test_an_unreadable_id_file_is_as_none(self, store: Store, tmp_path: Path) -> None:
        file = tmp_path / "id"
        for content in (b"", b"\xff"):
            file.write_bytes(content)
            await open_membership(store, "first", file).refresh()
        await open_membership(store, "first", tmp_path / "missing" / "id").refresh()
        assert [each.name for each in await store.replicas.live()] == ["first"]


class TestFairShares:
    async def test_two_live_replicas_of_one_name_are_warned_of_once(
        self,
        store: Store,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(runner, "HEARTBEAT_S", 0.0)
        killed, first, second = (
            open_membership(store, "same", tmp_path / str(number)) for number in range(3)
        )
        other = open_membership(store, "other", tmp_path / "other")
        await killed.refresh()
        for _ in range(3):
            await first.refresh()
            await other.refresh()
        assert caplog.messages == []
        for _ in range(3):
            await second.refresh()
            await first.refresh()
            await other.refresh()
        assert len(caplog.messages) == 2
        assert all("another live replica is named same too" in each for each in caplog.messages)

    async def test_a_replica_leaves_work_to_those_that_wait(self, store: Store) -> None:
        await start_jobs(store, {"alice": 10})
        await store.replicas.join(FIRST)
        await store.replicas.join(SECOND)
        first = await claim(store, FIRST, max_jobs=16)
        assert len(first) == 6
        assert await claim(store, FIRST, max_jobs=10, held_jobs=first) == []
        assert len(await claim(store, SECOND, max_jobs=4)) == 4

    async def test_one_replica_alone_takes_all_jobs(
        self, store: Store, at: Callable[[float], None]
    ) -> None:
        at(1000.0)
        await start_jobs(store, {"alice": 10})
        await store.replicas.join(SECOND)
        at(1001.0 + LIVE_S)  # the second is dead
        await store.replicas.join(FIRST)
        assert len(await claim(store, FIRST, max_jobs=16)) == 10

    async def test_a_replica_that_has_paused_takes_no_share(self, store: Store) -> None:
        # Its jobs run in Dask workers, until it runs them itself again.
        await start_jobs(store, {"alice": 4})
        await store.replicas.join(FIRST)
        await store.replicas.join(SECOND)
        await store.replicas.heartbeat(replace(FIRST, slots=0))
        second = await claim(store, SECOND, max_jobs=4)
        assert len(second) == 4
        await start_jobs(store, {"bob": 2})
        await store.replicas.heartbeat(FIRST)
        assert await claim(store, SECOND, max_jobs=4, held_jobs=second) == []
        assert len(await claim(store, FIRST, max_jobs=16)) == 2

    async def test_replicas_use_all_slots_while_more_jobs_wait(self, store: Store) -> None:
        await start_jobs(store, {"alice": 22, "bob": 1})
        await store.replicas.join(FIRST)
        await store.replicas.join(SECOND)
        first = await claim(store, FIRST, max_jobs=16, spare_jobs=8)
        assert len(first) == 16
        assert len(await claim(store, SECOND, max_jobs=4, spare_jobs=2)) == 4

    async def test_accounts_take_turns_over_replicas(self, store: Store) -> None:
        jobs = await start_jobs(store, {"alice": 6, "bob": 2, "carol": 1})
        await store.replicas.join(SECOND)
        third = Replica("3", "third", 4, 3.0)
        await store.replicas.join(third)
        names = {job_id: name for name, ids in jobs.items() for job_id in ids}
        turns = [await claim(store, SECOND, max_jobs=2), await claim(store, third, max_jobs=4)]
        assert [sorted(names[job_id] for job_id in turn) for turn in turns] == [
            ["alice", "bob"],
            ["alice", "alice", "bob", "carol"],
        ]

    async def test_a_worker_cannot_write_to_a_job_that_it_released(self, store: Store) -> None:
        await start_jobs(store, {"alice": 1})
        [(_, lease)] = await store.claim("w", lease_s=60, now=NOW)
        await store.release("w")
        with pytest.raises(LeaseLost):
            await store.renew(lease, lease_s=60, now=NOW)
        with pytest.raises(LeaseLost):
            await store.commit(lease, CommitBatch(entries=(entry(0),)))


async def start_jobs(store: Store, counts: dict[str, int]) -> dict[str, list[str]]:
    """Start jobs of each account, one account after the other."""
    started: dict[str, list[str]] = {}
    for number, (name, count) in enumerate(counts.items()):
        await store.accounts.ensure(name, name, now=NOW)
        jobs = [new_job(name) for _ in range(count)]
        for job in jobs:
            await store.accept(job, now=NOW + number)
        started[name] = [job.id for job in jobs]
    return started


async def claim(
    store: Store,
    replica: Replica,
    *,
    max_jobs: int,
    spare_jobs: int = 0,
    held_jobs: Collection[str] = (),
) -> list[str]:
    jobs = await store.claim(
        replica.id,
        max_jobs=max_jobs,
        spare_jobs=spare_jobs,
        held_jobs=held_jobs,
        lease_s=60,
        now=NOW,
    )
    return [job.id for job, _ in jobs]
