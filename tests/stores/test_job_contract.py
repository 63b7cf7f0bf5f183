"""The contract of `JobStore`, `JobQueue` and `JobQueue`, on every store."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace

import pytest

from tests.stores.jobs import ALICE, BOB, NOW, accepted, accounts, claimed, entry, new_job
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.errors import (
    IdempotencyConflict,
    InvalidJobState,
    LeaseLost,
    MissingRows,
    NoSuchJob,
)
from webdata_nb.service.observability.logs import EVENTS
from webdata_nb.service.store.records import (
    Checkpoint,
    CommitBatch,
    CrawlState,
    IdempotencyKey,
    UnindexedRow,
    UrlOutcome,
)
from webdata_nb.service.store.sql.connection import QUEUE_LANE, Transaction
from webdata_nb.service.store.sql.jobs import key_digest
from webdata_nb.service.store.sql.store import Store


class TestJobContract:
    async def test_accepted_job_is_pending_and_keeps_its_request(self, store: Store) -> None:
        await accounts(store)
        wanted = new_job(request={"url": "http://x/", "max_pages": 3}, context={"proxy": None})
        job, new = await store.accept(wanted, now=NOW)
        assert new
        assert (job.state, job.created_at, job.attempt) == (JobStatus.PENDING, NOW, 0)
        assert job.request == {"url": "http://x/", "max_pages": 3}
        assert await store.job(ALICE, job.id) == job

    async def test_job_of_another_account_is_unknown(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        for account_id, job_id in ((BOB, job.id), (ALICE, "nowhere")):
            with pytest.raises(NoSuchJob) as raised:
                await store.job(account_id, job_id)
            assert str(raised.value) == "no such job"
            with pytest.raises(NoSuchJob):
                await store.cancel(account_id, job_id, now=NOW)
        assert await store.rows(BOB, job.id, start=0, count=10) == []
        assert (await store.job(ALICE, job.id)).state is JobStatus.PENDING

    async def test_jobs_are_listed_newest_first_by_account_and_page(self, store: Store) -> None:
        await accounts(store)
        mine = [await accepted(store, now=NOW + i) for i in range(5)]
        await accepted(store, BOB)
        first = await store.jobs(ALICE, limit=2)
        assert [job.id for job in first] == [mine[4].id, mine[3].id]
        rest = await store.jobs(ALICE, limit=9, before=(first[-1].created_at, first[-1].id))
        assert [job.id for job in rest] == [job.id for job in reversed(mine[:3])]

    async def test_an_idempotency_key_replays_refuses_and_expires(self, store: Store) -> None:
        await accounts(store)
        key = IdempotencyKey("k", "body-1")
        first, new = await store.accept(new_job(), key=key, now=NOW)
        again, fresh = await store.accept(new_job(), key=key, now=NOW + 60)
        assert (again.id, new, fresh) == (first.id, True, False)
        with pytest.raises(IdempotencyConflict):
            await store.accept(new_job(), key=IdempotencyKey("k", "body-2"), now=NOW + 60)
        other, fresh = await store.accept(new_job(BOB), key=key, now=NOW + 60)
        assert fresh
        assert other.id != first.id
        later, fresh = await store.accept(new_job(), key=key, now=NOW + 25 * 3600)
        assert fresh
        assert later.id != first.id

    async def test_an_idempotency_key_is_stored_as_its_digest(self, store: Store) -> None:
        await accounts(store)
        key = IdempotencyKey("order 4711 of jane@example.org", "body")
        await store.accept(new_job(), key=key, now=NOW)
        assert isinstance(store, Store)
        query = {"account_id": ALICE, "since": 0.0}
        assert await store.database.read("idempotent", **query, key=key.key) == []
        digest = key_digest(ALICE, key.key)
        assert len(await store.database.read("idempotent", **query, key=digest)) == 1

    async def test_simultaneous_starts_under_one_key_make_one_job(self, store: Store) -> None:
        await accounts(store)
        key = IdempotencyKey("k", "body")
        answers = await asyncio.gather(
            *[store.accept(new_job(), key=key, now=NOW) for _ in range(20)]
        )
        assert len({job.id for job, _ in answers}) == 1
        assert sum(new for _, new in answers) == 1

    async def test_jobs_are_claimed_oldest_first_and_once(self, store: Store) -> None:
        await accounts(store)
        jobs = [await accepted(store, now=NOW + i) for i in range(3)]
        claims = [await claimed(store, f"w{i}", now=NOW + 9) for i in range(3)]
        assert [job.id for job, _ in claims] == [job.id for job in jobs]
        assert await store.claim("w9", lease_s=10, now=NOW + 9) == []
        assert {job.state for job, _ in claims} == {JobStatus.RUNNING}

    async def test_claim_returns_at_most_max_jobs(self, store: Store) -> None:
        await accounts(store)
        jobs = [await accepted(store, now=NOW + i) for i in (3, 1, 2)]
        first = await store.claim("w1", max_jobs=2, lease_s=10, now=NOW + 9)
        assert [job.id for job, _ in first] == [jobs[1].id, jobs[2].id]
        rest = await store.claim("w2", max_jobs=5, lease_s=10, now=NOW + 9)
        assert [(job.id, lease.worker, lease.attempt) for job, lease in rest] == [
            (jobs[0].id, "w2", 1)
        ]

    async def test_claims_take_turns_between_accounts(self, store: Store) -> None:
        await accounts(store)
        await store.accounts.ensure("carol", "Carol", now=NOW)
        alices = [await accepted(store, ALICE, now=NOW + i) for i in range(6)]
        bobs = [await accepted(store, BOB, now=NOW + 10 + i) for i in range(2)]
        carols = await accepted(store, "carol", now=NOW + 20)
        order = [alices[0], bobs[0], carols, alices[1], bobs[1], *alices[2:]]
        held: list[str] = []
        for most in (1, 1, 1, 2, 1, 1, 1, 1):  # running ones count as turns taken
            found = await store.claim("w", max_jobs=most, held_jobs=held, lease_s=99, now=NOW + 30)
            held += [job.id for job, _ in found]
            expected = [order.pop(0) for _ in range(most)]
            assert {job.id for job, _ in found} == {job.id for job in expected}
        assert order == []

    async def test_spare_jobs_are_for_accounts_without_a_job(self, store: Store) -> None:
        await accounts(store)
        await store.accounts.ensure("carol", "Carol", now=NOW)
        for _ in range(4):
            await accepted(store, ALICE)
        first = await store.claim("w", max_jobs=2, spare_jobs=3, lease_s=99, now=NOW)
        held = [job.id for job, _ in first]
        assert [job.account_id for job, _ in first] == [ALICE, ALICE]
        for name in (BOB, BOB, "carol"):
            await accepted(store, name, now=NOW + 1)
        assert await store.claim("w", max_jobs=0, held_jobs=held, lease_s=99, now=NOW + 2) == []
        found = await store.claim(
            "w", max_jobs=0, spare_jobs=3, held_jobs=held, lease_s=99, now=NOW + 2
        )
        assert {job.account_id for job, _ in found} == {BOB, "carol"}
        held += [job.id for job, _ in found]
        assert (
            await store.claim(
                "w", max_jobs=0, spare_jobs=1, held_jobs=held, lease_s=99, now=NOW + 2
            )
            == []
        )
        [(one, _)] = await store.claim("w", max_jobs=1, held_jobs=held, lease_s=99, now=NOW + 2)
        assert one.account_id == BOB

    async def test_claim_after_accept_finds_the_job(self, store: Store) -> None:
        await accounts(store)
        wanted = new_job()
        _, claims = await asyncio.gather(
            store.accept(wanted, now=NOW), store.claim("w", lease_s=10, now=NOW)
        )
        assert [job.id for job, _ in claims] == [wanted.id]

    async def test_expired_lease_is_claimed_again_and_fences_the_first_worker(
        self, store: Store
    ) -> None:
        await accounts(store)
        job = await accepted(store)
        _, old = await claimed(store, "w1", now=NOW)
        await store.renew(old, lease_s=10, now=NOW + 5)
        assert await store.claim("w2", lease_s=10, now=NOW + 14) == []
        taken, new = await claimed(store, "w2", now=NOW + 16)
        assert (taken.id, taken.attempt, taken.started_at) == (job.id, 2, NOW)
        for write in (
            store.renew(old, lease_s=10, now=NOW + 17),
            store.commit(old, CommitBatch(entries=(entry(0, position=0),))),
            store.finish(old, JobStatus.COMPLETED, error=None, now=NOW + 17),
        ):
            with pytest.raises(LeaseLost):
                await write
        assert await store.journal(job.id) == []
        await store.commit(new, CommitBatch(entries=(entry(0, position=0),)))

    async def test_worker_claims_again_jobs_that_it_holds_and_does_not_run(
        self, store: Store
    ) -> None:
        await accounts(store)
        job = await accepted(store)
        _, old = await claimed(store, "w1", now=NOW)
        held = (job.id, "another")
        for later in (5, 99):
            assert await store.claim("w1", held_jobs=held, lease_s=10, now=NOW + later) == []
        taken, _ = await claimed(store, "w1", now=NOW + 5)
        assert (taken.id, taken.attempt) == (job.id, 2)
        with pytest.raises(LeaseLost):
            await store.renew(old, lease_s=10, now=NOW + 5)

    async def test_a_job_that_ends_while_its_worker_waits_to_claim_is_not_claimed_again(
        self, store: Store
    ) -> None:
        await accounts(store)
        job = await accepted(store)
        assert await store.claim("w", lease_s=99, now=NOW)
        running = {job.id: "task"}
        started, gate = threading.Event(), threading.Event()

        def wait(_: Transaction) -> None:
            started.set()
            assert gate.wait(60)

        writing = asyncio.create_task(store.database.change(wait, lane=QUEUE_LANE))
        assert await asyncio.to_thread(started.wait, 60)
        claiming = asyncio.create_task(
            store.claim("w", held_jobs=running.keys(), lease_s=99, now=NOW + 1)
        )
        releasing = asyncio.create_task(store.release("w", held_jobs=running.keys()))
        await asyncio.sleep(0.05)
        running.clear()
        gate.set()
        await asyncio.gather(writing, releasing)
        assert await claiming == []
        assert await store.claim("w2", lease_s=99, now=NOW + 1) == []

    async def test_progress_resets_the_count_of_attempts(self, store: Store) -> None:
        await accounts(store)
        await accepted(store)
        progress = (
            CommitBatch(entries=(entry(0),)),
            CommitBatch(updates=(entry(0, page=b'"more"'),)),
            CommitBatch(published=((0, 0),)),
            CommitBatch(url_outcomes=(UrlOutcome("http://x/", "fetched"),)),
        )
        for batch in progress:
            for attempts in (1, 2, 3):
                job, lease = await claimed(store)
                assert job.attempts_since_progress == attempts
                await store.renew(lease, lease_s=10, now=NOW)
                await store.commit(
                    lease, CommitBatch(total=5, completed=2)
                )  # says something, is nothing
            await store.commit(lease, batch)
            job = await store.job(ALICE, job.id)
            assert job.attempts_since_progress == 0

    async def test_repeated_batch_is_no_progress(self, store: Store) -> None:
        await accounts(store)
        await accepted(store)
        batch = CommitBatch(
            entries=(entry(0, position=0),), url_outcomes=(UrlOutcome("http://x/", "fetched"),)
        )
        for _ in range(2):
            job, lease = await claimed(store)
            await store.commit(lease, batch)
        assert (await store.job(ALICE, job.id)).attempts_since_progress == 1

    async def test_released_jobs_do_not_count_as_attempts(self, store: Store) -> None:
        await accounts(store)
        for number in range(3):
            await accepted(store, now=NOW + number)
        await store.claim("w1", max_jobs=2, lease_s=10, now=NOW)
        await claimed(store, "w2")
        await store.release("w1")
        found = await store.claim("w3", max_jobs=9, lease_s=10, now=NOW + 1)
        assert [(job.attempt, job.attempts_since_progress) for job, _ in found] == [(2, 1)] * 2

    async def test_suspect_jobs_run_one_at_a_time(self, store: Store) -> None:
        await accounts(store)
        bad = [(await accepted(store, now=NOW + number)).id for number in range(3)]
        for crash in range(2):  # of the service, with all that it runs
            assert len(await store.claim(f"w{crash}", max_jobs=9, lease_s=10, now=NOW)) == 3
            await store.expire_leases()
        fresh = (await accepted(store, now=NOW + 9)).id
        for crash in range(3):
            found = await store.claim(f"w{crash}", max_jobs=9, lease_s=10, now=NOW + 9)
            assert [job.id for job, _ in found] == [bad[0], fresh]
            await store.commit(found[1][1], CommitBatch(entries=(entry(crash),)))
            held = [job.id for job, _ in found]
            assert await store.claim(f"w{crash}", held_jobs=held, lease_s=10, now=NOW + 9) == []
            await store.expire_leases()
        [(job, lease)] = await store.claim("w9", lease_s=10, now=NOW + 9)
        assert (job.id, job.attempts_since_progress) == (bad[0], 6)
        await store.finish(lease, JobStatus.FAILED, error="given up", now=NOW + 9)
        found = await store.claim("w9", max_jobs=9, lease_s=10, now=NOW + 9)
        assert [job.id for job, _ in found] == [bad[1], fresh]
        await store.commit(found[0][1], CommitBatch(entries=(entry(0),)))  # it was not to blame
        assert [
            job.id
            for job, _ in await store.claim(
                "w9", max_jobs=9, held_jobs=(bad[1], fresh), lease_s=10, now=NOW + 9
            )
        ] == [bad[2]]

    async def test_expire_leases_frees_running_jobs(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        await claimed(store, "w1")
        await store.expire_leases()
        taken, _ = await claimed(store, "w2", now=NOW + 1)
        assert taken.id == job.id

    async def test_next_lease_end(self, store: Store) -> None:
        await accounts(store)
        for number in range(4):
            await accepted(store, now=NOW + number)
        assert await store.next_lease_end("me", after=NOW) is None
        for number, worker in enumerate(("me", "released", "w2", "w3")):
            await claimed(store, worker, now=NOW + number)
        await store.release("released")
        ends = NOW + 2 + 10
        assert await store.next_lease_end("me", after=NOW) == ends
        assert await store.next_lease_end("me", after=ends) == ends + 1
        assert await store.next_lease_end("me", after=ends + 1) is None

    async def test_batch_is_atomic(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        await store.commit(lease, CommitBatch(entries=(entry(0, position=0),)))
        twice = CommitBatch(entries=(entry(1, position=1), entry(2, position=1)), total=9)
        with pytest.raises(Exception, match=r"(?i)unique"):
            await store.commit(lease, twice)
        assert [each.ordinal for each in await store.journal(job.id)] == [0]
        assert (await store.job(ALICE, job.id)).total == 0

    async def test_rows_are_visible_by_position_and_never_replaced(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        await store.commit(lease, CommitBatch(entries=(entry(1, page=b'"late"'),)))
        assert await store.rows(ALICE, job.id, start=0, count=10) == []
        await store.commit(
            lease, CommitBatch(entries=(entry(0, page=b'"first"'),), published=((0, 0), (1, 1)))
        )
        await store.commit(lease, CommitBatch(entries=(entry(0, page=b'"other"'),)))
        assert await store.rows(ALICE, job.id, start=0, count=10) == [b'"first"', b'"late"']
        assert await store.rows(ALICE, job.id, start=1, count=1) == [b'"late"']
        assert (await store.job(ALICE, job.id)).published == 2
        listed = await store.row_summaries(job.id, start=1, count=5)
        assert [(row.position, row.url, row.success) for row in listed] == [(1, "http://x/1", True)]

    async def test_published_count_equals_visible_rows(self, store: Store) -> None:
        await accounts(store)
        await accepted(store)
        job, lease = await claimed(store)
        batches = (
            CommitBatch(entries=(entry(1), entry(0, position=0), entry(2))),
            CommitBatch(published=((1, 1), (2, 2))),
            CommitBatch(published=((1, 1), (2, 2), (0, 0))),  # an attempt that was not sure
            CommitBatch(entries=(entry(3, position=3), entry(1), entry(0, position=0))),
            CommitBatch(entries=(entry(4),), published=((4, 4),)),
        )
        for batch, count in zip(batches, (1, 3, 3, 4, 5), strict=True):
            await store.commit(lease, batch)
            assert (await store.job(ALICE, job.id)).published == count
            assert len(await store.rows(ALICE, job.id, start=0, count=99)) == count

    @pytest.mark.parametrize(
        "batch",
        [
            CommitBatch(published=((0, 1), (7, 2))),
            CommitBatch(published=((1, 3),)),
            CommitBatch(entries=(entry(5, position=1),), published=((9, 2),)),
            CommitBatch(entries=(entry(0, position=1),)),
            CommitBatch(entries=(entry(1, position=1),)),
            CommitBatch(published=((0, 2),)),
            CommitBatch(entries=(entry(5, position=3),), published=((0, 1),)),
            CommitBatch(updates=(entry(0), entry(3))),
            CommitBatch(url_outcomes=(UrlOutcome("http://x/", "fetched"),), updates=(entry(8),)),
        ],
    )
    async def test_batch_with_missing_rows_is_refused(
        self, store: Store, batch: CommitBatch
    ) -> None:
        await accounts(store)
        await accepted(store)
        job, lease = await claimed(store)
        await store.commit(lease, CommitBatch(entries=(entry(0), entry(1, position=0))))
        before = await store.job(ALICE, job.id)
        with pytest.raises(MissingRows):
            await store.commit(lease, batch)
        with pytest.raises(MissingRows):
            await store.finish(lease, JobStatus.COMPLETED, error=None, batch=batch, now=NOW)
        assert await store.job(ALICE, job.id) == before
        assert [each.position for each in await store.journal(job.id)] == [None, 0]
        assert (await store.receipt(job.id, examples=0)).counts == {}

    async def test_visible_row_can_be_updated(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        await store.commit(lease, CommitBatch(entries=(entry(0, position=0),)))
        await store.commit(lease, CommitBatch(updates=(entry(0, page=b'"more"'),), completed=1))
        assert await store.rows(ALICE, job.id, start=0, count=1) == [b'"more"']
        assert (await store.job(ALICE, job.id)).completed == 1

    async def test_the_receipt_counts_each_url_once(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        seen = (
            UrlOutcome("http://x/", "fetched"),
            UrlOutcome("http://y/", "scope"),
            UrlOutcome("http://z/", "scope"),
        )
        await store.commit(lease, CommitBatch(url_outcomes=seen))
        await store.commit(lease, CommitBatch(url_outcomes=(UrlOutcome("http://y/", "fetched"),)))
        receipt = await store.receipt(job.id, examples=1)
        assert receipt.counts == {"fetched": 1, "scope": 2}
        assert receipt.examples == {"fetched": ["http://x/"], "scope": ["http://y/"]}
        assert await store.receipt_page(job.id, start=1, count=5) == list(seen[1:])
        scope = await store.receipt_page(job.id, start=1, count=5, outcome="scope")
        assert scope == [seen[2]]
        assert await store.receipt_entry(job.id, "http://y/") == seen[1]
        assert await store.receipt_entry(job.id, "http://never/") is None

    async def test_fenced_out_worker_does_not_change_the_receipt(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, old = await claimed(store)
        await claimed(store, "w2", now=NOW + 60)
        with pytest.raises(LeaseLost):
            await store.commit(old, CommitBatch(url_outcomes=(UrlOutcome("http://x/", "fetched"),)))
        assert (await store.receipt(job.id, examples=1)).counts == {}

    async def test_pinned_files_are_never_replaced(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        await store.commit(lease, CommitBatch(pinned_files=(("robots:http://x", b"one"),)))
        await store.commit(lease, CommitBatch(pinned_files=(("robots:http://x", b"two"),)))
        assert await store.pinned_files(job.id) == {"robots:http://x": b"one"}

    async def test_terminal_state_is_final(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        last = CommitBatch(entries=(entry(0, position=0),), outcome={"engine_used": "engine_one"})
        snapshot = await store.finish(
            lease, JobStatus.COMPLETED, error=None, batch=last, now=NOW + 3
        )
        ended = await store.job(ALICE, job.id)
        assert (snapshot.job, snapshot.rows) == (ended, (b'{"n":1}',))
        assert (ended.state, ended.finished_at, ended.published) == (
            JobStatus.COMPLETED,
            NOW + 3,
            1,
        )
        assert ended.outcome == {"engine_used": "engine_one"}
        with pytest.raises(InvalidJobState, match="completed"):
            await store.cancel(ALICE, job.id, now=NOW + 4)
        with pytest.raises(LeaseLost):
            await store.finish(lease, JobStatus.FAILED, error="no", now=NOW + 4)
        assert await store.claim("w2", lease_s=1, now=NOW + 99) == []
        assert await store.active_jobs() == 0

    async def test_end_of_an_attempt_can_be_repeated(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, old = await claimed(store, now=NOW)
        _, lease = await claimed(store, now=NOW + 99)
        last = CommitBatch(entries=(entry(0, position=0),))
        for _ in range(2):
            snapshot = await store.finish(
                lease, JobStatus.COMPLETED, error=None, batch=last, now=NOW + 100
            )
            assert snapshot.job == await store.job(ALICE, job.id)
        with pytest.raises(LeaseLost):
            await store.finish(old, JobStatus.COMPLETED, error=None, now=NOW + 101)

    async def test_each_end_is_logged_once_it_is_committed(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, logger=EVENTS)
        await accounts(store)
        completed, pending, running, left = [await accepted(store, now=NOW + n) for n in range(4)]
        _, first = await claimed(store)
        await store.finish(first, JobStatus.COMPLETED, error=None, now=NOW + 3)
        cancels = [store.cancel(ALICE, pending.id, now=NOW + 4) for _ in range(2)]
        await asyncio.gather(*cancels)
        _, second = await claimed(store)
        await store.cancel(ALICE, running.id, now=NOW + 5)
        with pytest.raises(LeaseLost):
            await store.finish(second, JobStatus.FAILED, error="late", now=NOW + 6)
        _, third = await claimed(store)
        # Its caller is cancelled, as at the end of a process.
        ending = asyncio.create_task(store.finish(third, JobStatus.FAILED, error="no", now=NOW + 7))
        await asyncio.sleep(0)
        ending.cancel()
        async with asyncio.timeout(30):
            while len(caplog.records) < 4:  # noqa: ASYNC110 - nothing tells that it is committed
                await asyncio.sleep(0.01)
        fields = [vars(record)["fields"] for record in caplog.records]
        assert [(each["event"], each["job"], each["status"]) for each in fields] == [
            ("job_ended", completed.id, "completed"),
            ("job_ended", pending.id, "cancelled"),
            ("job_ended", running.id, "cancelled"),
            ("job_ended", left.id, "failed"),
        ]

    async def test_finish_returns_rows_only_if_the_batch_has_all(self, store: Store) -> None:
        await accounts(store)
        ends: list[tuple[CommitBatch, CommitBatch]] = [
            (
                CommitBatch(),
                CommitBatch(entries=(entry(1, page=b"2", position=1), entry(0, position=0))),
            ),
            (
                CommitBatch(entries=(entry(0, position=0),)),
                CommitBatch(entries=(entry(1, position=1),)),
            ),
            (
                CommitBatch(entries=(entry(0, position=0),)),
                CommitBatch(entries=(entry(0, position=0),)),
            ),
            (CommitBatch(entries=(entry(0),)), CommitBatch(published=((0, 0),))),
        ]
        snapshots = []
        for before, last in ends:
            await accepted(store)
            _, lease = await claimed(store)
            await store.commit(
                lease, replace(before, url_outcomes=(UrlOutcome("http://x/", "fetched"),))
            )
            look = await store.finish(
                lease, JobStatus.COMPLETED, error=None, batch=last, now=NOW + 3
            )
            assert look.receipt.counts == {"fetched": 1}
            snapshots.append((look.rows, look.job.published))
        assert snapshots == [((b'{"n":1}', b"2"), 2), ((), 2), ((), 1), ((), 1)]

    async def test_cancel_can_be_repeated_and_fences_the_worker(self, store: Store) -> None:
        await accounts(store)
        waiting, running = await accepted(store), await accepted(store, now=NOW + 1)
        await store.cancel(ALICE, waiting.id, now=NOW + 2)
        _, lease = await claimed(store, now=NOW + 2)
        await store.commit(lease, CommitBatch(entries=(entry(0, position=0),)))
        for _ in range(2):
            assert (await store.cancel(ALICE, running.id, now=NOW + 3)).state.terminal
        with pytest.raises(LeaseLost):
            await store.commit(lease, CommitBatch(entries=(entry(1, position=1),)))
        assert len(await store.rows(ALICE, running.id, start=0, count=9)) == 1

    async def test_unindexed_rows_come_with_their_journal(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        assert await store.published_counts() == {}
        page = b'{"url":"http://x/1","title":"One","markdown":"# One","html":"\\u0000<h1>One</h1>"}'
        rows = (entry(0, position=0), entry(1, position=1, success=False, page=page))
        await store.commit(lease, CommitBatch(entries=rows))
        assert await store.published_counts(ALICE) == {job.id: 2}
        assert await store.published_counts(BOB) == {}
        assert [each.id for each in await store.jobs_by_id([job.id, "another"])] == [job.id]
        found = await store.unindexed_rows(job.id, start=1, count=5)
        assert found == [UnindexedRow(1, "http://x/1", "One", "# One", {}, success=False)]

    async def test_many_writers_share_the_store(self, store: Store) -> None:
        await accounts(store)
        jobs = [await accepted(store, now=NOW + i) for i in range(4)]
        leases = [(await claimed(store, f"w{i}", now=NOW + 9))[1] for i in range(4)]
        await asyncio.gather(
            *[
                store.commit(lease, CommitBatch(entries=(entry(n, position=n),)))
                for n in range(50)
                for lease in leases
            ]
        )
        for job in jobs:
            assert (await store.job(ALICE, job.id)).published == 50


class TestCheckpointContract:
    async def test_a_checkpoint_is_stored_and_the_lease_continues(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        assert await store.crawl_state(job.id) is None
        entries = tuple(entry(n, position=n, charged=("page",)) for n in range(3))
        await store.commit(lease, CommitBatch(entries=entries))
        checkpoint = Checkpoint(CrawlState(b"one", 3), pinned_files=(("robots:x", b"r"),))
        for _ in range(2):  # repeated after a commit whose result was lost
            assert await store.pass_checkpoint(lease, checkpoint, now=NOW)
        assert await store.crawl_state(job.id) == CrawlState(b"one", 3)
        assert await store.pinned_files(job.id) == {"robots:x": b"r"}
        await store.commit(lease, CommitBatch(entries=(entry(3, position=3, charged=("page",)),)))
        assert [each.ordinal for each in await store.journal(job.id, start=3)] == [3]
        for _ in range(2):
            assert await store.pass_checkpoint(lease, Checkpoint(None), now=NOW)
        assert await store.crawl_state(job.id) == CrawlState(b"one", 3)
        assert (await store.job(ALICE, job.id)).settled_rows == 4
        ended = await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW + 1)
        assert ended.job.credits == (await store.job(ALICE, job.id)).credits == 4
        usage = await store.accounts.usage(ALICE, now=NOW + 1)
        assert [(used.operation, used.units) for used in usage.used] == [("page", 4)]
        assert await store.crawl_state(job.id) is None

    async def test_a_job_returns_to_the_queue_behind_those_that_wait(self, store: Store) -> None:
        await accounts(store)
        first = await accepted(store)
        _, lease = await claimed(store)
        second = await accepted(store, now=NOW + 1)
        assert not await store.pass_checkpoint(
            lease, Checkpoint(CrawlState(b"one", 0)), now=NOW + 2
        )
        assert (await store.job(ALICE, first.id)).state is JobStatus.PENDING
        for write in (
            store.commit(lease, CommitBatch(total=1)),
            store.pass_checkpoint(lease, Checkpoint(None), now=NOW + 2),
            store.renew(lease, lease_s=9, now=NOW + 2),
        ):
            with pytest.raises(LeaseLost):
                await write
        assert await store.crawl_state(first.id) == CrawlState(b"one", 0)
        again = [(await claimed(store, worker, now=NOW + 3))[0].id for worker in ("w2", "w3")]
        assert again == [second.id, first.id]

    async def test_a_state_replaces_the_one_before_it(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        for number, state in enumerate((b"one", b"two", b"two")):
            checkpoint = Checkpoint(CrawlState(state, number))
            assert await store.pass_checkpoint(lease, checkpoint, now=NOW)
            assert await store.crawl_state(job.id) == checkpoint.state
        await store.finish(lease, JobStatus.FAILED, error="no", now=NOW + 1)

    async def test_a_cancelled_job_passes_no_checkpoint(self, store: Store) -> None:
        await accounts(store)
        job = await accepted(store)
        _, lease = await claimed(store)
        await store.cancel(ALICE, job.id, now=NOW)
        with pytest.raises(LeaseLost):
            await store.pass_checkpoint(lease, Checkpoint(CrawlState(b"one", 0)), now=NOW)
        assert await store.crawl_state(job.id) is None
