"""When a page has come to rest: no request under way for a moment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.async_api import Page, Request

QUIET_S: Final = 0.15
"""Longer than a script needs from one answer to its next request, on a busy machine too."""


class NetworkIdle:
    """Counts the requests under way in a page, those of its frames included.

    Playwright's own "networkidle" waits half a second every time, three times as long as most
    pages need here.
    """

    def __init__(self, page: Page) -> None:
        self._open: set[Request] = set()
        self._changed = asyncio.Event()
        page.on("request", self._begun)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)

    async def wait(self, most_s: float) -> None:
        """Return once nothing has been under way for a moment, or after `most_s` seconds."""
        try:
            async with asyncio.timeout(most_s):
                while not await self._quiet():
                    pass
        except TimeoutError:
            # A page that polls never rests; it is taken as it is.
            return

    async def _quiet(self) -> bool:
        self._changed.clear()
        if self._open:
            await self._changed.wait()
            return False
        try:
            async with asyncio.timeout(QUIET_S):
                await self._changed.wait()
        except TimeoutError:
            return True
        return False

    def _begun(self, request: Request) -> None:
        self._open.add(request)
        self._changed.set()

    def _ended(self, request: Request) -> None:
        self._open.discard(request)
        self._changed.set()
