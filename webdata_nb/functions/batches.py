"""The rows of a crawl in batches, while it runs: a frame at a time, and no more in memory."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.client import following, paging
from webdata_nb.client.client import Client
from webdata_nb.contract.events import Done, Event, PageDone, Progress
from webdata_nb.contract.states import JobStatus
from webdata_nb.display import progress as display
from webdata_nb.errors import (
    AuthError,
    IncompleteResult,
    JobCancelled,
    JobFailed,
    JobTimeout,
    LocalServiceError,
    WebdataError,
)
from webdata_nb.functions import running
from webdata_nb.functions.call import Call
from webdata_nb.functions.many import Input, Spread
from webdata_nb.functions.memory import Memory
from webdata_nb.functions.patience import within
from webdata_nb.functions.result import Result
from webdata_nb.functions.showing import shown
from webdata_nb.tables import exports, frame, receipt, rows, stacked
from webdata_nb.tables.stacked import Part

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BATCH_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of one crawl: the `number`th batch, whose first row is row `first` of the job."""

    job_id: str
    number: int
    first: int
    table: pa.Table
    objects: Mapping[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Streaming:
    """How a stream is carried out: `labelled` where there are several inputs."""

    call: Call
    spread: Spread
    size: int
    labelled: bool
    folder: Path | None


async def batches(
    inputs: Sequence[Input], streaming: Streaming
) -> AsyncGenerator[pd.DataFrame, None]:
    """Give the rows of each crawl in turn, in batches as they arrive.

    Leaving early cancels the crawl that runs.

    Raises
    ------
    JobFailed, JobCancelled, JobTimeout, IncompleteResult
        After the last batch: how a crawl ended. With several inputs and `on_error="row"` it is
        a row of its own instead.
    """
    for each in inputs:
        try:
            async with aclosing(_of_input(each, streaming)) as frames:
                async for framed in frames:
                    yield framed
        except WebdataError as error:
            ends_all = isinstance(error, AuthError | LocalServiceError)
            if not streaming.labelled or streaming.spread.on_error == "raise" or ends_all:
                raise
            words = f"{type(error).__name__}: {error}"
            table = stacked.stack(
                each.ask.op,
                each.ask.shown,
                [Part(each.labels, None, datetime.now(UTC), words)],
            )
            yield frame.build(table, dtype_backend=streaming.call.dtype_backend)


async def _of_input(each: Input, streaming: Streaming) -> AsyncGenerator[pd.DataFrame, None]:
    ask, call = each.ask, streaming.call
    memory = Memory.of_ask(ask, call)
    found = await asyncio.to_thread(memory.find, ask.shown)
    public = ask.public
    source = _live(each, streaming) if found is None else _kept(Result.kept(found), streaming.size)
    async with aclosing(source) as made:
        async for batch in made:
            attrs = {
                "kind": ask.op,
                "job_id": batch.job_id,
                "service": memory.scope.service,
                "request": public,
                "batch": batch.number,
                "first_row": batch.first,
                "cache": "off" if found is None else "hit",
            }
            yield await asyncio.to_thread(_framed, batch, each, streaming, attrs)


def _framed(
    batch: Batch, each: Input, streaming: Streaming, attrs: Mapping[str, Any]
) -> pd.DataFrame:
    table = batch.table
    if streaming.labelled:
        part = Part(each.labels, table, datetime.now(UTC))
        table = stacked.stack(each.ask.op, each.ask.shown, [part])
    if streaming.folder is not None:
        exports.write_part(streaming.folder, batch.job_id, batch.number, table, attrs)
    backend = streaming.call.dtype_backend
    return frame.build(table, attrs=attrs, dtype_backend=backend, objects=batch.objects)


async def _kept(result: Result, size: int) -> AsyncGenerator[Batch, None]:
    job_id = str(result.attrs.get("job_id"))
    for number, first in enumerate(range(0, result.table.num_rows, size)):
        yield Batch(job_id, number, first, result.table.slice(first, size))


async def _live(each: Input, streaming: Streaming) -> AsyncGenerator[Batch, None]:
    ask, call = each.ask, streaming.call
    what = f"{ask.op} {receipt.short(ask.subject)}"
    job: list[str] = []

    async def cancel() -> None:
        # The task may be the reader's own: it is told by the job's end, not by a cancellation.
        async with call.connection.client(call.settings) as client:
            for job_id in job:
                await client.cancel_quietly(job_id)

    async with (
        shown(what, ask.total, call, instead=cancel) as listener,
        call.connection.client(call.settings) as client,
    ):
        job_id = (await within(call.timeout_s, running.start(client, ask))).job_id
        job.append(job_id)
        listener.job_id = job_id
        running_job = _Running(client, job_id, call, streaming.size, listener)
        async with aclosing(running_job.pages()) as pages:
            number = first = 0
            async for page in pages:
                made = await asyncio.to_thread(rows.batch, ask.op, page)
                table = made.table.select(list(ask.shown))
                yield Batch(job_id, number, first, table, made.objects)
                number, first = number + 1, first + len(page)


class _Running:
    """One crawl under way, whose pages of rows are read as soon as they are full."""

    def __init__(
        self, client: Client, job_id: str, call: Call, size: int, listener: display.Listener
    ) -> None:
        self._client = client
        self._job_id = job_id
        self._call = call
        self._size = size
        self._listener = listener
        self._page = 1
        self._published = 0
        self._done: Done | None = None

    async def pages(self) -> AsyncGenerator[paging.Rows, None]:
        """Give pages of rows; a reader that leaves before the end ends the job as well."""
        leave_running = False
        try:
            async with aclosing(self._full_pages()) as full:
                async for page in full:
                    yield page
            async with aclosing(self._rest()) as rest:
                async for page in rest:
                    yield page
        except JobTimeout:
            leave_running = True
            raise
        finally:
            if self._done is None and not leave_running:
                # Shielded: the reader's own cancellation must not stop this request.
                await asyncio.shield(
                    asyncio.ensure_future(self._client.cancel_quietly(self._job_id))
                )
        self._judge()

    async def _full_pages(self) -> AsyncGenerator[paging.Rows, None]:
        """Read each page once it is full, until the job has ended."""
        told = following.events(self._client, "crawl", self._job_id)
        deadline = _deadline(self._call.timeout_s)
        async with aclosing(told) as events:
            while self._done is None:
                await self._heard(events, deadline)
                while self._done is None and self._published >= self._page * self._size:
                    reply = await self._client.crawl_status(
                        self._job_id, page=self._page, per_page=self._size
                    )
                    if len(reply.data) < self._size:
                        # Counted before it is published: wait for the next word.
                        self._published = len(reply.data) + (self._page - 1) * self._size
                        break
                    self._page += 1
                    yield reply.data

    async def _heard(self, events: AsyncGenerator[Event, None], deadline: float | None) -> None:
        try:
            async with asyncio.timeout_at(deadline) as limit:
                event = await anext(events, None)
        except TimeoutError:
            if not limit.expired():
                raise
            raise JobTimeout(self._job_id, self._call.timeout_s or 0.0) from None
        if isinstance(event, Progress):
            self._listener.report(event)
            self._published = max(self._published, event.completed)
        elif isinstance(event, PageDone):
            self._published = max(self._published, event.position + 1)
        elif isinstance(event, Done):
            self._done = event
        elif event is None:
            status = await self._client.status("crawl", self._job_id)
            self._done = Done(job_id=self._job_id, status=status.status, error=status.error)
        if self._done is not None:
            self._listener.ended(self._done.status)

    async def _rest(self) -> AsyncGenerator[paging.Rows, None]:
        told = await self._client.crawl_status(self._job_id, per_page=1, include_data=False)
        pages = paging.crawl_rows(
            self._client,
            self._job_id,
            per_page=self._size,
            total=told.total_results,
            first_page=self._page,
        )
        try:
            async with aclosing(pages) as left:
                async for page in left:
                    yield page
        except IncompleteResult as error:
            if self._done is not None and self._done.status is not JobStatus.COMPLETED:
                return  # how it ended says it all
            if self._call.on_incomplete == "raise":
                raise
            if self._call.on_incomplete == "warn":
                warnings.warn(f"incomplete result: {error}", stacklevel=2)

    def _judge(self) -> None:
        status = JobStatus.COMPLETED if self._done is None else self._done.status
        if status is JobStatus.FAILED:
            reason = self._done.error if self._done is not None else None
            raise JobFailed(self._job_id, reason or "the service gave no reason")
        if status is JobStatus.CANCELLED and self._call.on_cancel == "raise":
            raise JobCancelled(self._job_id)


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
