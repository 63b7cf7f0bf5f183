"""Detects when a page in the browser has no requests under way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.async_api import Page, Request

IDLE_S: Final = 0.15
"""Longer than a script needs between a response and its next request, even on a busy machine."""


class NetworkIdle:
    """Tracks the requests of a page and its frames.

    Playwright's "networkidle" always waits half a second, three times as long as most pages need.
    """

    def __init__(self, page: Page) -> None:
        self._requests: set[Request] = set()
        self._changed = asyncio.Event()
        page.on("request", self._on_request)
        page.on("requestfinished", self._on_request_end)
        page.on("requestfailed", self._on_request_end)

    async def wait(self, limit_s: float) -> None:
        """Wait until no request was under way for `IDLE_S`, at most `limit_s` seconds."""
        try:
            async with asyncio.timeout(limit_s):
                while not await self._is_idle():
                    pass
        except TimeoutError:
            # A page that polls is never idle.
            return

    async def _is_idle(self) -> bool:
        self._changed.clear()
        if self._requests:
            await self._changed.wait()
            return False
        try:
            async with asyncio.timeout(IDLE_S):
                await self._changed.wait()
        except TimeoutError:
            return True
        return False

    def _on_request(self, request: Request) -> None:
        self._requests.add(request)
        self._changed.set()

    def _on_request_end(self, request: Request) -> None:
        self._requests.discard(request)
        self._changed.set()
