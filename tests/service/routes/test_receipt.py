"""The whole receipt over HTTP."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.page.documents.test_pdf import drawn_pdf
from tests.ports import free_port
from tests.service.conftest import Api
from tests.site.server import Site
from webdata_nb.contract import outcomes
from webdata_nb.contract.outcomes import low_confidence_kind


@pytest.fixture
def links(site: Site) -> list[str]:
    paths = [f"/p{i:02}" for i in range(25)]
    outside = [f"http://other.test/{i:02}" for i in range(25)]
    site.page("/", "".join(f'<a href="{link}">x</a>' for link in [*paths, *outside]))
    return [*(site.at(path) for path in ["/", *paths]), *outside]


@pytest.mark.both_stores
async def test_every_url_once_page_by_page(api: Api, site: Site, links: list[str]) -> None:
    reply = await api.run_job("crawl", url=site.url, max_pages=3)
    path = f"/v1/crawl/{reply['job_id']}/receipt"
    entries: list[dict[str, Any]] = []
    for page in range(1, 12):
        receipt = await api.get(path, params={"page": page, "per_page": 10})
        assert (receipt["page"], receipt["per_page"], receipt["total_results"]) == (page, 10, 51)
        entries += receipt["data"]
    assert [entry["url"] for entry in entries] == sorted(links)
    counted = {
        outcome: sum(entry["outcome"] == outcome for entry in entries)
        for outcome in {entry["outcome"] for entry in entries}
    }
    assert counted == reply["receipt"]["counts"]
    for outcome, count in counted.items():
        receipt = await api.get(path, params={"outcome": outcome})
        assert receipt["total_results"] == count
        assert [e["url"] for e in receipt["data"]] == sorted(
            entry["url"] for entry in entries if entry["outcome"] == outcome
        )
    assert (await api.get(path, params={"outcome": "facet"}))["data"] == []


async def test_receipt_entry_by_url_variants(api: Api, site: Site, links: list[str]) -> None:
    reply = await api.run_job("crawl", url=site.url, max_pages=3)
    path = f"/v1/crawl/{reply['job_id']}/receipt"
    for spelling in (links[20], f"{links[20]}#x", links[20].replace("http", "HTTP")):
        receipt = await api.get(path, params={"url": spelling})
        assert (receipt["url"], receipt["total_results"]) == (links[20], 1)
        assert receipt["data"] == [{"url": links[20], "outcome": "over_max_pages", "detail": ""}]
    assert (await api.get(path, params={"url": site.at("/never")}))["total_results"] == 0
    other = {"url": links[20], "outcome": "fetched"}
    assert (await api.get(path, params=other))["total_results"] == 0


async def test_site_that_cannot_be_reached_has_disallowed_nothing(api: Api) -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    reply = await api.run_job("crawl", url=url)
    assert (reply["status"], "could not be reached" in reply["error"]) == ("failed", True)
    assert reply["receipt"]["counts"] == {"robots_unreachable": 1}
    receipt = await api.get(f"/v1/crawl/{reply['job_id']}/receipt", params={"url": url})
    assert "could not be reached" in receipt["data"][0]["detail"]
    assert outcomes.skipped_text(reply["receipt"]["counts"]) == [
        "not crawled: 1 whose robots.txt could not be read"
    ]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_robots_txt_that_fails_has_disallowed_nothing(
    api: Api, site: Site, status: int
) -> None:
    headers = {"Retry-After": "99"}  # too long to wait for it
    site.page("/robots.txt", "", status=status, headers=headers)
    reply = await api.run_job("crawl", url=site.url)
    assert reply["receipt"]["counts"] == {"robots_unreachable": 1}
    assert f"robots.txt could not be read (status {status})" in reply["error"]


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"page": "0"}, "page"),
        ({"per_page": "10001"}, "per_page"),
        ({"outcome": "lost"}, "outcome"),
        ({"url": "nowhere"}, "url"),
    ],
)
async def test_invalid_receipt_query_is_422(
    api: Api, site: Site, params: dict[str, str], name: str
) -> None:
    job_id = await api.start_job("crawl", {"url": site.url})
    [problem] = (await api.get(f"/v1/crawl/{job_id}/receipt", status=422, params=params))["detail"]
    assert problem["loc"] == ["query", name]


async def test_an_unknown_job_is_404(api: Api) -> None:
    await api.get("/v1/crawl/none/receipt", status=404)


PROSE = "The harbour office keeps a ledger of every boat that enters the bay. " * 12


@pytest.mark.both_stores
async def test_rows_of_low_confidence_by_reason(api: Api, site: Site) -> None:
    pages: dict[str, str | bytes] = {
        "/scan.pdf": drawn_pdf("50 50 200 200 re f"),
        "/leaflet.pdf": drawn_pdf("90 50 200 200 re f"),
        "/gallery": '<body><img src="/a.png"><img src="/b.png"></body>',
        "/moved": f'<meta http-equiv="refresh" content="60;url={site.at("/")}">',
        "/blank": "<body></body>",
        "/gone": "",
    }
    for path, content in pages.items():
        kind = "application/pdf" if path.endswith(".pdf") else "text/html; charset=utf-8"
        status = 404 if path == "/gone" else 200
        site.page(path, content, status=status, headers={"Content-Type": kind})
    links = "".join(f'<a href="{path}">x</a>' for path in pages)
    site.page("/", f"<h1>Ledger</h1><p>{PROSE}</p>{links}")
    reply = await api.run_job("crawl", url=site.url, max_pages=20)
    expected = {"no text layer": 2, "pictures only": 1, "refreshes": 1, "no text": 1}
    reasons = [row["quality"]["reason"] for row in reply["data"] if row["quality"]]
    counted = Counter(low_confidence_kind(reason) for reason in reasons if reason)
    assert counted == reply["receipt"]["low_confidence"] == expected
    again = await api.get(f"/v1/crawl/{reply['job_id']}")
    assert again["receipt"]["low_confidence"] == expected


async def test_a_crawl_of_good_pages_counts_no_low_confidence(api: Api, site: Site) -> None:
    site.page("/", f"<h1>Ledger</h1><p>{PROSE}</p>")
    reply = await api.run_job("crawl", url=site.url, max_pages=20)
    assert reply["receipt"]["low_confidence"] == {}
