"""The address of the metrics of a process: what it answers, and how long a request may take."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import httpx
import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from webdata_nb.service import server
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.server import listen_for_metrics, serve_metrics


class Process:
    """A process with metrics and, perhaps, a problem."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.registry = CollectorRegistry()
        Gauge("answer", "The answer.", registry=self.registry).set(42)


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def http(process: Process) -> Iterator[httpx.Client]:
    with (
        listen_for_metrics(("127.0.0.1", 0)) as sock,
        serve_metrics(sock, process.registry, lambda: process.problem),
    ):
        assert sock is not None
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
            yield client


def test_metrics_and_health(http: httpx.Client, process: Process) -> None:
    reply = http.get("/metrics")
    assert reply.headers["Content-Type"].startswith("text/plain; version=")
    assert "answer 42.0\n" in reply.text
    health = http.get("/healthz")
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    process.problem = "no heartbeat"
    health = http.get("/healthz?verbose=1")
    assert health.status_code == 503
    assert health.json() == {"status": "unavailable", "reason": "no heartbeat"}
    assert http.get("/metrics").status_code == 200


@pytest.mark.parametrize("path", ["/", "/metrics/", "/healthz/", "/readyz", "//metrics", "/../etc"])
def test_other_paths_are_unknown(http: httpx.Client, path: str) -> None:
    reply = http.get(path)
    assert (reply.status_code, reply.json()) == (
        404,
        {"detail": "only /metrics and /healthz are here"},
    )


@pytest.mark.parametrize("path", ["/metrics", "/healthz"])
def test_only_reading_methods(http: httpx.Client, path: str) -> None:
    head = http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "BREW"):
        reply = http.request(method, path)
        assert (reply.status_code, reply.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (StoreUnavailable("the database is not available"), "the database is not available"),
        (TimeoutError(), "TimeoutError"),
        (RuntimeError("postgresql://ann:secret@db/x"), "RuntimeError"),
    ],
)
def test_failing_collector_is_named(
    http: httpx.Client, process: Process, error: Exception, cause: str
) -> None:
    class Store(Collector):
        def collect(self) -> Iterator[Metric]:
            raise error

        def describe(self) -> Iterator[Metric]:
            return iter(())

    process.registry.register(Store())
    reply = http.get("/metrics")
    assert reply.status_code == 503
    assert reply.json()["reason"] == f"the metrics cannot be collected: {cause}"
    assert http.get("/healthz").status_code == 200


def test_slow_clients_are_closed_and_others_answered(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "METRICS_REQUEST_S", 0.5)
    address = (str(http.base_url.host), http.base_url.port or 0)
    for count in (server.METRICS_REQUESTS - 1, server.METRICS_REQUESTS + 5):
        slow = [socket.create_connection(address) for _ in range(count)]
        if count < server.METRICS_REQUESTS:
            assert http.get("/healthz").status_code == 200
        for each in slow:
            with closing(each):
                each.settimeout(30)
                assert each.recv(100) == b""
    for _ in range(100):  # until the threads of the slow ones have ended
        with suppress(httpx.TransportError):
            assert http.get("/healthz").status_code == 200
            return
        time.sleep(0.1)
    pytest.fail("no request is answered")
