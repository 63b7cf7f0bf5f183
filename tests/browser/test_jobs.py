"""Rendering as jobs ask for it, over HTTP, with a real browser."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.browser.png import size_of
from tests.requirements import require, require_module
from tests.service.conftest import Api, open_service
from tests.site.server import Site

pytestmark = pytest.mark.slow

SCRIPTED = """<!doctype html><title>App</title><div id="root"></div><script>
document.title = "Built";
document.getElementById("root").innerHTML =
  "<main><h1>Built by a script</h1><p>All of these words were written by a script.</p>" +
  "<a href='/next'>next</a></main>";
</script>"""
PLAIN = "<title>Plain</title><main><h1>Plain</h1><p>Nothing here needs a script to be read.</p>"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    require("chromium")
    require_module("playwright")
    async with open_service(tmp_path / "data") as client:
        yield client


async def test_a_page_built_by_a_script_is_read_where_that_is_asked_for(
    api: Api, site: Site
) -> None:
    site.page("/next", PLAIN)
    url = site.page("/", SCRIPTED)
    for render, words in ((None, False), (True, True), ("auto", True)):
        options = {"only_main_content": False} | ({} if render is None else {"render": render})
        rows = (await api.run_job("crawl", url=url, scrape_options=options))["data"]
        assert ("Built by a script" in rows[0]["markdown"]) is words
        assert [row["title"] for row in rows] == (["Built", "Plain"] if words else ["App"])


async def test_the_headers_of_the_page_that_a_script_opens_say_what_it_may_be_used_for(
    api: Api, site: Site
) -> None:
    site.page("/", '<title>Home</title><main><a href="/a">a</a></main>')
    site.page("/a", '<title>A</title><script>location.replace("/refused")</script>')
    site.page("/refused", PLAIN, headers={"X-Robots-Tag": "noai"})
    options = {"render": True, "only_main_content": False}
    reply = await api.run_job("crawl", url=site.url, scrape_options=options, purpose="ai-train")
    assert [row["title"] for row in reply["data"]] == ["Home"]
    assert reply["receipt"]["counts"] == {"fetched": 1, "rights": 1}
    [entry] = [
        each
        for each in (await api.get(f"/v1/crawl/{reply['job_id']}/receipt"))["data"]
        if each["outcome"] == "rights"
    ]
    assert entry["detail"] == f"X-Robots-Tag: noai ({site.at('/refused')})"


async def test_a_screenshot_of_the_size_asked_for(api: Api, site: Site) -> None:
    options = {
        "formats": ["screenshot", "markdown"],
        "format_options": {"screenshot": {"width": 640, "height": 360}},
    }
    [row] = (
        await api.run_job("crawl", url=site.page("/", PLAIN), max_pages=1, scrape_options=options)
    )["data"]
    picture = base64.b64decode(row["screenshot"], validate=True)
    assert size_of(picture) == (640, 360)
    assert "Plain" in row["markdown"]


@pytest.mark.parametrize(
    ("height", "shown", "truncated"),
    [(300, 720, False), (3000, 3000, False), (16_384, 16_384, False), (40_000, 16_384, True)],
)
async def test_a_full_page_says_what_is_cut_off(
    api: Api, site: Site, *, height: int, shown: int, truncated: bool
) -> None:
    options = {
        "formats": ["screenshot"],
        "format_options": {"screenshot": {"full_page": True, "width": 100}},
    }
    body = f"<!doctype html><style>*{{margin: 0}}</style><div style='height: {height}px'>x</div>"
    url = site.page("/", body)
    [row] = (await api.run_job("crawl", url=url, max_pages=1, scrape_options=options))["data"]
    assert size_of(base64.b64decode(row["screenshot"], validate=True)) == (100, shown)
    metadata = row["metadata"]
    assert metadata["page_height"] == max(height, 720)
    assert metadata["screenshot_truncated"] is truncated


async def test_a_full_page_that_grows_as_it_is_scrolled_is_measured_then(
    api: Api, site: Site
) -> None:
    grows = "<p id=p style='height: 3000px'>x</p><script>addEventListener('scroll', () => "
    url = site.page("/", grows + "p.style.height = '20000px', {once: true})</script>")
    options = {"formats": ["screenshot"], "format_options": {"screenshot": {"full_page": True}}}
    [row] = (await api.run_job("crawl", url=url, max_pages=1, scrape_options=options))["data"]
    assert row["metadata"]["screenshot_truncated"] is True
    assert row["metadata"]["page_height"] > 20_000


async def test_a_picture_of_the_viewport_is_never_called_truncated(api: Api, site: Site) -> None:
    url = site.page("/", "<div style='height: 40000px'>x</div>")
    options = {"formats": ["screenshot"]}
    [row] = (await api.run_job("crawl", url=url, max_pages=1, scrape_options=options))["data"]
    assert not {"page_height", "screenshot_truncated"} & set(row["metadata"])


@pytest.mark.parametrize(
    ("kind", "body", "markdown"),
    [
        ("application/json", '{"a": 1}', '```json\n{"a": 1}\n```'),
        ("text/csv; charset=utf-8", "é,b", "| é | b |\n| --- | --- |"),
        ("application/rss+xml", "<rss><channel/></rss>", "```xml\n<rss><channel/></rss>\n```"),
    ],
)
async def test_a_picture_of_a_document_that_is_no_page(
    api: Api, site: Site, kind: str, body: str, markdown: str
) -> None:
    options = {"formats": ["screenshot", "markdown"]}
    url = site.page("/", body, headers={"Content-Type": kind})
    [row] = (await api.run_job("crawl", url=url, max_pages=1, scrape_options=options))["data"]
    assert size_of(base64.b64decode(row["screenshot"], validate=True)) == (1280, 720)
    assert row["markdown"] == markdown


async def test_a_device_is_checked_before_and_asked_as_after(api: Api, site: Site) -> None:
    url = site.page("/", PLAIN)
    body = {"url": url, "scrape_options": {"mobile_device": "iPhone 150"}}
    [problem] = (await api.post("/v1/crawl", body, status=422))["detail"]
    assert problem["loc"] == ["body", "scrape_options", "mobile_device"]
    assert "iPhone 15" in problem["msg"]
    await api.run_job("crawl", url=url, max_pages=1, scrape_options={"mobile_device": "iPhone 15"})
    assert "iPhone" in site.hits("/")[0].headers["User-Agent"]


async def test_a_devices_page_without_a_browser(api: Api, site: Site) -> None:
    url = site.page("/", SCRIPTED)
    options = {"mobile_device": "iPhone 15", "render": False, "only_main_content": False}
    [row] = (await api.run_job("crawl", url=url, max_pages=1, scrape_options=options))["data"]
    assert "iPhone" in site.hits("/")[0].headers["User-Agent"]
    assert row["title"] == "App"


async def test_a_wait_that_never_ends_is_that_pages_failure(api: Api, site: Site) -> None:
    options = {"wait_for": "#never", "timeout": 3000}
    [row] = (
        await api.run_job("crawl", url=site.page("/", PLAIN), max_pages=1, scrape_options=options)
    )["data"]
    assert row["success"] is False
    assert row["error"]
    body = {"url": site.url, "scrape_options": {"wait_for": "p:nope("}}
    [problem] = (await api.post("/v1/crawl", body, status=422))["detail"]
    assert problem["loc"] == ["body", "scrape_options", "wait_for", 0]


SHOWN = "<title>Plain</title><main><h1>Plain</h1><p>Plain words for everyone.</p></main>"


async def test_results_of_a_search_are_seen_as_a_phone_sees_them(api: Api, site: Site) -> None:
    url = site.page("/", SHOWN)
    await api.run_job("crawl", url=url, max_pages=1)
    site.forget()
    reply = await api.run_job(
        "search",
        query="plain words",
        formats=["screenshot", "markdown"],
        format_options={"screenshot": {"width": 320, "height": 200}},
        mobile_device="iPhone 15",
    )
    [row] = reply["data"]
    assert (row["rank"], row["scraped"]) == (1, True)
    assert size_of(base64.b64decode(row["screenshot"], validate=True)) == (320, 200)
    assert "iPhone" in site.hits("/")[0].headers["User-Agent"]
    [problem] = (
        await api.post("/v1/search", {"query": "q", "mobile_device": "iPhone 150"}, status=422)
    )["detail"]
    assert problem["loc"] == ["body", "mobile_device"]
    plain = await api.run_job("search", query="plain words", mobile=True)
    assert "Mobile" in site.hits("/")[-1].headers["User-Agent"]
    assert plain["data"][0]["scraped"]
