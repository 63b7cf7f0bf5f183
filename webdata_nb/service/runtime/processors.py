"""Counts the processors that this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUPS: Final = Path("/proc/self/cgroup")


def available_processors(cgroups: Path = _CGROUPS, own_cgroups: Path = _OWN_CGROUPS) -> int:
    """Return how many processors this process may use, at least 1.

    The processor affinity (`taskset`, cpusets) and the limits of the process's control groups and
    their parents (`docker run --cpus`, `CPUQuota=` of systemd) count. A limit of 1.5 counts as 2.

    Parameters
    ----------
    cgroups
        Where the file system of control groups is mounted.
    own_cgroups
        The file that names the control groups of this process.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:  # macOS, Windows
        count = os.cpu_count() or 1
    quotas = (math.ceil(quota) for quota in _quotas(cgroups, own_cgroups))
    return max(1, min([count, *quotas]))


def _quotas(cgroups: Path, own_cgroups: Path) -> Iterator[float]:
    """Yield the limits in processors of this process's control groups and of their parents."""
    with suppress(OSError, ValueError):
        for line in own_cgroups.read_text().splitlines():
            _, controllers, own_path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            mount = cgroups / controllers  # version 2 has one hierarchy, without a name
            # A container sees its own group at the mount point, whatever the path says.
            path = Path(own_path.lstrip("/"))
            for folder in (path, *path.parents):
                yield from _quota(mount / folder)


def _quota(folder: Path) -> Iterator[float]:
    """Yield the limit of one control group, if it has one."""
    with suppress(OSError, ValueError):  # version 2
        quota, period = (folder / "cpu.max").read_text().split()
        yield int(quota) / int(period)  # "max" is no limit
    with suppress(OSError, ValueError):  # version 1
        quota_us = int((folder / "cpu.cfs_quota_us").read_text())
        if quota_us > 0:
            yield quota_us / int((folder / "cpu.cfs_period_us").read_text())
