"""Reads an advertiser's creatives, page by page, in one call that can be taken up again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from webdata_nb.cache.fetched import Fetched
from webdata_nb.cache.partials import PartialListing
from webdata_nb.cache.result_cache import ResultCache
from webdata_nb.client import paging
from webdata_nb.contract.replies import CreativesReply
from webdata_nb.errors import IncompleteResult, WebdataError
from webdata_nb.frames.receipt import of_creatives
from webdata_nb.frames.rows import Batch, batch, returning
from webdata_nb.requests.deadline import within
from webdata_nb.requests.job_spec import JobSpec
from webdata_nb.streams.cancellation import StreamCancelled, unless
from webdata_nb.streams.creative_files import downloaded

if TYPE_CHECKING:
    from webdata_nb.client.client import Client
    from webdata_nb.display.progress import Listener
    from webdata_nb.requests.call_options import CallOptions
    from webdata_nb.streams.job_stream import Flow


async def creatives(
    client: Client, spec: JobSpec, call: CallOptions, listener: Listener
) -> Fetched:
    """Read every page, unless `max_rows` ends it sooner."""
    memory = ResultCache.of_spec(spec, call)
    partial = PartialListing.of(memory.root, memory.key) if call.cache else None
    listing = _Listing(spec.subject, spec.max_rows, partial)
    try:
        await within(call.timeout_s, listing.read(client, spec.body, call, listener))
    except asyncio.CancelledError:
        if call.on_cancel != "partial":
            raise
        return await asyncio.to_thread(listing.fetched, interrupted=True)
    return await asyncio.to_thread(listing.fetched)


class _Listing:
    """The pages of one advertiser, as they come in, and as an earlier call left them."""

    def __init__(
        self, advertiser: str, max_rows: int | None, partial: PartialListing | None
    ) -> None:
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
        self, client: Client, body: dict[str, Any], call: CallOptions, listener: Listener
    ) -> None:
        """Read every page; one that cannot be read costs the rest, not what came before."""
        self._replies = await _taken_up(self._partial, refresh=call.refresh)
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
                await asyncio.to_thread(self._partial.delete)
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
                    await asyncio.to_thread(self._partial.append, told)

    def fetched(self, *, interrupted: bool = False) -> Fetched:
        """Return what was read."""
        rows = self._rows
        outcome = of_creatives(self._replies, rows, advertiser=self._advertiser)
        if len(rows) == self._max_rows:
            self._shortfall = None  # the rows that were asked for are there
        made = returning("creatives", rows)
        return Fetched(made, outcome, shortfall=self._shortfall, interrupted=interrupted)


async def _taken_up(partial: PartialListing | None, *, refresh: bool) -> list[CreativesReply]:
    """Return the pages that an earlier call got before it broke off."""
    if partial is None:
        return []
    if refresh:
        await asyncio.to_thread(partial.delete)
        return []
    pages = await asyncio.to_thread(partial.pages)
    try:
        return [CreativesReply.model_validate(page) for page in pages]
    except ValidationError:
        await asyncio.to_thread(partial.delete)
        return []


async def stream(flow: Flow) -> AsyncGenerator[Batch, None]:
    """Give the pages of a listing as they arrive; those that an earlier call got come first."""
    pages = _Pages(flow)
    async with aclosing(pages.read()) as replies:
        async for reply in replies:
            rows = pages.counted(reply)
            if not rows:
                continue
            if flow.call.cache:
                await downloaded(flow.client, rows, flow.call.settings.cache_dir)
            flow.listener.count(pages.rows)
            yield await asyncio.to_thread(batch, "creatives", rows)
    flow.tally.ended = pages.fetched()


class _Pages:
    """The pages of one advertiser, of which only the numbers are kept."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._told: list[CreativesReply] = []
        self._shortfall: IncompleteResult | None = None
        self._interrupted = False
        self.rows = 0

    @property
    def full(self) -> bool:
        """Whether as many rows came as were asked for."""
        return self._flow.spec.max_rows is not None and self.rows >= self._flow.spec.max_rows

    def counted(self, reply: CreativesReply) -> list[dict[str, Any]]:
        """Return the rows of a page that are wanted."""
        most = self._flow.spec.max_rows
        rows = reply.creatives[: None if most is None else most - self.rows]
        self.rows += len(rows)
        self._told.append(reply.model_copy(update={"creatives": []}))
        return rows

    async def read(self) -> AsyncGenerator[CreativesReply, None]:
        """Give each page; one that cannot be read costs the rest, not what came before."""
        flow = self._flow
        memory = ResultCache.of_spec(flow.spec, flow.call)
        partial = PartialListing.of(memory.root, memory.key) if flow.call.cache else None
        earlier = await _taken_up(partial, refresh=flow.call.refresh)
        for reply in earlier:
            yield reply
        if earlier and (earlier[-1].cursor is None or self.full):
            return
        try:
            async with aclosing(self._kept(earlier, partial)) as replies:
                async for reply in replies:
                    yield reply
        except StreamCancelled:
            self._interrupted = True
        except IncompleteResult as error:
            self._shortfall = error
        except WebdataError as error:
            if not self._told:
                raise
            self._shortfall = IncompleteResult(None, self.rows, why=str(error))
            self._shortfall.__cause__ = error

    async def _kept(
        self, earlier: list[CreativesReply], partial: PartialListing | None
    ) -> AsyncGenerator[CreativesReply, None]:
        """Give what is asked for now, and keep it until the listing is whole."""
        async with aclosing(self._asked(earlier)) as replies:
            async for reply in replies:
                if partial is not None:
                    await asyncio.to_thread(partial.append, reply.model_dump(mode="json"))
                yield reply
        if partial is not None:
            await asyncio.to_thread(partial.delete)

    async def _asked(self, earlier: list[CreativesReply]) -> AsyncGenerator[CreativesReply, None]:
        flow = self._flow
        began, most = asyncio.get_running_loop().time(), flow.call.timeout_s
        pages = paging.creative_pages(
            flow.client, flow.spec.body, max_rows=flow.spec.max_rows, read=earlier
        )
        async with aclosing(pages):
            while True:
                past = asyncio.get_running_loop().time() - began
                left = None if most is None else max(0.0, most - past)
                reply = await within(left, unless(flow.halt, anext(pages, None)))
                if reply is None:
                    return
                yield reply

    def fetched(self) -> Fetched:
        """Return how the listing ended, without its rows."""
        outcome = of_creatives(self._told, (), advertiser=self._flow.spec.subject)
        if self._interrupted:
            outcome = replace(outcome, status="cancelled")
        shortfall = None if self.full else self._shortfall
        return Fetched(batch("creatives", ()), outcome, shortfall=shortfall)
