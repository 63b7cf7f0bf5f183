"""The endpoint over the sample source: every parameter, without any network."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import require
from tests.service.conftest import Api, opened
from webdata_nb.contract import paths
from webdata_nb.contract.local import Creatives, SessionSettings
from webdata_nb.contract.replies import AdvertisersReply, Creative, CreativesReply
from webdata_nb.service.creatives import enrich
from webdata_nb.service.creatives.sample import Sample, advertiser_ids

ADVERTISER, OTHER = advertiser_ids()
ROWS = 45


async def listed(api: Api, **body: Any) -> Any:
    return await api.post(paths.CREATIVES, {"advertiser_id": ADVERTISER, **body})


async def refused(api: Api, **body: Any) -> tuple[str, str]:
    """Return the field and the message of a refusal."""
    reply = await api.post(paths.CREATIVES, {"advertiser_id": ADVERTISER, **body}, 422)
    problem = reply["detail"][0]
    return problem["loc"][-1], problem["msg"]


async def test_a_page_has_the_contracts_shape(api: Api) -> None:
    reply = await listed(api)
    read = CreativesReply.model_validate(reply)
    assert read.total_results == len(read.creatives) == 40
    assert (read.source, read.operation) == ("partner_ads_transparency", "creatives")
    assert (read.advertiser_id, read.region, read.provider) == (ADVERTISER, "anywhere", "sample")
    assert read.cursor
    for position, row in enumerate(reply["creatives"], start=1):
        creative = Creative.model_validate(row)
        assert creative.position == position
        assert creative.advertiser_name == "Fulmar Instruments"
        assert creative.first_shown is not None
        assert "regions" not in row


async def test_positions_go_on_over_the_pages_and_no_row_comes_twice(api: Api) -> None:
    rows: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        reply = await listed(api, limit=7, **cursor)
        rows += reply["creatives"]
        if "cursor" not in reply:
            break
        cursor = {"cursor": reply["cursor"]}
    assert [row["position"] for row in rows] == list(range(1, ROWS + 1))
    assert len({row["creative_id"] for row in rows}) == ROWS


@pytest.mark.parametrize("name", ["url", "startUrls"])
async def test_an_advertiser_by_the_address_of_its_page(api: Api, name: str) -> None:
    url = f"https://adstransparency.google.com/advertiser/{ADVERTISER}?region=NO"
    for value in (url, [url]) if name == "startUrls" else (url,):
        reply = await api.post(paths.CREATIVES, {name: value})
        assert (reply["advertiser_id"], reply["region"]) == (ADVERTISER, "NO")


@pytest.mark.parametrize("text", ["DE", "deu", "germany ", "Federal Republic of Germany"])
async def test_a_region_by_code_or_name(api: Api, text: str) -> None:
    reply = await listed(api, region=text, skip_details=False)
    assert reply["region"] == "DE"
    assert reply["creatives"]
    assert all("DE" in row["regions"] for row in reply["creatives"])


async def test_an_unknown_region_names_close_ones(api: Api) -> None:
    where, why = await refused(api, region="Germny")
    assert where == "region"
    assert "Germany (DE)" in why


async def test_the_url_and_the_fields_must_agree(api: Api) -> None:
    page = f"https://adstransparency.google.com/advertiser/{ADVERTISER}"
    where, _ = await refused(api, url=f"{page}?region=NO", region="DE")
    assert where == "region"
    dated = f"{page}?start-date=2026-01-01&end-date=2026-01-31"
    where, _ = await refused(api, url=dated, date_range="last_7_days")
    assert where == "date_range"


@pytest.mark.parametrize(("text", "at_most"), [("last_7_days", 10), ("last_30_days", 40)])
async def test_a_date_range_leaves_out_what_was_not_shown_then(
    api: Api, text: str, at_most: int
) -> None:
    reply = await listed(api, date_range=text)
    assert 0 < reply["total_results"] <= at_most
    assert reply["date_range"] == text


async def test_dates_of_long_ago_find_nothing_and_say_what_was_asked(api: Api) -> None:
    reply = await listed(api, date_range="2001-01-01..2001-12-31", region="NO")
    assert reply["creatives"] == []
    assert (reply["date_range"], reply["region"]) == ("2001-01-01..2001-12-31", "NO")


async def test_details_come_when_asked_for(api: Api) -> None:
    row = (await listed(api, limit=1, skip_details=False))["creatives"][0]
    assert row["landing_domain"] == "fulmar-instruments.example"
    assert row["impressions_min"] < row["impressions_max"]
    assert row["asset_urls"] == [row["preview_url"]]


async def test_downloads_are_kept_under_their_hash_for_their_account(api: Api) -> None:
    reply = await listed(api, limit=2, should_download_assets=True, should_download_previews=True)
    row = reply["creatives"][0]
    kept = row["assets"][0]
    assert (kept["mime"], kept["width"] > 0) == ("image/png", True)
    assert kept["sha256"] == row["preview"]["sha256"]
    path = paths.fill(paths.CREATIVES_FILE, sha256=kept["sha256"])
    answer = await api.http.get(path)
    assert (answer.status_code, len(answer.content)) == (200, kept["bytes"])
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    await api.get(paths.fill(paths.CREATIVES_FILE, sha256="0" * 64), 404)
    await api.get(paths.fill(paths.CREATIVES_FILE, sha256="..%2f..%2fcursor.secret"), 404)


async def test_an_advertiser_that_the_sample_does_not_know_needs_a_source(api: Api) -> None:
    reply = await api.post(paths.CREATIVES, {"advertiser_id": "AR123"}, 501)
    assert "WEBDATA_CREATIVES_SOURCE" in reply["detail"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("limit", 0), ("limit", 41), ("timeout_ms", 4999), ("timeout_ms", 90_001), ("ocr", "yes")],
)
async def test_values_outside_their_bounds_are_refused(api: Api, field: str, value: Any) -> None:
    where, _ = await refused(api, **{field: value})
    assert where == field


async def test_a_cursor_is_bound_to_its_listing(api: Api) -> None:
    cursor = (await listed(api, limit=5))["cursor"]
    assert (await listed(api, limit=40, cursor=cursor))["creatives"][0]["position"] == 6
    for other in ({"region": "NO"}, {"date_range": "last_7_days"}, {"advertiser_id": OTHER}):
        where, why = await refused(api, cursor=cursor, **other)
        assert where == "cursor"
        assert "another listing" in why
    for wrong in (cursor[:-4], f"{cursor[:60]}AAAA{cursor[64:]}", "page2", "%%%"):
        assert (await refused(api, cursor=wrong))[0] == "cursor"


async def test_a_cursor_outlives_a_restart_but_not_another_service(tmp_path: Path) -> None:
    async with opened(tmp_path / "one") as api:
        cursor = (await listed(api, limit=5))["cursor"]
    async with opened(tmp_path / "one") as api:
        assert (await listed(api, cursor=cursor))["creatives"][0]["position"] == 6
    async with opened(tmp_path / "two") as api:
        assert (await refused(api, cursor=cursor))[0] == "cursor"


async def test_advertisers_by_name_or_domain(api: Api, sampled: None) -> None:  # noqa: ARG001
    for query in ("fulmar", "FULMAR Fe", "fulmar-ferries.example"):
        reply = await api.get(paths.ADVERTISERS, params={"query": query})
        found = AdvertisersReply.model_validate(reply).advertisers
        assert OTHER in [each.advertiser_id for each in found]
    assert [each.rank for each in found] == [1]
    await api.get(paths.ADVERTISERS, 422, params={"query": " "})
    await api.get(paths.ADVERTISERS, 422, params={"query": "x", "limit": "51"})


async def test_without_a_source_only_the_invented_advertisers_are_found(api: Api) -> None:
    reply = await api.get(paths.ADVERTISERS, params={"query": "Fulmar"})
    assert reply["provider"] == "sample"
    assert [each["advertiser_id"] for each in reply["advertisers"]] == [ADVERTISER, OTHER]
    reply = await api.get(paths.ADVERTISERS, 501, params={"query": "Somebody Else"})
    assert "WEBDATA_CREATIVES_SOURCE" in reply["detail"]


async def test_the_text_of_an_ad_and_its_parts(api: Api) -> None:
    require("tesseract")
    row = (await listed(api, limit=1, ocr=True))["creatives"][0]
    assert row["headline"] in row["text"].replace("\n", " ")
    assert 0.5 < row["text_confidence"] <= 1
    assert "preview" not in row


async def test_what_is_not_done_in_time_is_an_error_of_its_row(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Sample, "detailed", never)
    # The whole time is kept in reserve, so that none is left for enrichment.
    monkeypatch.setattr(enrich, "RESERVE_S", 3600.0)
    reply = await listed(api, limit=3, skip_details=False)
    assert len(reply["creatives"]) == 3
    assert {row["error"] for row in reply["creatives"]} == {"details: not done within timeout_ms"}


@pytest.fixture
def sampled(api: Api) -> None:
    """Let the session of the requests choose the sample source."""
    api.lifetime.renew("test")
    api.lifetime.bind_settings("test", SessionSettings(creatives=Creatives(source="sample")))
    api.http.headers["X-Webdata-Lease"] = "test"
