"""Defines the Prometheus metrics of the service.

Labels have few fixed values; callers, hosts, queries and addresses are never labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
OTHER: Final = "other"
_SECONDS: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0)
_LAG_SECONDS: Final = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
# The maximum lag covers the current and the previous window.
_WINDOW_S: Final = 60.0


class RollingMaximum:
    """The largest value of the current and the previous window of time."""

    def __init__(self, window_s: float = _WINDOW_S, clock: Callable[[], float] = monotonic) -> None:
        self._window_s, self._clock = window_s, clock
        self._window_start = clock()
        self._current = self._previous = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self._advance()
        self._current = max(self._current, value)

    def value(self) -> float:
        """Return the largest value."""
        self._advance()
        return max(self._current, self._previous)

    def _advance(self) -> None:
        windows = int((self._clock() - self._window_start) / self._window_s)
        if windows:
            self._previous = self._current if windows == 1 else 0.0
            self._current = 0.0
            self._window_start += windows * self._window_s


class Metrics:
    """The metrics of one service."""

    def __init__(self) -> None:
        self.registry: CollectorRegistry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "webdata_http_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "webdata_http_request_seconds",
            "Seconds until an answer was sent whole.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._watchdog = Counter(
            "webdata_watchdog_fired",
            "Attempts at jobs that were ended because they made no progress.",
            ("kind", "action"),
            registry=self.registry,
        )
        self._refused = Counter(
            "webdata_connections_refused",
            "Connections, and requests on reserved or counted ones, for which there was no place.",
            ("limit",),
            registry=self.registry,
        )
        self._moved_contents = Counter(
            "webdata_moved_contents",
            "Contents of stored pages that this process moved from the database into segments.",
            registry=self.registry,
        )
        self._segments = Counter(
            "webdata_segments",
            "Segments that this process wrote or deleted.",
            ("action",),
            registry=self.registry,
        )
        self._lag = Histogram(
            "webdata_event_loop_lag_seconds",
            "Seconds by which the event loop was late, measured ten times a second.",
            buckets=_LAG_SECONDS,
            registry=self.registry,
        )
        self._longest_lag = RollingMaximum()
        Gauge(
            "webdata_event_loop_lag_max_seconds",
            "The longest lag of the event loop in the last one to two minutes.",
            registry=self.registry,
        ).set_function(self._longest_lag.value)

    def describe_replica(self, name: str) -> None:
        """Say which process of a service these metrics are of."""
        info = Gauge(
            "webdata_replica_info",
            "The name of this process; always 1.",
            ("replica",),
            registry=self.registry,
        )
        info.labels(name).set(1)

    def report_running_jobs(self, count: Callable[[], int]) -> None:
        """Report the jobs that run in this process; `count` returns their number."""
        Gauge(
            "webdata_running_jobs", "Jobs that run in this process.", registry=self.registry
        ).set_function(count)

    def report_dask(
        self, is_connected: Callable[[], bool], workers: Mapping[str, Callable[[], int]]
    ) -> None:
        """Report the Dask cluster; `workers` return the number of workers of each state."""
        Gauge(
            "webdata_dask_connected",
            "Whether the Dask scheduler answers: 1, or 0.",
            registry=self.registry,
        ).set_function(is_connected)
        gauge = Gauge(
            "webdata_dask_workers",
            "Dask workers, by what their claim loop does.",
            ("state",),
            registry=self.registry,
        )
        for state, count in workers.items():
            gauge.labels(state).set_function(count)

    def observe_loop_lag(self, seconds: float) -> None:
        """Observe a lag of the event loop."""
        self._lag.observe(seconds)
        self._longest_lag.add(seconds)

    def count_refused_connection(self, limit: str) -> None:
        """Count a refused connection; `limit` is `address` or `total`."""
        self._refused.labels(limit).inc()

    def count_stalled_attempt(self, kind: str, action: str) -> None:
        """Count an attempt that the watchdog ended; `action` is what it did with the job."""
        self._watchdog.labels(kind, action).inc()

    def count_moved_contents(self, count: int) -> None:
        """Count contents that were moved from the database into segments."""
        self._moved_contents.inc(count)

    def count_segment(self, action: str) -> None:
        """Count a segment that was `written` or `deleted`."""
        self._segments.labels(action).inc()

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `method` is one of `METHODS`, `route` its path template, or `OTHER`."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
