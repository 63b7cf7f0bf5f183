"""A crawl as of a date is a crawl of the site at that date, read from a web archive."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.service.conftest import LOCAL_ONLY, Api, open_service
from tests.site.document import document
from tests.site.server import Answer, Site
from tests.site.web_archive import StubCapture, WebArchiveStub, crawl_capture
from webdata_nb.contract import paths
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import Access, SessionSettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

URL = "http://docs.test/"
DAY = "2024-06-01"
ADDRESSES = ("wayback", "commoncrawl", "commoncrawl_data")
TIMES = {"time_taken", "fetched_at", "capture_distance_s"}


@pytest.fixture
def archive() -> Iterator[WebArchiveStub]:
    with Site() as site:
        yield WebArchiveStub.on(site)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    async with open_service(tmp_path_factory.mktemp("data")) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def dated(archive: WebArchiveStub, shared_service: Api) -> Api:
    """Give a service that asks the stub, by the settings of a session."""
    await bind(shared_service, archive.address)
    return shared_service


async def bind(api: Api, address: str) -> None:
    await api.http.put("/local/leases/l1", json={})
    providers = {name: {"url": address} for name in ADDRESSES}
    settings = {"engines": dict.fromkeys(ENGINES, ("local",)), "providers": providers}
    bound = await api.http.put("/local/leases/l1/settings", json=settings)
    assert bound.status_code == 204, bound.text
    api.http.headers["X-Webdata-Lease"] = "l1"


def settings_for(archive: WebArchiveStub) -> SessionSettings:
    providers = {name: Access(url=archive.address) for name in ADDRESSES}
    return SessionSettings(engines=LOCAL_ONLY.engines, providers=providers)


def dated_body(url: str = URL, as_of: str = DAY, **options: Any) -> dict[str, Any]:
    """Return the request of a crawl of a web archive; the archive's options are arguments."""
    names = {"source": "archive", "max_distance": "max_distance"}
    captures = {field: options.pop(name) for name, field in names.items() if name in options}
    return {"url": url, "source": {"web_archive": {"as_of": as_of, **captures}}, **options}


async def crawl(api: Api, url: str = URL, as_of: str = DAY, **options: Any) -> Any:
    reply = await api.post(paths.EXTENDED_CRAWLS, dated_body(url, as_of, **options))
    return await api.wait_for_end("crawl", reply["job_id"])


async def details(api: Api, reply: Any) -> dict[str, str]:
    entries = await api.get(f"/v1/crawl/{reply['job_id']}/receipt")
    return {entry["url"]: entry["detail"] for entry in entries["data"]}


def titles(reply: Any) -> list[str]:
    return [row["title"] for row in reply["data"]]


def without_timings(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_timings(each) for name, each in value.items() if name not in TIMES}
    return [without_timings(each) for each in value] if isinstance(value, list) else value


# The acceptance test: 30 versions of a documentation site


@dataclass(frozen=True, slots=True)
class SitePage:
    """What a path of the documentation answers."""

    body: str = ""
    status: int = 200
    headers: Mapping[str, str] | None = None


def docs_version(number: int) -> dict[str, SitePage]:
    """Return a version of a documentation site: pages come, go, move, change and stay."""
    modules = [f"/api/m{n}" for n in range(number % 4, number % 4 + 3)]
    robots = "User-agent: *\nDisallow: /drafts\n" + ("Disallow: /private\n" if number % 2 else "")
    pages = {
        "/robots.txt": SitePage(
            robots, headers={"Content-Type": "text/plain", "Cache-Control": "no-cache"}
        ),
        "/": SitePage(document(f"Docs {number}", links=["/guide", "/private", "/drafts", "/old"])),
        "/guide": SitePage(document("Guide", links=[*modules, "/", "/gone"])),  # never changes
        "/private": SitePage(document("Private")),
        "/old": SitePage(status=301, headers={"Location": modules[0]}),
        "/drafts": SitePage(document("Draft")),
    }
    if number % 5 != 0:
        pages["/gone"] = SitePage(document(f"Going {number // 2}"))
    else:
        pages["/gone"] = SitePage(document("Not found"), status=404)
    for path in modules:
        pages[path] = SitePage(document(f"Module {path} {number // 3}", links=["/guide"]))
    pages["/guide"] = SitePage(document("Guide", links=[*modules, "/", "/gone"]))
    return pages


def publish(site: Site, pages: Mapping[str, SitePage]) -> None:
    for path, page in pages.items():
        site.page(path, page.body, status=page.status, headers=page.headers)


def capture_all(
    archive: WebArchiveStub, site: Site, pages: Mapping[str, SitePage], day: datetime
) -> None:
    """Capture a version within an hour, some pages twice and with https as well."""
    chance = random.Random(str(day))
    for path, page in pages.items():
        at = day + timedelta(minutes=chance.randint(0, 55))
        url = site.at(path)
        digests = {each.digest for each in archive.captures if each.url == url}
        capture = archive.add(
            url, at.isoformat(), page.body, status=page.status, headers=page.headers
        )
        if capture.digest in digests and page.status == 200:
            archive.captures[-1] = StubCapture(
                url, capture.at, capture.body, headers=capture.headers, is_revisit=True
            )
        if chance.random() < 0.3:
            other = url.replace("http://", "https://")
            archive.add(other, day.isoformat(), status=301, headers={"Location": url})


@pytest.mark.slow
async def test_each_of_30_versions_is_crawled_as_it_was(
    dated: Api, archive: WebArchiveStub, site: Site
) -> None:
    days = [datetime(2021, 1, 5, tzinfo=UTC) + timedelta(days=23 * n) for n in range(30)]
    live = []
    for number, day in enumerate(days):
        pages = docs_version(number)
        publish(site, pages)
        capture_all(archive, site, pages, day)
        live.append(await dated.run_job("crawl", url=site.url))
    site.forget()
    outcomes = set[str]()
    for day, expected in zip(days, live, strict=True):
        reply = await crawl(dated, site.url, day.isoformat(), max_distance=1)
        assert without_timings(reply["data"]) == without_timings(expected["data"])
        assert reply["receipt"]["counts"] == expected["receipt"]["counts"]
        assert all(0 <= row["capture_distance_s"] < 3600 for row in reply["data"])
        outcomes |= reply["receipt"]["counts"].keys()
    assert {"fetched", "robots", "redirect", "failed:http_404"} <= outcomes
    assert site.requests == ()


# Which capture counts


async def test_the_nearest_capture_counts_and_the_receipt_has_its_distance(
    dated: Api, archive: WebArchiveStub
) -> None:
    for at, name in (("2024-05-20", "old"), ("2024-06-04", "new"), ("2024-08-01", "newest")):
        archive.add(URL, at, document(f"Front {name}", links=["/a", "/b", "/c"]))
        archive.add(f"{URL}a", at, document(f"A {name}"))
    archive.add(f"{URL}b", "2024-05-31T12:00", document("B"))
    archive.add(f"{URL}b", "2024-06-01T12:00", document("B after"))
    archive.add(f"{URL}c", "2024-04-01", document("C too old"))
    reply = await crawl(dated)
    assert titles(reply) == ["Front new", "A new", "B"]  # of two as near, the earlier one
    day = 86_400
    assert [row["capture_distance_s"] for row in reply["data"]] == [3 * day, 3 * day, -day / 2]
    assert reply["data"][0]["fetched_at"] == "2024-06-04T00:00:00+00:00"
    details_by_url = await details(dated, reply)
    assert details_by_url[URL] == "captured 2024-06-04 00:00, 3 days after"
    assert details_by_url[f"{URL}b"] == "captured 2024-05-31 12:00, 12 hours before"
    assert details_by_url[f"{URL}c"] == (
        f"the Wayback Machine has no capture of {URL}c within 30 days of 2024-06-01 00:00"
    )
    wider = await crawl(dated, max_distance=100)
    assert titles(wider)[-1] == "C too old"
    lines = await dated.get(f"/v1/crawl/{reply['job_id']}/export?format=json")
    assert [line["capture_distance_s"] for line in lines] == [3 * day, 3 * day, -day / 2]
    export = await dated.http.get(f"/v1/crawl/{reply['job_id']}/export?format=csv")
    assert "capture_distance_s" in export.text.partition("\n")[0]


async def test_a_start_without_a_capture_fails_with_its_reason(
    dated: Api, archive: WebArchiveStub
) -> None:
    archive.add(URL, "2020-01-01", document("Front"))
    reply = await crawl(dated, max_distance=1)
    assert reply["error"] == (
        "the start page is not in the archive: the Wayback Machine has no capture of "
        f"{URL} within 1 day of 2024-06-01 00:00"
    )


async def test_another_capture_in_place_of_a_listed_one_must_be_near_as_well(
    dated: Api, archive: WebArchiveStub
) -> None:
    archive.add(URL, DAY, document("Front", links=["/near", "/far", "/lost"]))
    for path, other in (("near", "2024-06-05"), ("far", "2024-09-01"), ("lost", "")):
        archive.add(f"{URL}{path}", DAY, document(f"Listed {path}"))
        archive.lost.add((f"{URL}{path}", "20240601000000"))
        if other:
            archive.add(f"{URL}{path}", other, document(f"Other {path}"))
    reply = await crawl(dated)
    assert titles(reply) == ["Front", "Other near"]
    details_by_url = await details(dated, reply)
    assert "at 2024-09-01 00:00 only, and none within 30 days of" in details_by_url[f"{URL}far"]
    assert details_by_url[f"{URL}lost"] == (
        f"the Wayback Machine lists, and does not have the capture of {URL}lost at 2024-06-01 00:00"
    )


@pytest.mark.parametrize("with_original", [True, False])
async def test_redirects_are_those_of_that_time(
    dated: Api, archive: WebArchiveStub, *, with_original: bool
) -> None:
    archive.redirect_with_original = with_original
    archive.add(URL, DAY, document("Front", links=["/moved", "/away", "/circle"]))
    archive.add(f"{URL}moved", DAY, status=301, headers={"Location": "/target?a=1"})
    archive.add(f"{URL}target?a=1", "2024-06-03", document("Target"))
    archive.add(f"{URL}away", DAY, status=302, headers={"Location": "http://elsewhere.test/"})
    archive.add(f"{URL}circle", DAY, status=302, headers={"Location": "/circle"})
    archive.add("https://docs.test/", DAY, status=301, headers={"Location": URL})
    reply = await crawl(dated)
    assert titles(reply) == ["Front", "Target", None]
    assert reply["data"][1]["metadata"]["final_url"] == f"{URL}target?a=1"
    assert reply["receipt"]["counts"] == {"fetched": 2, "scope": 1, "failed:redirects": 1}
    secure = await crawl(dated, "https://docs.test/")
    assert titles(secure)[0] == "Front"


async def test_errors_of_that_time_are_rows_and_are_not_asked_again(
    dated: Api, archive: WebArchiveStub
) -> None:
    archive.add(URL, DAY, document("Front", links=["/busy", "/limited"]))
    archive.add(f"{URL}busy", DAY, "later", status=503)
    archive.add(f"{URL}limited", DAY, "later", status=429, headers={"Retry-After": "100"})
    reply = await crawl(dated)
    assert [row["status_code"] for row in reply["data"]] == [200, 503, 429]
    assert [row["capture_distance_s"] for row in reply["data"]] == [0.0, 0.0, 0.0]
    assert len([path for path in archive.site.paths if path.endswith("/busy")]) == 1


async def test_a_body_with_the_coding_of_its_capture_is_decoded(
    dated: Api, archive: WebArchiveStub
) -> None:
    body = gzip.compress(document("Compressed").encode())
    archive.add(URL, DAY, body, headers={"Content-Encoding": "gzip"})
    assert titles(await crawl(dated)) == ["Compressed"]


# The archive itself


@pytest.mark.slow
async def test_an_archive_that_asks_to_wait_is_waited_for(
    dated: Api, archive: WebArchiveStub
) -> None:
    archive.add(URL, DAY, document("Front", links=["/a"]))
    archive.add(f"{URL}a", DAY, document("A"))
    refusals = {"/cdx/": [429, 503], f"id_/{URL}a": [429, 500]}

    def answer(request: web.BaseRequest) -> Answer:
        for mark, statuses in refusals.items():
            is_meant = mark in request.raw_path and "robots" not in request.raw_path
            if is_meant and statuses:
                headers = {"Retry-After": "1"} if statuses[0] != 500 else {}
                return web.Response(status=statuses.pop(0), headers=headers)
        return archive.answer(request)

    archive.site.under("/", answer)
    assert titles(await crawl(dated)) == ["Front", "A"]
    assert refusals == {"/cdx/": [], f"id_/{URL}a": []}


async def test_an_archive_that_does_not_answer_is_no_page_that_is_missing(
    dated: Api, archive: WebArchiveStub
) -> None:
    archive.site.under("/", "<h1>Temporarily offline</h1>", status=200)
    reply = await crawl(dated)
    assert reply["status"] == "failed"
    assert "the index of the Wayback Machine cannot be read" in reply["error"]
    archive.excluded_hosts.add("docs.test")
    archive.site.under("/", archive.answer)
    excluded = await crawl(dated)
    assert excluded["error"].endswith("the Wayback Machine shows no captures of this site")


async def test_a_host_with_more_captures_than_one_reply_holds(
    dated: Api, archive: WebArchiveStub
) -> None:
    archive.max_lines = 7
    links = [f"/{n}" for n in range(10)]
    archive.add(URL, DAY, document("Front", links=links))
    for link in links:
        for day in ("2024-05-20", "2024-06-02"):
            archive.add(f"{URL}{link[1:]}", day, document(f"Page {link} {day}"))
    reply = await crawl(dated)
    assert titles(reply) == ["Front", *(f"Page {link} 2024-06-02" for link in links)]
    queries = [path for path in archive.site.paths if path.startswith("/cdx/")]
    assert len(queries) == 3  # the whole host at once: no question for each link
    assert all("matchType=host" in path for path in queries)


async def test_a_host_with_too_many_captures_is_asked_for_each_url(
    dated: Api, archive: WebArchiveStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webdata_nb.service.archives.archive.MAX_CAPTURES_LISTED", 4)
    archive.max_lines = 2
    archive.add(URL, DAY, document("Front", links=["/a", "/often"]))
    archive.add(f"{URL}a", "2024-05-31", document("A"))
    for hour in range(12):
        archive.add(f"{URL}often", f"2024-05-28T{hour:02}:00", document(f"Often {hour}"))
    archive.add(f"{URL}often", "2024-05-31T23:00", document("Nearest"))
    assert titles(await crawl(dated)) == ["Front", "A", "Nearest"]


async def test_a_stopped_crawl_continues(archive: WebArchiveStub, tmp_path: Path) -> None:
    links = [f"/{n}" for n in range(25)]
    archive.add(URL, DAY, document("Front", links=links))
    for link in links:
        archive.add(f"{URL}{link[1:]}", DAY, document(f"Page {link}"))
    gate = archive.site.hold(f"/web/20240601000000id_/{URL}20")
    settings = settings_for(archive)
    async with open_service(tmp_path / "data", providers=settings) as api:
        body = dated_body(concurrency=1)
        job_id = (await api.post(paths.EXTENDED_CRAWLS, body))["job_id"]
        await asyncio.to_thread(archive.site.wait_for, f"/web/20240601000000id_/{URL}10")
    gate.release()
    queries = [path for path in archive.site.paths if path.startswith("/cdx/")]
    async with open_service(tmp_path / "data", providers=settings) as api:
        reply = await api.wait_for_end("crawl", job_id)
    # Captures that the archive added in the meantime are not mixed with those that it had.
    assert [path for path in archive.site.paths if path.startswith("/cdx/")] == queries
    assert titles(reply) == ["Front", *(f"Page {link}" for link in links)]
    assert [row["capture_distance_s"] for row in reply["data"]] == [0.0] * 26


# Common Crawl


def add_common_crawl(archive: WebArchiveStub) -> None:
    for name, at, text in (
        ("CC-MAIN-2024-10", "2024-03-06T10:00", "March"),
        ("CC-MAIN-2024-22", "2024-05-28T10:00", "May"),
        ("CC-MAIN-2019-09", "2019-02-26T10:00", "2019"),
    ):
        archive.add_crawl(
            name,
            crawl_capture(URL, at, document(f"Front {text}", links=["/a", "/b", "/moved"])),
            *(crawl_capture(f"{URL}{n}", at, document(f"{n} {text}")) for n in "abcdef"),
            crawl_capture(f"{URL}moved", at, "", status=301, headers={"Location": "/c"}),
            crawl_capture("http://other.test/", at, document("Other")),
        )


async def test_common_crawl_gives_records_of_the_crawl_at_that_time(
    dated: Api, archive: WebArchiveStub
) -> None:
    add_common_crawl(archive)
    reply = await crawl(dated, source="commoncrawl")
    assert titles(reply) == ["Front May", "a May", "b May", "c May"]
    assert reply["data"][0]["capture_distance_s"] == -(4 * 86_400 - 10 * 3600)
    asked = {path.partition("?")[0] for path in archive.site.paths}
    assert "/CC-MAIN-2024-10-index" not in asked  # it ended long before
    old = await crawl(dated, as_of="2019-03-01", source="commoncrawl")
    assert titles(old) == ["Front 2019", "a 2019", "b 2019", "c 2019"]


async def test_files_of_common_crawl_that_are_gone_or_damaged(
    dated: Api, archive: WebArchiveStub
) -> None:
    add_common_crawl(archive)

    def answer(request: web.BaseRequest) -> Answer:
        reply = archive.answer(request)
        if request.raw_path.startswith("/crawl-data/") and isinstance(reply, web.Response):
            served.append(request.raw_path)
            if len(served) == 2:
                return web.Response(status=404)
            if len(served) == 3 and isinstance(reply.body, bytes):
                return web.Response(status=206, body=reply.body[:-40])
        return reply

    served: list[str] = []
    archive.site.under("/", answer)
    reply = await crawl(dated, source="commoncrawl", concurrency=1, respect_robots_txt=False)
    assert reply["receipt"]["counts"] == {
        "fetched": 2,
        "not_archived": 1,
        "failed:protocol": 1,
    }


# The listing


async def test_captures_come_in_pages_with_their_addresses(
    dated: Api, archive: WebArchiveStub
) -> None:
    for month in range(1, 6):
        archive.add(URL, f"2024-0{month}-01", document(f"Front {month}"))
    archive.add(URL, "2024-05-02", document("Front 5"))
    body = {"url": URL, "limit": 2, "start": "2024-02-01"}
    found, cursor = [], None
    while True:
        reply = await dated.post(paths.CAPTURES, body | ({"cursor": cursor} if cursor else {}))
        assert len(reply["captures"]) <= 2
        found += reply["captures"]
        cursor = reply["cursor"]
        if cursor is None:
            break
    assert [each["captured_at"][:7] for each in found] == [f"2024-0{m}" for m in range(2, 6)]
    assert found[0]["archive_url"] == f"{archive.address}/web/20240201000000id_/{URL}"


async def test_captures_of_common_crawl_come_crawl_by_crawl(
    dated: Api, archive: WebArchiveStub
) -> None:
    add_common_crawl(archive)

    async def listed(**body: object) -> list[Any]:
        replies: list[Any] = []
        while True:
            cursor = {"cursor": replies[-1]["cursor"]} if replies else {}
            request = {"url": URL, "source": "commoncrawl", **body, **cursor}
            replies.append(await dated.post(paths.CAPTURES, request))
            if replies[-1]["cursor"] is None:
                return replies

    exact = await listed()
    assert [reply["indexes"][0]["index"][-7:] for reply in exact] == [
        *("2024-22", "2024-10", "2019-09"),
    ]
    whole_host = await listed(match="host", start="2024-05-01", limit=3)
    urls = [capture["url"] for reply in whole_host for capture in reply["captures"]]
    assert urls == [URL, *(f"{URL}{name}" for name in ("a", "b", "c", "d", "e", "f", "moved"))]
    [none] = await listed(start="2010-01-01", end="2011-01-01")
    assert none["indexes"][0]["outcome"] == "no_captures"
    missing = await listed(url="http://none.test/")
    assert {reply["indexes"][0]["outcome"] for reply in missing} == {"no_captures"}


async def test_a_busy_archive_says_when_to_ask_again(dated: Api, archive: WebArchiveStub) -> None:
    archive.site.under("/", lambda _: web.Response(status=429, headers={"Retry-After": "33"}))
    reply = await dated.http.post(paths.CAPTURES, json={"url": URL})
    assert (reply.status_code, reply.headers["Retry-After"]) == (503, "33")
    assert reply.json()["detail"] == "the Wayback Machine asks to wait (status 429)"


async def test_an_index_of_common_crawl_that_fails_is_an_outcome(
    dated: Api, archive: WebArchiveStub
) -> None:
    add_common_crawl(archive)
    archive.site.page("/CC-MAIN-2024-22-index", "<h1>no index</h1>")
    reply = await dated.post(paths.CAPTURES, {"url": URL, "source": "commoncrawl"})
    [index] = reply["indexes"]
    assert (index["outcome"], reply["captures"]) == ("unavailable", [])
    assert reply["cursor"] == "CC-MAIN-2024-10/0/0"


@pytest.mark.parametrize("body", ["<h1>no pages</h1>", "{}"])
async def test_an_index_of_unknown_length_is_an_outcome(
    dated: Api, archive: WebArchiveStub, body: str
) -> None:
    add_common_crawl(archive)

    def answer(request: web.BaseRequest) -> Answer:
        asks_pages = "showNumPages" in request.raw_path
        return web.Response(text=body) if asks_pages else archive.answer(request)

    archive.site.under("/", answer)
    listing = {"url": URL, "match": "host", "source": "commoncrawl"}
    reply = await dated.post(paths.CAPTURES, listing)
    assert (reply["indexes"][0]["outcome"], len(reply["captures"])) == ("unavailable", 4)
    assert reply["cursor"] == "CC-MAIN-2024-10/0/0"


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        (paths.CAPTURES, {"url": "ftp://a.test/"}, "url"),
        (paths.CAPTURES, {"source": "archive.today"}, "source"),
        (paths.CAPTURES, {"start": "yesterday"}, "start"),
        (paths.CAPTURES, {"start": "2024-02-01", "end": "2024-01-01"}, "body"),
        (paths.CAPTURES, {"limit": 0}, "limit"),
        (paths.CAPTURES, {"source": "commoncrawl", "cursor": "../x"}, "cursor"),
        (paths.EXTENDED_CRAWLS, {"source": {"web_archive": {}}}, "as_of"),
        (paths.EXTENDED_CRAWLS, dated_body(as_of="2999-01-01"), "as_of"),
        (paths.EXTENDED_CRAWLS, dated_body(as_of="1995-12-31"), "as_of"),
        (paths.EXTENDED_CRAWLS, dated_body(as_of="2024-13-01"), "as_of"),
        (paths.EXTENDED_CRAWLS, dated_body(max_distance=-1), "max_distance"),
        (paths.EXTENDED_CRAWLS, dated_body(max_distance="30d"), "max_distance"),
        (paths.EXTENDED_CRAWLS, dated_body(scrape_options={"render": True}), "body"),
        (paths.EXTENDED_CRAWLS, dated_body(scrape_options={"cookies": {"a": "b"}}), "body"),
        (paths.EXTENDED_CRAWLS, dated_body(purpose="research"), "body"),
    ],
)
async def test_requests_that_make_no_sense_are_refused(
    dated: Api, archive: WebArchiveStub, path: str, body: dict[str, object], where: str
) -> None:
    add_common_crawl(archive)
    reply = await dated.post(path, {"url": URL, **body}, 422)
    assert reply["detail"][0]["loc"][-1] == where


async def test_an_address_that_is_none_is_a_missing_setting(dated: Api) -> None:
    await bind(dated, "archive")
    reply = await dated.post(paths.CAPTURES, {"url": URL}, 501)
    assert "WEBDATA_WAYBACK_URL must be" in reply["detail"]
    assert "WEBDATA_WAYBACK_URL must be" in (await crawl(dated))["error"]
