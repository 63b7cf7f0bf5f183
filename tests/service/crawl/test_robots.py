"""Replies to requests for robots.txt and their meaning (RFC 9309, 2.3.1)."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

import pytest
from aiohttp import web

from tests.requirements import require
from tests.site import faults
from tests.site.server import Handler, Site
from webdata_nb.service.crawl import robots as module
from webdata_nb.service.crawl.robots import (
    MAX_CACHE_S,
    UNREACHABLE_CACHE_S,
    JobRobots,
    RobotsCache,
    RobotsReply,
)
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.web.polite_fetcher import PoliteFetcher
from webdata_nb.service.web.throttle import HostThrottle

RULES: Final = "User-agent: *\nDisallow: /private\n"
TEXT: Final = {"Content-Type": "text/plain"}


@pytest.fixture
async def direct() -> AsyncIterator[Fetcher]:
    async with Fetcher(EgressPolicy("local"), user_agent="test") as opened:
        yield opened


@pytest.fixture
def fetcher(direct: Fetcher) -> PoliteFetcher:
    return PoliteFetcher(direct, HostThrottle())


@dataclass
class Clock:
    """A clock that the test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Case:
    """What a site does, and whether /open and /private may then be fetched."""

    serve: Callable[[Site], object]
    open: bool
    private: bool
    requests: int | None = None
    delay_s: float = 0.0
    url: str | None = field(default=None)


def body(data: bytes, **headers: str) -> Callable[[Site], object]:
    return lambda site: site.page("/robots.txt", data, headers={**TEXT, **headers})


def status(code: int, **headers: str) -> Callable[[Site], object]:
    return lambda site: site.page("/robots.txt", RULES, status=code, headers={**TEXT, **headers})


def hops(count: int) -> Callable[[Site], object]:
    def serve(site: Site) -> None:
        site.redirect("/robots.txt", "/r1")
        for i in range(1, count):
            site.redirect(f"/r{i}", f"/r{i + 1}")
        site.page(f"/r{count}", RULES, headers=TEXT)

    return serve


def does(handler: Handler) -> Callable[[Site], object]:
    return lambda site: site.page("/robots.txt", handler)


def elsewhere(site: Site) -> None:
    site.redirect("/robots.txt", site.at("/theirs", host="localhost"))
    site.page("/theirs", RULES, headers=TEXT)


def slow(site: Site) -> None:
    site.page("/robots.txt", RULES, delay=30)


OBEY: Final = (True, False)
ALLOW: Final = (True, True)
DISALLOW: Final = (False, False)
BIG: Final = RULES.encode() + b"# filler\n" * 100_000
BOMB: Final = RULES.encode() + b"# filler\n" * 1_000_000
GROUPS: Final = b"User-agent: *\nDisallow: /private\n" * 100_000

CASES: Final[dict[str, Case]] = {
    "200 text/plain rules": Case(body(RULES.encode()), *OBEY),
    "200 text/html error page": Case(body(b"<title>Oops</title><p>Disallow</p>"), *ALLOW),
    "200 empty": Case(body(b""), *ALLOW),
    "200 larger than 500 KiB": Case(body(BIG), *OBEY),
    "200 UTF-8 BOM": Case(body(RULES.encode("utf-8-sig")), *OBEY),
    "200 UTF-16LE with BOM": Case(body(b"\xff\xfe" + RULES.encode("utf-16-le")), *ALLOW),
    "200 with NUL bytes": Case(body(b"\x00\n" + RULES.encode() + b"\x00"), *OBEY),
    "200 gzip body": Case(
        body(gzip.compress(RULES.encode()), **{"Content-Encoding": "gzip"}), *OBEY
    ),
    "200 gzip bomb": Case(
        body(gzip.compress(BOMB), **{"Content-Encoding": "gzip"}), *DISALLOW, requests=1
    ),
    "301 x5 then 200": Case(hops(5), *OBEY, requests=6),
    "301 x6": Case(hops(6), *ALLOW, requests=6),
    "301 to other host": Case(elsewhere, *OBEY),
    "301 to internal address": Case(
        lambda site: site.redirect("/robots.txt", "http://169.254.169.254/latest"), *DISALLOW
    ),
    "302 loop": Case(lambda site: site.redirect("/robots.txt", "/robots.txt"), *ALLOW),
    **{str(code): Case(status(code), *ALLOW, requests=1) for code in (400, 401, 403, 404, 410)},
    "429": Case(status(429), *DISALLOW, requests=3),
    "500": Case(status(500), *DISALLOW, requests=3),
    "502": Case(status(502), *DISALLOW, requests=3),
    "503 with Retry-After": Case(status(503, **{"Retry-After": "90"}), *DISALLOW, requests=1),
    "timeout": Case(slow, *DISALLOW),
    "connection refused": Case(lambda _site: None, *DISALLOW, url="http://127.0.0.1:1"),
    "DNS failure": Case(lambda _site: None, *DISALLOW, url="http://no-such-host.invalid"),
    "TLS failure": Case(lambda _site: None, *DISALLOW, url="https"),
    "truncated body": Case(does(faults.cut("length")), *DISALLOW),
    "Crawl-delay: 999999": Case(
        body(RULES.encode() + b"Crawl-delay: 999999"), *OBEY, delay_s=module.MAX_DELAY_S
    ),
    "Crawl-delay: -1 / nan / 1e9": Case(
        body(RULES.encode() + b"Crawl-delay: -1\nCrawl-delay: nan\nCrawl-delay: 1e9"), *OBEY
    ),
    "10,000 Sitemap lines": Case(body(b"Sitemap: /s\n" * 10_000 + RULES.encode()), *OBEY),
    "User-agent groups 100,000": Case(body(GROUPS), *OBEY),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
async def test_robots_reply_decides_access(
    name: str, fetcher: PoliteFetcher, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    if name == "timeout":
        monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    case.serve(site)
    base = case.url or site.at("")
    if base == "https":  # a server that speaks no TLS
        base = site.at("").replace("http:", "https:")
    robots = JobRobots(RobotsCache(fetcher), "test", {})
    assert await robots.allowed(f"{base}/open") is case.open
    assert await robots.allowed(f"{base}/private") is case.private
    assert await robots.delay_s(f"{base}/open") == case.delay_s
    assert len(site.requests) <= 6
    if case.requests is not None:
        assert len(site.requests) == case.requests
    if case.url == "http://no-such-host.invalid":
        assert "no-such-host.invalid" in (await robots.reply(base)).refusal


def test_all_corpus_cases_are_tested() -> None:
    corpus = require("corpora") / "own/robots_access_cases.json"
    assert {each["case"] for each in json.loads(corpus.read_text())} == set(CASES)


async def test_jobs_share_cached_robots_for_a_day(fetcher: PoliteFetcher, site: Site) -> None:
    site.robots(RULES)
    clock = Clock()
    cache = RobotsCache(fetcher, clock=clock)
    for expected in (1, 1):
        await JobRobots(cache, "test", {}).allowed(site.url)
        assert len(site.requests) == expected
    clock.now = MAX_CACHE_S
    await JobRobots(cache, "test", {}).allowed(site.url)
    assert len(site.requests) == 2


@pytest.mark.parametrize(
    ("header", "kept_s"),
    [
        ("max-age=600", 600),
        ("public, max-age=9999999", MAX_CACHE_S),
        ("no-cache", 0),
        ("s-maxage=5", MAX_CACHE_S),
    ],
)
async def test_cache_control_shortens_cache_time(
    fetcher: PoliteFetcher, site: Site, header: str, kept_s: float
) -> None:
    site.page("/robots.txt", RULES, headers={**TEXT, "Cache-Control": header})
    clock = Clock()
    cache = RobotsCache(fetcher, clock=clock)
    await cache.reply(site.at(""))
    if kept_s:
        clock.now = kept_s - 1
        await cache.reply(site.at(""))
        assert len(site.requests) == 1
    clock.now = kept_s
    await cache.reply(site.at(""))
    assert len(site.requests) == 2


@pytest.mark.parametrize(("after", "kept_s"), [("90", 90.0), ("25", UNREACHABLE_CACHE_S)])
async def test_unreachable_robots_is_refetched_after_a_minute(
    direct: Fetcher, site: Site, after: str, kept_s: float
) -> None:
    site.page("/robots.txt", status=503, headers={"Retry-After": after})
    clock = Clock()
    throttle = HostThrottle(clock=clock, random_fraction=lambda: 0.0)
    cache = RobotsCache(PoliteFetcher(direct, throttle), clock=clock)
    assert (await cache.reply(site.at(""))).unreachable
    site.robots(RULES)
    clock.now = kept_s - 1
    assert (await cache.reply(site.at(""))).unreachable
    clock.now = kept_s
    assert await cache.reply(site.at("")) == RobotsReply(200, RULES)


async def test_transient_error_is_retried(fetcher: PoliteFetcher, site: Site) -> None:
    site.page(
        "/robots.txt",
        faults.sequence(faults.status(503), faults.cut("body"), lambda _: web.Response(text=RULES)),
    )
    assert await RobotsCache(fetcher).reply(site.at("")) == RobotsReply(200, RULES)


async def test_job_keeps_robots_of_first_use(fetcher: PoliteFetcher, site: Site) -> None:
    site.robots(RULES)
    job = JobRobots(RobotsCache(fetcher), "test", {})
    assert not await job.allowed(site.at("/private"))
    frozen = dict(job.pop_unsaved())
    assert job.pop_unsaved() == ()
    site.robots("")
    again = JobRobots(RobotsCache(fetcher), "test", frozen)
    assert not await again.allowed(site.at("/private"))
    assert len(site.requests) == 1


async def test_concurrent_workers_share_one_robots_request(
    fetcher: PoliteFetcher, site: Site
) -> None:
    site.page("/robots.txt", RULES, headers={**TEXT, "Cache-Control": "no-cache"}, delay=0.05)
    job = JobRobots(RobotsCache(fetcher), "test", {})
    answers = await asyncio.gather(*(job.allowed(site.at("/private")) for _ in range(10)))
    assert answers == [False] * 10
    assert len(site.requests) == 1


async def test_cache_size_is_bounded(
    fetcher: PoliteFetcher, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CACHE_BYTES", 3000)
    site.robots("#" * 500)
    cache = RobotsCache(fetcher)
    names = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
    for name in names:
        await cache.reply(site.at("", host=name))
    requests = len(site.requests)
    await cache.reply(site.at("", host=names[-1]))
    assert len(site.requests) == requests
