"""GET /v1/data-api-weights/public and GET /v1/usage."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from starlette.responses import JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.replies import UsageReply, UsedCredits, Weight
from webdata_nb.service.credits.weights import CATALOG
from webdata_nb.service.routes.routing import AccountId, StateDep, strict_router
from webdata_nb.service.store.account_records import AccountUsage

router = strict_router("usage")


@router.get(
    paths.WEIGHTS,
    summary="What each operation costs in credits",
    response_model=list[Weight],
)
async def list_weights() -> Response:
    """List what one unit of each operation costs, in credits."""
    return JSONResponse([weight.model_dump() for weight in CATALOG])


@router.get(
    paths.USAGE,
    summary="Credits and active work of your account (ours)",
    response_model=UsageReply,
)
async def get_usage(state: StateDep, account_id: AccountId) -> Response:
    """Read what the account has, holds and has used in its present billing period."""
    found = await state.store.accounts.usage(account_id, now=time.time())
    return Response(_told(found).model_dump_json(), media_type="application/json")


def _told(usage: AccountUsage) -> UsageReply:
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
