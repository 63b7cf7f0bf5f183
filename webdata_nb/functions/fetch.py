"""Asks the service: a job for searches and crawls, calls for creatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from webdata_nb.functions import listing, running

if TYPE_CHECKING:
    from webdata_nb.client.client import Client
    from webdata_nb.display.progress import Listener
    from webdata_nb.functions.ask import Ask
    from webdata_nb.functions.call import Call
    from webdata_nb.functions.fetched import Fetched


async def fetch(
    client: Client,
    ask: Ask,
    call: Call,
    listener: Listener,
    started: Callable[[str], object],
) -> Fetched:
    """Return what the service gives; `started` is told the id where a job was started."""
    if ask.op == "creatives":
        return await listing.creatives(client, ask, call, listener)
    return await running.run(client, ask, call, listener.report, started)
