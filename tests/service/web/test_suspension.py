from __future__ import annotations

import asyncio

from tests.wire.waiting import until
from webdata_nb.service.web.polite_fetcher import (
    RESTARTS,
    SUSPENDED_AFTER_S,
    PageDeadline,
    SuspensionDetector,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_gap_between_heartbeats_counts_as_suspension() -> None:
    clock = Clock()
    suspensions = SuspensionDetector(clock=clock)
    clock.now += 3600.0  # not watched
    with suspensions.watch() as watch:
        assert not watch.interrupted
        clock.now += SUSPENDED_AFTER_S
        assert not watch.interrupted
        clock.now += 35.0
        assert watch.interrupted
        assert watch.interrupted
        with suspensions.watch() as later:
            assert not later.interrupted
            watch.reset()
            assert not watch.interrupted


async def test_event_loop_detects_suspension_only_while_watched() -> None:
    clock = Clock()
    suspensions = SuspensionDetector(clock=clock)
    with suspensions.watch():
        clock.now += 35.0
        await until(lambda: suspensions.count == 1)
    clock.now += 35.0
    await asyncio.sleep(1.0)
    assert suspensions.count == 1


async def test_page_restarts_with_full_timeout_after_suspension_a_few_times() -> None:
    clock = Clock()
    suspensions = SuspensionDetector(clock=clock)
    with suspensions.watch() as watch:
        deadline = PageDeadline(30.0, clock=clock, watch=watch)
        deadline.queued_s = 2.0
        assert not deadline.restart_if_interrupted()
        for _ in range(RESTARTS):
            clock.now += 35.0
            assert deadline.remaining_s == 0.0
            assert deadline.restart_if_interrupted()
            assert deadline.remaining_s == 30.0
            assert not deadline.restart_if_interrupted()
        clock.now += 35.0
        assert not deadline.restart_if_interrupted()
