"""A crawl of an archive is a crawl of the site at the time of its capture, without a request."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.service.archives.warc_files import (
    DATE,
    capture,
    compressed,
    record,
    response,
    write_wacz,
    write_warc,
)
from tests.service.conftest import Api, open_service
from tests.service.routes.teams import member
from tests.site.document import document
from tests.site.server import Answer, Site
from webdata_nb.contract import paths
from webdata_nb.contract.archives import file_version

TIMINGS = {"time_taken", "fetched_at"}
PATHS = (
    "/",
    *(f"/p{n}" for n in range(12)),
    "/moved",
    "/moved-again",
    "/moved-away",
    "/copy",
    "/gone",
    "/busy",
)


def linked_pages(site: Site) -> None:
    """Make pages that link to each other, to redirects, a copy, and to errors."""
    for n in range(12):
        links = [f"/p{n * step % 12}" for step in (2, 3, 5)]
        others = ["/moved", "/moved-again", "/moved-away", "/copy", "/gone", "/busy"]
        site.page(f"/p{n}", document(f"Page {n}", links=[*links, *others, "/secret"]))
    site.page("/", document("Front", links=["/p1", "/p2"]))
    site.page("/copy", document("Page 1", links=["/p2", "/p3", "/p5"]))
    site.redirect("/moved", "/p7", status=301)
    site.redirect("/moved-again", "/p1", status=308)
    site.redirect("/moved-away", "http://elsewhere.test/", status=302)
    site.page("/busy", "try later", status=503)
    site.page("/secret", document("Secret"))
    site.robots("User-agent: *\nDisallow: /secret\nCrawl-delay: 0\n")


def captures(site: Site, paths: Iterable[str] = (*PATHS, "/secret", "/robots.txt")) -> list[bytes]:
    return [capture(site.at(path)) for path in paths]


def body_for(path: Path, **options: Any) -> dict[str, Any]:
    status = path.stat()
    version = file_version(status.st_size, status.st_mtime_ns)
    return {"source": {"file": {"path": str(path), "version": version}}, **options}


async def crawl(api: Api, path: Path, **options: Any) -> Any:
    reply = await api.post(paths.EXTENDED_CRAWLS, body_for(path, **options))
    return await api.wait_for_end("crawl", reply["job_id"])


def without_timings(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_timings(each) for name, each in value.items() if name not in TIMINGS}
    return [without_timings(each) for each in value] if isinstance(value, list) else value


async def test_a_crawl_of_a_site_takes_no_pages_from_an_archive(
    api: Api, site: Site, tmp_path: Path
) -> None:
    """Nobody knows with which headers the pages of an archive were requested."""
    linked_pages(site)
    path = write_warc(tmp_path / "site.warc.gz", *captures(site))
    for options in ({}, {"url": site.url}):
        earlier = await crawl(api, path, **options)
        assert earlier["data"]
        body = {"url": site.url, "base": {"job_id": earlier["job_id"]}}
        reply = await api.post(paths.EXTENDED_CRAWLS, body, status=422)
        assert "it is of an archive" in str(reply)


@pytest.mark.parametrize(
    "strategy", ["bfs", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dfs", "bff"))]
)
async def test_rows_order_and_receipt_are_those_of_the_live_crawl(
    api: Api, site: Site, tmp_path: Path, strategy: str
) -> None:
    linked_pages(site)
    options = {
        "crawl_strategy": strategy,
        "max_pages": 20,
        "scrape_options": {"formats": ["markdown", "links", "headings", "raw_html"]},
    }
    live = await api.run_job("crawl", url=site.url, **options)
    records = captures(site)
    random.Random(1).shuffle(records)
    warc = write_warc(tmp_path / "a.warc.gz", *records)
    wacz = write_wacz(
        tmp_path / "a.wacz",
        {
            "archive/1.warc.gz": compressed(records[:9]),
            "archive/2.warc.gz": compressed(records[9:]),
        },
    )
    site.forget()
    for path in (warc, wacz):
        archived = await crawl(api, path, url=site.url, **options)
        assert without_timings(archived["data"]) == without_timings(live["data"])
        assert archived["receipt"] == live["receipt"]
        assert {row["fetched_at"] for row in archived["data"]} == {DATE.replace("Z", "+00:00")}
    assert site.requests == ()
    outcomes = live["receipt"]["counts"]
    assert {"robots", "redirect", "scope", "failed:http_404", "failed:http_503"} <= set(outcomes)


async def test_what_an_archive_lacks_is_an_outcome_and_no_row(
    api: Api, site: Site, tmp_path: Path
) -> None:
    linked_pages(site)
    path = write_warc(tmp_path / "a.warc.gz", *captures(site, ["/", "/p1", "/p2", "/moved"]))
    site.forget()
    reply = await crawl(api, path)
    assert [row["url"] for row in reply["data"]] == [site.at(p) for p in ("/", "/p1", "/p2")]
    job = f"/v1/crawl/{reply['job_id']}"
    entries = (await api.get(f"{job}/receipt", params={"outcome": "not_archived"}))["data"]
    missing = {entry["url"]: entry["detail"] for entry in entries}
    assert missing[site.at("/p3")] == f"The archive has no capture of {site.at('/p3')}"
    # A redirect names what it leads to.
    assert missing[site.at("/moved")] == f"The archive has no capture of {site.at('/p7')}"
    assert reply["receipt"]["counts"]["not_archived"] == len(missing)
    assert site.requests == ()


@pytest.mark.slow
async def test_a_site_of_which_the_archive_has_little_uses_no_budget(
    api: Api, site: Site, tmp_path: Path
) -> None:
    links = [f"/missing{n}" for n in range(120)]
    site.page("/", document("Front", links=[*links, "/last"]))
    site.page("/last", document("Last"))
    path = write_warc(tmp_path / "a.warc", *captures(site, ["/", "/last"]))
    reply = await crawl(api, path, max_pages=5)
    assert reply["receipt"]["counts"] == {"fetched": 2, "not_archived": 120}
    # Nor do more of them than there are URLs that may be disallowed: the index alone is asked.
    links = [f"/missing{n}" for n in range(800)]
    site.page("/", document("Front", links=[*links, "/last"]))
    path = write_warc(tmp_path / "b.warc", *captures(site, ["/", "/last"]))
    for strategy in ("bfs", "dfs", "bff"):
        reply = await crawl(api, path, max_pages=2, crawl_strategy=strategy)
        assert reply["receipt"]["counts"] == {"fetched": 2, "not_archived": 800}


async def test_robots_of_the_archive_hold_and_without_them_all_is_allowed(
    api: Api, tmp_path: Path
) -> None:
    url = "http://example.test/"
    pages = [response(url, document("Front", links=["/a"]).encode()), response(f"{url}a", b"A")]
    allowed = await crawl(api, write_warc(tmp_path / "a.warc.gz", *pages))
    assert allowed["receipt"]["counts"] == {"fetched": 2}
    rules = response(
        f"{url}robots.txt", b"User-agent: *\nDisallow: /a\n", content_type="text/plain"
    )
    path = write_warc(tmp_path / "b.warc.gz", *pages, rules)
    assert (await crawl(api, path))["receipt"]["counts"] == {"fetched": 1, "robots": 1}
    ignored = await crawl(api, path, respect_robots_txt=False)
    assert ignored["receipt"]["counts"] == {"fetched": 2}
    broken = response(f"{url}robots.txt", b"", status="503 Unavailable", retry_after="30")
    reply = await crawl(api, write_warc(tmp_path / "c.warc.gz", *pages, broken))
    assert reply["status"] == "failed"
    assert "robots.txt could not be read (status 503)" in reply["error"]


async def test_sitemaps_of_the_archive_are_read(api: Api, tmp_path: Path) -> None:
    url = "http://example.test/"
    front = response(url, document("Front").encode())
    listing = f"<urlset><url><loc>{url}seed</loc></url></urlset>".encode()
    path = write_warc(
        tmp_path / "a.warc.gz",
        front,
        response(f"{url}sitemap.xml", listing, content_type="text/xml"),
        response(f"{url}seed", document("Seed").encode()),
    )
    assert (await crawl(api, path, sitemap=True))["receipt"]["counts"] == {"fetched": 2}
    without = await crawl(api, write_warc(tmp_path / "b.warc", front), sitemap=True)
    assert without["receipt"]["counts"] == {"fetched": 1}


async def test_damaged_places_are_in_the_receipt(api: Api, tmp_path: Path) -> None:
    url = "http://example.test/"
    path = write_warc(
        tmp_path / "a.warc.gz",
        response(url, document("Front", links=["/a"]).encode()),
        response(f"{url}a", b"A" * 1000),
    )
    path.write_bytes(path.read_bytes()[:-20])
    reply = await crawl(api, path)
    assert reply["receipt"]["counts"] == {
        "fetched": 1,
        "not_archived": 1,
        "damaged_archive": 1,
    }
    job = f"/v1/crawl/{reply['job_id']}"
    [entry] = (await api.get(f"{job}/receipt", params={"outcome": "damaged_archive"}))["data"]
    assert entry["url"] == path.as_uri()
    assert entry["detail"].endswith("the file ends within the record")


async def test_captures_of_no_valid_url_are_in_the_receipt(api: Api, tmp_path: Path) -> None:
    url = "http://example.test/"
    path = write_warc(
        tmp_path / "a.warc.gz",
        response(url, document("Front", links=["/a"]).encode()),
        response("http://example.test:99999/a", b"A"),
        response("http://", b"B"),
        record("response", "dns:example.test", b"127.0.0.1"),
        record("resource", "urn:pageinfo:http://example.test/", b"{}"),
    )
    reply = await crawl(api, path)
    counts = reply["receipt"]["counts"]
    assert counts == {"fetched": 1, "not_archived": 1, "damaged_archive": 1}
    job = f"/v1/crawl/{reply['job_id']}"
    [entry] = (await api.get(f"{job}/receipt", params={"outcome": "damaged_archive"}))["data"]
    expected = "2 captures are of no valid URL, such as 'http://example.test:99999/a'"
    assert (entry["url"], entry["detail"]) == (path.as_uri(), expected)


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([b"text"], {}, "neither a WARC nor a WACZ file"),
        ([record("warcinfo", "", b"")], {}, "no capture of a web page"),
        ([response("http://example.test/robots.txt", b"", content_type="text/plain")], {},
         "no page to start from"),
        ([response("http://example.test/", b"a")], {"url": "http://example.test/b"},
         "the start page is not in the archive"),
    ],
)  # fmt: skip
async def test_unusable_archives_fail_with_one_sentence(
    api: Api, tmp_path: Path, records: list[bytes], options: dict[str, str], message: str
) -> None:
    reply = await crawl(api, write_warc(tmp_path / "a.warc", *records), **options)
    assert reply["status"] == "failed"
    assert message in reply["error"]
    assert reply["data"] == []


async def test_a_stopped_crawl_continues_from_the_archive(tmp_path: Path) -> None:
    url = "http://example.test/"
    links = [f"/{n}" for n in range(150)]
    pages = [response(url, document("Front", links=links).encode())]
    pages += [response(url + each[1:], document(f"Page {each}").encode()) for each in links]
    path = write_warc(tmp_path / "a.warc.gz", *pages)
    body = body_for(path, max_pages=200)
    async with open_service(tmp_path / "data") as api:
        job_id = (await api.post(paths.EXTENDED_CRAWLS, body))["job_id"]
        async with asyncio.timeout(60):
            while (await api.get(f"/v1/crawl/{job_id}"))["total_results"] < 5:  # noqa: ASYNC110 - another process's view
                await asyncio.sleep(0.01)
    async with open_service(tmp_path / "data") as api:
        assert (await api.get(f"/v1/crawl/{job_id}"))["status"] != "completed"
        await api.wait_for_end("crawl", job_id)
        status = await api.get(f"/v1/crawl/{job_id}", params={"per_page": 1000})
    assert [row["url"] for row in status["data"]] == [url, *(url + each[1:] for each in links)]
    assert status["receipt"]["counts"] == {"fetched": 151}


async def test_an_archive_that_changed_since_the_start_is_not_mixed(
    api: Api, tmp_path: Path
) -> None:
    path = write_warc(tmp_path / "a.warc", response("http://example.test/", b"old"))
    body = body_for(path)
    os.utime(path, ns=(1, 1))
    reply = await api.post(paths.EXTENDED_CRAWLS, body)
    ended = await api.wait_for_end("crawl", reply["job_id"])
    assert ended["status"] == "failed"
    assert "has changed since the crawl was started" in ended["error"]


@pytest.mark.parametrize(
    "options",
    [
        {"scrape_options": {"render": True}},
        {"scrape_options": {"render": "auto"}},
        {"scrape_options": {"formats": ["screenshot"]}},
        {"scrape_options": {"wait_for": 100}},
        {"scrape_options": {"mobile": True}},
        {"scrape_options": {"headers": {"X-A": "b"}}},
        {"scrape_options": {"cookies": {"a": "b"}}},
        {"url": "ftp://example.test/"},
        {"source": {"file": {"path": "", "version": "1"}}},
        {"source": {"file": {"path": "a.warc", "version": "1"}}},
    ],
)
async def test_options_that_need_a_request_are_refused(
    api: Api, tmp_path: Path, options: dict[str, Any]
) -> None:
    path = write_warc(tmp_path / "a.warc", response("http://example.test/", b"a"))
    await api.post(paths.EXTENDED_CRAWLS, {**body_for(path), **options}, 422)


async def test_a_team_service_reads_no_file_for_its_clients(tmp_path: Path) -> None:
    path = write_warc(tmp_path / "a.warc", response("http://example.test/", b"a"))
    written = tmp_path / "b.warc.gz"
    mine = await member(tmp_path / "team", "alice")
    async with open_service(tmp_path / "team", "team") as team:
        for body in (body_for(path), {"url": "http://a.test/", "sink": {"warc": str(written)}}):
            reply = await team.http.post(paths.EXTENDED_CRAWLS, json=body, headers=mine)
            assert reply.status_code == 422
            assert "only the local service uses files" in reply.text
        jobs = await team.get(paths.JOBS, headers=mine)
    assert jobs["jobs"] == []
    assert not written.exists()


async def test_links_to_this_machine_are_read_from_the_archive_alone(
    api: Api, site: Site, tmp_path: Path
) -> None:
    """A hostile archive must not make the service send a request, whatever its pages contain."""

    def refuse(_: web.BaseRequest) -> Answer:
        raise AssertionError

    site.under("/", refuse)
    links = [site.at("/a"), "http://169.254.169.254/latest/meta-data/", "file:///etc/passwd"]
    page = document("Front", links=links)
    path = write_warc(
        tmp_path / "a.warc.gz",
        response("http://example.test/", page.encode()),
        response("http://example.test/b", b"", status="302 Found", location=site.at("/b")),
    )
    reply = await crawl(api, path, allow_external_links=True)
    assert reply["receipt"]["counts"] == {"fetched": 1, "not_archived": 2}
    assert site.requests == ()


async def test_cancelled_crawls_of_hostile_archives_keep_no_other_from_its_end(
    api: Api, site: Site, tmp_path: Path
) -> None:
    started = []
    for number in range(8):  # more than there are threads of any kind
        path = write_warc(tmp_path / f"{number}.warc", response("http://example.test/", b"a"))
        os.truncate(path, 2**40)
        started.append((await api.post(paths.EXTENDED_CRAWLS, body_for(path)))["job_id"])
    for job_id in started:
        await api.post(f"/v1/jobs/{job_id}/cancel")
    site.page("/", "<title>Large</title>" + "<p>words of a page</p>" * 25_000)
    live = await api.run_job("crawl", url=site.url, max_pages=1)
    assert live["receipt"]["counts"] == {"fetched": 1}
    good = write_warc(tmp_path / "good.warc", response("http://example.test/", b"good"))
    assert (await crawl(api, good))["receipt"]["counts"] == {"fetched": 1}
    async with asyncio.timeout(60):
        while _busy_threads():  # noqa: ASYNC110 - threads set no event
            await asyncio.sleep(0.01)


def _busy_threads() -> list[str]:
    """Return the names of threads that read an archive."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        names.get(ident, "")
        for ident, frame in sys._current_frames().items()
        if any("archives" in each.f_code.co_filename for each, _ in traceback.walk_stack(frame))
        and ident != threading.get_ident()
    ]
