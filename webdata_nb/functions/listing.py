"""Reads an advertiser's creatives, page by page, in one call that can be taken up again."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from webdata_nb.client import paging
from webdata_nb.contract.replies import CreativesReply
from webdata_nb.errors import IncompleteResult, WebdataError
from webdata_nb.functions.ask import Ask
from webdata_nb.functions.fetched import Fetched
from webdata_nb.functions.files import downloaded
from webdata_nb.functions.memory import Memory
from webdata_nb.functions.patience import within
from webdata_nb.tables.partials import Partial
from webdata_nb.tables.receipt import of_creatives
from webdata_nb.tables.rows import batch

if TYPE_CHECKING:
    from webdata_nb.client.client import Client
    from webdata_nb.display.progress import Listener
    from webdata_nb.functions.call import Call


async def creatives(client: Client, ask: Ask, call: Call, listener: Listener) -> Fetched:
    """Read every page, unless `max_rows` ends it sooner."""
    memory = Memory.of_ask(ask, call)
    partial = Partial.of(memory.root, memory.question) if call.cache else None
    listing = _Listing(ask.subject, ask.max_rows, partial)
    try:
        await within(call.timeout_s, listing.read(client, ask.body, call, listener))
    except asyncio.CancelledError:
        if call.on_cancel != "partial":
            raise
        return await asyncio.to_thread(listing.fetched, interrupted=True)
    return await asyncio.to_thread(listing.fetched)


class _Listing:
    """The pages of one advertiser, as they come in, and as an earlier call left them."""

    def __init__(self, advertiser: str, max_rows: int | None, partial: Partial | None) -> None:
        self._advertiser = advertiser
        self._max_rows = max_rows
        self._partial = partial
        self._replies: list[CreativesReply] = []
        self._shortfall: IncompleteResult | None = None

    @property
    def _rows(self) -> list[dict[str, Any]]:
        rows = [row for reply in self._replies for row in reply.creatives]
        return rows[: self._max_rows]

    async def read(
        self, client: Client, body: dict[str, Any], call: Call, listener: Listener
    ) -> None:
        """Read every page; one that cannot be read costs the rest, not what came before."""
        await self._take_up(refresh=call.refresh)
        try:
            await self._read(client, body, listener)
        except IncompleteResult as error:
            self._shortfall = error
        except WebdataError as error:
            if not self._replies:
                raise
            self._shortfall = IncompleteResult(None, len(self._rows), why=str(error))
            self._shortfall.__cause__ = error
        else:
            if self._partial is not None:
                await asyncio.to_thread(self._partial.drop)
        if call.cache:
            await downloaded(client, self._rows, call.settings.cache_dir)

    async def _read(self, client: Client, body: dict[str, Any], listener: Listener) -> None:
        if self._replies and self._replies[-1].cursor is None:
            return
        pages = paging.creative_pages(client, body, max_rows=self._max_rows, read=self._replies[:])
        async with aclosing(pages):
            async for reply in pages:
                self._replies.append(reply)
                listener.count(len(self._rows))
                if self._partial is not None:
                    told = reply.model_dump(mode="json")
                    await asyncio.to_thread(self._partial.add, told)

    async def _take_up(self, *, refresh: bool) -> None:
        """Begin with the pages that an earlier call got before it broke off."""
        if self._partial is None:
            return
        if refresh:
            await asyncio.to_thread(self._partial.drop)
            return
        pages = await asyncio.to_thread(self._partial.pages)
        try:
            self._replies = [CreativesReply.model_validate(page) for page in pages]
        except ValidationError:
            self._replies = []
        if len(self._replies) < len(pages):
            await asyncio.to_thread(self._partial.drop)

    def fetched(self, *, interrupted: bool = False) -> Fetched:
        """Return what was read."""
        rows = self._rows
        outcome = of_creatives(self._replies, rows, advertiser=self._advertiser)
        if len(rows) == self._max_rows:
            self._shortfall = None  # the rows that were asked for are there
        made = batch("creatives", rows)
        return Fetched(made, outcome, shortfall=self._shortfall, interrupted=interrupted)
