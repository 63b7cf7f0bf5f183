"""Hosts that a page in the browser asks too much: heard here, and held from there on.

The proxy lets connections wait, and sees nothing of what a secure one carries. The browser does.
"""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from webdata_nb.pacing.retry_after import parse_retry_after
from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.forward_proxy import PROXY_REPLY_HEADER
from webdata_nb.service.web.subresource_throttle import SubresourceThrottle
from webdata_nb.service.web.urls import host_and_port

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request, Response, Route


class Complaints:
    """Reports what hosts answer a page's requests, and holds requests to those that complained.

    Parameters
    ----------
    context : BrowserContext
        The page's own.
    throttle : SubresourceThrottle
        Delays the requests of the page.
    """

    def __init__(self, context: BrowserContext, throttle: SubresourceThrottle) -> None:
        self._context, self._throttle = context, throttle
        self._held: set[str] = set()

    def watch(self, page: Page) -> None:
        """Listen to a page from now on."""
        page.on("response", self._answered)

    async def _answered(self, response: Response) -> None:
        name, value = PROXY_REPLY_HEADER
        if response.headers.get(name.lower()) == value:
            return
        try:
            asked = host_and_port(response.url)
        except FetchError:  # what the page made itself, such as data: and blob:
            return
        after_s = parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
        if await self._throttle.report(asked, response.status, after_s):
            await self._hold(asked)

    async def _hold(self, name: str) -> None:
        """Let every later request to a server wait for it, also those in an open connection."""
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        if name in self._held:
            return
        self._held.add(name)
        with contextlib.suppress(Error):
            await self._context.route(_urls_of(name), self._wait)

    async def _wait(self, route: Route, request: Request) -> None:
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        with contextlib.suppress(Error):
            try:
                await self._throttle.wait(host_and_port(request.url))
            except FetchError:
                await route.abort("blockedbyclient")
            else:
                await route.fallback()


def _urls_of(name: str) -> re.Pattern[str]:
    """Match the URLs of one server, which leave out the port where it is the scheme's own."""
    host, _, port = name.rpartition(":")
    schemes = {"80": "http|ws", "443": "https|wss"}.get(port)
    usual = "" if schemes is None else f"|({schemes})://{re.escape(host)}/"
    return re.compile(rf"^((https?|wss?)://{re.escape(name)}/{usual})", re.IGNORECASE)
