"""Charges for operations without a job: reserves credits, and records what succeeded.

::

    max_charges = [Charge(CREATIVES, "creatives", 1), Charge(CREATIVES, "details", limit)]
    async with charged(accounts, account_id, max_charges, timeout_s=90) as call:
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
from typing import Final

from webdata_nb.service.credits.weights import Charge
from webdata_nb.service.observability.logs import CALLER, event
from webdata_nb.service.store.retry import StoreRetry
from webdata_nb.service.store.sql.store import Store

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


def _log(account_id: str, call: ChargedCall, seconds: float) -> None:
    """Log which account and key used how many credits."""
    caller = CALLER.get()
    event(
        "call_ended",
        account=account_id,
        key=None if caller is None else caller.key_id,
        platform=call.platform,
        credits=sum(charge.credits for charge in call.charges),
        seconds=seconds,
        **{charge.operation: charge.units for charge in call.charges},
    )


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
    await store.accounts.open_call(account_id, call_id, max_charges, until=expires_at, now=now)
    call, started = ChargedCall(max_charges[0].platform), time.monotonic()
    try:
        yield call
    finally:
        _log(account_id, call, time.monotonic() - started)
        # A separate task writes the charge, so that neither a cancelled request interrupts it nor
        # a reply waits long for a store that cannot write.
        closing = asyncio.create_task(_close(store, account_id, call_id, call.charges))
        _CLOSING_TASKS.add(closing)
        closing.add_done_callback(_CLOSING_TASKS.discard)
        await asyncio.wait([closing], timeout=MAX_CLOSE_WAIT_S)
        if closing.done():
            closing.result()


async def _close(store: Store, account_id: str, call_id: str, charges: Sequence[Charge]) -> None:
    async def close() -> None:
        await store.accounts.close_call(account_id, call_id, charges, now=store.now())

    await StoreRetry().run(close)
