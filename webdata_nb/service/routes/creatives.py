"""POST .../transparency/creatives, and two extras of ours: advertisers by name, stored files."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import limits, paths
from webdata_nb.contract.local import Creatives
from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.contract.replies import AdvertisersReply, CreativesReply
from webdata_nb.contract.requests import CreativesRequest
from webdata_nb.service.creatives.enrich import MOST_ASSETS, Wanted
from webdata_nb.service.creatives.image_type import kind_of
from webdata_nb.service.creatives.listing import Answer
from webdata_nb.service.creatives.source_client import SourceFetchers
from webdata_nb.service.credits.weights import CREATIVES, Charge
from webdata_nb.service.errors import NoSuchJob
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.charge import charged
from webdata_nb.service.routes.parameters import (
    AdvertiserQuery,
    AdvertisersListed,
    Sha256,
    TimeoutMs,
)
from webdata_nb.service.routes.routing import (
    AccountId,
    StateDep,
    examples,
    refusals,
    strict_router,
)

router = strict_router("creatives")
_SOURCE: Final = refusals(429, 501, 502, 504)


@router.post(
    paths.CREATIVES,
    summary="List ads of one advertiser",
    response_model=CreativesReply,
    responses=_SOURCE,
)
async def list_creatives(
    request: Request,
    state: StateDep,
    account_id: AccountId,
    wanted: Annotated[CreativesRequest, examples("listCreatives")],
) -> Response:
    """List one page of an advertiser's creatives, with the details and files that were asked for.

    It is answered at once, without a job, and charged for what succeeded.
    """
    began = time.perf_counter()
    chosen, fetchers = await _source_of(request, state)
    most, within_s = max_charges_of(wanted), wanted.timeout_ms / 1000
    async with charged(state.store.accounts, account_id, most, within_s=within_s) as call:
        answer = await state.creatives.page(
            wanted, account_id=account_id, chosen=chosen, fetchers=fetchers
        )
        for operation, units in answer.done.units.items():
            call.add(operation, units)
    return JSONResponse(_reply(answer, time.perf_counter() - began))


@router.get(
    paths.ADVERTISERS,
    summary="Find advertisers by name or domain (ours)",
    response_model=AdvertisersReply,
    responses=_SOURCE,
)
async def find_advertisers(
    request: Request,
    state: StateDep,
    account_id: AccountId,
    *,
    query: AdvertiserQuery,
    limit: AdvertisersListed = limits.ADVERTISERS_DEFAULT,
    timeout_ms: TimeoutMs = limits.TIMEOUT_MS_DEFAULT,
) -> Response:
    """Find the advertisers that a name or a domain may mean, best match first."""
    chosen, fetchers = await _source_of(request, state)
    once, within_s = [Charge(CREATIVES, "creatives", 1)], timeout_ms / 1000
    async with charged(state.store.accounts, account_id, once, within_s=within_s) as call:
        source, found = await state.creatives.advertisers(
            query, limit=limit, chosen=chosen, fetchers=fetchers, timeout_ms=timeout_ms
        )
        call.add("creatives")
    rows = [{"rank": rank, **_known(asdict(each))} for rank, each in enumerate(found, 1)]
    reply = {"success": True, "query": query, "provider": source, "advertisers": rows}
    return JSONResponse(reply)


async def _source_of(request: Request, state: AppState) -> tuple[Creatives, SourceFetchers]:
    """Return the source that the session has chosen, and the fetchers to reach it."""
    lease = request.headers.get(LEASE_HEADER)
    chosen = state.sessions.creatives_of(lease)
    route = await state.engines.egress.route_for(state.sessions.context_of(lease))
    return chosen, SourceFetchers(route.fetcher_for_api(chosen.url or ""), route.fetcher)


@router.get(
    paths.CREATIVES_FILE,
    summary="Download a stored file of a creative (ours)",
    response_class=Response,
    responses={
        200: {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}},
        **refusals(404),
    },
)
async def get_creatives_file(state: StateDep, account_id: AccountId, sha256: Sha256) -> Response:
    """Download a file that a listing of creatives stored for the account, by its hash."""
    data = state.creatives.files.get(account_id, sha256)
    if data is None:
        raise NoSuchJob("no such file, or it is past its retention")
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": f'attachment; filename="{sha256}"',
        "Cache-Control": "private, immutable",
    }
    return Response(data, media_type=kind_of(data).mime, headers=headers)


def max_charges_of(wanted: CreativesRequest) -> list[Charge]:
    """Return what a call costs at most."""
    enriched = Wanted.by(wanted)
    files = MOST_ASSETS * enriched.assets + enriched.previews
    units = {
        "creatives": 1,
        "details": wanted.limit * enriched.details,
        "assets": wanted.limit * files,
        "ocr": wanted.limit * enriched.ocr,
    }
    return [Charge(CREATIVES, operation, most) for operation, most in units.items() if most]


def _reply(answer: Answer, seconds: float) -> dict[str, Any]:
    told = {
        "success": True,
        "source": "partner_ads_transparency",
        "operation": "creatives",
        "advertiser_id": answer.filters.advertiser_id,
        "region": answer.filters.region_text,
        "total_results": len(answer.rows),
        "time_taken": round(seconds, 6),
        "creatives": answer.rows,
        "cursor": answer.cursor,
        "provider": answer.source,
        "date_range": answer.filters.date_range,
    }
    return _known(told)


def _known(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}
