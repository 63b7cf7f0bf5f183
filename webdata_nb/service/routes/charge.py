"""Operations that are answered at once, charged like jobs.

::

    most = [Charge(CREATIVES, "creatives", 1), Charge(CREATIVES, "details", limit)]
    async with charged(accounts, account_id, most, within_s=90) as call:
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
from webdata_nb.service.store.interface import AccountStore
from webdata_nb.service.store.retry import StoreRetry

# A call that takes longer than it said is still active this long; then its process counts as dead.
MARGIN_S: Final = 60.0
# How long a reply waits for its charge to be written.
CLOSE_S: Final = 5.0
_CLOSING: Final[set[asyncio.Task[None]]] = set()


class Call:
    """A charged operation under way."""

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self._units: dict[str, int] = {}

    def add(self, operation: str, units: int = 1) -> None:
        """Charge for what succeeded; what failed costs nothing."""
        self._units[operation] = self._units.get(operation, 0) + units

    @property
    def charges(self) -> list[Charge]:
        """What was charged so far."""
        return [Charge(self.platform, name, units) for name, units in self._units.items()]


def _log(account_id: str, call: Call, seconds: float) -> None:
    """Write who used which credits."""
    caller = CALLER.get()
    event(
        "call_ended",
        account=account_id,
        key=None if caller is None else caller.key_id,
        platform=call.platform,
        credits=sum(each.credits for each in call.charges),
        seconds=seconds,
        **{each.operation: each.units for each in call.charges},
    )


@asynccontextmanager
async def charged(
    accounts: AccountStore, account_id: str, most: Sequence[Charge], *, within_s: float
) -> AsyncIterator[Call]:
    """Count as one active request of an account while the block runs, and charge for it.

    Parameters
    ----------
    accounts
        The store's accounts.
    account_id
        Who pays.
    most
        What the operation costs at most, all of one platform; held while the block runs.
    within_s
        Seconds after which the block is over, whatever happens.

    Yields
    ------
    Call
        Takes what succeeded, with `add`. What was added is charged however the block ends,
        never more than `most`; nothing added costs nothing.

    Raises
    ------
    ConcurrencyReached, CreditsUsedUp
        The account may not start this now; the block did not run. Answered with 429.
    """
    call_id = str(uuid.uuid4())
    until = time.time() + within_s + MARGIN_S
    await accounts.open_call(account_id, call_id, most, until=until, now=time.time())
    call, began = Call(most[0].platform), time.monotonic()
    try:
        yield call
    finally:
        _log(account_id, call, time.monotonic() - began)
        # A caller who hung up has used what was used: a cancellation must not interrupt this. Nor
        # does a reply wait for long on a store that takes no writes: the charge follows.
        closing = asyncio.create_task(_close(accounts, account_id, call_id, call.charges))
        _CLOSING.add(closing)
        closing.add_done_callback(_CLOSING.discard)
        await asyncio.wait([closing], timeout=CLOSE_S)
        if closing.done():
            closing.result()


async def _close(
    accounts: AccountStore, account_id: str, call_id: str, charges: Sequence[Charge]
) -> None:
    async def close() -> None:
        await accounts.close_call(account_id, call_id, charges, now=time.time())

    await StoreRetry().run(close)
