"""The lag of the event loop is measured."""

from __future__ import annotations

import asyncio
import time

from prometheus_client import generate_latest

from webdata_nb.service.observability.metrics import Metrics, RollingMaximum
from webdata_nb.service.runtime.event_loop import measure_loop_lag, run_cooperatively
from webdata_nb.service.runtime.steps import Steps


async def test_blocked_loop_is_measured() -> None:
    metrics = Metrics()
    watching = asyncio.create_task(measure_loop_lag(metrics.observe_loop_lag, interval_s=0.01))
    await asyncio.sleep(0.05)
    time.sleep(0.4)  # noqa: ASYNC251 - what the metric is for
    await asyncio.sleep(0.05)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    longest = metrics.registry.get_sample_value("webdata_event_loop_lag_max_seconds")
    assert longest is not None
    assert longest >= 0.35
    assert (metrics.registry.get_sample_value("webdata_event_loop_lag_seconds_count") or 0) >= 2
    assert b"webdata_event_loop_lag_seconds_bucket" in generate_latest(metrics.registry)


def test_rolling_maximum_forgets_after_two_windows() -> None:
    now = 0.0
    longest = RollingMaximum(60.0, clock=lambda: now)
    longest.add(3.0)
    longest.add(1.0)
    now = 59.0
    assert longest.value() == 3.0
    now = 61.0
    longest.add(2.0)
    assert longest.value() == 3.0
    now = 121.0
    assert longest.value() == 2.0
    now = 500.0
    assert longest.value() == 0.0


async def test_long_work_in_turns_lets_others_run() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def steps() -> Steps[str]:
        for _ in range(10):
            time.sleep(0.006)
            yield
        return "done"

    beside = asyncio.create_task(others())
    assert await run_cooperatively(steps()) == "done"
    beside.cancel()
    assert turns >= 10
