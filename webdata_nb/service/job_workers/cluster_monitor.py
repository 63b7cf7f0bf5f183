"""Lets a service run jobs itself while no worker of its cluster does."""

from __future__ import annotations

import logging
from functools import partial
from typing import get_args

from webdata_nb.contract.replies.service import DaskHealth
from webdata_nb.service.job_workers.reports import NOT_CONNECTED, ClusterStatus, WorkerState
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.work.runner import Runner

log = logging.getLogger(__name__)


class ClusterMonitor:
    """The last status of the cluster; pauses the runner of the service while workers run jobs."""

    def __init__(self, runner: Runner, metrics: Metrics) -> None:
        self.status = NOT_CONNECTED
        self._runner = runner
        metrics.report_dask(
            lambda: self.status.is_connected,
            {state: partial(self._count, state) for state in get_args(WorkerState)},
        )

    def update(self, status: ClusterStatus) -> None:
        """Note a status."""
        if (status.is_connected, status.running) != (self.status.is_connected, self.status.running):
            log.info(
                "Dask scheduler %s, %d workers run jobs; this process %s",
                "connected" if status.is_connected else "lost",
                status.running,
                "takes none" if status.running else "takes jobs itself",
            )
        self.status = status
        if status.running:
            self._runner.pause()
        else:
            self._runner.resume()

    def health(self) -> DaskHealth:
        """Return the status as a part of the readiness reply."""
        scheduler = "connected" if self.status.is_connected else "lost"
        return DaskHealth(scheduler=scheduler, workers=self.status.running)

    def _count(self, state: WorkerState) -> int:
        return self.status.counts[state]
