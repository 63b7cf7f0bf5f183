"""A caller's endpoint on loopback: notes what it gets, answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web


@dataclass(frozen=True, slots=True)
class ReceivedWebhook:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def event_id(self) -> str:
        return self.headers["X-Webhook-Id"]

    @property
    def payload(self) -> Any:
        return orjson.loads(self.body)


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Endpoint:
    """Serves while the context is open; the answers are used up in their order, then 204."""

    answers: list[int | Answer] = field(default_factory=list)
    webhooks: list[ReceivedWebhook] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{rest:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._condition = asyncio.Condition()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/hook?token=t0ken"

    async def received(self, count: int) -> list[ReceivedWebhook]:
        """Wait until `count` requests came."""
        async with asyncio.timeout(60), self._condition:
            await self._condition.wait_for(lambda: len(self.webhooks) >= count)
        return self.webhooks

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        webhook = ReceivedWebhook(request.path_qs, dict(request.headers), await request.read())
        async with self._condition:
            self.webhooks.append(webhook)
            self._condition.notify_all()
            answer = self.answers.pop(0) if self.answers else 204
        if isinstance(answer, int):
            return web.Response(status=answer, headers={"Location": "/elsewhere"})
        return await answer(request)


async def never_answer(_request: web.Request) -> web.StreamResponse:
    """Give no answer at all."""
    await asyncio.Event().wait()
    raise AssertionError


async def endless_body(request: web.Request) -> web.StreamResponse:
    """Answer 200, and never stop sending the body."""
    response = web.StreamResponse(headers={"Content-Length": str(5 * 1024**3)})
    await response.prepare(request)
    sent = 0
    try:
        while sent < 5 * 1024**3:
            await response.write(bytes(1 << 16))
            sent += 1 << 16
    except (ConnectionError, asyncio.CancelledError):
        request.app["sent"] = sent
        raise
    return response
