"""Runs a call with one input: cache look-up, job at the service, store, frame."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from webdata_nb import caller
from webdata_nb.contract.events import Progress
from webdata_nb.contract.problem_types import EARLIER_CRAWL_UNUSABLE
from webdata_nb.errors import (
    BadAnswer,
    ConnectionFailed,
    IncompleteResult,
    InvalidRequest,
    JobFailed,
    LocalServiceError,
    OfflineError,
    QuotaExhausted,
    RateLimited,
    ServiceFault,
    WebdataError,
)
from webdata_nb.toolkit.cache.job_refs import JobClaim
from webdata_nb.toolkit.cache.result_cache import CallResult, ResultCache, deliver
from webdata_nb.toolkit.calls.provider_notice import announce_providers
from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.display.progress_view import UNITS
from webdata_nb.toolkit.frames import receipt
from webdata_nb.toolkit.frames.receipt import JobOutcome
from webdata_nb.toolkit.jobs import runner
from webdata_nb.toolkit.jobs.progress_scope import show_progress
from webdata_nb.toolkit.recording import cassette
from webdata_nb.toolkit.requests.call_options import CallOptions
from webdata_nb.toolkit.requests.job_spec import JobSpec
from webdata_nb.toolkit.streams import creatives_listing

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

# Errors that may be gone at the next call: `stale_if_error` replaces these by a cached result.
TRANSIENT_ERRORS: Final = (
    BadAnswer,
    ConnectionFailed,
    IncompleteResult,
    JobFailed,
    LocalServiceError,
    QuotaExhausted,
    RateLimited,
    ServiceFault,
)

_MAX_REFUSAL_CHARS: Final = 200


async def run(spec: JobSpec, options: CallOptions) -> pd.DataFrame:
    """Return the frame of one request.

    Raises
    ------
    OfflineError
        Offline mode is on and the cache has no result.
    JobFailed, JobCancelled, IncompleteResult
        Rows are missing; what arrived is on the error.
    WebdataError
        Any error of the connection.
    """
    return await deliver(await fetch_result(spec, options), options)


async def fetch_result(spec: JobSpec, options: CallOptions) -> CallResult:
    """Return the rows of one request: recorded, cached or from the service."""
    if options.settings.replay is not None:
        return await cassette.replay_call(options.settings.replay, spec)
    if spec.only_new:
        result = await _fetch_new_creatives(spec, options)
    elif spec.since is not None:
        result = await _fetch_incremental(spec, options)
    else:
        result = await _look_up_or_fetch(spec, options)
    if options.settings.record is not None and result.complete:
        await cassette.record_call(options.settings.record, spec, result)
    return result


async def _look_up_or_fetch(spec: JobSpec, options: CallOptions) -> CallResult:
    cache = ResultCache.of_spec(spec, options)
    if not options.cache and not options.settings.offline:
        return await _fetch(spec, options, cache)
    requested_at = datetime.now(UTC)
    cached = await asyncio.to_thread(cache.look_up, spec.columns)
    if cached is not None:
        return cached
    async with cache.single_flight():
        cached = await asyncio.to_thread(cache.look_up, spec.columns, since=requested_at)
        if cached is not None:
            return cached
        return await _fetch(spec, options, cache)


async def _fetch_new_creatives(spec: JobSpec, options: CallOptions) -> CallResult:
    """Fetch a listing, and omit the creatives of the newest cached one.

    The cache stores the whole listing, which the next call compares with.
    """
    cache = ResultCache.of_spec(spec, options)
    async with cache.single_flight():
        earlier = await asyncio.to_thread(cache.newest_snapshot, ("creative_id",))
        result = await _fetch(spec, options, cache)
    return await asyncio.to_thread(result.without_creatives_of, earlier)


async def _fetch_incremental(spec: JobSpec, options: CallOptions) -> CallResult:
    """Fetch a crawl that takes unchanged pages from an earlier one."""
    if options.settings.offline:
        raise OfflineError("offline mode is on, and since asks the site anew")
    cache = ResultCache.of_spec(spec, options)
    async with cache.single_flight():
        _, result = await start_since(spec, cache, lambda each: _fetch(each, options, cache))
    return result


async def start_since(
    spec: JobSpec, cache: ResultCache, start: Callable[[JobSpec], Awaitable[T]]
) -> tuple[JobSpec, T]:
    """Return the crawl that was started, with its earlier crawl, and what `start` returned.

    Where the cache chose the earlier crawl, and the service cannot use it, all pages are fetched,
    and the receipt says why.
    """
    spec = await with_earlier_crawl(spec, cache)
    try:
        return spec, await start(spec)
    except InvalidRequest as error:
        spec = without_earlier_crawl(spec, error)
    return spec, await start(spec)


async def with_earlier_crawl(spec: JobSpec, cache: ResultCache) -> JobSpec:
    """Return a crawl with the earlier crawl that the cache has for it."""
    since = spec.since
    if since is None or since.is_exact:
        return spec
    job_id = await asyncio.to_thread(cache.last_job_id, since.before)
    return replace(spec, since=replace(since, job_id=job_id))


def without_earlier_crawl(spec: JobSpec, error: InvalidRequest) -> JobSpec:
    """Return a crawl without the earlier crawl that the service refuses; raises other errors."""
    since, refusal = spec.since, _refusal_of_earlier_crawl(error)
    if since is None or since.is_exact or since.job_id is None or not refusal:
        raise error
    return replace(spec, since=replace(since, job_id=None, refusal=refusal))


def with_since(outcome: JobOutcome, spec: JobSpec) -> JobOutcome:
    """Return an outcome that names the earlier crawl, or why the service could not use it."""
    if spec.since is None:
        return outcome
    refusal = receipt.shorten(spec.since.refusal, _MAX_REFUSAL_CHARS)
    return replace(outcome, since=spec.since.job_id or "", since_refusal=refusal)


def _refusal_of_earlier_crawl(error: InvalidRequest) -> str:
    """Return why the service cannot use the earlier crawl; "" if it refuses something else."""
    problems = zip(error.fields, error.types, strict=False)
    unusable = ("base.job_id", EARLIER_CRAWL_UNUSABLE)
    reasons = [
        text for (problem_field, text), kind in problems if (problem_field, kind) == unusable
    ]
    return reasons[0] if reasons and len(reasons) == len(error.fields) else ""


async def _fetch(spec: JobSpec, options: CallOptions, cache: ResultCache) -> CallResult:
    """Fetch and store the rows; a stale result replaces an error where the call allows it."""
    try:
        async with cache.claim_job(spec) as claim:
            return await _fetch_claimed(spec, options, cache, claim)
    except TRANSIENT_ERRORS as error:
        return await stale_result(spec, cache, error)


async def _fetch_claimed(
    spec: JobSpec, options: CallOptions, cache: ResultCache, claim: JobClaim | None
) -> CallResult:
    started_at = datetime.now(UTC)
    result = await run_job(spec, options, cache, claim)
    job_error = result.error()
    if isinstance(job_error, TRANSIENT_ERRORS):
        with suppress(WebdataError):
            return await stale_result(spec, cache, job_error)
    store = partial(
        cache.store,
        result,
        columns=spec.columns,
        request=spec.public_request,
        started_at=started_at,
    )
    # Without a file to write, a few short rows take less time than a switch of threads.
    return store() if spec.brief and not options.cache else await asyncio.to_thread(store)


async def stale_result(spec: JobSpec, cache: ResultCache, error: WebdataError) -> CallResult:
    """Return the cached result that replaces an error; raises the error where there is none."""
    snapshot = await asyncio.to_thread(cache.stale_snapshot, spec.columns)
    if snapshot is None:
        raise error
    age_s = (datetime.now(UTC) - snapshot.at).total_seconds()
    caller.warn(
        f"{spec.op} {receipt.shorten(spec.subject)}: using a cached result from {age_s:.0f} s ago, "
        f"because of {type(error).__name__}: {error}"
    )
    return CallResult.from_snapshot(snapshot, "stale")


@dataclass(frozen=True, slots=True)
class _StartedJobListener:
    """Shows a job, and remembers its id in the cache where the call uses it."""

    listener: Listener
    spec: JobSpec
    cache: ResultCache
    claim: JobClaim | None

    def started(self, job_id: str) -> None:
        self.listener.job_id = job_id
        if self.claim is not None and self.claim.joined:
            self.listener.update(notice=runner.joined_notice(self.spec, job_id))
        self.listener.update(phase="")
        if self.cache.options.cache:
            self.cache.write_job_ref(self.cache.job_ref_of(self.spec, job_id))

    def report(self, progress: Progress) -> None:
        self.listener.report(progress)


async def run_job(
    spec: JobSpec, options: CallOptions, cache: ResultCache, claim: JobClaim | None
) -> CallResult:
    """Run the job or the listing of a request at the service; its rows are not stored."""
    description = f"{spec.op} {receipt.shorten(spec.subject)}"
    async with show_progress(description, spec.total, options, unit=UNITS[spec.op]) as listener:
        connected = options.connection.client(
            options.settings, seen_s=options.seen_s, on_start=listener.starting_service
        )
        async with connected as client:
            await announce_providers(client, spec, options, listener)
            if spec.op == "creatives":
                result = await creatives_listing.fetch(client, spec, options, listener)
            else:
                job = _StartedJobListener(listener, spec, cache, claim)
                result = await runner.run_call(client, spec, options, job, claim)
        if result.outcome is not None and claim is not None and claim.joined:
            result = replace(result, outcome=replace(result.outcome, joined=True))
        if result.outcome is not None:
            result = replace(result, outcome=with_since(result.outcome, spec))
        if result.outcome is not None:
            line = receipt.summary(result.outcome, listener.elapsed_s)
            listener.ended(result.outcome.status, line)
        return result
