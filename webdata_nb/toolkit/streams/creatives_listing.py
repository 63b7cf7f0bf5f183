"""Reads the creatives of an advertiser page by page, and resumes an interrupted listing.

The files of creatives are downloaded into the cache, and their paths added to the rows.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

from webdata_nb.contract.replies import CreativesReply
from webdata_nb.errors import IncompleteResult, WebdataError
from webdata_nb.toolkit.cache.result_cache import CallResult, ResultCache
from webdata_nb.toolkit.cache.snapshots import PartialListing
from webdata_nb.toolkit.client import paging
from webdata_nb.toolkit.frames import storage
from webdata_nb.toolkit.frames.receipt import JobOutcome, of_creatives
from webdata_nb.toolkit.frames.rows import TableBatch, batch, trimmed_batch
from webdata_nb.toolkit.requests.call_options import CallOptions, within
from webdata_nb.toolkit.requests.job_spec import JobSpec

if TYPE_CHECKING:
    from webdata_nb.toolkit.client.client import Client
    from webdata_nb.toolkit.display.progress import Listener
    from webdata_nb.toolkit.streams.job_stream import StreamContext

FOLDER: Final = "creative-files"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


async def download_files(client: Client, rows: Iterable[dict[str, Any]], root: Path) -> None:
    """Set `file` of each asset and preview to its path in the cache.

    Where a download fails, the asset or preview gets an `error` instead.
    """
    for asset in _stored_files(rows):
        path = root / FOLDER / asset["sha256"]
        try:
            if not await asyncio.to_thread(path.exists):
                data = await client.creative_file(asset["sha256"])
                await asyncio.to_thread(_write, path, data)
        except (WebdataError, OSError, ValueError) as error:
            asset["error"] = f"the file could not be downloaded: {error}"
        else:
            asset["file"] = str(path)


def _stored_files(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the assets and previews that the service has stored."""
    for row in rows:
        assets = row.get("assets")
        listed_assets = [*assets] if isinstance(assets, list) else []
        for asset in (*listed_assets, row.get("preview")):
            # Only a hash may name a file: the service must not choose a path here.
            if isinstance(asset, dict) and _SHA256.fullmatch(str(asset.get("sha256"))):
                yield asset


def _write(path: Path, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != path.name:
        raise ValueError("its bytes do not match its hash")
    storage.make_folder(path.parent, path.parents[1])
    storage.write_atomically(path, data, owner_only=True)


T = TypeVar("T")


class StreamCancelled(Exception):
    """The user has cancelled the stream."""


async def fetch(
    client: Client, spec: JobSpec, options: CallOptions, listener: Listener
) -> CallResult:
    """Read every page, or as many as `max_rows` needs."""
    listing = _Listing(client, spec, options, listener)
    try:
        await within(options.timeout_s, listing.read())
    except asyncio.CancelledError:
        if options.on_cancel != "partial":
            raise
        return await asyncio.to_thread(listing.result, interrupted=True)
    return await asyncio.to_thread(listing.result)


class _Listing:
    """The pages of one advertiser, beginning with those that an earlier call has stored."""

    def __init__(
        self, client: Client, spec: JobSpec, options: CallOptions, listener: Listener
    ) -> None:
        self._client = client
        self._spec = spec
        self._options = options
        self._listener = listener
        self._partial = _partial_listing(spec, options)
        self._replies: list[CreativesReply] = []
        self._shortfall: IncompleteResult | None = None

    @property
    def _rows(self) -> list[dict[str, Any]]:
        rows = [row for reply in self._replies for row in reply.creatives]
        return rows[: self._spec.max_rows]

    async def read(self) -> None:
        """Read every page; an unreadable page costs the later rows, not the earlier ones."""
        self._replies = await _stored_replies(self._partial, refresh=self._options.refresh)
        try:
            await self._read_missing_pages()
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
        if self._options.cache:
            await download_files(self._client, self._rows, self._options.settings.cache_dir)

    async def _read_missing_pages(self) -> None:
        if self._replies and self._replies[-1].cursor is None:
            return
        pages = paging.creative_pages(
            self._client,
            self._spec.body,
            max_rows=self._spec.max_rows,
            earlier_pages=self._replies[:],
        )
        async with aclosing(pages):
            async for reply in pages:
                self._replies.append(reply)
                self._listener.count(len(self._rows))
                if self._partial is not None:
                    page = reply.model_dump(mode="json")
                    await asyncio.to_thread(self._partial.append, page)

    def result(self, *, interrupted: bool = False) -> CallResult:
        """Return the rows that were read."""
        rows = self._rows
        # A shortfall beyond `max_rows` is of no concern.
        shortfall = None if len(rows) == self._spec.max_rows else self._shortfall
        outcome = of_creatives(self._replies, rows, advertiser=self._spec.subject)
        outcome = replace(outcome, shortfall=shortfall, interrupted=interrupted)
        return CallResult.from_batch(trimmed_batch("creatives", rows), outcome)


def _partial_listing(spec: JobSpec, options: CallOptions) -> PartialListing | None:
    """Return the stored pages of a request; None where the cache is off."""
    if not options.cache:
        return None
    cache = ResultCache.of_spec(spec, options)
    return PartialListing.of(cache.root, cache.key)


async def _stored_replies(partial: PartialListing | None, *, refresh: bool) -> list[CreativesReply]:
    """Return the pages that an earlier call stored before it broke off."""
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


async def stream(context: StreamContext) -> AsyncGenerator[TableBatch, None]:
    """Yield the pages of a listing as they arrive, beginning with the stored ones."""
    listing = _ListingStream(context)
    async with aclosing(listing.read()) as replies:
        async for reply in replies:
            rows = listing.take_rows(reply)
            if not rows:
                continue
            if context.options.cache:
                folder = context.options.settings.cache_dir
                await download_files(context.client, rows, folder)
            context.listener.count(listing.row_count)
            yield await asyncio.to_thread(batch, "creatives", rows)
    context.stats.outcome = listing.outcome()


class _ListingStream:
    """The pages of one advertiser; keeps their totals, and drops their rows once yielded."""

    def __init__(self, context: StreamContext) -> None:
        self._context = context
        self._partial = _partial_listing(context.spec, context.options)
        self._replies: list[CreativesReply] = []
        self._shortfall: IncompleteResult | None = None
        self._cancelled = False
        self.row_count = 0

    @property
    def _has_all_rows(self) -> bool:
        max_rows = self._context.spec.max_rows
        return max_rows is not None and self.row_count >= max_rows

    def take_rows(self, reply: CreativesReply) -> list[dict[str, Any]]:
        """Return the rows of a page, up to `max_rows` of the listing."""
        max_rows = self._context.spec.max_rows
        rows = reply.creatives[: None if max_rows is None else max_rows - self.row_count]
        self.row_count += len(rows)
        self._replies.append(reply.model_copy(update={"creatives": []}))
        return rows

    async def read(self) -> AsyncGenerator[CreativesReply, None]:
        """Yield each page; an unreadable page costs the later rows, not the earlier ones."""
        stored_replies = await _stored_replies(self._partial, refresh=self._context.options.refresh)
        for reply in stored_replies:
            yield reply
        if stored_replies and (stored_replies[-1].cursor is None or self._has_all_rows):
            return
        try:
            async with aclosing(self._fetch_and_store(stored_replies)) as replies:
                async for reply in replies:
                    yield reply
        except StreamCancelled:
            self._cancelled = True
        except IncompleteResult as error:
            self._shortfall = error
        except WebdataError as error:
            if not self._replies:
                raise
            self._shortfall = IncompleteResult(None, self.row_count, why=str(error))
            self._shortfall.__cause__ = error

    async def _fetch_and_store(
        self, stored: list[CreativesReply]
    ) -> AsyncGenerator[CreativesReply, None]:
        """Yield the missing pages, and store them until the listing is complete."""
        async with aclosing(self._fetch(stored)) as replies:
            async for reply in replies:
                if self._partial is not None:
                    await asyncio.to_thread(self._partial.append, reply.model_dump(mode="json"))
                yield reply
        if self._partial is not None:
            await asyncio.to_thread(self._partial.delete)

    async def _fetch(self, stored: list[CreativesReply]) -> AsyncGenerator[CreativesReply, None]:
        context = self._context
        now = asyncio.get_running_loop().time
        started_at, timeout_s = now(), context.options.timeout_s
        pages = paging.creative_pages(
            context.client, context.spec.body, max_rows=context.spec.max_rows, earlier_pages=stored
        )
        async with aclosing(pages):
            while True:
                left_s = None if timeout_s is None else max(0.0, timeout_s + started_at - now())
                page = _wait_unless_cancelled(context.cancelled, anext(pages, None))
                reply = await within(left_s, page)
                if reply is None:
                    return
                yield reply

    def outcome(self) -> JobOutcome:
        """Return how the listing ended."""
        outcome = of_creatives(self._replies, (), advertiser=self._context.spec.subject)
        status = "cancelled" if self._cancelled else outcome.status
        shortfall = None if self._has_all_rows else self._shortfall
        return replace(outcome, status=status, shortfall=shortfall)


async def _wait_unless_cancelled(cancelled: asyncio.Event, work: Awaitable[T]) -> T:
    """Return the result of `work`; once `cancelled` is set, end it and raise `StreamCancelled`."""
    task: asyncio.Future[T] = asyncio.ensure_future(work)
    cancellation = asyncio.ensure_future(cancelled.wait())
    try:
        either: list[asyncio.Future[Any]] = [task, cancellation]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise StreamCancelled
    finally:
        task.cancel()
        cancellation.cancel()
        await asyncio.gather(task, cancellation, return_exceptions=True)
