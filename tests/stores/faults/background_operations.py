"""Operations of a service, its clients and its operator on a store beside running jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.stores.faults.fleet import TERMS, Fleet, again
from tests.stores.jobs import ALICE
from webdata_nb.service.ledger import Charge
from webdata_nb.service.store.records import Replica

DAY_S = 86_400.0


async def chores(fleet: Fleet, job_id: str, expired: str) -> None:
    """Do each of it, as often as it takes; `expired` is a job whose rows may go."""
    await fleet.restart()
    while await again(fleet.store.retention.pack_receipts):
        pass
    await _clients(fleet, job_id)
    await _operator(fleet)
    await _calls(fleet)
    await _replicas(fleet)
    await _retention(fleet, expired)


async def _clients(fleet: Fleet, job_id: str) -> None:
    store, outbox = fleet.store, fleet.outbox
    reads: list[Callable[[], Awaitable[Any]]] = [
        lambda: store.jobs(ALICE, limit=9),
        lambda: store.receipt_page(job_id, start=0, count=9),
        lambda: store.receipt_page(job_id, start=0, count=9, outcome="fetched"),
        lambda: store.receipt_entry(job_id, "http://x/0"),
        lambda: store.published_counts(ALICE),
        lambda: store.unindexed_rows(job_id, start=0, count=9),
        lambda: outbox.deliveries(ALICE, job_id=job_id, limit=9),
        lambda: outbox.counts(ALICE),
        store.operator.report,
    ]
    for each in reads:
        assert await again(each)
    assert await again(lambda: store.receipt_entry(job_id, "http://z/")) is None
    assert await again(store.active_jobs) == 0
    [delivery, *_] = await again(lambda: outbox.deliveries(ALICE, job_id=job_id, limit=1))
    await again(lambda: outbox.replay(ALICE, delivery.id, now=fleet.clock()))
    await again(lambda: outbox.release(delivery))
    await again(outbox.expire_leases)


async def _operator(fleet: Fleet) -> None:
    accounts, now = fleet.accounts, fleet.clock()
    await again(lambda: accounts.add("bob", "Bob", TERMS, now=now))
    await again(lambda: accounts.add_key("k1", "bob", "laptop", "hash 1", now=now))
    caller = await again(lambda: accounts.caller("hash 1", now=now))
    assert caller is not None
    assert caller.account_id == "bob"
    await again(lambda: accounts.rotate_key("k1", "k2", "hash 2", ends_at=now + 9, now=now))
    await again(lambda: accounts.end_key("k2", at=now))
    assert len(await again(lambda: accounts.keys("bob"))) == 2
    await again(lambda: accounts.set_terms("Bob", TERMS, now=now))
    bob = await again(lambda: accounts.top_up("Bob", 7, now=now))
    assert bob.balance.topup_left == 7
    assert len(await again(lambda: accounts.all(now=now))) == 2
    assert await again(lambda: accounts.ledger("bob"))
    _, lost = await again(fleet.store.secrets.reencrypt)
    assert lost == 0


async def _calls(fleet: Fleet) -> None:
    accounts, most = fleet.accounts, (Charge("crawl", "page", 3),)
    for call in ("answered", "lost"):
        until = fleet.clock() + 60
        await again(
            lambda call=call, until=until: accounts.open_call(  # type: ignore[misc]
                ALICE, call, most, until=until, now=fleet.clock()
            )
        )
    await again(lambda: accounts.close_call(ALICE, "answered", most, now=fleet.clock()))
    await again(accounts.expire_calls)
    await again(lambda: accounts.release_expired_calls(now=fleet.clock()))
    usage = await again(lambda: accounts.usage(ALICE, now=fleet.clock()))
    assert (usage.active, usage.reserved) == (0, 0)


async def _replicas(fleet: Fleet) -> None:
    replicas, replica = fleet.store.replicas, Replica("id", "name", 16, fleet.clock())
    await again(lambda: replicas.join(replica))
    await again(lambda: replicas.heartbeat(replica))
    assert await again(replicas.live) == [replica]
    await again(lambda: replicas.leave(replica))


async def _retention(fleet: Fleet, job_id: str) -> None:
    expiry = fleet.store.retention
    assert await again(expiry.active_job_ids) == set()
    fleet.jump(3 * DAY_S)
    now = fleet.clock()
    past = {"searches_before": now - DAY_S, "crawls_before": now - DAY_S}
    assert job_id in await again(lambda: expiry.due_jobs(**past))
    await again(lambda: expiry.mark_expired(job_id, now=now))
    await again(lambda: expiry.delete_rows(job_id, now=now))
    assert await again(lambda: expiry.delete_idempotency_keys(before=now - DAY_S))
    fleet.forget(job_id)
    await again(lambda: expiry.delete_jobs(before=now))
