"""Requests that are still active when a stopping service has waited for long enough."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from webdata_nb.service import server
from webdata_nb.service.http.connections import ConnectionLimiter
from webdata_nb.service.http.request_log import RequestLogMiddleware
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

    logged = RequestLogMiddleware(app, {}, Metrics())
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
