"""GET /v1/data-api-weights/public and GET /v1/usage."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from webdata_nb.contract import paths
from webdata_nb.contract.replies import UsageReply, UsedCredits
from webdata_nb.service.credits.weights import CATALOG
from webdata_nb.service.routes.starts import Desk, account_of
from webdata_nb.service.store.accounts import Usage


def routes(desk: Desk) -> list[Route]:
    """Return the routes about credits."""

    async def weights(_request: Request) -> Response:
        return JSONResponse([weight.model_dump() for weight in CATALOG])

    async def usage(request: Request) -> Response:
        found = await desk.accounts.usage(account_of(request), now=time.time())
        return Response(_told(found).model_dump_json(), media_type="application/json")

    return [
        Route(paths.WEIGHTS, weights, methods=["GET"]),
        Route(paths.USAGE, usage, methods=["GET"]),
    ]


def _told(usage: Usage) -> UsageReply:
    terms, balance = usage.account.terms, usage.account.balance
    start, end = usage.period
    return UsageReply(
        plan=terms.plan,
        monthly=terms.monthly,
        monthly_left=None if terms.monthly is None else balance.monthly_left,
        topup=balance.topup_left,
        reserved=usage.reserved,
        used=sum(each.credits for each in usage.used),
        period_start=datetime.fromtimestamp(start, UTC),
        period_end=datetime.fromtimestamp(end, UTC),
        active=usage.active,
        limit=terms.concurrency,
        operations=[
            UsedCredits(
                platform=each.platform,
                operation=each.operation,
                units=each.units,
                credits=each.credits,
            )
            for each in usage.used
        ],
    )
