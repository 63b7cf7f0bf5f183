"""Interleaves measurements, and waits between them until the service is idle."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Final

import psutil

Measure = Callable[[], float]

# Indexing starts a second after a crawl and takes most of a core; below this share, the service is
# idle. Its own timers take up to a tenth of a slow core.
REST_S: Final = 1.5
REST_SHARE: Final = 0.2


def wait_until_idle(pids: tuple[int, ...]) -> None:
    """Wait until the processes of the service are idle."""
    cpu_s = _cpu_s(pids)
    while True:
        time.sleep(REST_S)
        before, cpu_s = cpu_s, _cpu_s(pids)
        if cpu_s - before < REST_SHARE * REST_S:
            return


def rounds(
    contestants: dict[str, Measure], count: int, pids: tuple[int, ...]
) -> dict[str, list[float]]:
    """Measure every contestant `count` times, in a different order each time."""
    results: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for number in range(count):
        for name in order:
            wait_until_idle(pids)
            results[name].append(contestants[name]())
            print(f"round {number + 1}: {name} {results[name][-1]:.1f}", flush=True)
        order.append(order.pop(0))
    return results


def _cpu_s(pids: tuple[int, ...]) -> float:
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker that was idle has ended
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system
    return total
