"""The limiter: who goes first, how many at once, and that no place is ever lost."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from webdata_nb.client.limiter import Lane, limiter_of


async def hold(lane: Lane, log: list[int], release: asyncio.Event, ticket: int) -> None:
    async with lane.turn(ticket):
        log.append(ticket)
        await release.wait()


async def settled() -> None:
    """Let every task run until it waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_at_once_than_the_lane_is_wide() -> None:
    lane = Lane(2)
    log: list[int] = []
    release = asyncio.Event()
    tasks = [asyncio.create_task(hold(lane, log, release, lane.ticket())) for _ in range(5)]
    await settled()
    assert log == [0, 1]
    release.set()
    await asyncio.gather(*tasks)
    assert log == [0, 1, 2, 3, 4]


async def test_the_lowest_ticket_goes_first() -> None:
    lane = Lane(1)
    log: list[int] = []
    first, release = asyncio.Event(), asyncio.Event()
    release.set()
    early, holder, late = lane.ticket(), lane.ticket(), lane.ticket()
    tasks = [asyncio.create_task(hold(lane, log, first, holder))]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(hold(lane, log, release, ticket)) for ticket in (late, early)]
    await settled()
    first.set()
    await asyncio.gather(*tasks)
    assert log == [holder, early, late]


async def test_a_closed_lane_lets_nobody_in_before_its_time() -> None:
    lane = Lane(4)
    lane.close_for(0.3)
    began = time.monotonic()
    async with lane.turn(lane.ticket()):
        assert time.monotonic() - began >= 0.3


async def test_after_a_full_service_one_goes_at_a_time_and_success_widens() -> None:
    lane = Lane(4)
    lane.close_for(0.01)
    log: list[int] = []
    release = asyncio.Event()
    tasks = [asyncio.create_task(hold(lane, log, release, lane.ticket())) for _ in range(4)]
    await asyncio.sleep(0.05)
    assert len(log) == 1
    lane.went_well()
    await settled()
    assert len(log) == 2
    release.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("holders", [0, 1])
async def test_a_cancelled_caller_gives_its_place_back(holders: int) -> None:
    lane = Lane(1)
    log: list[int] = []
    first, release = asyncio.Event(), asyncio.Event()
    release.set()
    holding = [asyncio.create_task(hold(lane, log, first, lane.ticket())) for _ in range(holders)]
    await asyncio.sleep(0)
    gone = asyncio.create_task(hold(lane, log, asyncio.Event(), lane.ticket()))
    await settled()
    gone.cancel()
    first.set()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await asyncio.gather(*holding)
    async with asyncio.timeout(10):
        await hold(lane, log, release, lane.ticket())


async def test_a_place_handed_to_a_caller_cancelled_at_that_moment_is_not_lost() -> None:
    lane = Lane(1)
    log: list[int] = []
    first, release = asyncio.Event(), asyncio.Event()
    release.set()
    holder = asyncio.create_task(hold(lane, log, first, lane.ticket()))
    await asyncio.sleep(0)
    gone = asyncio.create_task(hold(lane, log, release, lane.ticket()))
    await asyncio.sleep(0)
    lane._leave()  # hands the place over, and the new holder never gets to run
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert lane._inside == 0
    lane._inside = 1
    first.set()
    await holder
    assert lane._inside == 0


def test_callers_of_several_loops_share_a_lane() -> None:
    lane = Lane(1)
    inside: list[int] = []
    most: list[int] = []

    async def main() -> None:
        for _ in range(20):
            async with lane.turn(lane.ticket()):
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


def test_one_limiter_per_service_and_key() -> None:
    one = limiter_of("http://a.test", "k1")
    assert limiter_of("http://a.test", "k1") is one
    assert limiter_of("http://a.test", "k2") is not one
    assert limiter_of("http://b.test", "k1") is not one
