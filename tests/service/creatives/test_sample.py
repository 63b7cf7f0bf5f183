"""Tests the creatives endpoint with the sample source, without network access."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import require
from tests.service.conftest import Api, open_service
from webdata_nb.contract import paths
from webdata_nb.contract.local import Creatives, SessionSettings
from webdata_nb.contract.replies import AdvertisersReply, Creative, CreativesReply
from webdata_nb.service.creatives import enrich
from webdata_nb.service.creatives.sample import SampleSource, advertiser_ids

ADVERTISER, OTHER = advertiser_ids()
ROWS = 45


async def list_creatives(api: Api, **body: Any) -> Any:
    return await api.post(paths.CREATIVES, {"advertiser_id": ADVERTISER, **body})


async def refusal(api: Api, **body: Any) -> tuple[str, str]:
    """Return the field and the message of a refusal."""
    reply = await api.post(paths.CREATIVES, {"advertiser_id": ADVERTISER, **body}, 422)
    problem = reply["detail"][0]
    return problem["loc"][-1], problem["msg"]


async def test_reply_matches_contract(api: Api) -> None:
    reply = await list_creatives(api)
    parsed = CreativesReply.model_validate(reply)
    assert parsed.total_results == len(parsed.creatives) == 40
    assert (parsed.source, parsed.operation) == ("partner_ads_transparency", "creatives")
    assert (parsed.advertiser_id, parsed.region, parsed.provider) == (
        ADVERTISER,
        "anywhere",
        "sample",
    )
    assert parsed.cursor
    for position, row in enumerate(reply["creatives"], start=1):
        creative = Creative.model_validate(row)
        assert creative.position == position
        assert creative.advertiser_name == "Fulmar Instruments"
        assert creative.first_shown is not None
        assert "regions" not in row


async def test_positions_continue_over_pages(api: Api) -> None:
    rows: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        reply = await list_creatives(api, limit=7, **cursor)
        rows += reply["creatives"]
        if "cursor" not in reply:
            break
        cursor = {"cursor": reply["cursor"]}
    assert [row["position"] for row in rows] == list(range(1, ROWS + 1))
    assert len({row["creative_id"] for row in rows}) == ROWS


@pytest.mark.parametrize("name", ["url", "startUrls"])
async def test_advertiser_by_url(api: Api, name: str) -> None:
    url = f"https://adstransparency.google.com/advertiser/{ADVERTISER}?region=NO"
    for value in (url, [url]) if name == "startUrls" else (url,):
        reply = await api.post(paths.CREATIVES, {name: value})
        assert (reply["advertiser_id"], reply["region"]) == (ADVERTISER, "NO")


@pytest.mark.parametrize("text", ["DE", "deu", "germany ", "Federal Republic of Germany"])
async def test_region_by_code_or_name(api: Api, text: str) -> None:
    reply = await list_creatives(api, region=text, skip_details=False)
    assert reply["region"] == "DE"
    assert reply["creatives"]
    assert all("DE" in row["regions"] for row in reply["creatives"])


async def test_unknown_region_suggests_similar_ones(api: Api) -> None:
    field, message = await refusal(api, region="Germny")
    assert field == "region"
    assert "Germany (DE)" in message


async def test_conflicting_url_and_fields_are_refused(api: Api) -> None:
    page = f"https://adstransparency.google.com/advertiser/{ADVERTISER}"
    field, _ = await refusal(api, url=f"{page}?region=NO", region="DE")
    assert field == "region"
    dated = f"{page}?start-date=2026-01-01&end-date=2026-01-31"
    field, _ = await refusal(api, url=dated, date_range="last_7_days")
    assert field == "date_range"


@pytest.mark.parametrize(("text", "at_most"), [("last_7_days", 10), ("last_30_days", 40)])
async def test_date_range_filters_rows(api: Api, text: str, at_most: int) -> None:
    reply = await list_creatives(api, date_range=text)
    assert 0 < reply["total_results"] <= at_most
    assert reply["date_range"] == text


async def test_empty_reply_repeats_filters(api: Api) -> None:
    reply = await list_creatives(api, date_range="2001-01-01..2001-12-31", region="NO")
    assert reply["creatives"] == []
    assert (reply["date_range"], reply["region"]) == ("2001-01-01..2001-12-31", "NO")


async def test_details(api: Api) -> None:
    row = (await list_creatives(api, limit=1, skip_details=False))["creatives"][0]
    assert row["landing_domain"] == "fulmar-instruments.example"
    assert row["impressions_min"] < row["impressions_max"]
    assert row["asset_urls"] == [row["preview_url"]]


async def test_assets_are_stored_by_hash(api: Api) -> None:
    reply = await list_creatives(
        api, limit=2, should_download_assets=True, should_download_previews=True
    )
    row = reply["creatives"][0]
    asset = row["assets"][0]
    assert (asset["mime"], asset["width"] > 0) == ("image/png", True)
    assert asset["sha256"] == row["preview"]["sha256"]
    path = paths.fill(paths.CREATIVES_FILE, sha256=asset["sha256"])
    download = await api.http.get(path)
    assert (download.status_code, len(download.content)) == (200, asset["bytes"])
    assert download.headers["content-type"] == "image/png"
    assert download.headers["x-content-type-options"] == "nosniff"
    await api.get(paths.fill(paths.CREATIVES_FILE, sha256="0" * 64), 404)
    await api.get(paths.fill(paths.CREATIVES_FILE, sha256="..%2f..%2fcursor.secret"), 404)


async def test_unknown_advertiser_requires_source(api: Api) -> None:
    reply = await api.post(paths.CREATIVES, {"advertiser_id": "AR123"}, 501)
    assert "WEBDATA_CREATIVES_SOURCE" in reply["detail"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("limit", 0), ("limit", 41), ("timeout_ms", 4999), ("timeout_ms", 90_001), ("ocr", "yes")],
)
async def test_out_of_range_values_are_refused(api: Api, field: str, value: Any) -> None:
    refused_field, _ = await refusal(api, **{field: value})
    assert refused_field == field


async def test_cursor_is_bound_to_listing(api: Api) -> None:
    cursor = (await list_creatives(api, limit=5))["cursor"]
    assert (await list_creatives(api, limit=40, cursor=cursor))["creatives"][0]["position"] == 6
    for other_filter in ({"region": "NO"}, {"date_range": "last_7_days"}, {"advertiser_id": OTHER}):
        field, message = await refusal(api, cursor=cursor, **other_filter)
        assert field == "cursor"
        assert "another listing" in message
    for cursor_text in (cursor[:-4], f"{cursor[:60]}AAAA{cursor[64:]}", "page2", "%%%"):
        assert (await refusal(api, cursor=cursor_text))[0] == "cursor"


@pytest.mark.sqlite("its cursors have a key in the data directory, not the replicas' secret key")
async def test_cursor_survives_restart_of_same_service_only(tmp_path: Path) -> None:
    async with open_service(tmp_path / "one") as api:
        cursor = (await list_creatives(api, limit=5))["cursor"]
    async with open_service(tmp_path / "one") as api:
        assert (await list_creatives(api, cursor=cursor))["creatives"][0]["position"] == 6
    async with open_service(tmp_path / "two") as api:
        assert (await refusal(api, cursor=cursor))[0] == "cursor"


async def test_advertisers_by_name_or_domain(api: Api, sample_session: None) -> None:  # noqa: ARG001
    for query in ("fulmar", "FULMAR Fe", "fulmar-ferries.example"):
        reply = await api.get(paths.ADVERTISERS, params={"query": query})
        advertisers = AdvertisersReply.model_validate(reply).advertisers
        assert OTHER in [each.advertiser_id for each in advertisers]
    assert [each.rank for each in advertisers] == [1]
    await api.get(paths.ADVERTISERS, 422, params={"query": " "})
    await api.get(paths.ADVERTISERS, 422, params={"query": "x", "limit": "51"})


async def test_only_sample_advertisers_without_source(api: Api) -> None:
    reply = await api.get(paths.ADVERTISERS, params={"query": "Fulmar"})
    assert reply["provider"] == "sample"
    assert [each["advertiser_id"] for each in reply["advertisers"]] == [ADVERTISER, OTHER]
    reply = await api.get(paths.ADVERTISERS, 501, params={"query": "Somebody Else"})
    assert "WEBDATA_CREATIVES_SOURCE" in reply["detail"]


async def test_ocr_text_of_ad(api: Api) -> None:
    require("tesseract")
    row = (await list_creatives(api, limit=1, ocr=True))["creatives"][0]
    assert row["headline"] in row["text"].replace("\n", " ")
    assert 0.5 < row["text_confidence"] <= 1
    assert "preview" not in row


async def test_timeout_of_enrichment_is_error_of_row(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never_return(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(SampleSource, "with_details", never_return)
    # The reserve exceeds the timeout, so that no time is left for enrichment.
    monkeypatch.setattr(enrich, "RESERVE_S", 3600.0)
    reply = await list_creatives(api, limit=3, skip_details=False)
    assert len(reply["creatives"]) == 3
    assert {row["error"] for row in reply["creatives"]} == {"details: not done within timeout_ms"}


@pytest.fixture
def sample_session(api: Api) -> None:
    """Select the sample source in the session of the requests."""
    api.lifetime.renew("test")
    api.lifetime.bind_settings("test", SessionSettings(creatives=Creatives(source="sample")))
    api.http.headers["X-Webdata-Lease"] = "test"
