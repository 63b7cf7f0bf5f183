"""Reads an advertiser's creatives, page by page, in one call."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from webdata_nb.client import paging
from webdata_nb.errors import IncompleteResult, WebdataError
from webdata_nb.functions.ask import Ask
from webdata_nb.functions.fetched import Fetched
from webdata_nb.functions.patience import within
from webdata_nb.tables.receipt import of_creatives

if TYPE_CHECKING:
    from webdata_nb.client.client import Client
    from webdata_nb.contract.replies import CreativesReply
    from webdata_nb.display.progress import Listener
    from webdata_nb.functions.call import Call


async def creatives(client: Client, ask: Ask, call: Call, listener: Listener) -> Fetched:
    """Read every page, unless `max_rows` ends it sooner."""
    listing = _Listing(ask.subject, ask.max_rows)
    try:
        await within(call.timeout_s, listing.read(client, ask.body, listener))
    except asyncio.CancelledError:
        if call.on_cancel != "partial":
            raise
        return listing.fetched(interrupted=True)
    return listing.fetched()


class _Listing:
    """The pages of one advertiser, as they come in."""

    def __init__(self, advertiser: str, max_rows: int | None) -> None:
        self._advertiser = advertiser
        self._max_rows = max_rows
        self._replies: list[CreativesReply] = []
        self._shortfall: IncompleteResult | None = None

    @property
    def _rows(self) -> list[dict[str, Any]]:
        rows = [row for reply in self._replies for row in reply.creatives]
        return rows[: self._max_rows]

    async def read(self, client: Client, body: dict[str, Any], listener: Listener) -> None:
        """Read every page; one that cannot be read costs the rest, not what came before."""
        try:
            async with aclosing(
                paging.creative_pages(client, body, max_rows=self._max_rows)
            ) as pages:
                async for reply in pages:
                    self._replies.append(reply)
                    listener.count(len(self._rows))
        except IncompleteResult as error:
            self._shortfall = error
        except WebdataError as error:
            if not self._replies:
                raise
            self._shortfall = IncompleteResult(None, len(self._rows), why=str(error))
            self._shortfall.__cause__ = error

    def fetched(self, *, interrupted: bool = False) -> Fetched:
        """Return what was read."""
        rows = self._rows
        outcome = of_creatives(self._replies, rows, advertiser=self._advertiser)
        if len(rows) == self._max_rows:
            self._shortfall = None  # the rows that were asked for are there
        return Fetched(rows, outcome, shortfall=self._shortfall, interrupted=interrupted)
