"""Waits between two measurements until a service has come to rest."""

from __future__ import annotations

import time
from typing import Final

import psutil

# Indexing begins a second after a crawl; a service that used this share of a core is at rest.
REST_S: Final = 1.5
REST_SHARE: Final = 0.05


def rest(pids: tuple[int, ...]) -> None:
    """Wait until the service's processes do nothing."""
    used = _cpu_s(pids)
    while True:
        time.sleep(REST_S)
        before, used = used, _cpu_s(pids)
        if used - before < REST_SHARE * REST_S:
            return


def _cpu_s(pids: tuple[int, ...]) -> float:
    times = (psutil.Process(pid).cpu_times() for pid in pids)
    return float(sum(each.user + each.system for each in times))
