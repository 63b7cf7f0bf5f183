"""Routes for creatives: the listing, the search for advertisers, and the download of files."""

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
from webdata_nb.service.creatives.enrich import MAX_ASSETS, EnrichmentOptions, detect_image_type
from webdata_nb.service.creatives.source import SourceFetchers
from webdata_nb.service.errors import NoSuchJob
from webdata_nb.service.ledger import CREATIVES, Charge
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.credits import charged
from webdata_nb.service.routes.routing import (
    AccountId,
    AdvertiserLimit,
    AdvertiserQuery,
    Sha256,
    StateDep,
    TimeoutMs,
    error_responses,
    examples,
    scopes,
    strict_router,
)

router: Final = strict_router("creatives")
_SOURCE_ERRORS: Final = error_responses(429, 501, 502, 504)


@router.post(
    paths.CREATIVES,
    summary="List ads of one advertiser",
    response_model=CreativesReply,
    responses=_SOURCE_ERRORS,
)
@scopes("creatives")
async def list_creatives(
    http_request: Request,
    state: StateDep,
    account_id: AccountId,
    request: Annotated[CreativesRequest, examples("listCreatives")],
) -> Response:
    """List one page of an advertiser's creatives, with the selected details and files.

    The reply is immediate, without a job. Only successful operations are charged.
    """
    started = time.perf_counter()
    settings, fetchers = await _session_source(http_request, state)
    max_charges, timeout_s = max_charges_of(request), request.timeout_ms / 1000
    async with charged(state.store, account_id, max_charges, timeout_s=timeout_s) as call:
        page = await state.creatives.list_page(
            request, account_id=account_id, settings=settings, fetchers=fetchers
        )
        for operation, units in page.counts.units.items():
            call.add(operation, units)
    seconds = time.perf_counter() - started
    reply = {
        "success": True,
        "source": "partner_ads_transparency",
        "operation": "creatives",
        "advertiser_id": page.filters.advertiser_id,
        "region": page.filters.region_code,
        "total_results": len(page.rows),
        "time_taken": round(seconds, 6),
        "creatives": page.rows,
        "cursor": page.cursor,
        "provider": page.source,
        "date_range": page.filters.date_range,
    }
    return JSONResponse(_without_nulls(reply))


@router.get(
    paths.ADVERTISERS,
    summary="Find advertisers by name or domain (ours)",
    response_model=AdvertisersReply,
    responses=_SOURCE_ERRORS,
)
@scopes("creatives")
async def find_advertisers(
    http_request: Request,
    state: StateDep,
    account_id: AccountId,
    *,
    query: AdvertiserQuery,
    limit: AdvertiserLimit = limits.ADVERTISERS_DEFAULT,
    timeout_ms: TimeoutMs = limits.TIMEOUT_MS_DEFAULT,
) -> Response:
    """Find the advertisers that match a name or a domain, best match first."""
    settings, fetchers = await _session_source(http_request, state)
    max_charges, timeout_s = [Charge(CREATIVES, "creatives", 1)], timeout_ms / 1000
    async with charged(state.store, account_id, max_charges, timeout_s=timeout_s) as call:
        source, advertisers = await state.creatives.find_advertisers(
            query, limit=limit, settings=settings, fetchers=fetchers, timeout_ms=timeout_ms
        )
        call.add("creatives")
    rows = [
        {"rank": rank, **_without_nulls(asdict(advertiser))}
        for rank, advertiser in enumerate(advertisers, 1)
    ]
    reply = {"success": True, "query": query, "provider": source, "advertisers": rows}
    return JSONResponse(reply)


async def _session_source(request: Request, state: AppState) -> tuple[Creatives, SourceFetchers]:
    """Return the session's settings of the source, and the fetchers to reach it."""
    lease = request.headers.get(LEASE_HEADER)
    settings = state.sessions.creatives_of(lease)
    route = await state.engines.egress.route_for(state.sessions.context_of(lease))
    return settings, SourceFetchers(route.fetcher_for_api(settings.url or ""), route.fetcher)


@router.get(
    paths.CREATIVES_FILE,
    summary="Download a stored file of a creative (ours)",
    response_class=Response,
    responses={
        200: {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}},
        **error_responses(404, 503),
    },
)
@scopes("creatives", "read")
async def get_creatives_file(state: StateDep, account_id: AccountId, sha256: Sha256) -> Response:
    """Download a file that a listing of creatives stored for the account, by its hash."""
    data = await state.creatives.files.get(account_id, sha256)
    if data is None:
        raise NoSuchJob("no such file, or it has expired")
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": f'attachment; filename="{sha256}"',
        "Cache-Control": "private, immutable",
    }
    return Response(data, media_type=detect_image_type(data).mime, headers=headers)


def max_charges_of(request: CreativesRequest) -> list[Charge]:
    """Return the highest charges that a call may cause."""
    options = EnrichmentOptions.of_request(request)
    files = MAX_ASSETS * options.assets + options.previews
    units = {
        "creatives": 1,
        "details": request.limit * options.details,
        "assets": request.limit * files,
        "ocr": request.limit * options.ocr,
    }
    return [Charge(CREATIVES, operation, count) for operation, count in units.items() if count]


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
