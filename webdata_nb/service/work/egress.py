"""The ways out to the network: directly, or through the proxy of a job's session or the service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from webdata_nb.service.browser.renderer import Browser
from webdata_nb.service.crawl.robots import RobotsCache
from webdata_nb.service.pages.page_pipeline import Pages, Visitor
from webdata_nb.service.settings import DIRECT, Upstream
from webdata_nb.service.web.addresses import is_local_host
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.web.polite_fetcher import PoliteFetcher
from webdata_nb.service.web.throttle import Throttle


@dataclass(frozen=True, slots=True)
class Way:
    """A fetcher, what goes out through it, and how it names itself.

    `apis` is the fetcher towards providers: their addresses come from settings alone, so it may
    go where a request may not. `near` is the same without the proxy, which cannot reach this
    machine or its network.
    """

    fetcher: Fetcher
    polite: PoliteFetcher
    apis: Fetcher
    near: Fetcher
    visitor: Visitor
    browser: Browser
    robots: RobotsCache
    user_agent: str

    def towards(self, url: str) -> Fetcher:
        """Return the fetcher for a provider's address, as its settings give it."""
        return self.near if is_local_host(urlsplit(url).hostname or "") else self.apis


class Ways:
    """One fetcher a (proxy, CA bundle, user agent), opened on first use and kept."""

    def __init__(
        self,
        policy: EgressPolicy,
        user_agent: str,
        throttle: Throttle,
        pages: Pages,
        upstream: Upstream = DIRECT,
    ) -> None:
        self._policy, self._user_agent, self._upstream = policy, user_agent, upstream
        self._throttle, self._pages = throttle, pages
        self._open: dict[tuple[str | None, str | None, str], Way] = {}
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def of(self, context: Mapping[str, Any]) -> Way:
        """Return the way out for a job with this context."""
        user_agent = context.get("user_agent") or self._user_agent
        key = (*self._upstream.of(context), user_agent)
        async with self._lock:
            if key not in self._open:
                self._open[key] = await self._make(*key)
        return self._open[key]

    async def check_device(self, name: str) -> None:
        """Check the name of a device preset; raises `BadInput` with the closest names."""
        await (await self.of({})).browser.check_device(name)

    async def check_browser(self) -> None:
        """Raise `ScrapeError`, of kind ``browser_missing``, where no browser is installed."""
        await (await self.of({})).browser.check_installed()

    async def _make(self, proxy: str | None, ca_bundle: str | None, user_agent: str) -> Way:
        bundle = Path(ca_bundle) if ca_bundle else None
        fetcher = await self._stack.enter_async_context(
            Fetcher(self._policy, user_agent=user_agent, proxy=proxy, ca_bundle=bundle)
        )
        browser = await self._stack.enter_async_context(
            Browser(
                self._policy,
                fetcher,
                upstream=proxy,
                ca_bundle=bundle,
                user_agent=user_agent,
                throttle=self._throttle,
            )
        )
        apis = await self._apis(fetcher, proxy, bundle, user_agent)
        near = apis if proxy is None else await self._direct(bundle, user_agent)
        polite = PoliteFetcher(fetcher, self._throttle)
        visitor = Visitor(polite, self._pages, browser)
        robots = RobotsCache(polite)
        return Way(fetcher, polite, apis, near, visitor, browser, robots, user_agent)

    async def _direct(self, bundle: Path | None, user_agent: str) -> Fetcher:
        policy = replace(self._policy, mode="local")
        return await self._stack.enter_async_context(
            Fetcher(policy, user_agent=user_agent, ca_bundle=bundle)
        )

    async def _apis(
        self, fetcher: Fetcher, proxy: str | None, bundle: Path | None, user_agent: str
    ) -> Fetcher:
        """Return a fetcher that also reaches private addresses, such as one's own SearXNG."""
        if self._policy.mode == "local":
            return fetcher
        policy = replace(self._policy, mode="local")
        return await self._stack.enter_async_context(
            Fetcher(policy, user_agent=user_agent, proxy=proxy, ca_bundle=bundle)
        )
