"""Incremental crawls: the rows of a full crawl, for the requests of the pages that changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of
from tests.service.routes.test_page_facts import facts_of
from tests.service.routes.test_shared_contents import without_times
from tests.site.server import Site
from tests.site.versions import VersionedSite, text_page, varied_site
from webdata_nb.contract import outcomes, paths
from webdata_nb.service.crawl import earlier_pages

INCREMENTAL = paths.EXTENDED_CRAWLS.removeprefix("/v1/")


def body_of(site: Site, since: str | None, recheck: Any = 0.0, **options: Any) -> dict[str, Any]:
    """Return the request of a crawl that takes unchanged pages from the crawl `since`."""
    base = None if since is None else {"job_id": since, "recheck": recheck}
    return {"url": site.url, "max_pages": 200, "base": base, **options}


async def crawl(api: Api, site: Site, since: str | None = None, **options: Any) -> dict[str, Any]:
    return await whole(api, await api.start_job(INCREMENTAL, body_of(site, since, **options)))


async def full_crawl(api: Api, site: Site, **options: Any) -> dict[str, Any]:
    return await whole(
        api, await api.start_job("crawl", {"url": site.url, "max_pages": 200, **options})
    )


async def whole(api: Api, job_id: str) -> dict[str, Any]:
    await api.wait_for_end("crawl", job_id)
    status = await api.get(f"/v1/crawl/{job_id}", params={"per_page": 1000})
    receipt = await api.get(f"/v1/crawl/{job_id}/receipt", params={"per_page": 1000})
    return {**status, "entries": receipt["data"]}


def rows(status: dict[str, Any]) -> list[dict[str, Any]]:
    return list(map(without_times, status["data"]))


def as_of_full_crawl(status: dict[str, Any]) -> list[dict[str, str]]:
    """Return the receipt as if every page had been fetched."""
    return [
        {**entry, "outcome": "fetched"} if entry["outcome"] in outcomes.READ else entry
        for entry in status["entries"]
    ]


def assert_equal(incremental: dict[str, Any], full: dict[str, Any]) -> None:
    assert incremental["status"] == full["status"] == "completed"
    assert rows(incremental) == rows(full)
    assert as_of_full_crawl(incremental) == as_of_full_crawl(full)


def change_much(versions: VersionedSite) -> None:
    """Change texts and links, remove a page, add one, and let a failed one answer."""
    versions.change("/p3", text_page(3, "/p7", "/new", words="other"))
    versions.change("/p6", text_page(6, words="changed"))
    versions.change("/target", text_page(1000, "/p3", "/new2", words="moved"))
    versions.site.page("/p8", status=404)
    versions.add("/new", text_page(2000, "/"))
    versions.add("/new2", text_page(2001, "/"), "modified")
    versions.add("/missing", text_page(2002))


@pytest.mark.both_stores
@pytest.mark.parametrize(
    "strategy", ["bfs", *(pytest.param(each, marks=pytest.mark.slow) for each in ("dfs", "bff"))]
)
async def test_rows_and_receipt_are_those_of_a_full_crawl(
    api: Api, site: Site, strategy: str
) -> None:
    versions = varied_site(site)
    options: dict[str, Any] = {"crawl_strategy": strategy}
    first = await crawl(api, site, **options)
    assert len(first["data"]) == 42
    assert outcomes.UNCHANGED not in first["receipt"]["counts"]

    versions.reset_counts()
    same = await crawl(api, site, first["job_id"], **options)
    # Eight pages have no validators.
    assert (versions.full_replies, versions.unchanged_replies) == (8, 34)
    # The duplicate is unchanged as well, and no row.
    assert same["receipt"]["counts"]["unchanged"] == 33
    assert same["receipt"]["counts"]["fetched"] == 8

    change_much(versions)
    versions.reset_counts()
    changed = await crawl(api, site, same["job_id"], **options)
    assert versions.unchanged_replies >= changed["receipt"]["counts"]["unchanged"] > 10
    assert_equal(changed, await full_crawl(api, site, **options))
    assert_equal(same, first)
    assert rows(changed) != rows(same)


async def test_the_requests_for_unchanged_pages_have_their_validators(api: Api, site: Site) -> None:
    varied_site(site)
    first = await crawl(api, site)
    site.forget()
    await crawl(api, site, first["job_id"])
    names = ("If-None-Match", "If-Modified-Since")
    sent = {hit.path: [name for name in names if name in hit.headers] for hit in site.requests}
    assert sent["/"] == ["If-None-Match"]
    assert sent["/p2"] == ["If-Modified-Since"]
    assert sent["/p3"] == list(names)
    assert sent["/p4"] == []
    # A redirect has none: only the URL that sent validators gets them back.
    assert sent["/moved"] == []
    assert sent["/target"] == list(names)


@pytest.mark.slow
@pytest.mark.both_stores
async def test_a_full_request_shows_which_claims_are_wrong(api: Api, site: Site) -> None:
    versions = varied_site(site)
    first = await crawl(api, site)
    changed = ("/", "/p3", "/same")
    for path in changed:
        versions.change(path, text_page(len(path), "/p1", "/p2", "/p9", words="new"), honest=False)
    trusting = await crawl(api, site, first["job_id"])
    assert rows(trusting) == rows(first)
    assert outcomes.CONTRADICTED not in trusting["receipt"]["counts"]
    checking = await crawl(api, site, first["job_id"], recheck=1.0)
    assert_equal(checking, await full_crawl(api, site))
    counts = checking["receipt"]["counts"]
    assert outcomes.UNCHANGED not in counts
    found = {e["url"] for e in checking["entries"] if e["outcome"] == outcomes.CONTRADICTED}
    assert found == {site.at(path) for path in changed}
    assert counts["verified"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scrape_options": {"formats": ["html"]}}, "its formats differ"),
        ({"scrape_options": {"only_main_content": False}}, "its only_main_content differ"),
        ({"scrape_options": {"headers": {"X-Key": "k"}}}, "its headers differ"),
        ({"scrape_options": {"cookies": {"a": "b"}}}, "its cookies differ"),
        ({"scrape_options": {"render": "auto"}}, "since and a browser cannot be combined"),
        ({"scrape_options": {"mobile": True}}, "since and a browser cannot be combined"),
        ({"filter_faceted_urls": True}, "its filter_faceted_urls differs"),
        ({"crawl_strategy": "bff"}, "its crawl_strategy differs"),
        ({"since": "00000000-0000-4000-8000-000000000000"}, "has no such crawl"),
        ({"since": "the last"}, "must be the id of a job"),
        ({"recheck": 1.5}, "must be a number from 0 to 1"),
        ({"recheck": True}, "must be a number from 0 to 1"),
        ({"rights": True}, "since and rights cannot be combined"),
        ({"purpose": "search"}, "since and a purpose cannot be combined"),
    ],
)
@pytest.mark.slow
async def test_an_earlier_crawl_with_other_options_is_refused(
    api: Api, site: Site, options: dict[str, Any], message: str
) -> None:
    site.page("/", text_page(1))
    first = await crawl(api, site)
    site.forget()
    body = body_of(site, **{"since": first["job_id"], **options})
    reply = await api.post(paths.EXTENDED_CRAWLS, body, status=422)
    assert message in str(reply)
    assert site.requests == ()
    [problem] = reply["detail"]
    fallback_type = "earlier_crawl_unusable"  # the same request without since is possible
    is_of_crawl = message.startswith(("its ", "has no such crawl"))
    assert (problem["type"] == fallback_type) == is_of_crawl


@pytest.mark.slow
async def test_options_that_select_pages_may_differ(api: Api, site: Site) -> None:
    versions = varied_site(site)
    first = await crawl(api, site, max_depth=2, exclude_paths=["/p4"])
    versions.reset_counts()
    options: dict[str, Any] = {
        "max_depth": 10,
        "concurrency": 9,
        "sitemap": True,
        "crawl_strategy": "dfs",
    }
    more = await crawl(api, site, first["job_id"], **options)
    assert more["receipt"]["counts"]["unchanged"] > 3
    assert_equal(more, await full_crawl(api, site, **options))


@pytest.mark.slow
async def test_equal_headers_and_cookies_are_no_difference(api: Api, site: Site) -> None:
    versions = varied_site(site)
    options: dict[str, Any] = {"scrape_options": {"headers": {"X-Key": "k"}, "cookies": {"a": "b"}}}
    first = await crawl(api, site, **options)
    versions.reset_counts()
    again = await crawl(api, site, first["job_id"], **options)
    assert versions.unchanged_replies == 34
    assert rows(again) == rows(first)


@pytest.mark.both_stores
async def test_formats_and_depths_are_those_of_a_full_crawl(api: Api, site: Site) -> None:
    versions = varied_site(site)
    formats = ["html", "raw_html", "links", "images", "headings", "structured_data"]
    options: dict[str, Any] = {"scrape_options": {"formats": formats}, "filter_faceted_urls": True}
    first = await crawl(api, site, **options)
    # A shorter way to a page deep in the tree.
    versions.change("/", text_page(0, "/p1", "/p2", "/p31", words="new"))
    again = await crawl(api, site, first["job_id"], **options)
    assert again["receipt"]["counts"]["unchanged"] > 20
    assert_equal(again, await full_crawl(api, site, **options))
    depths = [{row["url"]: row["depth"] for row in each["data"]} for each in (first, again)]
    assert [each[site.at("/p31")] for each in depths] == [5, 1]


@pytest.mark.slow
async def test_facts_for_an_audit_are_those_of_a_full_crawl(api: Api, site: Site) -> None:
    versions = varied_site(site)
    plain = await crawl(api, site)
    versions.reset_counts()
    first = await crawl(api, site, plain["job_id"], audit=True)
    assert versions.unchanged_replies == 0  # the earlier crawl has no facts
    change_much(versions)
    versions.reset_counts()
    again = await crawl(api, site, first["job_id"], audit=True)
    assert versions.unchanged_replies > 10
    third = await crawl(api, site, again["job_id"], audit=True)
    full = await full_crawl(api, site, audit=True)
    expected = await facts_of(api, full["job_id"])
    for job in (again, third):
        assert_equal(job, full)
        assert await facts_of(api, job["job_id"]) == expected
    without = await crawl(api, site, third["job_id"])
    assert {each["audit"] for each in await facts_of(api, without["job_id"])} == {None}


async def test_pages_of_a_deleted_crawl_are_fetched(tmp_path: Path, site: Site) -> None:
    versions = varied_site(site)
    async with open_service(tmp_path) as api:
        first = await crawl(api, site)
        second = await crawl(api, site, first["job_id"])
        async with store_of(tmp_path) as store:
            await store.retention.mark_expired(first["job_id"], now=1.0)
            await store.retention.delete_rows(first["job_id"], now=1.0)
            await store.retention.delete_rows(second["job_id"], now=1.0)
        reply = await api.post(paths.EXTENDED_CRAWLS, body_of(site, first["job_id"]), status=422)
        assert "are deleted" in str(reply)
        # As when the pages are deleted after the start.
        versions.reset_counts()
        third = await crawl(api, site, second["job_id"])
        assert versions.unchanged_replies == 0
        assert rows(third) == rows(first)


async def test_a_page_of_another_release_is_fetched(
    api: Api, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = varied_site(site)
    first = await crawl(api, site)
    monkeypatch.setattr(earlier_pages, "__version__", "another")
    versions.reset_counts()
    again = await crawl(api, site, first["job_id"])
    assert versions.unchanged_replies == 0
    assert rows(again) == rows(first)


@pytest.mark.slow
@pytest.mark.both_stores
@pytest.mark.parametrize(("strategy", "recheck"), [("bfs", 0.0), ("bfs", 1.0), ("dfs", 1.0)])
async def test_a_stopped_service_continues_exactly(
    tmp_path: Path, site: Site, strategy: str, recheck: float
) -> None:
    versions = varied_site(site, 120)
    options: dict[str, Any] = {"crawl_strategy": strategy, "recheck": recheck, "concurrency": 4}
    async with open_service(tmp_path) as api:
        first = await crawl(api, site, **options)
        versions.change("/p30", text_page(30, "/p61", words="changed"))
        versions.change("/p20", text_page(20, "/p41", words="wrong"), honest=False)
        uninterrupted = await crawl(api, site, first["job_id"], **options)
        site.latency = 0.05
        body = body_of(site, first["job_id"], **options)
        job_id = await api.start_job(INCREMENTAL, body)
        await wait_for_rows(api, job_id, 25)
    versions.reset_counts()
    async with open_service(tmp_path) as api:
        again = await whole(api, job_id)
    assert rows(again) == rows(uninterrupted)
    assert again["entries"] == uninterrupted["entries"]
    assert versions.full_replies + versions.unchanged_replies < 110 * (1 + recheck)


async def wait_for_rows(api: Api, job_id: str, count: int) -> None:
    async with asyncio.timeout(100):
        while True:
            status = await api.get(f"/v1/crawl/{job_id}")
            if status["completed_pages"] >= count:
                return
            await asyncio.sleep(0.02)
