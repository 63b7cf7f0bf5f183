"""Detects overload replies to a browser page, and delays its later requests to those hosts.

The forward proxy can delay connections, but does not see the replies inside TLS. The browser does.
"""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from webdata_nb.pacing.retry_policies import parse_retry_after
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import host_and_port
from webdata_nb.service.web.forward_proxy import PROXY_REPLY_HEADER, SubresourceThrottle

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request, Response, Route


class OverloadMonitor:
    """Reports replies to the throttle, and delays the requests to overloaded hosts.

    Parameters
    ----------
    context : BrowserContext
        The context of the page.
    throttle : SubresourceThrottle
        Delays the requests of the page.
    """

    def __init__(self, context: BrowserContext, throttle: SubresourceThrottle) -> None:
        self._context, self._throttle = context, throttle
        self._delayed_hosts: set[str] = set()

    def watch(self, page: Page) -> None:
        """Report the replies to a page from now on."""
        page.on("response", self._report)

    async def _report(self, response: Response) -> None:
        name, value = PROXY_REPLY_HEADER
        if response.headers.get(name.lower()) == value:
            return
        try:
            host = host_and_port(response.url)
        except FetchError:  # not from the network, such as data: and blob:
            return
        after_s = parse_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
        if await self._throttle.report(host, response.status, after_s):
            await self._delay_requests_to(host)

    async def _delay_requests_to(self, host: str) -> None:
        """Delay every later request to a host, also on an open connection."""
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        if host in self._delayed_hosts:
            return
        self._delayed_hosts.add(host)
        with contextlib.suppress(Error):
            await self._context.route(_url_pattern(host), self._delay)

    async def _delay(self, route: Route, request: Request) -> None:
        from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

        with contextlib.suppress(Error):
            try:
                await self._throttle.wait(host_and_port(request.url))
            except FetchError:
                await route.abort("blockedbyclient")
            else:
                await route.fallback()


def _url_pattern(host_with_port: str) -> re.Pattern[str]:
    """Return a pattern for the URLs of one server, which omit the scheme's default port."""
    host, _, port = host_with_port.rpartition(":")
    schemes = {"80": "http|ws", "443": "https|wss"}.get(port)
    default_port = "" if schemes is None else f"|({schemes})://{re.escape(host)}/"
    pattern = rf"^((https?|wss?)://{re.escape(host_with_port)}/{default_port})"
    return re.compile(pattern, re.IGNORECASE)
