"""Answers one call: from the cache or from the service, as a frame with its receipt."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from webdata_nb import bridge
from webdata_nb.display import progress as display
from webdata_nb.functions import arguments
from webdata_nb.functions.ask import Ask
from webdata_nb.functions.call import Call
from webdata_nb.functions.fetch import fetch
from webdata_nb.functions.fetched import Fetched
from webdata_nb.functions.memory import Memory
from webdata_nb.functions.result import Result, delivered
from webdata_nb.tables import receipt

if TYPE_CHECKING:
    import pandas as pd


async def answer(ask: Ask, call: Call) -> pd.DataFrame:
    """Return the frame that `ask` stands for.

    Raises
    ------
    OfflineError
        Offline mode is on and the cache has no answer.
    JobFailed, JobCancelled, IncompleteResult
        The job did not give all its rows; what arrived is on the error.
    WebdataError
        Whatever the connection met.
    """
    return await delivered(await gained(ask, call), call)


async def gained(ask: Ask, call: Call) -> Result:
    """Return the rows that `ask` stands for, from the cache or from the service."""
    memory = Memory.of_ask(ask, call)
    found = await asyncio.to_thread(memory.find, ask.shown)
    if found is not None:
        return Result.kept(found)
    began = datetime.now(UTC)
    fetched = await _fetched(ask, call, memory)
    public = arguments.public(ask.request)
    fresh = partial(Result.fresh, fetched, memory, shown=ask.shown, request=public, began=began)
    return await asyncio.to_thread(fresh)


async def _fetched(ask: Ask, call: Call, memory: Memory) -> Fetched:
    subject = receipt.short(ask.subject)
    listener = display.listener(f"{ask.op} {subject}", ask.total, call.settings.progress)
    # The bar is told the ending before the last tick, which draws it.
    with bridge.on_tick(listener.tick), listener:
        async with call.connection.client(call.settings) as client:
            return await fetch(client, ask, call, listener, partial(memory.started, ask))
