"""Crawls and searches that extract with a language model: rows, errors, credits, secrets."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Api, open_service
from tests.service.extract.stub_model import KEY, StubModel, always_fail, always_reply
from tests.service.routes.teams import member
from tests.service.search.stubs import Result, stubs
from tests.site.server import Site
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import SessionSettings

LEASE = {"X-Webdata-Lease": "l1"}
FIELDS = {"name": {"type": "string"}, "price": {"type": "number"}}
SCHEMA = {"type": "object", "properties": FIELDS}


def page(name: str, price: float, *links: str) -> str:
    anchors = "".join(f'<p><a href="{link}">on to {link}</a></p>' for link in links)
    return (
        f"<title>Shop</title><main><h1>{name}</h1><p>name: {name}</p><p>price: {price}</p>"
        f"<p>Some more words about what is for sale here, as shops have them.</p>{anchors}</main>"
    )


def shop(site: Site) -> str:
    site.page("/b", page("Bat", 2))
    site.page("/c", page("Cup", 3.5))
    return site.page("/", page("Ant", 1, "/b", "/c"))


@pytest.fixture
def model(site: Site) -> StubModel:
    return StubModel(site, "/llm/v1")


async def bind(api: Api, model: StubModel, **more: Any) -> None:
    await api.http.put("/local/leases/l1", json={})
    llm = {"custom": {"url": model.url, "key": KEY, "model": "m1"}}
    settings = {"llm": llm, "engines": dict.fromkeys(ENGINES, ("local",)), **more}
    bound = await api.http.put("/local/leases/l1/settings", json=settings)
    assert bound.status_code == 204, bound.text


async def run_completed_job(api: Api, kind: str, **body: Any) -> Any:
    return await api.wait_for_end(kind, await api.start_job(kind, body, headers=LEASE))


async def test_a_crawl_extracts_from_each_page(api: Api, site: Site, model: StubModel) -> None:
    await bind(api, model)
    options = {"extract": {"schema": SCHEMA}, "formats": ["html"]}
    reply = await run_completed_job(api, "crawl", url=shop(site), scrape_options=options)
    assert [row["extract"] for row in reply["data"]] == [
        {"name": "Ant", "price": 1},
        {"name": "Bat", "price": 2},
        {"name": "Cup", "price": 3.5},
    ]
    for row in reply["data"]:
        assert (row["success"], row["error"], row["status"]) == (True, None, "completed")
        extraction = row["metadata"]["extract"]
        assert (extraction["provider"], extraction["model"]) == ("custom", "m1")
        assert extraction["provenance"] == {"/name": "model", "/price": "model"}
        assert extraction["usage"]["calls"] == 1
        assert "html" in row
        assert "markdown" not in row
    usage = await api.get("/v1/usage")
    assert {each["operation"]: each["units"] for each in usage["operations"]} == {
        "page": 3,
        "extract": 3,
    }


async def test_a_search_extracts_from_each_result(api: Api, site: Site, model: StubModel) -> None:
    shop(site)
    engine = stubs()["searxng"]
    engine.path = "/engine/search"
    engine.served = [Result(site.at(path), "t", "s") for path in ("/b", "/c", "/gone")]
    await bind(
        api,
        model,
        engines=dict.fromkeys(ENGINES, ("searxng",)),
        providers={"searxng": {"url": engine.on(site)}},
    )
    wanted = {"schema": SCHEMA, "prompt": "what it costs", "provider": "custom", "model": "m2"}
    reply = await run_completed_job(api, "search", query="q", extract=wanted)
    bat, cup, gone = reply["data"]
    assert bat["extract"] == {"name": "Bat", "price": 2}
    assert cup["extract"] == {"name": "Cup", "price": 3.5}
    assert (gone["success"], gone["scraped"], "extract" in gone) == (False, False, False)
    assert {question.model for question in model.requests} == {"m2"}


async def test_failed_extraction_is_reported_per_item_and_not_charged(
    api: Api, site: Site, model: StubModel
) -> None:
    await bind(api, model)
    wrong = always_reply('{"price": "dear"}')
    usual, model.usual = (
        model.usual,
        lambda question: wrong(question) if "Bat" in question.page else usual(question),
    )
    options = {"extract": {"schema": SCHEMA}}
    reply = await run_completed_job(api, "crawl", url=shop(site), scrape_options=options)
    assert reply["status"] == "completed"
    rows = {row["url"]: row for row in reply["data"]}
    assert len(rows) == 3
    bad = rows[site.at("/b")]
    assert (bad["success"], bad["status"], bad["extract"]) == (False, "failed", None)
    assert bad["error"].startswith("extraction failed (invalid): ")
    assert bad["metadata"]["extract"]["error"]["kind"] == "invalid"
    assert bad["metadata"]["extract"]["usage"]["calls"] == 2
    assert "price: 2" in bad["markdown"]
    assert [row["success"] for row in reply["data"]] == [True, False, True]
    usage = await api.get("/v1/usage")
    assert {each["operation"]: each["units"] for each in usage["operations"]} == {
        "page": 3,
        "extract": 2,
    }
    # In a search, too, which finds that page: it was scraped, its extraction failed.
    reply = await run_completed_job(
        api, "search", query="Bat", num_results=1, extract={"schema": SCHEMA}
    )
    [row] = reply["data"]
    assert (row["success"], row["scraped"], row["extract"]) == (False, True, None)
    assert "price: 2" in row["markdown"]
    usage = await api.get("/v1/usage")
    units = {(each["platform"], each["operation"]): each["units"] for each in usage["operations"]}
    assert units["search", "scrape"] == 1
    assert ("search", "extract") not in units


async def test_a_prompt_alone_fills_a_free_object(api: Api, site: Site, model: StubModel) -> None:
    await bind(api, model)
    model.usual = always_reply('{"mood": "calm"}')
    options = {"extract": {"prompt": "the mood"}}
    reply = await run_completed_job(
        api, "crawl", url=shop(site), max_pages=1, scrape_options=options
    )
    assert reply["data"][0]["extract"] == {"mood": "calm"}


async def test_item_reports_extraction_without_model(api: Api, site: Site) -> None:
    for provider, noted in ((None, True), ("structured", False)):
        extract = {"schema": SCHEMA, **({"provider": provider} if provider else {})}
        url = shop(site)
        reply = await api.run_job(
            "crawl", url=url, max_pages=1, scrape_options={"extract": extract}
        )
        extraction = reply["data"][0]["metadata"]["extract"]
        assert extraction["provider"] == "structured"
        assert ("no language model is set up" in extraction.get("note", "")) is noted


@pytest.mark.parametrize(
    "extract",
    [
        {"prompt": "p", "provider": "openai"},
        {"schema": SCHEMA, "model": "m"},
        {"prompt": "p"},
        {"prompt": "p", "provider": "http://127.0.0.1:9/v1"},
        {"prompt": "p", "provider": "custom", "url": "http://127.0.0.1:9/v1"},
        {"prompt": "p", "provider": "custom", "key": "k"},
    ],
)
async def test_impossible_extraction_is_rejected_before_the_job_is_stored(
    api: Api, extract: dict[str, Any]
) -> None:
    for path, body in (
        ("/v1/crawl", {"url": "http://x/", "scrape_options": {"extract": extract}}),
        ("/v1/search", {"query": "q", "extract": extract}),
    ):
        [problem] = (await api.post(path, body, status=422))["detail"]
        assert "extract" in problem["loc"]
    assert (await api.get("/v1/jobs"))["jobs"] == []


async def test_operator_model_is_reachable_in_team_mode(
    tmp_path: Path, site: Site, model: StubModel
) -> None:
    mine = await member(tmp_path, "alice", monthly=100)
    llm = {"vllm": {"url": model.url, "key": KEY, "models": ["m1", "m2"]}}
    operator = SessionSettings.model_validate({"llm": llm})
    url = shop(site)
    body = {"url": url, "max_pages": 1, "scrape_options": {"extract": {"schema": SCHEMA}}}
    # A job may fetch from the network that is admitted; the model's address needs no such word.
    async with open_service(
        tmp_path, "team", allow_networks=("127.0.0.0/8",), providers=operator
    ) as api:
        job = await api.post("/v1/crawl", body, headers=mine)
        async for row in _rows(api, job["job_id"], mine):
            assert row["extract"] == {"name": "Ant", "price": 1}
        for named, field in (({"model": "m3"}, "model"), ({"provider": "openai"}, "provider")):
            body["scrape_options"] = {"extract": {"schema": SCHEMA, **named}}
            [problem] = (await api.post("/v1/crawl", body, headers=mine, status=422))["detail"]
            assert problem["loc"] == ["body", "scrape_options", "extract", field]
        assert len((await api.get("/v1/jobs", headers=mine))["jobs"]) == 1
    assert {question.model for question in model.requests} == {"m1"}
    assert model.requests[0].headers["Authorization"] == f"Bearer {KEY}"


async def _rows(api: Api, job_id: str, mine: dict[str, str]) -> Any:
    async with asyncio.timeout(60):
        while True:
            reply = await api.get(f"/v1/crawl/{job_id}", headers=mine)
            if reply["status"] in {"completed", "failed"}:
                break
            await asyncio.sleep(0.02)
    assert reply["status"] == "completed", reply
    assert reply["data"]
    for row in reply["data"]:
        yield row


async def test_no_key_is_ever_shown(
    tmp_path: Path, site: Site, model: StubModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    options = {"extract": {"schema": SCHEMA}}
    async with open_service(tmp_path / "data") as api:
        await bind(api, model)
        # A server that holds up the key to whoever asks, in statuses, bodies and redirects.
        for turn in (
            always_fail(500, Retry_After="0"),
            always_fail(404, KEY),
            always_fail(302, Location=f"http://x.test/{KEY}"),
            always_fail(401),
        ):
            model.usual = turn
            reply = await run_completed_job(api, "crawl", url=shop(site), scrape_options=options)
            job = reply["job_id"]
            assert {row["success"] for row in reply["data"]} == {False}
            for path in (
                f"/v1/crawl/{job}",
                f"/v1/crawl/{job}/events",
                f"/v1/crawl/{job}/receipt",
                f"/v1/crawl/{job}/export?format=json",
                f"/v1/crawl/{job}/export?format=csv",
                "/v1/jobs",
                "/v1/engines",
            ):
                answer = await api.http.get(path, headers=LEASE)
                assert answer.status_code == 200, path
                texts.append(answer.text)
        bad = {"llm": {"custom": {"key": KEY, "colour": KEY}}}
        refused = await api.http.put("/local/leases/l1/settings", json=bad)
        assert refused.status_code == 422
        settings = SessionSettings.model_validate({"llm": {"custom": {"key": KEY}}})
        texts += [refused.text, repr(settings)]
    texts.append(caplog.text)
    assert model.requests
    assert [text for text in texts if KEY in text or model.url in text] == []
