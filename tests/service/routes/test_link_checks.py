"""Crawls with `check_links`: links to other sites, and to pages not visited, are requested once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.service.conftest import Api, open_service
from tests.service.routes.teams import member
from tests.service.routes.test_long_crawls import read
from tests.service.routes.test_page_facts import facts_of
from tests.site.document import document
from tests.site.faults import drip, wire
from tests.site.server import Answer, Site
from webdata_nb.service.crawl import link_check
from webdata_nb.service.crawl.link_check import MAX_LINKS_PER_HOST
from webdata_nb.service.crawl.robots_rules import RobotsRules

LOOPBACK = ("127.0.0.0/8",)
METADATA = "http://169.254.169.254/latest/meta-data/"


@pytest.fixture
def outside() -> Iterator[Site]:
    """Another site, on a port of its own."""
    with Site() as site:
        yield site


def only(method: str, other: int = 404) -> Callable[[web.BaseRequest], Answer]:
    """Answer one method with a page, and any other with an error."""

    def answer(request: web.BaseRequest) -> Answer:
        return web.Response(status=200 if request.method == method else other)

    return answer


def faults(outside: Site) -> dict[str, tuple[str, str]]:
    """Set what the links of the other site answer; return outcome and detail of each path."""
    outside.page("/fine", "fine")
    outside.page("/no-head", only("GET", 405))
    outside.page("/false-head", only("GET", 404))
    outside.page("/gone", "gone", status=410)
    outside.page("/login", "login", status=401)
    outside.page("/fault", "fault", status=505)
    outside.page("/odd", wire(b"HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n"))
    outside.redirect("/moved", "/fine", status=301)
    outside.redirect("/to-gone", "/gone", status=302)
    outside.redirect("/circle", "/circle", status=302)
    outside.redirect("/to-private", "/private/page")
    outside.redirect("/to-metadata", METADATA)
    outside.page("/drip", _no_head(drip(b"x" * 100_000, interval=1)))
    outside.robots("User-agent: *\nDisallow: /private/")
    redirects = f"redirects to {outside.url}"
    return {
        "/fine": ("link_ok", ""),
        "/no-head": ("link_ok", ""),
        "/false-head": ("link_ok", ""),
        "/drip": ("link_ok", ""),
        "/gone": ("link_broken", "HTTP 410 Gone"),
        "/login": ("link_refused", "HTTP 401 Unauthorized"),
        "/fault": ("link_unreachable", "HTTP 505 HTTP Version Not Supported"),
        "/odd": ("link_refused", "HTTP 999 unknown status"),
        "/moved": ("link_ok", f"{redirects}fine"),
        "/to-gone": ("link_broken", f"{redirects}gone: HTTP 410 Gone"),
        "/circle": ("link_broken", "The page redirects in a circle"),
        "/private/x": ("link_unchecked", "robots.txt disallows it"),
        "/to-private": ("link_unchecked", f"{redirects}private/page: robots.txt disallows it"),
        "/to-metadata": ("link_unchecked", f"redirects to {METADATA}: The network policy"),
    }


def _no_head(handler: Callable[[web.BaseRequest], Any]) -> Callable[[web.BaseRequest], Any]:
    return lambda request: (
        web.Response(status=405) if request.method == "HEAD" else handler(request)
    )


async def receipt_of(api: Api, job_id: str, **options: Any) -> dict[str, tuple[str, str]]:
    reply = await api.get(f"/v1/crawl/{job_id}/receipt", params={"per_page": 10_000}, **options)
    return {each["url"]: (each["outcome"], each["detail"] or "") for each in reply["data"]}


def methods(site: Site) -> dict[str, list[str]]:
    """Return the methods of the requests for each path, without robots.txt."""
    found: dict[str, list[str]] = {}
    for hit in site.requests:
        found.setdefault(hit.path, []).append(hit.method)
    found.pop("/robots.txt", None)
    return found


async def test_links_to_other_sites_are_requested_once(api: Api, site: Site, outside: Site) -> None:
    expected = faults(outside)
    links = [outside.at(path) for path in expected]
    far = {
        "http://nowhere.invalid/": "link_unreachable",
        "http://127.0.0.1:1/": "link_unchecked",  # no port for pages
        METADATA: "link_unchecked",
    }
    site.page("/", document("Start", links=["/p1", *links, *far]))
    site.page("/p1", document("Page", links=["/", *reversed(links), f"{outside.at('/fine')}#x"]))
    site.redirect("/away", outside.at("/fine"))
    secret = {"scrape_options": {"headers": {"X-Key": "secret"}, "cookies": {"a": "secret"}}}
    plain = await api.run_job("crawl", url=site.url, **secret)
    assert methods(outside) == {}
    assert plain["receipt"]["counts"]["scope"] == len(links) + len(far)

    job = await api.run_job("crawl", url=site.url, check_links=True, **secret)
    receipt = await receipt_of(api, job["job_id"])
    assert "scope" not in job["receipt"]["counts"]
    for path, (outcome, detail) in expected.items():
        found_outcome, found_detail = receipt[outside.at(path)]
        assert (path, found_outcome) == (path, outcome)
        assert found_detail.startswith(detail)
        assert detail or outcome != "link_ok" or not found_detail
    assert {url: receipt[url][0] for url in far} == far
    assert [row["url"] for row in job["data"]] == [row["url"] for row in plain["data"]]
    assert job["credits"] == plain["credits"]

    requested = methods(outside)
    assert requested["/login"] == requested["/no-head"] == ["HEAD", "GET"]
    assert Counter(requested["/fine"]) == {"HEAD": 2}  # of itself, and behind the redirect
    assert "/private/x" not in requested
    assert "/private/page" not in requested
    assert not any("secret" in str(hit.headers) for hit in outside.requests)

    events = (await api.http.get(f"/v1/crawl/{job['job_id']}/events")).text
    assert '"links_checked":17' in events
    facts = {each["url"]: each for each in await facts_of(api, job["job_id"])}
    moved = facts[outside.at("/moved")]
    assert (moved["result"], moved["status_code"], moved["position"]) == ("link_ok", 200, None)
    assert moved["redirects"] == [{"url": outside.at("/moved"), "status_code": 301}]
    gone = facts[outside.at("/gone")]
    assert (gone["result"], gone["reason"], gone["error"]) == (
        "link_broken",
        "http_410",
        "HTTP 410 Gone",
    )


async def test_hosts_that_fail_or_ask_for_a_pause(api: Api, site: Site) -> None:
    busy = {"Retry-After": "600"}
    with Site() as resets, Site() as floods, Site() as paused, Site() as hidden:
        links = [resets.page("/reset", wire(b"", reset=True))]
        links += [floods.page("/headers", "x", headers={"X-Much": "m" * 70_000})]
        links += [paused.page("/1", "busy", status=429, headers=busy), paused.page("/2", "fine")]
        hidden.robots("no", status=503)
        links += [hidden.page("/", "hidden")]
        site.page("/", document("Start", links=links))
        job = await api.run_job("crawl", url=site.url, check_links=True)
        receipt = await receipt_of(api, job["job_id"])
        assert methods(paused) == {"/1": ["HEAD"]}
        assert methods(hidden) == {}
    assert [receipt[url][0] for url in links] == [
        "link_unreachable",
        "link_unreachable",
        "link_unchecked",
        "link_unchecked",
        "link_unchecked",
    ]
    assert "asked for a pause" in receipt[links[3]][1]
    assert receipt[links[4]][1] == "robots.txt could not be read (status 503)"


async def test_pages_that_the_crawl_did_not_get_to_are_requested_too(api: Api, site: Site) -> None:
    site.page("/", document("Start", links=["/p1", "/p2", "/p3", "/deep", "/left/out"]))
    site.page("/p1", document("Page"))
    site.page("/p2", document("Page"))
    body = {
        "url": site.url,
        "max_pages": 2,
        "exclude_paths": ["/left/**"],
        "scrape_options": {"headers": {"X-Key": "own"}},
    }
    job = await api.run_job("crawl", **body, check_links=True)
    assert job["receipt"]["counts"] == {"fetched": 2, "filtered": 1, "over_max_pages": 3}
    assert methods(site) == {
        "/": ["GET"],
        "/p1": ["GET"],
        "/p2": ["HEAD"],
        "/p3": ["HEAD", "GET"],
        "/deep": ["HEAD", "GET"],
    }
    assert {hit.headers["X-Key"] for hit in site.requests if hit.path != "/robots.txt"} == {"own"}
    facts = {each["url"]: each["result"] for each in await facts_of(api, job["job_id"])}
    assert facts[site.at("/p2")] == "link_ok"
    assert facts[site.at("/p3")] == "link_broken"


async def test_nofollow_links_and_robots_txt_may_be_ignored(
    api: Api, site: Site, outside: Site
) -> None:
    outside.robots("User-agent: *\nDisallow: /")
    outside.page("/a", "a")
    outside.page("/b", "b")
    site.page("/", f"<a href={outside.at('/a')}>a</a><a rel=nofollow href={outside.at('/b')}>b</a>")
    job = await api.run_job(
        "crawl", url=site.url, check_links=True, respect_nofollow=True, respect_robots_txt=False
    )
    receipt = await receipt_of(api, job["job_id"])
    assert receipt[outside.at("/a")] == ("link_ok", "")
    assert receipt[outside.at("/b")][0] == "nofollow"
    assert methods(outside) == {"/a": ["HEAD"]}


async def test_rules_behind_redirects_are_parsed_once_for_a_host(
    api: Api, site: Site, outside: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    parse = RobotsRules.parse_in_steps

    def parse_in_steps(text: str, token: str) -> Any:
        parsed.append(text)
        return parse(text, token)

    monkeypatch.setattr(RobotsRules, "parse_in_steps", parse_in_steps)
    with Site() as behind:
        behind.robots("User-agent: *\nDisallow: /no")
        behind.page("/yes", "x")
        targets = [behind.at(path) for path in ("/yes", "/no", "/gone")]
        links = [outside.redirect(f"/{n}", targets[n % 3]) for n in range(9)]
        site.page("/", document("Start", links=links))
        job = await api.run_job("crawl", url=site.url, check_links=True)
    counts = {"fetched": 1, "link_ok": 3, "link_unchecked": 3, "link_broken": 3}
    assert job["receipt"]["counts"] == counts
    assert len([text for text in parsed if "/no" in text]) == 1


async def test_a_page_may_list_any_number_of_links(api: Api, site: Site, outside: Site) -> None:
    outside.robots("User-agent: *\nDisallow: /")
    links = "".join(f"<a href={outside.at(f'/{number}')}>x</a>" for number in range(1500))
    site.page("/", links)
    job = await api.run_job("crawl", url=site.url, check_links=True)
    counts = job["receipt"]["counts"]
    assert counts["link_unchecked"] == MAX_LINKS_PER_HOST
    assert (
        sum(counts.values()) == counts["fetched"] + counts["link_unchecked"] + counts["over_links"]
    )
    assert methods(outside) == {}


@pytest.mark.both_stores
async def test_a_killed_service_checks_each_link_once(
    tmp_path: Path, site: Site, outside: Site
) -> None:
    links = [outside.at(f"/{number}") for number in range(12)]
    for number in range(0, 12, 2):
        outside.page(f"/{number}", "there")
    site.page("/", document("Start", links=links))
    body = {"url": site.url, "check_links": True}
    with outside.hold("/6"):
        async with open_service(tmp_path) as api:
            job_id = await api.start_job("crawl", body)
            await asyncio.to_thread(outside.wait_for, "/6")
    async with open_service(tmp_path) as api:
        again = await api.wait_for_end("crawl", job_id)
        entries = await receipt_of(api, job_id)
        requested = methods(outside)
        whole = await api.run_job("crawl", **body)
        assert entries == await receipt_of(api, whole["job_id"])
    assert again["receipt"] == whole["receipt"]
    assert again["receipt"]["counts"] == {"fetched": 1, "link_broken": 6, "link_ok": 6}
    assert requested.pop("/6") == ["HEAD", "HEAD"]
    assert set(map(tuple, requested.values())) == {("HEAD",), ("HEAD", "GET")}
    assert len(methods(site)["/"]) == 2  # one of each job


async def test_the_time_for_links_is_that_of_all_attempts(
    tmp_path: Path, site: Site, outside: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each link takes a thousand seconds, of an hour."""
    now = 0.0
    monkeypatch.setattr(link_check, "monotonic", lambda: now)

    def answer(_: web.BaseRequest) -> Answer:
        nonlocal now
        now += 1000
        return web.Response()

    links = [outside.page(f"/{number}", answer) for number in range(8)]
    site.page("/", document("Start", links=links))
    with outside.hold("/2"):
        async with open_service(tmp_path) as api:
            job_id = await api.start_job("crawl", {"url": site.url, "check_links": True})
            await asyncio.to_thread(outside.wait_for, "/2")
    async with open_service(tmp_path) as api:
        job = await api.wait_for_end("crawl", job_id)
        receipt = await receipt_of(api, job_id)
    assert job["receipt"]["counts"] == {"fetched": 1, "link_ok": 4, "over_links": 4}
    assert receipt[links[-1]] == ("over_links", "the time for links was over")


async def test_a_cancelled_crawl_checks_no_more_links(
    tmp_path: Path, site: Site, outside: Site
) -> None:
    mine, other = await member(tmp_path, "alice"), await member(tmp_path, "bob")
    site.page("/", document("Start", links=[outside.at(f"/{number}") for number in range(9)]))
    async with open_service(tmp_path, "team", allow_networks=LOOPBACK) as api:
        with outside.hold("/3"):
            body = {"url": site.url, "check_links": True}
            job_id = await api.start_job("crawl", body, headers=mine)
            await asyncio.to_thread(outside.wait_for, "/3")
            path = f"/v1/crawl/{job_id}/page-facts"
            await api.get(path, status=404, headers=other)
            await api.post(f"/v1/jobs/{job_id}/cancel", headers=mine)
        receipt = await receipt_of(api, job_id, headers=mine)
        assert len((await api.get(path, headers=mine))["data"]) == 4
    assert Counter(outcome for outcome, _ in receipt.values()) == {"fetched": 1, "link_broken": 3}
    assert "/4" not in methods(outside)


async def test_a_team_service_requests_no_private_address(
    tmp_path: Path, site: Site, outside: Site
) -> None:
    links = [outside.at("/", host="127.0.0.2"), outside.at("/", host="localhost")]
    outside.redirect("/to-private", links[0])
    site.page("/", document("Start", links=[*links, outside.at("/to-private")]))
    mine = await member(tmp_path, "alice")
    async with open_service(tmp_path, "team", allow_networks=("127.0.0.1/32",)) as api:
        body = {"url": site.url, "check_links": True}
        job_id = await api.start_job("crawl", body, headers=mine)
        await read(api, job_id, headers=mine)
        receipt = await receipt_of(api, job_id, headers=mine)
    assert receipt[links[0]][0] == "link_unchecked"
    assert receipt[outside.at("/to-private")][0] == "link_unchecked"
    hosts = {hit.headers["Host"].partition(":")[0] for hit in outside.requests}
    assert hosts <= {"127.0.0.1", "localhost"}


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("/v1/crawl", {"check_links": "yes"}, "must be true or false"),
        ("/v1/crawls", {"sink": {"warc": "/tmp/x.warc.gz"}}, "and check_links cannot be combined"),
    ],
)
async def test_crawls_without_link_checks(
    api: Api, path: str, fields: dict[str, Any], message: str
) -> None:
    body = {"url": "http://a.test/", "check_links": True, **fields}
    reply = await api.post(path, body, status=422)
    assert message in str(reply["detail"])
