"""Reads prices and the usage of an account: /v1/data-api-weights/public, /v1/usage."""

from __future__ import annotations

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
    summary="Read the price of each operation in credits",
    response_model=list[Weight],
)
async def list_weights() -> Response:
    """List the price of one unit of each operation, in credits."""
    return JSONResponse([weight.model_dump() for weight in CATALOG])


@router.get(
    paths.USAGE,
    summary="Credits and active work of your account (ours)",
    response_model=UsageReply,
)
async def get_usage(state: StateDep, account_id: AccountId) -> Response:
    """Read the credits of the account: available, reserved, and used in this billing period."""
    usage = await state.store.accounts.usage(account_id, now=state.store.now())
    return Response(_usage_reply(usage).model_dump_json(), media_type="application/json")


def _usage_reply(usage: AccountUsage) -> UsageReply:
    terms, balance = usage.account.terms, usage.account.balance
    start, end = usage.period
    return UsageReply(
        plan=terms.plan,
        monthly=terms.monthly,
        monthly_left=None if terms.monthly is None else balance.monthly_left,
        topup=balance.topup_left,
        reserved=usage.reserved,
        used=sum(operation.credits for operation in usage.used),
        period_start=datetime.fromtimestamp(start, UTC),
        period_end=datetime.fromtimestamp(end, UTC),
        active=usage.active,
        limit=terms.concurrency,
        operations=[
            UsedCredits(
                platform=operation.platform,
                operation=operation.operation,
                units=operation.units,
                credits=operation.credits,
            )
            for operation in usage.used
        ],
    )
