from __future__ import annotations

import asyncio

from tests.wire.waiting import until
from webdata_nb.service.web.polite_fetcher import RESTARTS, Allowance
from webdata_nb.service.web.suspension import STANDSTILL_S, Suspensions


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_gap_between_two_looks_is_a_standstill() -> None:
    clock = Clock()
    suspensions = Suspensions(clock=clock)
    clock.now += 3600.0  # nobody watched
    with suspensions.watch() as watch:
        assert not watch.interrupted
        clock.now += STANDSTILL_S
        assert not watch.interrupted
        clock.now += 35.0
        assert watch.interrupted
        assert watch.interrupted
        with suspensions.watch() as later:
            assert not later.interrupted
            watch.renew()
            assert not watch.interrupted


async def test_the_event_loop_looks_by_itself_while_somebody_watches() -> None:
    clock = Clock()
    suspensions = Suspensions(clock=clock)
    with suspensions.watch():
        clock.now += 35.0
        await until(lambda: suspensions.count == 1)
    clock.now += 35.0
    await asyncio.sleep(1.0)
    assert suspensions.count == 1


async def test_a_page_has_its_whole_time_again_after_a_standstill_a_few_times() -> None:
    clock = Clock()
    suspensions = Suspensions(clock=clock)
    with suspensions.watch() as watch:
        allowance = Allowance(30.0, clock=clock, watch=watch)
        allowance.waited_s = 2.0
        assert not allowance.restart_if_interrupted()
        for _ in range(RESTARTS):
            clock.now += 35.0
            assert allowance.left_s == 0.0
            assert allowance.restart_if_interrupted()
            assert allowance.left_s == 30.0
            assert not allowance.restart_if_interrupted()
        clock.now += 35.0
        assert not allowance.restart_if_interrupted()
