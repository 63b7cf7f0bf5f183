"""Reads all pages of a result, and detects services that repeat pages or cursors."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from webdata_nb import errors
from webdata_nb.contract import limits
from webdata_nb.contract.replies import (
    CapturesReply,
    CrawlStatus,
    CreativesReply,
    JobSummary,
    ReceiptEntry,
)
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.toolkit.client.client import Client

Rows = list[dict[str, Any]]
_FACTS_PER_PAGE: Final = 200
"""Pages with many links have some 50 kB of facts."""
# What a service answers that cannot be asked for a page.
_NO_SUCH_PAGE: Final = (errors.InvalidRequest, errors.NotFound, errors.NotSupported)
_MAX_RESTARTS_WITHOUT_ROWS: Final = 2
"""Maximum consecutive restarts of a creatives listing that returned no new row."""


async def crawl_rows(
    client: Client,
    job_id: str,
    *,
    per_page: int = limits.PER_PAGE_DEFAULT,
    total: int | None = None,
    first_page: int = 1,
    known: CrawlStatus | None = None,
) -> AsyncGenerator[Rows, None]:
    """Yield a crawl's rows page by page, in order.

    Where the service shows the first page only, the other rows come from its JSON export.

    Parameters
    ----------
    client : Client
        A client of the service that ran the job.
    job_id : str
        The crawl.
    per_page : int
        The requested rows of a page; a service may return fewer.
    total : int, optional
        The number of rows; by default, that of the replies.
    first_page : int
        The first page to read.
    known : CrawlStatus, optional
        A reply of the ended crawl whose rows are not read again; the size of later pages is its.

    Yields
    ------
    list of dict
        The rows of one page; never an empty list.

    Raises
    ------
    IncompleteResult
        After the last row, if fewer rows arrived than the service counts. If the service does
        not count its rows, an empty page is the end.
    ServiceError, ConnectionFailed, BadAnswer
        A page could not be read, even after retries.
    """
    row_count, page = (first_page - 1) * per_page, first_page
    if page > 1 and total is not None and row_count >= total:
        return
    per_page = per_page if known is None else len(known.data)
    expected, previous_rows, problem = total, Rows(), ""
    while not problem:
        try:
            reply = known if page == 1 else None
            reply = reply or await client.crawl_status(job_id, page=page, per_page=per_page)
        except _NO_SUCH_PAGE as error:
            if page == first_page:
                raise
            problem = str(error)
            break
        expected = reply.stated("total_results") if total is None else total
        if page == first_page > 1 and expected is not None and row_count >= expected:
            return
        problem = _page_problem(reply, page, previous_rows)
        if not problem:
            row_count += len(reply.data)
            yield reply.data
            previous_rows = reply.data
        is_short = len(reply.data) < (reply.stated("per_page") or 1)
        if is_short if expected is None else row_count >= expected:
            return  # no page follows
        page += 1
    exported = await _exported_rows(client, job_id, previous_rows, row_count)
    if missing := exported[row_count:]:
        yield missing
    arrived = max(row_count, len(exported))
    if not exported if expected is None else arrived < expected:
        raise errors.IncompleteResult(expected, arrived, why=problem)


def _page_url(row: Mapping[str, Any]) -> object:
    """Return the URL of a crawled page; the row itself if it has none."""
    metadata = row.get("metadata")
    return row.get("url") or (metadata.get("url") if isinstance(metadata, dict) else None) or row


async def _exported_rows(client: Client, job_id: str, last_rows: Rows, row_count: int) -> Rows:
    """Return the rows of a crawl's JSON export.

    Empty if it has no such export, or one with other rows or in another order than the `row_count`
    rows that ended with `last_rows`.
    """
    try:
        async with aclosing(client.export("crawl", job_id, "json")) as pieces:
            rows = decode_json(b"".join([piece async for piece in pieces]))
    except (errors.ServiceError, errors.ConnectionFailed, errors.BadAnswer, MalformedJson):
        return []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return []
    same_place = rows[row_count - len(last_rows) : row_count]
    is_continued = list(map(_page_url, same_place)) == list(map(_page_url, last_rows))
    return rows if is_continued else []


async def receipt_entries(client: Client, job_id: str) -> list[ReceiptEntry]:
    """Return the whole receipt of a crawl.

    Raises
    ------
    NotFound, NotSupported
        The service has none.
    IncompleteResult
        Fewer entries arrived than the service counts.
    """
    entries: list[ReceiptEntry] = []
    page, per_page = 1, limits.RECEIPT_PER_PAGE[1]
    while True:
        reply = await client.receipt(job_id, page=page, per_page=per_page)
        entries += reply.data
        if len(entries) >= reply.total_results:
            return entries
        if not reply.data or reply.page != page:
            raise errors.IncompleteResult(
                reply.total_results, len(entries), why=f"page {page} of the receipt is missing"
            )
        page += 1


async def page_facts(client: Client, job_id: str) -> list[dict[str, Any]]:
    """Return the facts of all pages of a crawl, by the names of `contract.replies.PageFacts`.

    Raises
    ------
    NotFound, NotSupported
        The service has none.
    IncompleteResult
        The service repeated a cursor.
    """
    history, facts = _CursorHistory(), Rows()
    cursor: str | None = None
    while True:
        reply = await client.page_facts(job_id, per_page=_FACTS_PER_PAGE, cursor=cursor)
        facts += reply.data
        cursor = history.next_cursor(reply.cursor, len(facts))
        if cursor is None:
            return facts


async def captures(
    client: Client, body: Mapping[str, Any], *, enough: Callable[[CapturesReply], bool]
) -> list[CapturesReply]:
    """Return the replies of a listing of captures, until there is no other or it is `enough`.

    Raises
    ------
    NotFound, NotSupported
        The service asks no web archives.
    """
    replies: list[CapturesReply] = []
    cursors: set[str | None] = {None}
    cursor: str | None = None
    while True:
        reply = await client.captures({**body, "cursor": cursor} if cursor else body)
        replies.append(reply)
        cursor = reply.cursor
        # An archive that repeats itself would never end.
        if enough(reply) or cursor in cursors:
            return replies
        cursors.add(cursor)


def _page_problem(reply: CrawlStatus, page: int, previous_rows: Rows) -> str:
    """Return why a reply is not the requested page with further rows; '' if it is."""
    if not reply.data:
        return f"page {page} is empty"
    if page == 1:
        return ""
    if "page" in reply.model_fields_set and reply.page != page:
        return (
            f"page {page} was requested, and page {reply.page} arrived: the service ignores `page`"
        )
    if reply.data == previous_rows:
        return f"page {page} repeats page {page - 1}: the service ignores `page`"
    return ""


class _CursorHistory:
    """The cursors that were followed so far."""

    def __init__(self) -> None:
        self._cursors: set[str] = set()

    def next_cursor(self, cursor: str | None, row_count: int) -> str | None:
        """Return the cursor to follow, None at the end.

        Raises
        ------
        IncompleteResult
            The cursor was followed before, so the listing would not end.
        """
        if not cursor:
            return None
        if cursor in self._cursors:
            raise errors.IncompleteResult(None, row_count, why="the service repeats a cursor")
        self._cursors.add(cursor)
        return cursor


async def creative_pages(
    client: Client,
    body: Mapping[str, Any],
    *,
    max_rows: int | None = None,
    earlier_pages: Sequence[CreativesReply] = (),
) -> AsyncGenerator[CreativesReply, None]:
    """Yield an advertiser's creatives page by page, without duplicates, until the last cursor.

    If a cursor expires or repeats, the listing restarts and omits the rows it has yielded.

    Parameters
    ----------
    client : Client
        The client of the service.
    body : Mapping
        The request of the first page, with the names of the contract.
    max_rows : int, optional
        Number of rows that are needed. A page is limited to the missing rows, and no page is
        requested after them.
    earlier_pages : Sequence[CreativesReply]
        Pages of an earlier call, after which the listing continues.

    Raises
    ------
    IncompleteResult
        After the last page, if a cursor repeats or is refused even after restarts.
    """
    listing = _CreativesPaging(body.get("cursor"), earlier_pages)
    while True:
        request = listing.request(body, max_rows)
        try:
            reply = listing.without_duplicates(await client.creatives(request))
        except errors.InvalidRequest as error:
            if listing.cursor is None or not any(name == "cursor" for name, _ in error.fields):
                raise
            listing.restart(str(error))
            continue
        if reply.creatives or not listing.row_count:
            yield reply
        if reply.cursor is None or (max_rows is not None and listing.row_count >= max_rows):
            return
        listing.follow(reply.cursor)


class _CreativesPaging:
    """The state of a creatives listing: its row ids, cursors and restarts."""

    def __init__(self, cursor: str | None, earlier_pages: Sequence[CreativesReply]) -> None:
        self._first_cursor = cursor
        self._row_ids = {_identity(row) for reply in earlier_pages for row in reply.creatives}
        self.cursor = earlier_pages[-1].cursor if earlier_pages else cursor
        self._rows_at_restart = -1
        self._restarts_without_rows = 0
        self._max_duplicate_pages = 1
        self._duplicate_pages = self._page_count = 0
        self._cursors = {self.cursor} if self.cursor else set()

    @property
    def row_count(self) -> int:
        """The number of distinct rows so far."""
        return len(self._row_ids)

    def request(self, body: Mapping[str, Any], max_rows: int | None) -> dict[str, Any]:
        """Return the request of the next page, limited to the missing rows.

        After a restart, the first pages only repeat rows, so they have their usual size.
        """
        request = {**body} if self.cursor is None else {**body, "cursor": self.cursor}
        if max_rows is None or self._rows_at_restart >= 0:
            return request
        missing = max(1, max_rows - self.row_count)
        usual = body.get("limit", limits.CREATIVES_LIMIT_DEFAULT)
        return {**request, "limit": missing} if missing < usual else request

    def without_duplicates(self, reply: CreativesReply) -> CreativesReply:
        """Return a page without the rows of earlier pages."""
        rows = {_identity(row): row for row in reply.creatives}
        new = [row for key, row in rows.items() if key not in self._row_ids]
        self._row_ids.update(rows)
        self._duplicate_pages = self._duplicate_pages + 1 if reply.creatives and not new else 0
        self._page_count += 1
        return reply.model_copy(
            update={"creatives": new, "total_results": len(new), "cursor": reply.cursor or None}
        )

    def follow(self, cursor: str) -> None:
        """Continue with the next page, or restart if the service repeats itself."""
        if cursor in self._cursors:
            self.restart("the service repeats a cursor")
        elif self._duplicate_pages >= self._max_duplicate_pages:
            self.restart("the service repeats its pages")
        else:
            self._cursors.add(cursor)
            self.cursor = cursor

    def restart(self, why: str) -> None:
        """Return to the first page; raises `IncompleteResult` after restarts without new rows."""
        has_new_rows = self.row_count != self._rows_at_restart
        self._restarts_without_rows = 0 if has_new_rows else self._restarts_without_rows + 1
        if self._restarts_without_rows >= _MAX_RESTARTS_WITHOUT_ROWS:
            raise errors.IncompleteResult(None, self.row_count, why=why)
        self._rows_at_restart = self.row_count
        # After a restart, the pages that were already read are duplicates.
        self._max_duplicate_pages = max(self._max_duplicate_pages, self._page_count) + 1
        self.cursor = self._first_cursor
        self._cursors = {self.cursor} if self.cursor else set()
        self._duplicate_pages = self._page_count = 0


def _identity(row: Mapping[str, Any]) -> object:
    """Return the id of a creative, or its position if it has none, or else the whole of it."""
    if key := row.get("creative_id"):
        return key
    position = row.get("position")
    return ("", json.dumps(row, sort_keys=True) if position is None else position)


async def all_jobs(client: Client, *, newest: int) -> list[JobSummary]:
    """Return the caller's jobs, newest first, up to `newest` of them.

    Raises
    ------
    IncompleteResult
        The service repeated a cursor.
    """
    history, jobs = _CursorHistory(), list[JobSummary]()
    cursor: str | None = None
    while True:
        reply = await client.jobs(limit=min(newest, limits.JOBS_LISTED[1]), cursor=cursor)
        jobs += reply.jobs
        if len(jobs) >= newest:
            return jobs[:newest]
        cursor = history.next_cursor(reply.cursor, len(jobs))
        if cursor is None:
            return jobs
