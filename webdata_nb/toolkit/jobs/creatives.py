"""Reads the creatives of an advertiser page by page, and resumes an interrupted listing.

The files of creatives are downloaded into the cache, and their paths added to the rows.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

from webdata_nb.contract.replies import CreativesReply
from webdata_nb.errors import IncompleteResult, WebdataError
from webdata_nb.toolkit.cache.result_cache import ResultCache
from webdata_nb.toolkit.cache.snapshots import PartialListing
from webdata_nb.toolkit.client import paging
from webdata_nb.toolkit.frames import storage
from webdata_nb.toolkit.frames.receipt import JobOutcome, of_creatives
from webdata_nb.toolkit.frames.rows import TableBatch, trimmed_batch
from webdata_nb.toolkit.jobs.sources import RowSource
from webdata_nb.toolkit.requests.arguments import CallOptions, within
from webdata_nb.toolkit.requests.inputs import JobSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from webdata_nb.toolkit.client.client import Client

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


class _Cancelled(Exception):
    """The user has cancelled the listing by a click."""


@dataclass(kw_only=True)
class ListingSource(RowSource):
    """The creatives of one advertiser, beginning with the pages that an earlier call has stored.

    It keeps what the replies say of the listing, and drops their rows once they are given. An
    unreadable page costs the later rows, not the earlier ones.
    """

    spec: JobSpec
    _replies: list[CreativesReply] = field(default_factory=list, init=False)
    _row_count: int = field(default=0, init=False)
    _failed_rows: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)
    _is_cancelled: bool = field(default=False, init=False)
    # Rows whose files are being downloaded.
    _pending: list[dict[str, Any]] = field(default_factory=list, init=False)

    @property
    def has_more(self) -> bool:
        """A listing may be left at any time."""
        return True

    async def start(self) -> None:
        """Do nothing: a listing has no job."""

    async def batches(self) -> AsyncGenerator[TableBatch, None]:
        """Yield the rows of each page as it arrives.

        Raises
        ------
        WebdataError
            The first page cannot be read.
        """
        async with aclosing(self._read()) as replies:
            async for reply in replies:
                found = self._pending = self._take_rows(reply)
                if not found:
                    continue
                self.listener.count(self._row_count)
                if self.options.cache:
                    await download_files(self.client, found, self.options.settings.cache_dir)
                batch = await asyncio.to_thread(trimmed_batch, "creatives", found)
                self._pending = []
                yield batch

    async def batches_so_far(self) -> AsyncGenerator[TableBatch, None]:
        """Yield the rows whose files were not yet downloaded."""
        if self._pending:
            yield await asyncio.to_thread(trimmed_batch, "creatives", self._pending)

    @property
    def _has_all_rows(self) -> bool:
        max_rows = self.spec.max_rows
        return max_rows is not None and self._row_count >= max_rows

    def _take_rows(self, reply: CreativesReply) -> list[dict[str, Any]]:
        """Return the rows of a page, up to `max_rows` of the listing."""
        max_rows = self.spec.max_rows
        found = reply.creatives[: None if max_rows is None else max_rows - self._row_count]
        self._row_count += len(found)
        self._failed_rows += sum(bool(row.get("error")) for row in found)
        self._total += reply.stated("total_results") or len(reply.creatives)
        self._replies.append(reply.model_copy(update={"creatives": []}))
        return found

    async def _read(self) -> AsyncGenerator[CreativesReply, None]:
        """Yield each page, and store those that are fetched until the listing is complete."""
        partial = _partial_listing(self.spec, self.options)
        stored = await _stored_replies(partial, refresh=self.options.refresh)
        for reply in stored:
            yield reply
        try:
            if not stored or not (stored[-1].cursor is None or self._has_all_rows):
                async with aclosing(self._fetch(stored)) as replies:
                    async for reply in replies:
                        if partial is not None:
                            page = reply.model_dump(mode="json")
                            await asyncio.to_thread(partial.append, page)
                        yield reply
        except _Cancelled:
            self._is_cancelled = True
        except IncompleteResult as error:
            self.shortfall = error
        except WebdataError as error:
            if not self._replies:
                raise
            self.shortfall = IncompleteResult(None, self._row_count, why=str(error))
            self.shortfall.__cause__ = error
        else:
            if partial is not None:
                await asyncio.to_thread(partial.delete)

    async def _fetch(self, stored: list[CreativesReply]) -> AsyncGenerator[CreativesReply, None]:
        """Yield the missing pages within the timeout of the call."""
        now = asyncio.get_running_loop().time
        started_at, timeout_s = now(), self.options.timeout_s
        pages = paging.creative_pages(
            self.client, self.spec.body, max_rows=self.spec.max_rows, earlier_pages=stored
        )
        async with aclosing(pages):
            while True:
                left_s = None if timeout_s is None else max(0.0, timeout_s + started_at - now())
                page = _unless_cancelled(self.cancelled, anext(pages, None))
                reply = await within(left_s, page)
                if reply is None:
                    return
                yield reply

    def outcome(self, table: pa.Table) -> JobOutcome:
        """Return how the listing ended."""
        _ = table
        outcome = of_creatives(self._replies, (), advertiser=self.subject)
        return replace(
            outcome,
            status="cancelled" if self._is_cancelled else outcome.status,
            rows=self._row_count,
            failed=self._failed_rows,
            total=self._total,
            # A shortfall beyond `max_rows` is of no concern.
            shortfall=None if self._has_all_rows else self.shortfall,
        )


async def _unless_cancelled(cancelled: asyncio.Event | None, work: Awaitable[T]) -> T:
    """Return the result of `work`; once `cancelled` is set, end it and raise `_Cancelled`."""
    if cancelled is None:
        return await work
    task: asyncio.Future[T] = asyncio.ensure_future(work)
    cancellation = asyncio.ensure_future(cancelled.wait())
    try:
        either: list[asyncio.Future[Any]] = [task, cancellation]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise _Cancelled
    finally:
        task.cancel()
        cancellation.cancel()
        await asyncio.gather(task, cancellation, return_exceptions=True)


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
