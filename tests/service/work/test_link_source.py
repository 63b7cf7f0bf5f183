"""Where links are requested: a public page cannot make a local service call private addresses."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.service.crawl.test_spooling_and_prefetch import BlockingScraper
from tests.site.server import Site
from webdata_nb.page.errors import FetchError
from webdata_nb.service.crawl.link_check import LinkSource
from webdata_nb.service.web import resolver
from webdata_nb.service.web.egress_policy import EgressMode, EgressPolicy
from webdata_nb.service.web.fetch import FetchRequest
from webdata_nb.service.web.throttle import HostThrottle
from webdata_nb.service.work.engines import EgressRoutes

# Addresses to which nothing is sent here.
PUBLIC = "http://93.184.215.14/"
UNKNOWN = "http://nowhere.invalid/"
# Names whose owner has given them other addresses than their own as well.
NAMES = {"mixed.test": ["93.184.215.14", "127.0.0.1"], "private.test": ["127.0.0.1", "10.0.0.1"]}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(host: str) -> list[str]:
        if host not in NAMES:
            raise OSError(-2, "Name or service not known")
        return NAMES[host]

    monkeypatch.setattr(resolver, "_look_up_in_system", look_up)


async def reaches(source: LinkSource, url: str) -> bool:
    """Return whether a link is requested."""
    with suppress(FetchError), source.fetcher.deadline(20) as deadline:
        await source.fetcher.fetch(FetchRequest(url, method="HEAD", read_body=False), deadline)
        return True
    return False


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("mode", "start", "is_reached"),
    [
        ("local", "private", True),
        ("local", PUBLIC, False),
        ("local", PUBLIC.replace("14/", "14:9200/"), False),  # a port that teams may not fetch
        ("local", PUBLIC.replace("//", "//ann:pw@"), False),
        ("local", UNKNOWN, False),
        ("local", "http://mixed.test/", False),
        ("local", "http://private.test/", True),
        ("team", "private", False),
        ("team", PUBLIC, False),
    ],
)
async def test_private_addresses_are_reached_from_private_sites_alone(
    site: Site, mode: EgressMode, start: str, *, is_reached: bool
) -> None:
    site.page("/", "private")
    policy = EgressPolicy(mode)
    async with EgressRoutes(policy, "test", HostThrottle(), BlockingScraper()) as routes:
        route = await routes.route_for({})
        source = await routes.link_source(route, {}, site.url if start == "private" else start)
        for _ in range(2):
            assert await reaches(source, site.url) is is_reached
            assert (await source.robots.reply(site.url.rstrip("/"))).status == 404 * is_reached
    assert bool(site.requests) is is_reached
