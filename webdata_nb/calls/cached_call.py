"""Answers one call: from the cache or from the service, as a frame with its receipt."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from webdata_nb.cache.fetched import Fetched
from webdata_nb.cache.result import Result, delivered
from webdata_nb.cache.result_cache import ResultCache
from webdata_nb.calls.fetch import fetch
from webdata_nb.display.progress_view import UNITS
from webdata_nb.errors import (
    BadAnswer,
    ConnectionFailed,
    IncompleteResult,
    JobFailed,
    LocalServiceError,
    QuotaExhausted,
    RateLimited,
    ServiceFault,
    WebdataError,
)
from webdata_nb.frames import receipt
from webdata_nb.jobs.progress_scope import shown
from webdata_nb.recording import cassette
from webdata_nb.requests.call_options import CallOptions
from webdata_nb.requests.job_spec import JobSpec

if TYPE_CHECKING:
    import pandas as pd

# What may be over at the next call: an older answer may stand in for these.
PASSING: Final = (
    BadAnswer,
    ConnectionFailed,
    IncompleteResult,
    JobFailed,
    LocalServiceError,
    QuotaExhausted,
    RateLimited,
    ServiceFault,
)


async def answer(spec: JobSpec, call: CallOptions) -> pd.DataFrame:
    """Return the frame that `spec` stands for.

    Raises
    ------
    OfflineError
        Offline mode is on and the cache has no answer.
    JobFailed, JobCancelled, IncompleteResult
        The job did not give all its rows; what arrived is on the error.
    WebdataError
        Whatever the connection met.
    """
    return await delivered(await gained(spec, call), call)


async def gained(spec: JobSpec, call: CallOptions) -> Result:
    """Return the rows that `spec` stands for: replayed, from the cache or from the service."""
    asked = cassette.recording_key(spec.op, spec.params(local=True))
    if (folder := call.settings.replay) is not None:
        played = await asyncio.to_thread(cassette.get, folder, asked, spec.subject, spec.columns)
        return Result.played(*played)
    result = await _gained(spec, call)
    if (folder := call.settings.record) is not None and result.whole:
        keep = partial(cassette.put, cached=result.receipt_of)
        await asyncio.to_thread(keep, folder, asked, spec.subject, result.table, result.attrs)
    return result


async def _gained(spec: JobSpec, call: CallOptions) -> Result:
    memory = ResultCache.of_spec(spec, call)
    if spec.only_new:
        return await _news(spec, call, memory)
    if not call.cache and not call.settings.offline:
        return await _asked(spec, call, memory)  # the cache has no say in it
    asked_at = datetime.now(UTC)
    found = await asyncio.to_thread(memory.find, spec.columns)
    if found is not None:
        return Result.kept(found)
    async with memory.turn():
        found = await asyncio.to_thread(memory.find, spec.columns, since=asked_at)
        if found is not None:
            return Result.kept(found)
        return await _asked(spec, call, memory)


async def _news(spec: JobSpec, call: CallOptions, memory: ResultCache) -> Result:
    """Ask anew, and leave out the creatives of the answer before; it stays the next one's past."""
    async with memory.turn():
        before = await asyncio.to_thread(memory.last, ("creative_id",))
        result = await _asked(spec, call, memory)
    return await asyncio.to_thread(result.without, before)


async def _asked(spec: JobSpec, call: CallOptions, memory: ResultCache) -> Result:
    """Ask the service; an older answer stands in for an error where the call allows it."""
    began = datetime.now(UTC)
    try:
        fetched = await _fetched(spec, call, memory)
    except PASSING as error:
        return await stale(spec, memory, error)
    if isinstance(trouble := fetched.trouble(), PASSING):
        with suppress(WebdataError):
            return await stale(spec, memory, trouble)
    fresh = partial(
        Result.fresh, fetched, memory, shown=spec.columns, request=spec.public, began=began
    )
    # Without a file to write, a few short rows are not worth a thread.
    return fresh() if spec.brief and not call.cache else await asyncio.to_thread(fresh)


async def stale(spec: JobSpec, memory: ResultCache, error: WebdataError) -> Result:
    """Return the older answer that stands in for an error; raises the error where there is none."""
    found = await asyncio.to_thread(memory.stale, spec.columns)
    if found is None:
        raise error
    age = (datetime.now(UTC) - found.at).total_seconds()
    warnings.warn(
        f"{spec.op} {receipt.shorten(spec.subject)}: using a cached result from {age:.0f} s ago, "
        f"because of {type(error).__name__}: {error}",
        stacklevel=2,
    )
    return Result.kept(found, "stale")


async def _fetched(spec: JobSpec, call: CallOptions, memory: ResultCache) -> Fetched:
    subject = receipt.shorten(spec.subject)
    unit = UNITS[spec.op]
    async with shown(f"{spec.op} {subject}", spec.total, call, unit=unit) as listener:

        def started(job_id: str) -> None:
            listener.job_id = job_id
            memory.started(spec, job_id)

        async with call.connection.client(call.settings, seen_s=call.seen_s) as client:
            fetched = await fetch(client, spec, call, listener, started)
        listener.ended(fetched.outcome.status)
        return fetched
