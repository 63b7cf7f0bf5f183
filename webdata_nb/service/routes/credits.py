"""Reads prices and the usage of an account, and charges for operations without a job.

Such an operation reserves credits, and pays for what succeeded::

    max_charges = [Charge(CREATIVES, "creatives", 1), Charge(CREATIVES, "details", limit)]
    async with charged(store, account_id, max_charges, timeout_s=90) as call:
        rows = await list_creatives(...)
        call.add("creatives")
        call.add("details", len(rows))
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from starlette.responses import JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.choices import KEY_SCOPES
from webdata_nb.contract.replies import UsageReply, UsedCredits, Weight
from webdata_nb.service.ledger import CATALOG, Charge
from webdata_nb.service.observability.logs import caller_key_id, event
from webdata_nb.service.routes.routing import (
    CallerDep,
    StateDep,
    scopes,
    strict_router,
)
from webdata_nb.service.runtime.event_loop import start_task
from webdata_nb.service.store.job_context import StoreRetry
from webdata_nb.service.store.sql.store import Store

router: Final = strict_router("usage")


@router.get(
    paths.WEIGHTS,
    summary="Read the price of each operation in credits",
    response_model=list[Weight],
)
@scopes("search", "crawl", "creatives", "read")
async def list_weights() -> Response:
    """List the price of one unit of each operation, in credits."""
    return JSONResponse([weight.model_dump() for weight in CATALOG])


@router.get(
    paths.USAGE,
    summary="Credits and active work of your account (ours)",
    response_model=UsageReply,
)
@scopes("search", "crawl", "creatives", "read")
async def get_usage(state: StateDep, caller: CallerDep) -> Response:
    """Read the credits of the account: available, reserved, and used in this billing period.

    The reply also says what the key of the request opens, and until when.
    """
    usage = await state.store.accounts.usage(caller.account_id, now=state.store.now())
    terms, balance = usage.account.terms, usage.account.balance
    start, end = usage.period
    reply = UsageReply(
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
        scopes=[scope for scope in KEY_SCOPES if scope in caller.scopes],
        key_ends_at=None if caller.ends_at is None else datetime.fromtimestamp(caller.ends_at, UTC),
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
    return Response(reply.model_dump_json(), media_type="application/json")


# A call stays active this long after its timeout; after that its process counts as dead.
EXPIRY_MARGIN_S: Final = 60.0
# How long a reply waits for its charge to be written.
MAX_CLOSE_WAIT_S: Final = 5.0
_CLOSING_TASKS: Final[set[asyncio.Task[None]]] = set()


class ChargedCall:
    """Collects the charges of a running operation."""

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self._units: dict[str, int] = {}

    def add(self, operation: str, units: int = 1) -> None:
        """Charge for a successful operation."""
        self._units[operation] = self._units.get(operation, 0) + units

    @property
    def charges(self) -> list[Charge]:
        """The charges so far."""
        return [Charge(self.platform, name, units) for name, units in self._units.items()]


@asynccontextmanager
async def charged(
    store: Store, account_id: str, max_charges: Sequence[Charge], *, timeout_s: float
) -> AsyncIterator[ChargedCall]:
    """Count as one active request of an account while the block runs, and charge for it.

    Parameters
    ----------
    store
        Has the account.
    account_id
        The account to charge.
    max_charges
        The highest charges of the operation, all of one platform; reserved while the block runs.
    timeout_s
        Seconds after which the block ends at the latest.

    Yields
    ------
    ChargedCall
        Collects successful operations with `add`. They are charged however the block ends, at
        most `max_charges`; without any, the call is free.

    Raises
    ------
    ConcurrencyReached, CreditsUsedUp
        The account may not start the operation now; the block did not run. Answered with 429.
    """
    call_id = str(uuid.uuid4())
    now = store.now()
    expires_at = now + timeout_s + EXPIRY_MARGIN_S
    key_id = caller_key_id()
    await store.accounts.open_call(
        account_id, call_id, max_charges, key_id=key_id, until=expires_at, now=now
    )
    call, started = ChargedCall(max_charges[0].platform), time.monotonic()
    try:
        yield call
    finally:
        # Log which account and key used how many credits.
        seconds = time.monotonic() - started
        event(
            "call_ended",
            account=account_id,
            key=key_id,
            platform=call.platform,
            credits=sum(charge.credits for charge in call.charges),
            seconds=seconds,
            **{charge.operation: charge.units for charge in call.charges},
        )
        # A separate task writes the charge, so that neither a cancelled request interrupts it nor
        # a reply waits long for a store that cannot write.
        closing = start_task(_close(store, account_id, call_id, call.charges), _CLOSING_TASKS)
        await asyncio.wait([closing], timeout=MAX_CLOSE_WAIT_S)
        if closing.done():
            closing.result()


async def _close(store: Store, account_id: str, call_id: str, charges: Sequence[Charge]) -> None:
    async def close() -> None:
        await store.accounts.close_call(account_id, call_id, charges, now=store.now())

    await StoreRetry().run(close)
