"""Which requests nginx retries at the other replica, and which it must not."""

from __future__ import annotations

import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.deploy.proxy import ReverseProxy
from tests.ports import free_port

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
STOPPING = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)
NOTHING = b""
KEY = {"Idempotency-Key": "a"}
REQUESTS = 6


class StubReplica(socketserver.ThreadingTCPServer):
    """Reads whole requests, replies with fixed bytes, or closes the connection without a reply."""

    daemon_threads = True

    def __init__(self, reply: bytes) -> None:
        super().__init__(("127.0.0.1", 0), StubHandler)
        self.reply = reply
        self.bodies: list[bytes] = []


class StubHandler(socketserver.StreamRequestHandler):
    server: StubReplica

    def handle(self) -> None:
        length = 0
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        self.server.bodies.append(self.rfile.read(length))
        self.wfile.write(self.server.reply)


@contextmanager
def serving(reply: bytes) -> Iterator[StubReplica]:
    with StubReplica(reply) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def replies(
    ports: tuple[int, int], method: str, headers: dict[str, str] | None = None
) -> list[httpx.Response]:
    """Send the requests through the proxy."""
    body = b'{"query": "colour"}' if method == "POST" else None
    with (
        ReverseProxy(ports) as proxy,
        httpx.Client(base_url=proxy.url, trust_env=False, timeout=60) as http,
    ):
        return [
            http.request(method, "/v1/search", content=body, headers=headers)
            for _ in range(REQUESTS)
        ]


def statuses(
    ports: tuple[int, int], method: str, headers: dict[str, str] | None = None
) -> Counter[int]:
    """Send the requests through the proxy, and count the statuses of the replies."""
    return Counter(reply.status_code for reply in replies(ports, method, headers))


@pytest.mark.parametrize("reply", [NOTHING, STOPPING], ids=["closes", "503"])
@pytest.mark.parametrize(("method", "headers"), [("GET", None), ("POST", KEY)])
def test_repeatable_requests_go_to_the_other_replica(
    reply: bytes, method: str, headers: dict[str, str] | None
) -> None:
    with serving(reply) as broken, serving(OK) as answering:
        ports = broken.server_address[1], answering.server_address[1]
        assert statuses(ports, method, headers) == {200: REQUESTS}
        # The body is sent again too.
        assert set(broken.bodies) == set(answering.bodies)
        assert len(answering.bodies) == REQUESTS


@pytest.mark.parametrize(
    ("reply", "status"), [(NOTHING, 502), (STOPPING, 503)], ids=["closes", "503"]
)
def test_a_start_without_a_key_is_never_sent_twice(reply: bytes, status: int) -> None:
    with serving(reply) as broken, serving(OK) as answering:
        ports = broken.server_address[1], answering.server_address[1]
        half = REQUESTS // 2
        assert statuses(ports, "POST") == {200: half, status: half}
        assert len(broken.bodies) == len(answering.bodies) == half


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_replica_that_refuses_connections_is_not_noticed(method: str) -> None:
    with serving(OK) as answering:
        ports = free_port(), answering.server_address[1]
        assert statuses(ports, method) == {200: REQUESTS}


@pytest.mark.parametrize(("method", "headers"), [("GET", None), ("POST", KEY), ("POST", None)])
def test_without_a_replica_a_request_is_refused(
    method: str, headers: dict[str, str] | None
) -> None:
    for reply in replies((free_port(), free_port()), method, headers):
        assert (reply.status_code, reply.headers["Retry-After"]) == (503, "1")
        assert "repeat the request later" in reply.json()["detail"]


def test_what_may_have_acted_is_not_called_refused() -> None:
    with serving(NOTHING) as broken:
        ports = broken.server_address[1], free_port()
        unknown = [reply for reply in replies(ports, "POST") if reply.status_code != 503]
        assert len(unknown) == len(broken.bodies) > 0
        for reply in unknown:
            assert reply.status_code == 502
            assert "Retry-After" not in reply.headers
            assert "may have acted" in reply.json()["detail"]
        for reply in replies(ports, "POST", KEY):
            assert (reply.status_code, reply.headers["Retry-After"]) == (503, "1")
