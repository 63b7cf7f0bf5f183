"""The metrics that the database has: every process of a service reports the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.store.records import StoreReport
from webdata_nb.service.store.sql.store import Store

log: Final = logging.getLogger(__name__)

# How long a request for the metrics may wait for the store.
TIMEOUT_S: Final = 5.0
EMPTY_REPORT: Final = StoreReport({}, {}, {})


def report_store(metrics: Metrics, store: Store) -> None:
    """Add the counts of the store to the metrics of this process."""
    loop = asyncio.get_running_loop()  # the metrics have a thread of their own

    def report() -> StoreReport | None:
        reading = asyncio.run_coroutine_threadsafe(store.operator.report(), loop)
        try:
            return reading.result(TIMEOUT_S)
        except (StoreUnavailable, TimeoutError) as error:
            reading.cancel()
            log.warning("the metrics of the store are missing: %s", error or "it is too slow")
            return None

    metrics.registry.register(StoreCollector(report, store.retried_transactions))


class StoreCollector(Collector):
    """Collects the counts of the store on each scrape; every process reports the same.

    Parameters
    ----------
    report
        Returns the counts; None if the store cannot be read now. It may be called from any thread.
    retried_transactions
        Returns how many transactions of this process were run again.
    """

    def __init__(
        self, report: Callable[[], StoreReport | None], retried_transactions: Callable[[], int]
    ) -> None:
        self._report, self._retried_transactions = report, retried_transactions

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without reading the store."""
        return [self._store_up(None), *_store_metrics(EMPTY_REPORT), self._retried()]

    def collect(self) -> Iterable[Metric]:
        """Return the metrics with the store's counts."""
        report = self._report()
        counts = () if report is None else _store_metrics(report)
        return [self._store_up(report), *counts, self._retried()]

    def _store_up(self, report: StoreReport | None) -> Metric:
        text = "Whether the database answers: 1, or 0 without the metrics that it has."
        return GaugeMetricFamily("webdata_store_up", text, value=int(report is not None))

    def _retried(self) -> Metric:
        return CounterMetricFamily(
            "webdata_store_retried_transactions",
            "Transactions run again because the database had ended them in favor of others.",
            value=self._retried_transactions(),
        )


# The counters of `usage`: fact, name, text, and the labels that its kind and label have.
_COUNTERS: Final = (
    ("jobs", "webdata_jobs_ended", "Jobs that have ended.", ("kind", "state")),
    ("rows", "webdata_rows", "Visible rows without an error, of settled jobs.", ("kind",)),
    ("bytes", "webdata_stored_bytes", "Bytes of these rows as they are stored.", ("kind",)),
    ("urls", "webdata_urls", "URLs of ended jobs, by what became of them.", ("kind", "outcome")),
    (
        "attempts",
        "webdata_provider_attempts",
        "Search providers asked by ended jobs.",
        ("provider", "status"),
    ),
    ("credits", "webdata_credits", "Credits charged.", ("platform", "operation")),
    ("refused", "webdata_refused_requests", "Requests refused.", ("reason", "status")),
)


def _store_metrics(report: StoreReport) -> list[Metric]:
    pending = sum(count for (_, state), count in report.jobs.items() if state == "pending")
    wait_s = report.oldest_pending_s
    metrics = [
        _gauges("webdata_jobs", "Jobs kept.", ("kind", "state"), report.jobs),
        GaugeMetricFamily("webdata_queue_depth", "Jobs that wait for a worker.", value=pending),
        GaugeMetricFamily(
            "webdata_oldest_pending_seconds",
            "Seconds for which the job that waits longest has waited.",
            value=wait_s,
        ),
        _gauges(
            "webdata_webhook_deliveries",
            "Webhook deliveries kept.",
            ("state",),
            report.deliveries,
        ),
        _gauges("webdata_replicas", "Live processes.", ("kind",), report.replicas),
    ]
    for fact, name, text, labels in _COUNTERS:
        counter = CounterMetricFamily(name, text, labels=labels)
        for (each, *values), amount in report.usage.items():
            if each == fact:
                counter.add_metric(values[: len(labels)], amount)
        metrics.append(counter)
    return metrics


def _gauges(
    name: str, text: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], int]
) -> Metric:
    gauge = GaugeMetricFamily(name, text, labels=labels)
    for values, count in counts.items():
        gauge.add_metric(values, count)
    return gauge
