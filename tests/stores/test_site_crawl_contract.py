"""Site crawls: which jobs wait, what they take over, and that none waits for ever."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.stores.jobs import ALICE, BOB, NOW, accounts, claimed, new_job
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.credits.plans import Terms
from webdata_nb.service.credits.weights import Charge
from webdata_nb.service.errors import (
    CreditsUsedUp,
    IdempotencyConflict,
    LeaseLost,
    NoSuchSiteCrawl,
)
from webdata_nb.service.store.interface import Store
from webdata_nb.service.store.records import (
    CommitBatch,
    IdempotencyKey,
    JobRecord,
    Lease,
    LegEnd,
    UrlOutcome,
)
from webdata_nb.service.store.site_crawls import Handover, NewSiteCrawl, SiteCrawl
from webdata_nb.service.store.sql import site_crawls

StoreFactory = Callable[[Path], Store]
_ordinals = count(1)


def sites(number: int) -> list[str]:
    return [f"http://site{index}/" for index in range(number)]


async def start(store: Store, number: int, *, account_id: str = ALICE) -> SiteCrawl:
    jobs = tuple(new_job(account_id, subject=url) for url in sites(number))
    new = NewSiteCrawl(str(uuid.uuid4()), jobs)
    site_crawl, is_new = await store.site_crawls.accept(new, now=NOW)
    assert is_new
    return site_crawl


async def claim_all(store: Store) -> dict[str, Lease]:
    """Claim all that can be claimed, as another worker; return the leases by start page."""
    worker = str(uuid.uuid4())
    found = await store.claim(worker, max_jobs=1000, lease_s=1000, now=NOW)
    leases = {job.subject: lease for job, lease in found}
    return {url: leases[url] for url in sorted(leases)}


async def hand_over(store: Store, lease: Lease, receiver: str, *urls: str) -> None:
    outcomes = tuple(UrlOutcome(url, "handed_over", receiver) for url in urls)
    await store.commit(lease, CommitBatch(url_outcomes=outcomes))


async def park(store: Store, lease: Lease) -> None:
    leg_end = LegEnd(b"state", next(_ordinals), is_whole=True, parks=True)
    assert not await store.end_leg(lease, leg_end, now=NOW)


async def finish(store: Store, lease: Lease) -> None:
    await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)


async def job_of(store: Store, lease: Lease) -> JobRecord:
    return await store.job(ALICE, lease.job_id)


async def test_a_parked_job_is_claimed_when_no_other_is_active(store: Store) -> None:
    await accounts(store)
    first, second = sites(2)
    site_crawl = await start(store, 2)
    assert await store.site_crawls.site_crawl(ALICE, site_crawl.id) == site_crawl
    leases = await claim_all(store)
    assert list(leases) == [first, second]
    assert await store.site_crawls.handover(leases[first].job_id) == Handover((second,))
    await hand_over(store, leases[second], first, f"{first}b", f"{first}a")
    await park(store, leases[first])
    parked = await job_of(store, leases[first])
    assert (parked.state, parked.is_parked) == (JobStatus.PENDING, True)
    assert await store.site_crawls.wake_parked(now=NOW) == 0
    assert await claim_all(store) == {}
    with pytest.raises(LeaseLost):
        await store.commit(leases[first], CommitBatch(total=1))
    await park(store, leases[second])
    assert await claim_all(store) == {}
    assert await store.site_crawls.wake_parked(now=NOW) == 1
    assert await store.site_crawls.wake_parked(now=NOW) == 0
    leases |= (again := await claim_all(store))
    assert list(again) == [first]
    handover = await store.site_crawls.handover(leases[first].job_id)
    assert handover == Handover((second,), ((f"{first}a", f"{first}b"),))
    # Known now, so that it is not taken a second time; a new one is.
    await hand_over(store, leases[first], second, f"{second}x")
    await park(store, leases[first])
    assert await store.site_crawls.wake_parked(now=NOW) == 1
    leases |= await claim_all(store)
    await finish(store, leases[second])
    assert await store.site_crawls.wake_parked(now=NOW) == 1
    leases |= await claim_all(store)
    handover = await store.site_crawls.handover(leases[first].job_id)
    assert handover == Handover((second,), ((f"{first}a", f"{first}b"),), is_closed=True)
    await finish(store, leases[first])
    assert await store.site_crawls.wake_parked(now=NOW) == 0
    assert (await store.site_crawls.site_crawl(ALICE, site_crawl.id)).handed_over == 3


async def test_a_url_is_taken_once_whoever_hands_it_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_crawls, "URLS_PER_TURN", 2)
    await accounts(store)
    first, second, third = sites(3)
    await start(store, 3)
    leases = await claim_all(store)
    for sender in (second, third):
        urls = [f"{first}{number}" for number in range(5)]
        await hand_over(store, leases[sender], first, *urls, "http://site9/")
    await hand_over(store, leases[third], second, f"{second}known")
    known = (UrlOutcome(f"{second}known", "fetched"), UrlOutcome(f"{second}other", "scope"))
    await store.commit(leases[second], CommitBatch(url_outcomes=known))
    for lease in leases.values():
        await park(store, lease)
    turns = []
    while await store.site_crawls.wake_parked(now=NOW):
        woken = await claim_all(store)
        handover = await store.site_crawls.handover(leases[first].job_id)
        if handover.is_closed:
            assert list(woken) == [first, second, third]
            break
        assert list(woken) == [first]
        turns.append(handover.taken[-1])
        await park(store, woken[first])
    zero = [f"{first}{number}" for number in range(5)]
    assert turns == [tuple(zero[:2]), tuple(zero[2:4]), (zero[4], "http://site9/")]
    assert handover.taken == tuple(turns)


async def test_ended_jobs_are_not_waited_for(store: Store) -> None:
    await accounts(store)
    site_crawl = await start(store, 4)
    leases = list((await claim_all(store)).values())
    await park(store, leases[0])
    await park(store, leases[1])
    await store.cancel(ALICE, leases[1].job_id, now=NOW)
    await store.finish(leases[2], JobStatus.FAILED, error="robots", now=NOW)
    assert await store.site_crawls.wake_parked(now=NOW) == 0
    await store.cancel(ALICE, leases[3].job_id, now=NOW)
    assert await store.site_crawls.wake_parked(now=NOW) == 1
    [lease] = (await claim_all(store)).values()
    assert lease.job_id == leases[0].job_id
    assert (await store.site_crawls.handover(lease.job_id)).is_closed
    await finish(store, lease)
    states = [job.state for job in (await store.site_crawls.site_crawl(ALICE, site_crawl.id)).jobs]
    assert states == ["completed", "cancelled", "failed", "cancelled"]


async def test_parked_jobs_leave_slots_and_turns_to_others(store: Store) -> None:
    await accounts(store)
    await start(store, 2)
    leases = await claim_all(store)
    await park(store, next(iter(leases.values())))
    job, _ = await store.accept(new_job(), now=NOW + 1)
    [(found, lease)] = await store.claim("w2", lease_s=10, now=NOW + 1)
    assert found.id == job.id
    # A leg of another job goes on at once: the parked job waits for no slot.
    assert await store.end_leg(lease, LegEnd(b"", 1, is_whole=True), now=NOW)
    assert await store.active_jobs() == 3


async def test_credits_of_a_parked_job_are_those_of_its_next_leg(store: Store) -> None:
    await store.accounts.add(ALICE, ALICE, Terms("team", 100, 10), now=NOW)
    pages = (Charge("crawl", "page", 30),)
    jobs = tuple(new_job(subject=url, max_charges=pages) for url in sites(3))
    await store.site_crawls.accept(NewSiteCrawl("one", jobs), now=NOW)
    usage = await store.accounts.usage(ALICE, now=NOW)
    assert (usage.reserved, usage.active) == (90, 3)
    more = tuple(new_job(subject=url, max_charges=pages) for url in sites(2))
    with pytest.raises(CreditsUsedUp, match="may cost 60 credits and 10 are left; 3 of 10"):
        await store.site_crawls.accept(NewSiteCrawl("two", more), now=NOW)
    with pytest.raises(NoSuchSiteCrawl):
        await store.site_crawls.site_crawl(ALICE, "two")
    leases = list((await claim_all(store)).values())
    leg_end = LegEnd(b"", 1, is_whole=True, max_charges=pages[:0], parks=True)
    await store.end_leg(leases[0], leg_end, now=NOW)
    usage = await store.accounts.usage(ALICE, now=NOW)
    assert (usage.reserved, usage.active) == (60, 3)
    for lease in leases:
        await store.cancel(ALICE, lease.job_id, now=NOW)
    usage = await store.accounts.usage(ALICE, now=NOW)
    assert (usage.reserved, usage.active, usage.used) == (0, 0, ())


async def test_one_key_starts_one_site_crawl(store: Store) -> None:
    await accounts(store)

    def new(account_id: str = ALICE) -> NewSiteCrawl:
        jobs = tuple(new_job(account_id, subject=url) for url in sites(2))
        return NewSiteCrawl(str(uuid.uuid4()), jobs)

    key = IdempotencyKey("key", "body")
    started = await asyncio.gather(
        *(store.site_crawls.accept(new(), key=key, now=NOW) for _ in range(5))
    )
    assert len({site_crawl.id for site_crawl, _ in started}) == 1
    assert sorted(is_new for _, is_new in started) == [False] * 4 + [True]
    assert len(await store.jobs(ALICE, limit=10)) == 2
    with pytest.raises(IdempotencyConflict):
        await store.site_crawls.accept(new(), key=IdempotencyKey("key", "other"), now=NOW)
    with pytest.raises(IdempotencyConflict):
        await store.accept(new_job(), key=IdempotencyKey("key", "job"), now=NOW)
    _, is_new = await store.site_crawls.accept(new(BOB), key=key, now=NOW)
    assert is_new
    with pytest.raises(NoSuchSiteCrawl):
        await store.site_crawls.site_crawl(BOB, started[0][0].id)


async def test_deleted_rows_of_a_job_are_handed_over_all_the_same(store: Store) -> None:
    await accounts(store)
    first, second = sites(2)
    site_crawl = await start(store, 2)
    leases = await claim_all(store)
    await hand_over(store, leases[second], first, f"{first}a")
    await finish(store, leases[second])
    late = NOW + 10**9
    due = {"searches_before": late, "crawls_before": late}

    async def delete_all() -> list[str]:
        ended = await store.retention.due_jobs(**due)
        for job_id in ended:
            await store.retention.mark_expired(job_id, now=late)
            await store.retention.delete_rows(job_id, now=late)
        return ended

    assert await delete_all() == [leases[second].job_id]
    # Its record is needed by the other job.
    assert await store.retention.delete_jobs(before=late) == 0
    await park(store, leases[first])
    assert await store.site_crawls.wake_parked(now=NOW) == 1
    [lease] = (await claim_all(store)).values()
    assert await store.site_crawls.handover(lease.job_id) == Handover((second,), ((f"{first}a",),))
    await finish(store, lease)
    await store.site_crawls.wake_parked(now=NOW)
    assert await delete_all() == [lease.job_id]
    assert await store.retention.delete_jobs(before=late) == 2
    with pytest.raises(NoSuchSiteCrawl):
        await store.site_crawls.site_crawl(ALICE, site_crawl.id)


@pytest.mark.slow
async def test_jobs_that_park_at_once_never_wait_for_ever(
    store_factory: StoreFactory, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Several processes run the jobs; each looks for parked jobs whenever one of its own stops."""
    rng = random.Random(5)
    processes = 3 if "postgres" in request.node.name else 1
    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(store_factory(tmp_path)) for _ in range(processes)
        ]
        await accounts(stores[0])
        rounds = {}
        for number in range(12):
            site_crawl = await start(stores[number % processes], rng.randint(2, 5))
            rounds.update({job.id: rng.randint(1, 4) for job in site_crawl.jobs})
        subjects = {
            job.id: [other.subject for other in site_crawl.jobs if other is not job]
            for site_crawl in [
                await stores[0].site_crawls.site_crawl(ALICE, each) for each in await ids(stores[0])
            ]
            for job in site_crawl.jobs
        }
        ended: list[str] = []

        async def run(store: Store, worker: str) -> None:
            idle = 0
            while len(ended) < len(rounds) and idle < 200:
                found = await store.claim(worker, lease_s=1000, now=NOW)
                idle = 0 if found else idle + 1
                for job, lease in found:
                    handover = await store.site_crawls.handover(job.id)
                    if handover.is_closed:
                        await finish(store, lease)
                        ended.append(job.id)
                        continue
                    if rounds[job.id] > 0:
                        rounds[job.id] -= 1
                        receiver = rng.choice(subjects[job.id])
                        await hand_over(store, lease, receiver, f"{receiver}{next(_ordinals)}")
                    await park(store, lease)
                await store.site_crawls.wake_parked(now=NOW)
                await asyncio.sleep(0.005 if not found else 0)

        workers = [run(stores[number % processes], f"w{number}") for number in range(2 * processes)]
        await asyncio.gather(*workers)
        assert sorted(ended) == sorted(rounds)


async def ids(store: Store) -> list[str]:
    """Return the ids of all site crawls of Alice."""
    jobs = await store.jobs(ALICE, limit=1000)
    return sorted({job.site_crawl_id for job in jobs if job.site_crawl_id is not None})


async def test_a_job_of_no_site_crawl_has_no_others(store: Store) -> None:
    await accounts(store)
    await store.accept(new_job(), now=NOW)
    job, _ = await claimed(store)
    assert (job.site_crawl_id, job.is_parked) == (None, False)
    assert await store.site_crawls.handover(job.id) == Handover()
