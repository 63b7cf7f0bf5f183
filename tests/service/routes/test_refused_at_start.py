"""What cannot work is refused at the start, by its field, and nothing is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Api, open_service
from tests.service.routes.teams import member
from tests.site.server import Site
from webdata_nb.page.errors import ScrapeError
from webdata_nb.service.browser.chromium import INSTALL
from webdata_nb.service.browser.renderer import Browser

KEY = {"Idempotency-Key": "again-1"}


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Api]:
    """Give a team's service that admits one private network, with a member's key."""
    headers = await member(tmp_path, "tester")
    async with open_service(tmp_path, "team", allow_networks=("10.1.0.0/16",)) as api:
        api.http.headers.update(headers)
        yield api


async def start_refused(api: Api, kind: str, **body: Any) -> dict[str, Any]:
    [problem] = (await api.post(f"/v1/{kind}", body, status=422))["detail"]
    assert (await api.get("/v1/jobs"))["jobs"] == []
    return dict(problem)


# --------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:8000/",
        "http://sub.LOCALHOST./",
        "http://10.0.0.5/",
        "http://192.168.1.1/admin",
        "http://0x7f.1/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://100.64.0.1/",
    ],
)
async def test_a_team_refuses_addresses_that_the_url_shows(team: Api, url: str) -> None:
    problem = await start_refused(team, "crawl", url=url)
    assert problem["loc"] == ["body", "url"]
    assert "network policy" in problem["msg"]


async def test_a_team_starts_crawls_of_what_it_admits_and_of_names(team: Api) -> None:
    for url in ("http://10.1.2.3:8080/", "http://wiki.invalid/", "http://127.0.0.1.invalid/"):
        await team.start_job("crawl", {"url": url})


async def test_a_local_service_crawls_private_addresses_but_no_metadata(
    api: Api, site: Site
) -> None:
    for url in ("http://169.254.169.254/", "http://[fd00:ec2::254]/"):
        assert "network policy" in (await start_refused(api, "crawl", url=url))["msg"]
    site.page("/", "<p>here</p>")
    assert (await api.run_job("crawl", url=site.url, max_pages=1))["data"][0]["success"]
    await api.start_job("crawl", {"url": "http://192.168.255.254:8123/"})


@pytest.mark.parametrize(
    "url", ["http://example.com:0/", "https://example.com:0", "http://[::1]:0/"]
)
async def test_port_0_is_refused(api: Api, url: str) -> None:
    problem = await start_refused(api, "crawl", url=url)
    assert problem["loc"] == ["body", "url"]
    assert "a port other than 0" in problem["msg"]
    assert (await start_refused(api, "search", query="q", webhook_url=url))["loc"][
        1
    ] == "webhook_url"


async def test_a_link_to_port_0_is_a_failed_row_and_not_port_80(api: Api, site: Site) -> None:
    link = site.url.rsplit(":", 1)[0] + ":0/x"
    site.page("/", f'<p>here <a href="{link}">there</a></p>')
    options = {"allow_external_links": True, "respect_robots_txt": False}
    reply = await api.run_job("crawl", url=site.url, **options)
    assert [row["url"] for row in reply["data"]] == [site.url, link]
    assert "Port 0" in reply["data"][1]["error"]


# ------------------------------------------------------------------------------------- patterns


@pytest.mark.parametrize("field", ["include_paths", "exclude_paths"])
@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("https://example.com/docs/**", "without scheme and host"),
        ("HTTP://example.com/docs/**", "without scheme and host"),
        ("//example.com/docs/**", "without scheme and host"),
        ("/docs/[a-z", "a [ has no ]"),
        ("/[id]/[page", "a [ has no ]"),
        ("/docs/#part", "#"),
    ],
)
async def test_patterns_that_match_nothing_are_refused(
    api: Api, field: str, pattern: str, says: str
) -> None:
    body = {"url": "http://example.com/", field: ["/fine/**", pattern]}
    problem = await start_refused(api, "crawl", **body)
    assert problem["loc"] == ["body", field]
    assert says in problem["msg"]
    assert pattern in problem["msg"]


async def test_patterns_are_matched_as_urls_are_written(api: Api, site: Site) -> None:
    paths = ["/caf%C3%A9/1", "/a%20b/1", "/[id]/1", "/%7Bx%7D/1"]
    links = "".join(f'<a href="{path}">{path}</a>' for path in [*paths, "/other/1"])
    site.page("/", f"<p>{links}</p>")
    for path in paths:
        site.page(path, f"<p>About {path}</p>")
    include = ["/café/**", "/a b/**", "/[id]/**", "/{x}/**"]
    reply = await api.run_job("crawl", url=site.url, include_paths=include)
    assert [row["url"] for row in reply["data"][1:]] == [site.at(path) for path in paths]


# ------------------------------------------------------------------------ query parameters


@pytest.mark.parametrize(
    "path", ["/v1/jobs", "/v1/usage", "/v1/crawl/x", "/v1/search/x", "/v1/webhooks/stats"]
)
async def test_unknown_query_parameters_are_refused(api: Api, path: str) -> None:
    [problem] = (await api.get(path, status=422, params={"per-page": 3}))["detail"]
    assert problem["loc"] == ["query", "per-page"]


# -------------------------------------------------------------------------------- retry


async def test_a_retry_is_idempotent_under_its_key(api: Api) -> None:
    failed = await api.run_job("crawl", url="http://gone.invalid/")
    assert failed["status"] == "failed"
    path = f"/v1/jobs/{failed['job_id']}/retry"
    first = await api.post(path, headers=KEY)
    assert await api.post(path, headers=KEY) == first
    assert len((await api.get("/v1/jobs"))["jobs"]) == 2
    await api.wait_for_end("crawl", first["job_id"])
    assert (await api.post(path, headers=KEY))["job_id"] == first["job_id"]
    assert (await api.post(path))["job_id"] != first["job_id"]
    # The key belongs to that retry: neither another job's nor a start is answered with it.
    other = await api.wait_for_end("crawl", first["job_id"])
    await api.post(f"/v1/jobs/{other['job_id']}/retry", status=409, headers=KEY)
    await api.post("/v1/crawl", {"url": "http://gone.invalid/"}, status=409, headers=KEY)
    await api.post(path, status=422, headers={"Idempotency-Key": "x" * 256})


# --------------------------------------------------------------------------- without a browser

NEEDS = [
    ({"formats": ["screenshot"]}, "formats"),
    ({"formats": ["markdown", "screenshot"]}, "formats"),
    ({"mobile": True}, "mobile"),
    ({"mobile_device": "iPhone 15"}, "mobile_device"),
]


@pytest.fixture
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(_browser: Browser) -> None:
        raise ScrapeError("browser_missing", INSTALL)

    monkeypatch.setattr(Browser, "check_installed", check)


@pytest.mark.usefixtures("no_browser")
@pytest.mark.parametrize(
    ("options", "field"), [*NEEDS, ({"render": True}, "render"), ({"wait_for": 100}, "wait_for")]
)
async def test_without_a_browser_what_needs_one_is_refused(
    api: Api, options: dict[str, Any], field: str
) -> None:
    problem = await start_refused(api, "crawl", url="http://example.com/", scrape_options=options)
    assert problem["loc"] == ["body", "scrape_options", field]
    assert "pip install 'webdata_nb[browser]'" in problem["msg"]
    if (options, field) in NEEDS:
        problem = await start_refused(api, "search", **{"query": "q", **options})
        assert problem["loc"] == ["body", field]


@pytest.mark.slow
@pytest.mark.usefixtures("no_browser")
@pytest.mark.parametrize("options", [{}, {"render": "auto"}, {"render": False}, {"mobile": False}])
async def test_without_a_browser_all_else_is_done(
    api: Api, site: Site, options: dict[str, Any]
) -> None:
    site.page("/", "<main><p>" + "Plain words for everyone. " * 20 + "</p></main>")
    [row] = (await api.run_job("crawl", url=site.url, max_pages=1, scrape_options=options))["data"]
    assert row["success"] is True
    await api.run_job("search", query="q", formats=[], mobile=True)
