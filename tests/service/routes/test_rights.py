"""Crawls that read rights, and crawls with a purpose, over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of, stored_bytes
from tests.service.routes.test_crawl import page
from tests.site.server import Site

TDM: Final = "/.well-known/tdmrep.json"
# A word that only refused pages contain.
SECRET: Final = "quokkafolio"
NO_AI: Final = (
    '<rsl xmlns="https://rslstandard.org/rsl"><content url="/"><license>'
    '<prohibits type="usage">ai-all</prohibits></license></content></rsl>'
)


def refused_page(path: str, head: str = "") -> str:
    return f"{head}{page(f'{SECRET} {path}', '/behind')}"


def one_page_for_each_signal(site: Site) -> dict[str, str]:
    """Set up pages that refuse training, and return the rule of each in the receipt."""
    robots = site.at("/robots.txt")
    site.robots(
        "User-agent: *\nContent-Signal: search=yes\nContent-Usage: /usage/ train-ai=n\n"
        "Content-Signal: /signal/ ai-train=no\n"
    )
    site.page(TDM, json.dumps([{"location": "/mining/", "tdm-reservation": 1}]))
    site.page("/no-ai.xml", NO_AI)
    licence = site.at("/no-ai.xml")
    link = f'<{licence}>; rel="license"; type="application/rsl+xml"'
    headers = {
        "/header": {"Content-Usage": "train-ai=n"},
        "/tag": {"X-Robots-Tag": "noai"},
        "/reserved": {"tdm-reservation": "1"},
        "/linked": {"Link": link},
    }
    heads = {
        "/meta": '<meta name="robots" content="noai">',
        "/meta-tdm": '<meta name="tdm-reservation" content="1">',
        "/inline": f'<script type="application/rsl+xml">{NO_AI}</script>',
        "/element": '<link rel="license" type="application/rsl+xml" href="/no-ai.xml">',
    }
    paths = ["/usage/a", "/signal/a", "/mining/a", *headers, *heads]
    for path in paths:
        site.page(path, refused_page(path, heads.get(path, "")), headers=headers.get(path))
    site.redirect("/moved", "/usage/a")
    site.page("/", page("Home", *paths, "/moved", "/open"))
    site.page("/open", page("Open"), headers={"Content-Usage": "train-ai=y"})
    prohibits = '<prohibits type="usage">ai-all</prohibits>'
    usage = f"Content-Usage: /usage/ train-ai=n ({robots}, line 3)"
    return {
        "/usage/a": usage,
        "/signal/a": f"Content-Signal: /signal/ ai-train=no ({robots}, line 4)",
        "/mining/a": f'{{"location":"/mining/","tdm-reservation":1}} ({site.at(TDM)})',
        "/header": f"Content-Usage: train-ai=n ({site.at('/header')})",
        "/tag": f"X-Robots-Tag: noai ({site.at('/tag')})",
        "/reserved": f"tdm-reservation: 1 ({site.at('/reserved')})",
        "/linked": f"{prohibits} ({licence}, line 1)",
        "/meta": f"{heads['/meta']} ({site.at('/meta')})",
        "/meta-tdm": f"{heads['/meta-tdm']} ({site.at('/meta-tdm')})",
        "/inline": f"{prohibits} ({site.at('/inline')}, line 1)",
        "/element": f"{prohibits} ({licence}, line 1)",
        "/moved": f"redirects to {site.at('/usage/a')}: {usage}",
    }


@pytest.mark.both_stores
@pytest.mark.parametrize("strategy", ["bfs", "dfs", "bff"])
async def test_refused_pages_are_no_rows_and_the_receipt_has_their_rules(
    api: Api, site: Site, strategy: str
) -> None:
    rules = one_page_for_each_signal(site)
    reply = await api.run_job("crawl", url=site.url, purpose="ai-train", crawl_strategy=strategy)
    assert sorted(row["url"] for row in reply["data"]) == [site.url, site.at("/open")]
    assert reply["receipt"]["counts"] == {"fetched": 2, "rights": len(rules)}
    receipt = await api.get(f"/v1/crawl/{reply['job_id']}/receipt")
    found = {e["url"]: e["detail"] for e in receipt["data"] if e["outcome"] == "rights"}
    assert found == {site.at(path): rule for path, rule in rules.items()}
    # What robots.txt and tdmrep.json refuse is not requested, and no refused page is followed.
    for path in ("/usage/a", "/signal/a", "/mining/a", "/behind"):
        assert not site.hits(path)
    assert len(site.hits(TDM)) == len(site.hits("/no-ai.xml")) == 1


@pytest.mark.both_stores
async def test_nothing_of_a_refused_page_is_stored_or_exported(tmp_path: Path, site: Site) -> None:
    one_page_for_each_signal(site)
    async with open_service(tmp_path) as api:
        reply = await api.run_job("crawl", url=site.url, purpose="ai-train")
        for file_format in ("json", "csv"):
            path = f"/v1/crawl/{reply['job_id']}/export"
            export = await api.http.get(path, params={"format": file_format})
            assert export.status_code == 200
            assert SECRET not in export.text
        assert (await api.run_job("search", query="Open", formats=[]))["data"] != []
        assert (await api.run_job("search", query=f"{SECRET}", formats=[]))["data"] == []
    async with store_of(tmp_path) as store:
        journal = [json.loads(entry.journal) for entry in await store.journal(reply["job_id"])]
    assert {entry["kind"] for entry in journal} == {"page", "rights"}
    for entry in journal:
        if entry["kind"] == "rights":
            names = {"url", "kind", "final_url", "reason", "hops", "was_requested"}
            assert entry.keys() <= names
    # The query above is stored; nothing else has the word.
    places = [name for name, data in stored_bytes(tmp_path).items() if SECRET.encode() in data]
    assert not any("spool" in place or "segment" in place for place in places)


async def test_a_refusing_header_ends_the_page_before_its_body(api: Api, site: Site) -> None:
    sent: list[str] = []

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"X-Robots-Tag": "noai", "Content-Type": "text/html"})
        await response.prepare(request)
        sent.append("head")
        while True:  # until the service closes the connection
            await response.write(b"<p>more</p>" * 1000)
            await asyncio.sleep(0.01)

    site.page("/", page("Home", "/endless"))
    site.page("/endless", endless)
    reply = await api.run_job("crawl", url=site.url, purpose="ai-input")
    assert reply["receipt"]["counts"] == {"fetched": 1, "rights": 1}
    assert sent == ["head"]


@pytest.mark.both_stores
async def test_lines_with_control_characters_are_stored(api: Api, site: Site) -> None:
    site.robots("User-agent: *\nContent-Signal: /a ai-train=no,\x00\x1b\n")
    site.page("/", page("Home", "/a"))
    site.page("/a", page("A"))
    reply = await api.run_job("crawl", url=site.url, purpose="ai-train")
    receipt = await api.get(f"/v1/crawl/{reply['job_id']}/receipt")
    details = {entry["url"]: entry["detail"] for entry in receipt["data"]}
    assert "ai-train=no,\ufffd\ufffd" in details[site.at("/a")]
    reply = await api.run_job("crawl", url=site.at("/a"), rights=True)
    assert "\ufffd" in json.dumps(reply["data"], ensure_ascii=False)


async def test_rights_alone_leave_no_page_out(api: Api, site: Site) -> None:
    rules = one_page_for_each_signal(site)
    reply = await api.run_job("crawl", url=site.url, rights=True)
    rows = {row["url"]: row.get("rights") for row in reply["data"]}
    # With the start page, the open one and the one behind; without the redirect to a row.
    assert len(rows) == len(rules) + 2
    refused = {
        url for url, each in rows.items() if each and each["verdicts"]["ai-train"] == "refused"
    }
    assert refused == {site.at(path) for path in rules if path != "/moved"}
    value = rows[site.at("/open")]
    assert value["verdicts"] == {
        "search": "allowed",
        "ai-input": "unknown",
        "ai-train": "allowed",
        "research": "unknown",
    }
    assert value["robots_allowed"] is True
    [signal] = [each for each in value["signals"] if each["signal"] == "content-signal"]
    read_at = signal.pop("read_at")
    assert signal == {
        "signal": "content-signal",
        "source": site.at("/robots.txt"),
        "line": "Content-Signal: search=yes",
        "line_number": 2,
        "says": {"search": "allowed"},
        "problem": None,
    }
    assert read_at.endswith("+00:00")


async def test_a_crawl_without_these_options_has_no_rights(api: Api, site: Site) -> None:
    one_page_for_each_signal(site)
    reply = await api.run_job("crawl", url=site.url)
    assert not any("rights" in row for row in reply["data"])
    assert not site.hits(TDM)
    export = await api.http.get(f"/v1/crawl/{reply['job_id']}/export", params={"format": "csv"})
    assert "rights" not in export.text.splitlines()[0].split(",")


@pytest.mark.parametrize("purpose", ["search", "ai-input", "ai-train", "research"])
async def test_a_refused_start_page_fails_the_crawl_with_the_rule(
    api: Api, site: Site, purpose: str
) -> None:
    site.page(
        "/",
        refused_page(
            f'<script type="application/rsl+xml">{NO_AI.replace("ai-all", "all")}</script>'
        ),
    )
    reply = await api.run_job("crawl", url=site.url, purpose=purpose)
    assert (reply["status"], reply["data"]) == ("failed", [])
    assert reply["error"] == (
        f"the start page may not be used for {purpose}: "
        f'<prohibits type="usage">all</prohibits> ({site.url}, line 1)'
    )
    assert reply["receipt"]["counts"] == {"rights": 1}


async def test_what_one_purpose_is_refused_another_may_have(api: Api, site: Site) -> None:
    site.robots("User-agent: *\nContent-Signal: ai-train=no, search=yes\n")
    site.page("/", page("Home"))
    for purpose, status in (
        ("search", "completed"),
        ("ai-train", "failed"),
        ("research", "completed"),
    ):
        reply = await api.run_job("crawl", url=site.url, purpose=purpose)
        assert reply["status"] == status


async def test_the_agent_of_the_job_selects_its_group(api: Api, site: Site) -> None:
    site.robots("User-agent: TrainBot\nContent-Usage: train-ai=n\n")
    site.page("/", page("Home"))
    agent = {"headers": {"User-Agent": "TrainBot/2.0"}}
    reply = await api.run_job("crawl", url=site.url, purpose="ai-train", scrape_options=agent)
    assert reply["status"] == "failed"
    assert (await api.run_job("crawl", url=site.url, purpose="ai-train"))["status"] == "completed"


@pytest.mark.parametrize(
    ("options", "loc", "says"),
    [
        (
            {"purpose": "training"},
            ["body", "purpose"],
            "'search', 'ai-input', 'ai-train' or 'research'",
        ),
        ({"purpose": True}, ["body", "purpose"], "'search'"),
        ({"rights": "yes"}, ["body", "rights"], "true or false"),
        (
            {"purpose": "search", "respect_robots_txt": False},
            ["body"],
            "purpose and respect_robots_txt=False cannot be combined",
        ),
    ],
)
async def test_wrong_options_are_422(
    api: Api, options: dict[str, Any], loc: list[str], says: str
) -> None:
    body = {"url": "http://site.example/", **options}
    [problem] = (await api.post("/v1/crawl", body, status=422))["detail"]
    assert problem["loc"] == loc
    assert says in problem["msg"]
