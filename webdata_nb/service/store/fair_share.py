"""Divides the jobs of a queue among replicas."""

from __future__ import annotations

from collections.abc import Sequence


def fair_share(active_jobs: int, slots: Sequence[int]) -> int:
    """Return how many jobs a replica may run at most, within its own slots.

    It is the smallest number with which the replicas together run all active jobs, so that none
    has more while another one waits for work.

    Parameters
    ----------
    active_jobs
        The jobs that wait or run.
    slots
        The slots of each replica.

    Examples
    --------
    >>> fair_share(10, [16, 16])
    5
    >>> fair_share(10, [16, 2])
    8
    >>> fair_share(100, [16, 16])
    16
    """
    most = max(slots)
    for share in range(1, most):
        if sum(min(count, share) for count in slots) >= active_jobs:
            return share
    return most
