"""Tests the charges of creatives calls."""

from __future__ import annotations

from typing import Any

from tests.service.conftest import Api
from webdata_nb.contract import paths
from webdata_nb.contract.requests import CreativesRequest
from webdata_nb.service.creatives.sample import advertiser_ids
from webdata_nb.service.routes.creatives import max_charges_of

ADVERTISER = advertiser_ids()[0]


async def charged_units(api: Api) -> dict[str, float]:
    """Return the charged units by operation."""
    reply: Any = await api.get(paths.USAGE)
    return {
        each["operation"]: each["units"]
        for each in reply["operations"]
        if each["platform"] == "partner_ads_transparency"
    }


async def test_successful_operations_are_charged(api: Api) -> None:
    await api.post(paths.CREATIVES, {"advertiser_id": ADVERTISER, "limit": 3})
    assert await charged_units(api) == {"creatives": 1}
    more = {"limit": 2, "should_download_assets": True, "should_download_previews": True}
    await api.post(paths.CREATIVES, {"advertiser_id": ADVERTISER, **more})
    assert await charged_units(api) == {"creatives": 2, "details": 2, "assets": 4}


async def test_failed_call_is_free(api: Api) -> None:
    await api.post(paths.CREATIVES, {"advertiser_id": "AR1"}, 501)
    await api.post(paths.CREATIVES, {"advertiser_id": ADVERTISER, "cursor": "wrong"}, 422)
    assert await charged_units(api) == {}


def test_max_charges_cover_all_options() -> None:
    request = CreativesRequest(advertiser_id=ADVERTISER, limit=5, ocr=True, skip_details=False)
    charges = {charge.operation: charge.units for charge in max_charges_of(request)}
    assert charges == {"creatives": 1, "details": 5, "ocr": 5}
