"""Exhausts pages and cursors, each once, and notices a service that goes round in circles."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from webdata_nb import errors
from webdata_nb.client.client import Client
from webdata_nb.contract import limits
from webdata_nb.contract.replies import CrawlStatus, CreativesReply, JobSummary, ReceiptEntry

Rows = list[dict[str, Any]]
# How often a listing of creatives begins again without a new row before it gives up.
_VAIN_BEGINNINGS: Final = 2


async def crawl_rows(
    client: Client,
    job_id: str,
    *,
    per_page: int = limits.PER_PAGE_DEFAULT,
    total: int | None = None,
    first_page: int = 1,
) -> AsyncGenerator[Rows, None]:
    """Give a crawl's rows, page by page, in order.

    Parameters
    ----------
    client : Client
        Whose service ran the job.
    job_id : str
        The crawl.
    per_page : int
        Rows to ask for at a time; a service may give fewer.
    total : int, optional
        Rows there are; by default what the replies say.
    first_page : int
        Where to begin: the rows of the pages before it are there already.

    Yields
    ------
    list of dict
        The rows of one page; never an empty list.

    Raises
    ------
    IncompleteResult
        After the last row: fewer arrived than there are, and why. Where the service does not
        count its rows, an empty page is the end.
    ServiceError, ConnectionFailed, BadAnswer
        A page could not be read, also not by trying again: the rows so far are not all.
    """
    arrived, page = (first_page - 1) * per_page, first_page
    before: Rows = []
    if page > 1 and total is not None and arrived >= total:
        return
    while True:
        reply = await client.crawl_status(job_id, page=page, per_page=per_page)
        expected = _counted(reply) if total is None else total
        if page == first_page > 1 and expected is not None and arrived >= expected:
            return
        circling = _circling(reply, page, before)
        if reply.data and not circling:
            arrived += len(reply.data)
            yield reply.data
        at_the_end = not reply.data if expected is None else arrived >= expected
        if at_the_end and not circling:
            return
        if circling or not reply.data:
            raise errors.IncompleteResult(
                expected, arrived, why=circling or f"page {page} is empty"
            )
        before, page = reply.data, page + 1


async def receipt_entries(client: Client, job_id: str) -> list[ReceiptEntry]:
    """Return the whole receipt of a crawl.

    Raises
    ------
    NotFound, NotSupported
        The service offers none.
    IncompleteResult
        Fewer entries arrived than there are.
    """
    found: list[ReceiptEntry] = []
    page, most = 1, limits.RECEIPT_PER_PAGE[1]
    while True:
        reply = await client.receipt(job_id, page=page, per_page=most)
        found += reply.data
        if len(found) >= reply.total_results:
            return found
        if not reply.data or reply.page != page:
            raise errors.IncompleteResult(
                reply.total_results, len(found), why=f"page {page} of the receipt is not there"
            )
        page += 1


def _counted(reply: CrawlStatus) -> int | None:
    """Return the service's count of rows; None where it gives none, which is not 0."""
    return reply.total_results if "total_results" in reply.model_fields_set else None


def _circling(reply: CrawlStatus, page: int, before: Rows) -> str:
    """Say why a later page cannot be the one that was asked for; "" where it can."""
    if page == 1 or not reply.data:
        return ""
    if "page" in reply.model_fields_set and reply.page != page:
        return f"page {page} was asked for, and page {reply.page} came: the service ignores `page`"
    if reply.data == before:
        return f"page {page} repeats page {page - 1}: the service ignores `page`"
    return ""


class _Trail:
    """The cursors followed so far."""

    def __init__(self, *known: str | None) -> None:
        self._seen = set(known)

    def step(self, cursor: str | None, arrived: int) -> str | None:
        """Return the next cursor, None at the end.

        Raises
        ------
        IncompleteResult
            It was followed before, so that rows would repeat for ever.
        """
        if not cursor:
            return None
        if cursor in self._seen:
            raise errors.IncompleteResult(None, arrived, why="the service repeats a cursor")
        self._seen.add(cursor)
        return cursor


async def creative_pages(
    client: Client,
    body: Mapping[str, Any],
    *,
    max_rows: int | None = None,
    read: Sequence[CreativesReply] = (),
) -> AsyncGenerator[CreativesReply, None]:
    """Give an advertiser's creatives, page by page, until there is no cursor; no row twice.

    Where a cursor expires or leads back, the listing begins again and leaves out what was given.

    Parameters
    ----------
    client : Client
        Whose service to ask.
    body : Mapping
        The request of the first page, named as in the contract.
    max_rows : int, optional
        No further page is asked for once so many rows came; the last page is given whole.
    read : Sequence[CreativesReply]
        Pages that an earlier call was given: it goes on behind them.

    Raises
    ------
    IncompleteResult
        After the last page: a cursor leads back or is refused, also after beginning again.
    """
    course = _Course(body.get("cursor"), read)
    while True:
        asked = body if course.cursor is None else {**body, "cursor": course.cursor}
        try:
            reply = course.fresh(await client.creatives(asked))
        except errors.InvalidRequest as error:
            if course.cursor is None or not any(name == "cursor" for name, _ in error.fields):
                raise
            course.begin_again(str(error))
            continue
        if reply.creatives or not course.arrived:
            yield reply
        if reply.cursor is None or (max_rows is not None and course.arrived >= max_rows):
            return
        course.follow(reply.cursor)


class _Course:
    """How far a listing of creatives came: its rows by their ids, its cursors, its beginnings."""

    def __init__(self, cursor: str | None, read: Sequence[CreativesReply]) -> None:
        self._first = cursor
        self._known = {_identity(row) for reply in read for row in reply.creatives}
        self.cursor = read[-1].cursor if read else cursor
        self._begun_with = -1
        self._vain = 0
        self._patience = 1
        self._idle = self._pages = 0
        self._seen = {self.cursor} if self.cursor else set()

    @property
    def arrived(self) -> int:
        """How many rows came."""
        return len(self._known)

    def fresh(self, reply: CreativesReply) -> CreativesReply:
        """Return a page without the rows that came before."""
        rows = {_identity(row): row for row in reply.creatives}
        new = [row for key, row in rows.items() if key not in self._known]
        self._known.update(rows)
        self._idle = self._idle + 1 if reply.creatives and not new else 0
        self._pages += 1
        return reply.model_copy(
            update={"creatives": new, "total_results": len(new), "cursor": reply.cursor or None}
        )

    def follow(self, cursor: str) -> None:
        """Go on to the next page, or begin again where the cursor leads back."""
        if cursor in self._seen:
            self.begin_again("the service repeats a cursor")
        elif self._idle >= self._patience:
            self.begin_again("the service repeats its pages")
        else:
            self._seen.add(cursor)
            self.cursor = cursor

    def begin_again(self, why: str) -> None:
        """Go back to the first page; raises where that was done twice and brought nothing."""
        self._vain = self._vain + 1 if self.arrived == self._begun_with else 0
        if self._vain > _VAIN_BEGINNINGS - 1:
            raise errors.IncompleteResult(None, self.arrived, why=why)
        self._begun_with = self.arrived
        # What was read already comes again first.
        self._patience = max(self._patience, self._pages) + 1
        self.cursor = self._first
        self._seen = {self.cursor} if self.cursor else set()
        self._idle = self._pages = 0


def _identity(row: Mapping[str, Any]) -> object:
    """Return what tells a creative from others; one without an id is told by its place."""
    return row.get("creative_id") or ("", row.get("position"))


async def all_jobs(client: Client, *, newest: int | None = None) -> list[JobSummary]:
    """Return the caller's jobs, newest first, up to `newest` of them.

    Raises
    ------
    IncompleteResult
        The service repeated a cursor.
    """
    trail, found = _Trail(), list[JobSummary]()
    cursor: str | None = None
    while True:
        reply = await client.jobs(cursor=cursor)
        found += reply.jobs
        if newest is not None and len(found) >= newest:
            return found[:newest]
        cursor = trail.step(reply.cursor, len(found))
        if cursor is None:
            return found
