"""Streams the progress of a job as events, by polling if the service has no event stream."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator

from webdata_nb import errors
from webdata_nb.contract.events import Done, Event
from webdata_nb.contract.replies import CrawlStatus, SearchStatus
from webdata_nb.contract.states import JobKind
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.client.job_wait import PollPacing, progress_of


async def events(client: Client, kind: JobKind, job_id: str) -> AsyncGenerator[Event, None]:
    """Yield a job's events up to its `Done`, from the service's stream or from polling.

    Raises
    ------
    NotFound
        No such job.
    ServiceError, ConnectionFailed, BadAnswer
        The state of the job cannot be read.
    """
    first_reply: SearchStatus | CrawlStatus | None = None
    if client.offers_events:
        try:
            async with contextlib.aclosing(client.events(kind, job_id)) as stream:
                async for event in stream:
                    yield event
                    if isinstance(event, Done):
                        return
        except (errors.NotFound, errors.NotSupported):
            first_reply = await client.status(kind, job_id)  # raises without such a job
            client.offers_events = False
    async with contextlib.aclosing(_polled(client, kind, job_id, first_reply)) as stream:
        async for event in stream:
            yield event


async def _polled(
    client: Client, kind: JobKind, job_id: str, first_reply: SearchStatus | CrawlStatus | None
) -> AsyncGenerator[Event, None]:
    began, before, pacing = time.monotonic(), None, PollPacing()
    while True:
        reply, first_reply = first_reply or await client.status(kind, job_id), None
        elapsed = time.monotonic() - began
        progress = progress_of(kind, reply, elapsed_s=elapsed)
        state = progress.model_copy(update={"elapsed": 0.0})
        if state != before:
            before = state
            yield progress
        if reply.status.terminal:
            yield Done(job_id=job_id, status=reply.status, error=reply.error)
            return
        pacing.note(elapsed, reply)
        await asyncio.sleep(pacing.pause_s(elapsed))
