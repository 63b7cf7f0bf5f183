"""The contract of `Outbox`, on every store."""

from __future__ import annotations

import asyncio

import pytest

from tests.stores.jobs import ALICE, BOB, NOW, accounts, claimed, entry, new_job
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.errors import InvalidJobState, NoSuchDelivery
from webdata_nb.service.store.records import (
    LANES_PER_ENDPOINT,
    WEBHOOK_CONTEXT,
    CommitBatch,
    Delivery,
    DeliveryCount,
)
from webdata_nb.service.store.sql.store import Store

URL = "https://hooks.test/secret"


async def ended_job(store: Store, *, pages: int = 0) -> str:
    """Run a crawl with a webhook to its end; return its id."""
    await accounts(store)
    job = new_job(
        request={"url": "http://x/", "webhook_url": URL},
        context={WEBHOOK_CONTEXT: {"profile": "B", "pages": True}},
    )
    await store.accept(job, now=NOW)
    _, lease = await claimed(store)
    rows = tuple(entry(number) for number in range(pages))
    published = tuple((number, number) for number in range(pages))
    for _ in range(2):  # a repeated batch adds no delivery
        await store.commit(lease, CommitBatch(entries=rows, published=published))
    await store.finish(lease, JobStatus.COMPLETED, error=None, now=NOW)
    return job.id


async def take(store: Store, *, now: float) -> Delivery | None:
    """Take a due delivery, if there is one."""
    due = await store.outbox.due(now=now)
    return await store.outbox.take(due[0], lease_s=10, now=now) if due else None


async def test_end_and_pages_of_a_job_have_one_delivery_each(store: Store) -> None:
    job_id = await ended_job(store, pages=3)
    deliveries = await store.outbox.deliveries(ALICE, job_id=job_id, limit=9)
    assert len(deliveries) == await store.outbox.pending() == 4
    assert len({each.event_id for each in deliveries}) == 4
    assert {each.endpoint for each in deliveries} == {"https://hooks.test"}
    assert await store.outbox.deliveries(BOB, job_id=None, limit=9) == []
    assert sum(count.deliveries for count in await store.outbox.counts(ALICE)) == 4


async def test_leased_delivery_is_taken_once_until_the_lease_ends(store: Store) -> None:
    await ended_job(store)
    taken = await asyncio.gather(*(take(store, now=NOW) for _ in range(5)))
    assert len([each for each in taken if each is not None]) == 1
    assert await take(store, now=NOW + 9) is None
    assert await store.outbox.next_due(after=NOW) == NOW + 10
    assert await take(store, now=NOW + 10) is not None
    await store.outbox.expire_leases()
    assert await take(store, now=NOW + 10) is not None


async def test_leases_of_an_endpoint_are_limited(store: Store) -> None:
    await ended_job(store, pages=5)
    later = store.now() + NOW  # pages are delivered by the store's clock
    taken = [await take(store, now=later) for _ in range(LANES_PER_ENDPOINT)]
    [endpoint] = await store.outbox.due(now=later, lanes=100)
    assert endpoint.count == 6 - LANES_PER_ENDPOINT
    assert await store.outbox.due(now=later) == []
    assert await store.outbox.take(endpoint, lease_s=10, now=later) is None
    assert taken[0] is not None
    await store.outbox.release(taken[0])
    [endpoint] = await store.outbox.due(now=later)
    assert endpoint.count == 1
    again = await store.outbox.take(endpoint, lease_s=10, now=later)
    assert again is not None
    assert (again.id, again.attempts) == (taken[0].id, 0)


async def test_attempt_is_recorded_only_under_its_lease(store: Store) -> None:
    await ended_job(store)
    late, current = await take(store, now=NOW), await take(store, now=NOW + 10)
    assert late is not None
    assert current is not None
    for delivery, state in ((current, "delivered"), (late, "failed")):
        await store.outbox.record_attempt(
            delivery, state, due_at=NOW, status=200, error=None, now=NOW + 11
        )
    [stored] = await store.outbox.deliveries(ALICE, job_id=None, limit=9)
    assert (stored.state, stored.attempts, stored.ended_at) == ("delivered", 1, NOW + 11)
    assert await store.outbox.counts(ALICE) == [DeliveryCount(stored.event, "delivered", 1, 1)]


async def test_replay_is_another_delivery_of_the_same_event(store: Store) -> None:
    await ended_job(store)
    delivery = await take(store, now=NOW)
    assert delivery is not None
    with pytest.raises(InvalidJobState):
        await store.outbox.replay(ALICE, delivery.id, now=NOW)
    await store.outbox.record_attempt(
        delivery, "failed", due_at=NOW, status=500, error="HTTP 500", now=NOW
    )
    with pytest.raises(NoSuchDelivery):
        await store.outbox.replay(BOB, delivery.id, now=NOW)
    replay = await store.outbox.replay(ALICE, delivery.id, now=NOW + 1)
    assert replay.id != delivery.id
    assert (replay.event_id, replay.body, replay.replay) == (delivery.event_id, delivery.body, True)
    assert await store.outbox.pending() == 1
