"""Order of admission, concurrency, and release of slots."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.wire.waiting import until
from webdata_nb.toolkit.client.transport import ConcurrencyLimiter, limiters_for_key


async def hold(
    limiter: ConcurrencyLimiter, log: list[int], release: asyncio.Event, ticket: int
) -> None:
    async with limiter.slot(ticket):
        log.append(ticket)
        await release.wait()


async def settled() -> None:
    """Let all tasks run until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_concurrency_is_limited() -> None:
    limiter = ConcurrencyLimiter(2)
    log: list[int] = []
    release = asyncio.Event()
    tasks = [asyncio.create_task(hold(limiter, log, release, limiter.ticket())) for _ in range(5)]
    await settled()
    assert log == [0, 1]
    release.set()
    await asyncio.gather(*tasks)
    assert log == [0, 1, 2, 3, 4]


async def test_lowest_ticket_is_admitted_first() -> None:
    limiter = ConcurrencyLimiter(1)
    log: list[int] = []
    first, release = asyncio.Event(), asyncio.Event()
    release.set()
    early, holder, late = limiter.ticket(), limiter.ticket(), limiter.ticket()
    tasks = [asyncio.create_task(hold(limiter, log, first, holder))]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(hold(limiter, log, release, ticket)) for ticket in (late, early)]
    await settled()
    first.set()
    await asyncio.gather(*tasks)
    assert log == [holder, early, late]


async def test_closed_limiter_admits_nothing_before_it_opens() -> None:
    limiter = ConcurrencyLimiter(4)
    limiter.close_for(0.3)
    opened = asyncio.create_task(asyncio.sleep(0.25))
    async with limiter.slot(limiter.ticket()):
        assert opened.done()


async def test_concurrency_drops_to_one_after_refusal_and_grows_with_success() -> None:
    limiter = ConcurrencyLimiter(4)
    limiter.close_for(0.01)
    log: list[int] = []
    release = asyncio.Event()
    tasks = [asyncio.create_task(hold(limiter, log, release, limiter.ticket())) for _ in range(4)]
    await until(lambda: bool(log))
    await settled()
    assert len(log) == 1
    limiter.report_success()
    await settled()
    assert len(log) == 2
    release.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("holders", [0, 1])
async def test_cancelled_caller_frees_its_slot(holders: int) -> None:
    limiter = ConcurrencyLimiter(1)
    log: list[int] = []
    first, release = asyncio.Event(), asyncio.Event()
    release.set()
    holding = [
        asyncio.create_task(hold(limiter, log, first, limiter.ticket())) for _ in range(holders)
    ]
    await asyncio.sleep(0)
    gone = asyncio.create_task(hold(limiter, log, asyncio.Event(), limiter.ticket()))
    await settled()
    gone.cancel()
    first.set()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await asyncio.gather(*holding)
    async with asyncio.timeout(60):
        await hold(limiter, log, release, limiter.ticket())


async def test_slot_assigned_to_a_cancelled_caller_is_freed() -> None:
    limiter = ConcurrencyLimiter(1)
    log: list[int] = []
    first, release = asyncio.Event(), asyncio.Event()
    release.set()
    holder = asyncio.create_task(hold(limiter, log, first, limiter.ticket()))
    await asyncio.sleep(0)
    gone = asyncio.create_task(hold(limiter, log, release, limiter.ticket()))
    await asyncio.sleep(0)
    limiter._release()  # assigns the slot; the new holder never runs
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert limiter._active == 0
    limiter._active = 1
    first.set()
    await holder
    assert limiter._active == 0


def test_callers_of_several_loops_share_a_limiter() -> None:
    limiter = ConcurrencyLimiter(1)
    inside: list[int] = []
    most: list[int] = []

    async def main() -> None:
        for _ in range(20):
            async with limiter.slot(limiter.ticket()):
                inside.append(1)
                most.append(len(inside))
                await asyncio.sleep(0)
                inside.pop()

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1] * 80


def test_limiters_are_shared_by_service_and_key() -> None:
    one = limiters_for_key("http://a.test", "k1")
    assert limiters_for_key("http://a.test", "k1") is one
    assert limiters_for_key("http://a.test", "k2") is not one
    assert limiters_for_key("http://b.test", "k1") is not one
