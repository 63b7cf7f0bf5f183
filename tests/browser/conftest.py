from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from ipaddress import ip_network

import pytest
import pytest_asyncio

from tests.requirements import require, require_module
from tests.site.server import Site
from webdata_nb.service.browser.renderer import Browser
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher

NAMES = {
    "site.test": ["127.0.0.1"],
    "other.test": ["127.0.0.1"],
    "third.test": ["127.0.0.1"],
    "inside.test": ["127.0.0.2"],
    "metadata.test": ["169.254.169.254"],
}
POLICY = EgressPolicy("team", (ip_network("127.0.0.1/32"),))


async def look_up(host: str) -> Sequence[str]:
    if host not in NAMES:
        raise OSError(-2, "Name or service not known")
    return NAMES[host]


@pytest.fixture(scope="session")
def chromium() -> None:
    require_module("playwright.async_api")
    require("chromium")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(POLICY, user_agent="webdata-tests/1.0", lookup=look_up) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser(chromium: None, fetcher: Fetcher) -> AsyncIterator[Browser]:  # noqa: ARG001 - it must be there
    async with Browser(POLICY, fetcher, lookup=look_up) as opened:
        yield opened


@pytest.fixture
def other_site() -> Iterator[Site]:
    with Site() as running:
        yield running
