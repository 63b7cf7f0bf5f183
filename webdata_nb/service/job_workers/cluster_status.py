"""The status of a Dask cluster: reports of its claim loops, and what the service does with them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, get_args

import msgspec

from webdata_nb.contract.replies import DaskHealth
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.work.runner import Runner

# The name of the reports among the metrics that a Dask worker sends with its heartbeat.
METRIC: Final = "webdata"
# The scheduler is asked every 2 seconds; after this time its last answer is too old.
CHECKED_S: Final = 10.0

LoopState = Literal["starting", "running", "waiting", "refused", "stopped"]
WorkerState = Literal["running", "starting", "failed", "other_store", "no_loop"]


class LoopReport(msgspec.Struct, frozen=True):
    """The state of the claim loop of a worker.

    Attributes
    ----------
    state
        `waiting` is after an error, until the next try; `refused` is final.
    replica
        The id under which it is among the replicas of its store; None before it joined.
    error
        Why it does not run.
    """

    state: LoopState
    replica: str | None = None
    error: str | None = None

    def to_metric(self) -> dict[str, Any]:
        """Return the report as a value that Dask can send."""
        metric: dict[str, Any] = msgspec.to_builtins(self)
        return metric

    @classmethod
    def from_metric(cls, value: object) -> LoopReport | None:
        """Return the report in what a worker has sent; None if there is none."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError:
            return None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Whether the scheduler answers, and the state of each worker by its address."""

    is_connected: bool
    workers: Mapping[str, WorkerState]

    @property
    def running(self) -> int:
        """The number of workers that claim jobs of the service's store."""
        return self.counts["running"]

    @property
    def counts(self) -> Counter[WorkerState]:
        """The number of workers by state."""
        return Counter(self.workers.values())


NOT_CONNECTED: Final = ClusterStatus(is_connected=False, workers={})


def worker_state(report: LoopReport | None, live_replicas: Collection[str]) -> WorkerState:
    """Return the state of a worker as the service sees it.

    Parameters
    ----------
    report
        What the worker has sent; None if it has no claim loop.
    live_replicas
        The ids of the live replicas of the service's store.
    """
    if report is None:
        return "no_loop"
    if report.state == "running":
        return "running" if report.replica in live_replicas else "other_store"
    return "starting" if report.state == "starting" else "failed"


log: Final = logging.getLogger(__name__)


class ClusterMonitor:
    """The last status of the cluster, in the log and the metrics of a process.

    Pauses the runner of the process, if it has one, while workers run jobs.
    """

    def __init__(self, runner: Runner | None, metrics: Metrics) -> None:
        self.status: ClusterStatus = NOT_CONNECTED
        self._runner = runner
        self._updated_at = time.monotonic()
        metrics.report_dask(
            lambda: self.status.is_connected,
            {state: partial(self._count, state) for state in get_args(WorkerState)},
        )

    def update(self, status: ClusterStatus) -> None:
        """Note a status."""
        if (status.is_connected, status.running) != (self.status.is_connected, self.status.running):
            text = "Dask scheduler %s, %d workers run jobs"
            if self._runner is not None:
                text += f"; this process takes {'none' if status.running else 'jobs itself'}"
            log.info(text, "connected" if status.is_connected else "lost", status.running)
        self.status = status
        self._updated_at = time.monotonic()
        if self._runner is not None:
            self._runner.set_paused(is_paused=status.running > 0)

    def problem(self) -> str | None:
        """Return why a process without a runner does not work, or None if it does."""
        if not self.status.is_connected:
            return "the Dask scheduler is lost"
        if (seconds := time.monotonic() - self._updated_at) <= CHECKED_S:
            return None
        return f"the Dask scheduler did not answer for {seconds:.0f} s"

    def health(self) -> DaskHealth:
        """Return the status as a part of the readiness reply."""
        scheduler = "connected" if self.status.is_connected else "lost"
        return DaskHealth(scheduler=scheduler, workers=self.status.running)

    def _count(self, state: WorkerState) -> int:
        return self.status.counts[state]
