"""The facts of a crawl's pages over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Api
from tests.site.server import Site

START = """<html lang=en><head><title>Start</title><title>Again</title>
<meta name=description content="First  words"><meta property="og:description" content="Other">
<meta name=robots content="index, follow"><meta name=viewport content="width=device-width">
<meta http-equiv=refresh content="600"><link rel=canonical href="/#top">
<link rel=alternate hreflang=de href="/de"><link rel=alternate type=text/css href="/x.css">
<script type="application/ld+json">{"@type": "Thing",}</script>
<script type="application/ld+json">{"name": "Thing"}</script>
<script type="application/ld+json"><!-- {"@graph": []} --></script></head>
<body><h1>Big <b>start</b></h1><h1><img src=/h.png alt="Picture"></h1>
<svg><title>Not a title</title></svg>
<img src=/a.png><img src=/b.png alt=""><img src=/c.png role=presentation>
<a href="/moved">Moved page</a><a href="/gone" rel="NoFollow  ugc">Gone</a>
<a href="/secret"><img src=/d.png alt="Secret"></a><a href="http://other.test/x">Other</a>
<a href="/moved">Again</a></body></html>"""


async def facts_of(api: Api, job_id: str, *, per_page: int = 100) -> list[dict[str, Any]]:
    facts: list[dict[str, Any]] = []
    params: dict[str, Any] = {"per_page": per_page}
    while True:
        reply = await api.get(f"/v1/crawl/{job_id}/page-facts", params=params)
        facts += reply["data"]
        if "cursor" not in reply:
            assert reply["data"] == []
            return facts
        assert 0 < len(reply["data"]) <= per_page
        params["cursor"] = reply["cursor"]


@pytest.fixture
def faulty(site: Site) -> Site:
    site.page("/", START, headers={"X-Robots-Tag": "noarchive"})
    site.redirect("/moved", "/halfway", status=301)
    site.redirect("/halfway", "/target", status=302)
    site.page("/target", "<title>Target</title><p>Some words of the target page</p>")
    site.robots("User-agent: *\nDisallow: /secret\nSitemap: /sitemap.xml")
    site.page(
        "/sitemap.xml",
        f"<urlset><url><loc>{site.at('/alone')}</loc></url></urlset>",
        headers={"Content-Type": "application/xml"},
    )
    site.page("/alone", "one,two\n1,2\n", headers={"Content-Type": "text/csv"})
    return site


@pytest.mark.both_stores
async def test_facts_of_pages_failures_and_skipped_urls(api: Api, faulty: Site) -> None:
    job = await api.run_job("crawl", url=faulty.url, audit=True, sitemap=True)
    facts = await facts_of(api, job["job_id"], per_page=2)
    by_path = {each["url"].removeprefix(faulty.url[:-1]): each for each in facts}
    assert by_path.keys() == {"/", "/moved", "/gone", "/secret", "/alone"}
    start = by_path["/"]
    invalid, untyped = start["audit"].pop("structured_data_errors")
    assert invalid.startswith("block 1: ")
    assert untyped == "block 2: an item has no @type"
    assert start["audit"] == {
        "is_html": True,
        "bytes": len(START),
        "language": "en",
        "titles": ["Start", "Again"],
        "h1s": ["Big start", "Picture"],
        "descriptions": ["First words"],
        "robots": ["index, follow"],
        "viewport": "width=device-width",
        "refresh": "600",
        "x_robots": ["noarchive"],
        "canonicals": [faulty.url],
        "malformed_canonicals": [],
        "hreflang": [{"language": "de", "url": faulty.at("/de")}],
        "images": 5,
        "images_without_alt": 1,
        "examples_without_alt": [faulty.at("/a.png")],
        "insecure": [],
    }
    assert start["links"] == [
        {"url": faulty.at("/moved"), "text": "Moved page", "rel": None, "internal": True},
        {"url": faulty.at("/gone"), "text": "Gone", "rel": "nofollow ugc", "internal": True},
        {"url": faulty.at("/secret"), "text": "Secret", "rel": None, "internal": True},
        {"url": "http://other.test/x", "text": "Other", "rel": None, "internal": False},
    ]
    assert by_path["/moved"]["final_url"] == faulty.at("/target")
    assert by_path["/moved"]["redirects"] == [
        {"url": faulty.at("/moved"), "status_code": 301},
        {"url": faulty.at("/halfway"), "status_code": 302},
    ]
    assert (by_path["/gone"]["result"], by_path["/gone"]["status_code"]) == ("failed", 404)
    assert by_path["/gone"]["position"] is not None
    assert (by_path["/secret"]["result"], by_path["/secret"]["position"]) == ("robots", None)
    assert by_path["/secret"]["audit"] is None
    assert [path for path, each in by_path.items() if each["in_sitemap"]] == ["/alone"]
    assert by_path["/alone"]["audit"]["is_html"] is False
    positions = {each["position"] for each in facts} - {None}
    assert positions == set(range(job["total_results"]))


async def test_links_are_there_without_an_audit(api: Api, faulty: Site) -> None:
    job = await api.run_job("crawl", url=faulty.url)
    audited = await api.run_job("crawl", url=faulty.url, audit=True)
    plain = await facts_of(api, job["job_id"])
    assert [each["url"] for each in plain] == [
        each["url"] for each in await facts_of(api, audited["job_id"])
    ]
    assert plain[0]["links"][1] == {
        "url": faulty.at("/gone"),
        "text": None,
        "rel": "nofollow",
        "internal": True,
    }
    assert {each["audit"] for each in plain} == {each["in_sitemap"] for each in plain} == {None}
    rows = [
        [{**row, "time_taken": 0, "fetched_at": 0, "metadata": 0} for row in each["data"]]
        for each in (job, audited)
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("params", "name"),
    [({"per_page": "1001"}, "per_page"), ({"cursor": "x"}, "cursor"), ({"page": "1"}, "page")],
)
async def test_invalid_query_is_422(
    api: Api, site: Site, params: dict[str, str], name: str
) -> None:
    job_id = await api.start_job("crawl", {"url": site.url})
    path = f"/v1/crawl/{job_id}/page-facts"
    [problem] = (await api.get(path, status=422, params=params))["detail"]
    assert problem["loc"] == ["query", name]


async def test_an_unknown_job_is_404(api: Api) -> None:
    await api.get("/v1/crawl/none/page-facts", status=404)
