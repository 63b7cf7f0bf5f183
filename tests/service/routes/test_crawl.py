"""Crawl jobs over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.service.conftest import Api, open_service
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.contract.local import SessionSettings
from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.service.settings import USER_AGENT

LINKED = "<title>{t}</title><body><main><h1>{t}</h1><p>All about {t}.</p>{links}</main>"


def page(title: str, *links: str) -> str:
    return LINKED.format(t=title, links="".join(f'<a href="{link}">{link}</a> ' for link in links))


def three_pages(site: Site) -> None:
    site.page("/", page("Home", "/a", "/b", "/missing"))
    site.page("/a", page("A", "/", "/b"))
    site.page("/b", page("B"))


async def test_a_crawl_from_start_to_rows(api: Api, site: Site) -> None:
    three_pages(site)
    reply = await api.run_job("crawl", url=site.url, max_depth=3)
    assert reply["status"] == "completed"
    assert (reply["total_pages"], reply["completed_pages"], reply["total_results"]) == (4, 4, 4)
    rows = reply["data"]
    assert [row["url"] for row in rows] == [site.at(p) for p in ("/", "/a", "/b", "/missing")]
    assert [row["title"] for row in rows] == ["Home", "A", "B", None]
    assert [row["depth"] for row in rows] == [0, 1, 1, 1]
    assert [row["status_code"] for row in rows] == [200, 200, 200, 404]
    assert [row["success"] for row in rows] == [True, True, True, False]
    assert rows[3]["error"] == "HTTP 404 Not Found"
    assert rows[3]["status"] == "failed"
    assert "All about A." in rows[1]["markdown"]
    assert rows[1]["metadata"]["final_url"] == site.at("/a")
    assert "html" not in rows[1]
    assert "links" not in rows[1]
    assert reply["receipt"]["counts"] == {"fetched": 3, "failed:http_404": 1}


async def test_only_requested_formats_appear(api: Api, site: Site) -> None:
    three_pages(site)
    options = {"formats": ["links", "headings"]}
    [row] = (await api.run_job("crawl", url=site.url, max_pages=1, scrape_options=options))["data"]
    assert row["links"] == [site.at(p) for p in ("/a", "/b", "/missing")]
    assert [heading["text"] for heading in row["headings"]] == ["Home"]
    assert "markdown" not in row


async def test_pages_are_paged_and_data_can_be_left_out(api: Api, site: Site) -> None:
    three_pages(site)
    reply = await api.run_job("crawl", url=site.url)
    path = f"/v1/crawl/{reply['job_id']}"
    second = await api.get(path, params={"page": 2, "per_page": 3})
    assert (second["page"], second["per_page"]) == (2, 3)
    assert [row["url"] for row in second["data"]] == [site.at("/missing")]
    assert (await api.get(path, params={"page": 9}))["data"] == []
    assert (await api.get(path, params={"include_data": "false"}))["data"] == []
    for wrong in ({"page": 0}, {"per_page": 1001}, {"page": "x"}, {"include_data": "perhaps"}):
        detail = (await api.get(path, status=422, params=wrong))["detail"]
        assert detail[0]["loc"] == ["query", next(iter(wrong))]


@pytest.mark.parametrize(
    ("body", "loc", "says"),
    [
        ({}, ["body", "url"], "required"),
        ({"url": "ftp://x/"}, ["body", "url"], "http://"),
        ({"url": "http://u:p@x/"}, ["body", "url"], ""),
        ({"url": "http://x/", "max_pages": "10"}, ["body", "max_pages"], "whole number"),
        ({"url": "http://x/", "max_pages": 1001}, ["body", "max_pages"], "from 1 to 1000"),
        ({"url": "http://x/", "concurrency": 0}, ["body", "concurrency"], "from 1 to 10"),
        ({"url": "http://x/", "extra": 1}, ["body", "extra"], "not a known field"),
        (
            {"url": "http://x/", "scrape_options": {"formats": ["json"]}},
            ["body", "scrape_options", "formats", 0],
            "'markdown'",
        ),
        (
            {"url": "http://x/", "scrape_options": {"include_tags": ["p", "!!"]}},
            ["body", "scrape_options", "include_tags", 1],
            "",
        ),
    ],
)
async def test_bad_input_is_422_and_stores_nothing(
    api: Api, body: dict[str, Any], loc: list[Any], says: str
) -> None:
    [problem] = (await api.post("/v1/crawl", body, status=422))["detail"]
    assert problem["loc"] == loc
    assert says in problem["msg"]
    assert set(problem) == {"loc", "msg", "type"}
    assert (await api.get("/v1/jobs"))["jobs"] == []


@pytest.mark.parametrize("raw", [b"{", b"[1]", b'"x"', b'{"url": NaN}', b"[" * 100_000])
async def test_bodies_that_are_no_json_object_are_422(api: Api, raw: bytes) -> None:
    json_type = {"Content-Type": "application/json"}
    response = await api.http.post("/v1/crawl", content=raw, headers=json_type)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body"]


async def test_an_unreachable_site_is_a_failed_job_with_its_reason(api: Api) -> None:
    with Site() as closed:
        url = closed.url
    for robots in (True, False):
        reply = await api.run_job("crawl", url=url, respect_robots_txt=robots)
        assert reply["status"] == "failed"
        assert "127.0.0.1" in reply["error"]


async def test_robots_are_obeyed_and_can_be_overridden(api: Api, site: Site) -> None:
    site.page("/", page("Home", "/private/x", "/open"))
    site.page("/open", page("Open"))
    site.page("/private/x", page("Private"))
    site.robots("User-agent: *\nDisallow: /private/\n")
    reply = await api.run_job("crawl", url=site.url)
    assert [row["title"] for row in reply["data"]] == ["Home", "Open"]
    assert reply["receipt"]["examples"]["robots"] == [site.at("/private/x")]
    assert not site.hits("/private/x")
    reply = await api.run_job("crawl", url=site.url, respect_robots_txt=False)
    assert [row["title"] for row in reply["data"]] == ["Home", "Private", "Open"]


async def test_fetched_at_excludes_queue_time(api: Api, site: Site) -> None:
    three_pages(site)
    site.robots("User-agent: *\nCrawl-delay: 0.4")
    reply = await api.run_job("crawl", url=site.url, concurrency=5)
    fetch_times = {row["url"]: datetime.fromisoformat(row["fetched_at"]) for row in reply["data"]}
    assert len(fetch_times) > 2
    since = time.time() - time.monotonic()
    for url, at in fetch_times.items():
        due_at = site.hits(urlsplit(url).path)[-1].time + since
        assert at.timestamp() > due_at - 0.1


async def test_the_receipt_says_what_failed(api: Api, site: Site) -> None:
    three_pages(site)
    reply = await api.run_job("crawl", url=site.url)
    failed = [row for row in reply["data"] if not row["success"]]
    assert failed
    for row in failed:
        path = f"/v1/crawl/{reply['job_id']}/receipt"
        receipt = await api.get(path, params={"url": row["url"]})
        assert [each["detail"] for each in receipt["data"]] == [row["error"]]


async def test_a_start_page_in_error_is_a_row_of_a_completed_crawl_with_a_warning(
    api: Api, site: Site
) -> None:
    reply = await api.run_job("crawl", url=site.at("/nothing"))
    assert (reply["status"], reply["error"]) == ("completed", None)
    assert [row["status_code"] for row in reply["data"]] == [404]
    assert reply["receipt"]["warning"] == "no page could be read (1 http_404)"
    three_pages(site)
    assert (await api.run_job("crawl", url=site.url))["receipt"]["warning"] is None
    nothing = await api.run_job("crawl", url=site.url, include_paths=["/other/**"])
    assert nothing["receipt"]["warning"].endswith("but the start page (3 URLs filtered)")


async def test_a_start_page_behind_robots_fails_the_job(api: Api, site: Site) -> None:
    site.page("/", page("Home"))
    at_once = {"Cache-Control": "no-cache"}
    site.page("/robots.txt", "User-agent: *\nDisallow: /\n", headers=at_once)
    reply = await api.run_job("crawl", url=site.url)
    assert reply["status"] == "failed"
    assert "robots.txt does not allow" in reply["error"]
    site.robots("", status=503)
    assert "status 503" in (await api.run_job("crawl", url=site.url))["error"]


async def test_the_user_agent_is_sent_and_decides_the_rules(tmp_path: Path, site: Site) -> None:
    three_pages(site)
    site.robots("User-agent: ExampleBot\nDisallow: /a\n\nUser-agent: OtherBot\nDisallow: /b\n")
    async with open_service(tmp_path, user_agent="ExampleBot/2.0 (+http://example.test)") as api:
        reply = await api.run_job("crawl", url=site.url)
        assert reply["receipt"]["examples"]["robots"] == [site.at("/a")]
        sent = {hit.headers["User-Agent"] for hit in site.requests}
        assert sent == {"ExampleBot/2.0 (+http://example.test)"}
        site.forget()
        own = {"headers": {"user-agent": "OtherBot/1"}}
        reply = await api.run_job("crawl", url=site.url, scrape_options=own)
        assert reply["receipt"]["examples"]["robots"] == [site.at("/b")]
        assert {hit.headers["User-Agent"] for hit in site.requests} == {"OtherBot/1"}


async def test_session_user_agent_is_used(api: Api, site: Site) -> None:
    three_pages(site)
    api.lifetime.renew("mine")
    api.lifetime.bind_settings("mine", SessionSettings(user_agent="MineBot/1"))
    for lease, agent in (("mine", "MineBot/1"), ("another", USER_AGENT)):
        site.forget()
        job_id = await api.start_job("crawl", {"url": site.url}, headers={LEASE_HEADER: lease})
        await api.wait_for_end("crawl", job_id)
        assert {hit.headers["User-Agent"] for hit in site.requests} == {agent}


async def test_redirects_are_followed_within_scope_only(api: Api, site: Site) -> None:
    site.page("/", page("Home", "/moved", "/away", "/known"))
    site.page("/new", page("New"))
    site.redirect("/moved", "/new")
    site.redirect("/away", "http://other.test/")
    site.redirect("/known", "/")
    reply = await api.run_job("crawl", url=site.url)
    assert [row["url"] for row in reply["data"]] == [site.at("/"), site.at("/moved")]
    assert reply["data"][1]["metadata"]["final_url"] == site.at("/new")
    counts = reply["receipt"]["counts"]
    assert counts == {"fetched": 2, "scope": 1, "redirect": 1}


async def test_best_first_reports_page_weights(api: Api, site: Site) -> None:
    rooms = [f"/room{n}" for n in range(10)]
    site.page("/", page("Home", *rooms, "/hall"))
    for path in rooms:
        site.page(path, page(path, "/hall"))
    site.page("/hall", page("Hall", "/"))
    rows = (await api.run_job("crawl", url=site.url, crawl_strategy="bff"))["data"]
    assert [row["title"] for row in rows][9] == "Hall"
    scores = [row["metadata"]["crawl_score"] for row in rows]
    assert scores[0] == 1.0
    assert scores[9] > scores[10] > 0
    for strategy in ("bfs", "dfs"):
        rows = (await api.run_job("crawl", url=site.url, crawl_strategy=strategy))["data"]
        assert not any("crawl_score" in row["metadata"] for row in rows)


async def test_nofollow_is_obeyed_on_request(api: Api, site: Site) -> None:
    site.page("/", '<title>Home</title><a href="/a">A</a> <a rel="nofollow" href="/ad">Ad</a>')
    site.page("/a", page("A", "/b"), headers={"X-Robots-Tag": "nofollow"})
    for path in ("/ad", "/b"):
        site.page(path, page(path))
    reply = await api.run_job("crawl", url=site.url)
    assert reply["receipt"]["counts"] == {"fetched": 4}
    reply = await api.run_job("crawl", url=site.url, respect_nofollow=True)
    assert [row["title"] for row in reply["data"]] == ["Home", "A"]
    assert reply["receipt"]["counts"] == {"fetched": 2, "nofollow": 2}
    assert reply["receipt"]["examples"]["nofollow"] == [site.at("/ad"), site.at("/b")]


async def test_rows_stay_while_the_crawl_goes_on_and_cancel_keeps_them(
    api: Api, site: Site
) -> None:
    three_pages(site)
    with site.hold("/b"):
        job_id = await api.start_job("crawl", {"url": site.url, "concurrency": 2})
        await asyncio.to_thread(site.wait_for, "/b")
        path = f"/v1/crawl/{job_id}"
        async with asyncio.timeout(60):
            while (running := await api.get(path))["completed_pages"] < 2:  # noqa: ASYNC110 - as a client polls
                await asyncio.sleep(0.02)
        assert running["status"] == "running"
        assert [row["title"] for row in running["data"]] == ["Home", "A"]
        cancelled = await api.post(f"/v1/jobs/{job_id}/cancel")
        assert cancelled == {"success": True, "job_id": job_id, "status": "cancelled"}
        assert await api.post(f"/v1/jobs/{job_id}/cancel") == cancelled
    await asyncio.sleep(0.2)  # the site counts what was sent before the cancellation
    requests = len(site.requests)
    after = await api.get(path)
    assert after["status"] == "cancelled"
    assert [row["title"] for row in after["data"]] == ["Home", "A"]
    await asyncio.sleep(0.2)
    assert len(site.requests) == requests


async def test_retry_makes_a_new_job_with_the_saved_request(api: Api, site: Site) -> None:
    body = {"url": site.url, "max_pages": 2}
    at_once = {"Cache-Control": "no-cache"}
    site.page("/robots.txt", "User-agent: *\nDisallow: /\n", headers=at_once)
    failed = await api.wait_for_end("crawl", await api.start_job("crawl", body))
    three_pages(site)
    site.robots("")
    again = await api.post(f"/v1/jobs/{failed['job_id']}/retry")
    assert (again["success"], again["status"]) == (True, "pending")
    assert again["original_job_id"] == failed["job_id"] != again["job_id"]
    reply = await api.wait_for_end("crawl", again["job_id"])
    assert len(reply["data"]) == 2
    refused = await api.post(f"/v1/jobs/{again['job_id']}/retry", status=400)
    assert "completed" in refused["detail"]
    assert (
        "completed" in (await api.post(f"/v1/jobs/{again['job_id']}/cancel", status=400))["detail"]
    )


async def test_poll_cost_is_independent_of_row_count(api: Api, site: Site) -> None:
    link_tree(site, depth=3, fanout=4)
    sizes = {}
    for count in (25, 60):
        reply = await api.run_job("crawl", url=site.at("/tree"), max_pages=count)
        path = f"/v1/crawl/{reply['job_id']}"
        poll = await api.http.get(path, params={"include_data": "false"})
        whole = await api.http.get(path, params={"per_page": 1000})
        assert len(whole.json()["data"]) == count
        sizes[count] = (len(poll.content), len(whole.content))
    assert abs(sizes[60][0] - sizes[25][0]) < 200
    assert sizes[60][1] > 2 * sizes[25][1]


async def test_a_start_is_idempotent_under_its_key(api: Api, site: Site) -> None:
    three_pages(site)
    key = {"Idempotency-Key": "k1"}
    first = await api.start_job("crawl", {"url": site.url}, headers=key)
    assert await api.start_job("crawl", {"url": site.url}, headers=key) == first
    await api.post("/v1/crawl", {"url": site.url, "max_pages": 2}, status=409, headers=key)
    for wrong in ("k" * 256, "", "two\tparts", "cl\u00e9"):
        sent = {"Idempotency-Key": wrong.encode("latin-1")}
        answer = await api.http.post("/v1/crawl", json={"url": site.url}, headers=sent)  # type: ignore[arg-type]
        assert answer.status_code == 422, wrong
    assert len((await api.get("/v1/jobs"))["jobs"]) == 1


async def test_stream_sends_each_row_once_and_resumes(api: Api, site: Site) -> None:
    three_pages(site)
    job_id = await api.start_job("crawl", {"url": site.url})
    stream = _events((await api.http.get(f"/v1/crawl/{job_id}/events")).text)
    pages = [data for name, data in stream if name == "page"]
    assert [data["position"] for data in pages] == [0, 1, 2, 3]
    assert [data["success"] for data in pages] == [True, True, True, False]
    name, done = stream[-1]
    assert (name, done["status"], done["error"]) == ("done", "completed", None)
    progress = [data for name, data in stream if name == "progress"][-1]
    assert (progress["completed"], progress["total"]) == (4, 4)
    assert progress["failed"] == {"http_404": 1}
    resumed = await api.http.get(f"/v1/crawl/{job_id}/events", headers={"Last-Event-ID": "3"})
    assert [data["position"] for name, data in _events(resumed.text) if name == "page"] == [3]
    assert resumed.text.count("event: done") == 1


@pytest.mark.parametrize("kind", ["crawl", "search"])
async def test_nothing_follows_the_id_of_done(api: Api, site: Site, kind: str) -> None:
    three_pages(site)
    await api.run_job("crawl", url=site.url)
    body = {"url": site.url} if kind == "crawl" else {"query": "words that no page has"}
    path = f"/v1/{kind}/{await api.start_job(kind, body)}/events"
    headers: dict[str, str] = {}
    statuses = []
    for _ in range(3):  # as an EventSource does
        reply = await api.http.get(path, headers=headers)
        statuses.append(reply.status_code)
        if ids := re.findall("^id: (.*)$", reply.text, re.MULTILINE):
            headers = {"Last-Event-ID": ids[-1]}
    assert statuses == [200, 204, 204]
    # Who has every row may still have to learn how the job ended.
    last_row = headers["Last-Event-ID"].removesuffix("-end")
    reply = await api.http.get(path, headers={"Last-Event-ID": last_row})
    assert "event: done" in reply.text


def _events(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[0] != ":")
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


async def test_job_of_other_kind_is_unknown(api: Api, site: Site) -> None:
    three_pages(site)
    job_id = await api.start_job("crawl", {"url": site.url})
    paths = ["/v1/crawl/x", f"/v1/search/{job_id}", "/v1/crawl/x/events"]
    assert {json.dumps(await api.get(path, status=404)) for path in paths} == {
        '{"detail": "no such job"}'
    }
    await api.post("/v1/jobs/x/cancel", status=404)
    await api.post("/v1/jobs/x/retry", status=404)


async def test_jobs_are_listed_with_a_cursor(api: Api, site: Site) -> None:
    three_pages(site)
    ids = [await api.start_job("crawl", {"url": site.url, "max_pages": 1}) for _ in range(3)]
    first = await api.get("/v1/jobs", params={"limit": 2})
    assert [job["job_id"] for job in first["jobs"]] == [ids[2], ids[1]]
    rest = await api.get("/v1/jobs", params={"cursor": first["cursor"]})
    assert [job["job_id"] for job in rest["jobs"]] == [ids[0]]
    assert "cursor" not in rest
    await api.get("/v1/jobs", status=422, params={"cursor": "!"})


@pytest.mark.slow
@pytest.mark.parametrize("page_workers", [2])
async def test_the_stream_of_rows_is_the_same_at_any_concurrency(api: Api) -> None:
    with Site(seed=3, latency=0.05) as site:
        link_tree(site, depth=3, fanout=4)
        rows = []
        for concurrency in (1, 10):
            reply = await api.run_job(
                "crawl", url=site.at("/tree"), concurrency=concurrency, max_pages=40
            )
            rows.append([(row["url"], row["title"], row["markdown"]) for row in reply["data"]])
        assert rows[0] == rows[1]
        assert len(rows[0]) == 40


PRODUCT = """<title>Wool hat</title><script type="application/ld+json">
{"@type": "Product", "name": "Wool hat", "sku": "H-1",
 "offers": {"@type": "Offer", "price": "19.50", "priceCurrency": "EUR"}}
</script><main><h1>Wool hat</h1><p>A warm hat for cold watches on the roof.</p></main>"""
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "price": {"type": "number"},
        "currency": {"type": "string"},
        "colour": {"type": "string"},
    },
}


async def test_extraction_fills_a_schema_and_says_where_from(api: Api, site: Site) -> None:
    options = {"extract": {"schema": SCHEMA, "prompt": "the product"}}
    [row] = (
        await api.run_job("crawl", url=site.page("/", PRODUCT), max_pages=1, scrape_options=options)
    )["data"]
    assert row["extract"] == {"name": "Wool hat", "price": 19.5, "currency": "EUR", "colour": None}
    extraction = row["metadata"]["extract"]
    assert extraction["provider"] == "structured"
    assert extraction["provenance"]["/price"] == "json_ld:Product/offers/price"
    assert extraction["missing"] == ["/colour"]
    assert "structured_data" not in row
    assert "markdown" in row


async def test_extraction_reads_tables_that_are_no_format_of_their_own(
    api: Api, site: Site
) -> None:
    page = f"{PRODUCT}<footer><table><tr><th>Colour:<td>dark  red</table></footer>"
    options = {"extract": {"schema": SCHEMA}}
    [row] = (
        await api.run_job("crawl", url=site.page("/", page), max_pages=1, scrape_options=options)
    )["data"]
    assert row["extract"]["colour"] == "dark red"
    assert row["metadata"]["extract"]["provenance"]["/colour"] == "table:1/Colour"
    assert "tables" not in row
    body = {"url": site.url, "scrape_options": {"formats": ["tables"]}}
    await api.post("/v1/crawl", body, status=422)


async def test_extraction_without_a_schema_it_can_fill_is_422(api: Api, site: Site) -> None:
    for extract, end in (
        ({"prompt": "everything"}, []),
        ({"schema": {"type": "array", "items": {"type": "string"}}}, ["schema"]),
    ):
        body = {"url": site.url, "scrape_options": {"extract": extract}}
        [problem] = (await api.post("/v1/crawl", body, status=422))["detail"]
        assert problem["loc"] == ["body", "scrape_options", "extract", *end]
    [problem] = (
        await api.post("/v1/search", {"query": "q", "extract": {"prompt": "p"}}, status=422)
    )["detail"]
    assert problem["loc"] == ["body", "extract"]
