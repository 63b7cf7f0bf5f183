"""Runs a search or a crawl at the service: start, wait, collect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Final

from webdata_nb.client import paging, waiting
from webdata_nb.client.client import Client
from webdata_nb.contract.replies import StartReply
from webdata_nb.contract.states import JobKind
from webdata_nb.errors import ConnectionFailed, IncompleteResult, JobTimeout, WebdataError
from webdata_nb.functions import arguments
from webdata_nb.functions.call import Call
from webdata_nb.tables.receipt import Outcome, of_crawl, of_search

# Together with the cancel that comes before it, this stays within the bridge's 3 s of grace.
_SALVAGE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a service gave.

    `reason` is its own word on a failure; `shortfall` says that rows are missing, and why. The job
    had not ended by itself where the call was `interrupted`, or was `late`.
    """

    rows: paging.Rows
    outcome: Outcome
    reason: str = ""
    shortfall: IncompleteResult | None = None
    interrupted: bool = False
    late: JobTimeout | None = None


Collect = Callable[[str], Awaitable[Fetched]]


async def search(
    client: Client, body: dict[str, Any], call: Call, report: waiting.Report
) -> Fetched:
    """Run a search to its end."""

    async def collect(job_id: str) -> Fetched:
        reply = await client.search_status(job_id)
        outcome = of_search(reply, reply.data)
        missing = _missing(reply.total_results, len(reply.data))
        return Fetched(reply.data, outcome, reply.error or "", missing)

    return await _run(
        client, "search", client.start_search(body), collect, call=call, report=report
    )


async def crawl(
    client: Client, body: dict[str, Any], call: Call, report: waiting.Report
) -> Fetched:
    """Run a crawl to its end."""

    async def collect(job_id: str) -> Fetched:
        reply = await client.crawl_status(job_id, per_page=1, include_data=False)
        pages = paging.crawl_rows(client, job_id, total=reply.total_results)
        rows, missing = await gathered(pages, expected=reply.total_results)
        return Fetched(
            rows,
            of_crawl(reply, rows, url=arguments.unlocked(body["url"])),
            reply.error or "",
            missing,
        )

    return await _run(client, "crawl", client.start_crawl(body), collect, call=call, report=report)


async def _run(
    client: Client,
    kind: JobKind,
    start: Awaitable[StartReply],
    collect: Collect,
    *,
    call: Call,
    report: waiting.Report,
) -> Fetched:
    job_id = (await within(call.timeout_s, start)).job_id
    try:
        await waiting.wait(client, kind, job_id, report=report, deadline_s=call.timeout_s)
    except asyncio.CancelledError:
        # `wait` has cancelled the job at the service by now; its rows so far are still there.
        if call.on_cancel != "partial":
            raise
        fetched = await _salvaged(collect(job_id))
        if fetched is None:
            raise
        return replace(fetched, shortfall=None, interrupted=True)
    except JobTimeout as error:
        fetched = await _salvaged(collect(job_id))
        if fetched is None:
            raise
        return replace(fetched, shortfall=None, late=error)
    return await collect(job_id)


async def within(seconds: float | None, work: Awaitable[Any]) -> Any:
    """Wait for `work`, at most `seconds`."""
    try:
        async with asyncio.timeout(seconds) as deadline:
            return await work
    except TimeoutError:
        if not deadline.expired():
            raise
        raise ConnectionFailed(f"the service gave no answer within timeout={seconds:g} s") from None


async def _salvaged(collecting: Awaitable[Fetched]) -> Fetched | None:
    """Collect the rows of a job that nobody waits for any more, if they come at once."""
    try:
        async with asyncio.timeout(_SALVAGE_S):
            return await collecting
    except (WebdataError, TimeoutError):
        return None


async def gathered(
    pages: AsyncGenerator[paging.Rows, None], *, expected: int | None
) -> tuple[paging.Rows, IncompleteResult | None]:
    """Collect every page; a page that cannot be read costs the rest, not what came before."""
    rows: paging.Rows = []
    try:
        async with aclosing(pages):
            async for page in pages:
                rows += page
    except IncompleteResult as error:
        return rows, error
    except WebdataError as error:
        if not rows:
            raise
        shortfall = IncompleteResult(expected, len(rows), why=str(error))
        shortfall.__cause__ = error
        return rows, shortfall
    return rows, None


def _missing(expected: int, arrived: int) -> IncompleteResult | None:
    return IncompleteResult(expected, arrived) if arrived < expected else None
