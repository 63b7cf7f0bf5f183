"""POST .../transparency/creatives, and two extras of ours: advertisers by name, stored files."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from webdata_nb.contract import limits, paths
from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.contract.requests import CreativesRequest
from webdata_nb.service.charge import charged
from webdata_nb.service.creatives.enrich import MOST_ASSETS, Wanted
from webdata_nb.service.creatives.exchange import Outlets
from webdata_nb.service.creatives.pictures import kind_of
from webdata_nb.service.creatives.run import Answer, Listing
from webdata_nb.service.credits.weights import CREATIVES, Charge
from webdata_nb.service.errors import BadInput, NoSuchJob
from webdata_nb.service.routes.problems import json_body, validated
from webdata_nb.service.routes.replies import whole
from webdata_nb.service.routes.starts import Desk, account_of
from webdata_nb.service.work.ways import Ways


@dataclass(frozen=True, slots=True)
class Counter:
    """What the creatives routes work with."""

    listing: Listing
    ways: Ways


def routes(desk: Desk, counter: Counter) -> list[Route]:
    """Return the creatives routes."""
    listing = counter.listing

    async def page(request: Request) -> Response:
        began = time.perf_counter()
        wanted = validated(CreativesRequest, await json_body(request), at="body")
        lease = request.headers.get(LEASE_HEADER)
        chosen = desk.sessions.creatives_of(lease)
        way = await counter.ways.of(desk.sessions.context_of(lease))
        account_id, within_s = account_of(request), wanted.timeout_ms / 1000
        most = most_charges(wanted)
        async with charged(desk.accounts, account_id, most, within_s=within_s) as call:
            answer = await listing.page(
                wanted,
                account_id=account_id,
                chosen=chosen,
                outlets=Outlets(way.towards(chosen.url or ""), way.fetcher),
            )
            for operation, units in answer.done.units.items():
                call.add(operation, units)
        return JSONResponse(_reply(answer, time.perf_counter() - began))

    async def advertisers(request: Request) -> Response:
        query = _query(request)
        lease = request.headers.get(LEASE_HEADER)
        chosen = desk.sessions.creatives_of(lease)
        way = await counter.ways.of(desk.sessions.context_of(lease))
        low, high = limits.ADVERTISERS
        least_ms, most_ms = limits.TIMEOUT_MS
        limit = whole(request, "limit", default=limits.ADVERTISERS_DEFAULT, low=low, high=high)
        usual = limits.TIMEOUT_MS_DEFAULT
        timeout_ms = whole(request, "timeout_ms", default=usual, low=least_ms, high=most_ms)
        once = [Charge(CREATIVES, "creatives", 1)]
        account_id, within_s = account_of(request), timeout_ms / 1000
        async with charged(desk.accounts, account_id, once, within_s=within_s) as call:
            source, found = await listing.advertisers(
                query,
                limit=limit,
                chosen=chosen,
                outlets=Outlets(way.towards(chosen.url or ""), way.fetcher),
                timeout_ms=timeout_ms,
            )
            call.add("creatives")
        rows = [{"rank": rank, **_known(asdict(each))} for rank, each in enumerate(found, 1)]
        reply = {"success": True, "query": query, "provider": source, "advertisers": rows}
        return JSONResponse(reply)

    async def file(request: Request) -> Response:
        name = request.path_params["sha256"]
        data = listing.files.get(account_of(request), name)
        if data is None:
            raise NoSuchJob("no such file, or it is past its retention")
        headers = {
            "X-Content-Type-Options": "nosniff",
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "private, immutable",
        }
        return Response(data, media_type=kind_of(data).mime, headers=headers)

    return [
        Route(paths.CREATIVES, page, methods=["POST"]),
        Route(paths.ADVERTISERS, advertisers, methods=["GET"]),
        Route(paths.CREATIVES_FILE, file, methods=["GET"]),
    ]


def most_charges(wanted: CreativesRequest) -> list[Charge]:
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


def _query(request: Request) -> str:
    query = request.query_params.get("query", "").strip()
    if not query or len(query) > limits.ADVERTISER_QUERY_LENGTH or not query.isprintable():
        raise BadInput(
            f"must be a name or a domain of 1 to {limits.ADVERTISER_QUERY_LENGTH} characters",
            loc=("query", "query"),
        )
    return query
