"""Requests that are still active when a stopping service has waited for long enough."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from tests.wire.waiting import until
from webdata_nb.service import server
from webdata_nb.service.http.connections import ConnectionLimiter
from webdata_nb.service.http.middleware import RefusedRequests, RequestLogMiddleware
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.server import Server, listen

KEY = {"Idempotency-Key": "k"}


@pytest.mark.parametrize(
    ("method", "headers", "is_repeatable"),
    [("GET", {}, True), ("POST", KEY, True), ("POST", {}, False)],
)
async def test_a_request_that_a_stop_cancels_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
    headers: dict[str, str],
    *,
    is_repeatable: bool,
) -> None:
    monkeypatch.setattr(server, "REPLY_GRACE_S", 0)
    inside = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        inside.set()
        await asyncio.Event().wait()

    logged = RequestLogMiddleware(app, {}, Metrics(), RefusedRequests())
    caplog.set_level(logging.INFO)
    with listen("127.0.0.1", 0) as sock:
        stopping = Server(logged, ConnectionLimiter())
        task = asyncio.create_task(stopping.serve(sockets=[sock]))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/"
        async with httpx.AsyncClient(timeout=60) as http:
            asking = asyncio.create_task(http.request(method, url, headers=headers))
            await inside.wait()
            stopping.should_exit = True
            response = await asking
        await task
    assert response.status_code == 503
    assert "stops" in response.json()["detail"]
    assert ("Retry-After" in response.headers) == is_repeatable
    assert f"{method} other: 503" in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_stop_ends_a_reply_that_has_begun(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "REPLY_GRACE_S", 0)

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begin", "more_body": True})
        await asyncio.Event().wait()

    with listen("127.0.0.1", 0) as sock:
        stopping = Server(app, ConnectionLimiter())
        task = asyncio.create_task(stopping.serve(sockets=[sock]))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/"
        async with httpx.AsyncClient(timeout=60) as http, http.stream("GET", url) as response:
            parts = response.aiter_bytes()
            assert await anext(parts) == b"begin"
            stopping.should_exit = True
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(parts)
        await task
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(("body", "missing"), [(b"", 0), (b"{}", 0), (b"{", 1)])
async def test_a_request_is_read_whole_after_its_client_has_left(body: bytes, missing: int) -> None:
    received: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    async def app(scope: Scope, receive: Receive, _send: Send) -> None:
        await until(lambda: not running.server_state.connections)
        try:
            received.set_result(await Request(scope, receive).body())
        except ClientDisconnect:
            received.set_result(None)
        assert (await receive())["type"] == "http.disconnect"

    with listen("127.0.0.1", 0) as sock:
        running = Server(app, ConnectionLimiter())
        task = asyncio.create_task(running.serve(sockets=[sock]))
        _, writer = await asyncio.open_connection(*sock.getsockname()[:2])
        length = len(body) + missing
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length)
        writer.write(body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert await asyncio.wait_for(received, 60) == (None if missing else body)
        running.should_exit = True
        await task
