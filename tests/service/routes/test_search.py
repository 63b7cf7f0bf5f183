"""Search jobs over HTTP, answered by the local index."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Api
from tests.site.server import Site


def article(title: str, text: str, *links: str) -> str:
    anchors = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return f"<title>{title}</title><main><h1>{title}</h1><p>{text}</p><ul>{anchors}</ul></main>"


def magazine(site: Site) -> None:
    site.page("/", article("Home", "A magazine.", "/aurora", "/rain", "/tides"))
    site.page("/aurora", article("Aurora forecast", "When the northern lights may be seen."))
    site.page("/rain", article("Rain", "The forecast says rain, and no northern lights."))
    site.page("/tides", article("Tides", "High water at noon."))


async def test_the_local_index_answers_over_crawled_pages(api: Api, site: Site) -> None:
    magazine(site)
    await api.run_job("crawl", url=site.url)
    reply = await api.run_job("search", query="northern lights forecast", num_results=5)
    assert reply["status"] == "completed"
    assert reply["query"] == "northern lights forecast"
    assert (reply["engine_requested"], reply["engine_used"]) == ("engine_one", "engine_one")
    assert (reply["provider_used"], reply["fallback_used"]) == ("local", False)
    [attempt] = reply["fallback_chain"]
    assert (attempt["provider"], attempt["status"], attempt["results_count"]) == ("local", "ok", 2)
    assert (reply["total_results"], reply["completed_results"]) == (2, 2)
    rows = reply["data"]
    assert [row["rank"] for row in rows] == [1, 2]
    assert {row["url"] for row in rows} == {site.at("/aurora"), site.at("/rain")}
    assert all(row["success"] and row["scraped"] and row["id"] for row in rows)
    assert all("northern lights" in row["snippet"] for row in rows)
    assert all("northern lights" in row["markdown"] for row in rows)


async def test_discovery_only_fetches_nothing(api: Api, site: Site) -> None:
    magazine(site)
    await api.run_job("crawl", url=site.url)
    site.forget()
    reply = await api.run_job("search", query="noon", formats=[])
    [row] = reply["data"]
    assert (row["success"], row["scraped"], "markdown" in row) == (True, False, False)
    assert site.requests == ()
    assert reply["completed_results"] == 1


async def test_a_page_that_fails_is_an_item_with_its_error(api: Api, site: Site) -> None:
    magazine(site)
    await api.run_job("crawl", url=site.url)
    site.page("/aurora", "gone", status=410)
    reply = await api.run_job("search", query="northern lights")
    assert reply["status"] == "completed"
    items = {row["url"]: row for row in reply["data"]}
    failed = items[site.at("/aurora")]
    assert (failed["success"], failed["scraped"], failed["error"]) == (
        False,
        False,
        "HTTP 410 Gone",
    )
    assert items[site.at("/rain")]["scraped"]
    assert [row["rank"] for row in reply["data"]] == [1, 2]


async def test_num_results_is_exact_and_copies_are_one_result(api: Api, site: Site) -> None:
    magazine(site)
    for _ in range(2):
        await api.run_job("crawl", url=site.url)
    one = await api.run_job("search", query="northern lights", num_results=1, formats=[])
    both = await api.run_job("search", query="northern lights", num_results=50, formats=[])
    assert (one["total_results"], both["total_results"]) == (1, 2)


async def test_search_without_results_completes_with_fallback_chain(api: Api) -> None:
    reply = await api.run_job("search", query="nothing at all", engine="engine_two")
    assert (reply["status"], reply["total_results"], reply["data"]) == ("completed", 0, [])
    assert (reply["engine_used"], reply["fallback_used"]) == (None, False)
    assert [attempt["status"] for attempt in reply["fallback_chain"]] == ["empty"]


async def test_headers_reach_result_pages_only_and_keep_them_out_of_the_index(
    api: Api, site: Site
) -> None:
    magazine(site)
    await api.run_job("crawl", url=site.url, scrape_options={"headers": {"X-Key": "s3cret"}})
    assert {hit.headers.get("X-Key") for hit in site.hits("/rain")} == {"s3cret"}
    assert (await api.run_job("search", query="says"))["total_results"] == 0
    await api.run_job("crawl", url=site.url)
    site.forget()
    reply = await api.run_job("search", query="says", headers={"X-Key": "other"})
    assert reply["total_results"] == 1
    assert site.hits("/rain")[0].headers["X-Key"] == "other"
    assert "other" not in str(reply)


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({}, ["body", "query"]),
        ({"query": "   "}, ["body", "query"]),
        ({"query": 5}, ["body", "query"]),
        ({"query": "q", "num_results": 51}, ["body", "num_results"]),
        ({"query": "q", "engine": "engine_four"}, ["body", "engine"]),
        ({"query": "q", "country": "usa"}, ["body", "country"]),
        ({"query": "q", "formats": ["json"]}, ["body", "formats", 0]),
        ({"query": "q", "headers": {"A": "b\r\nC: d"}}, ["body", "headers"]),
    ],
)
async def test_bad_input_is_422(api: Api, body: dict[str, Any], loc: list[Any]) -> None:
    [problem] = (await api.post("/v1/search", body, status=422))["detail"]
    assert problem["loc"] == loc
    assert "s3cret" not in problem["msg"]


async def test_search_control_replies_have_their_own_shape(api: Api) -> None:
    job_id = await api.start_job("search", {"query": "q", "formats": []})
    await api.wait_for_end("search", job_id)
    await api.post(f"/v1/jobs/{job_id}/cancel", status=400)
    start = await api.post("/v1/search", {"query": "find me", "formats": []})
    assert "find me" in start["message"]


async def test_a_session_chooses_its_providers(api: Api) -> None:
    assert (await api.http.put("/local/leases/l1", json={})).status_code == 200
    settings = {"engines": {"engine_one": ["local"], "engine_two": ["nowhere"]}}
    bound = await api.http.put("/local/leases/l1/settings", json=settings)
    assert bound.status_code == 204
    job_id = await api.start_job(
        "search", {"query": "q", "formats": []}, headers={"X-Webdata-Lease": "l1"}
    )
    reply = await api.wait_for_end("search", job_id)
    assert reply["status"] == "failed"
    assert reply["error"].startswith("unknown search provider 'nowhere'; known: searxng, ")
    assert (await api.run_job("search", query="q", formats=[]))["status"] == "completed"


async def test_the_catalog_of_weights(api: Api) -> None:
    catalog = await api.get("/v1/data-api-weights/public")
    assert {"platform": "crawl", "operation": "page", "weight": 1.0} in catalog
    assert len({(row["platform"], row["operation"]) for row in catalog}) == len(catalog)


async def test_extraction_is_applied_to_each_scraped_result(api: Api, site: Site) -> None:
    magazine(site)
    await api.run_job("crawl", url=site.url)
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    reply = await api.run_job("search", query="northern lights", extract={"schema": schema})
    assert {row["url"]: row["extract"]["title"] for row in reply["data"]} == {
        site.at("/aurora"): "Aurora forecast",
        site.at("/rain"): "Rain",
    }
    assert all("tables" not in row for row in reply["data"])


async def test_extraction_reads_the_tables_of_results(api: Api, site: Site) -> None:
    page = "<title>Polar lamp</title><p>A polar lamp.</p><dl><dt>Weight<dd>3 kg</dl>"
    await api.run_job("crawl", url=site.page("/lamp", page), max_pages=1)
    schema = {"type": "object", "properties": {"weight": {"type": "string"}}}
    [row] = (await api.run_job("search", query="polar lamp", extract={"schema": schema}))["data"]
    assert row["extract"] == {"weight": "3 kg"}
    assert row["metadata"]["extract"]["provenance"] == {"/weight": "table:1/Weight"}
