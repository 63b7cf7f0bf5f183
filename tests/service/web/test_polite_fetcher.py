"""Retry delays, suspensions of the process, and what is reported to the throttle."""

from __future__ import annotations

import asyncio

import pytest

from tests.site.server import Site
from tests.wire.waiting import until
from webdata_nb.pacing.host_pacing import BreakerPolicy, HostPolicy
from webdata_nb.page.errors import FetchError
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.polite_fetcher import (
    RESTARTS,
    SUSPENDED_AFTER_S,
    PageDeadline,
    PoliteFetcher,
    SuspensionDetector,
    retry_delay_s,
)
from webdata_nb.service.web.throttle import HostThrottle


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


async def test_short_timeouts_of_callers_do_not_open_the_circuit(site: Site) -> None:
    site.page("/slow", "late", delay=30.0)
    site.page("/", "there")
    policy = HostPolicy(breaker=BreakerPolicy(5.0, 60.0, threshold=3))
    async with Fetcher(EgressPolicy("local"), user_agent="t") as fetcher:
        polite = PoliteFetcher(fetcher, HostThrottle(policy))
        for _ in range(policy.breaker.threshold + 1):
            with pytest.raises(FetchError) as caught:
                await polite.fetch(FetchRequest(site.at("/slow")), PageDeadline(0.05))
            assert caught.value.kind == "timeout"
        fetched = await polite.fetch(FetchRequest(site.at("/")), PageDeadline(30.0))
    assert fetched.status == 200


@pytest.mark.parametrize(
    ("attempt", "status", "kind", "retry_after_s", "remaining_s", "expected"),
    [
        (1, 503, "", None, 30, 0.25),
        (2, 503, "", None, 30, 0.5),
        (3, 503, "", None, 30, None),
        (1, 429, "", 7, 30, 7),
        (1, 429, "", 31, 30, None),
        (1, 503, "", None, 0.1, None),
        (1, 404, "", None, 30, None),
        (1, 200, "", None, 30, None),
        (1, None, "reset", None, 30, 0.25),
        (1, None, "dns", None, 30, None),
        (1, None, "timeout", None, 30, None),
        (1, None, "refused", None, 30, None),
    ],
)
def test_retry_delay(
    *,
    attempt: int,
    status: int | None,
    kind: str,
    retry_after_s: float | None,
    remaining_s: float,
    expected: float | None,
) -> None:
    delay_s = retry_delay_s(
        attempt, status=status, kind=kind, retry_after_s=retry_after_s, remaining_s=remaining_s
    )
    assert delay_s == expected
