"""The pipeline of a call: one request, the source of its rows, and what every sink shares.

A call is a source of batches (`jobs.sources`) and a sink. `Call` has what stands between them once:
the recording, the cache, the claim to the job, the progress, the start, the cancellation and the
receipt. The sinks are a result, of which a frame is made (`fetch_result` here), a stream of frames
(`calls.frame_stream`), and the files of a crawl (`calls.crawl_files`). Lists are several sources in
the order of their inputs (`calls.inputs`), partitions are lists whose sink is a Parquet part
(`calls.partitions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from webdata_nb import caller
from webdata_nb.contract.replies import EngineEntry
from webdata_nb.errors import (
    BadAnswer,
    ConnectionFailed,
    IncompleteResult,
    JobFailed,
    LocalServiceError,
    OfflineError,
    QuotaExhausted,
    RateLimited,
    ServiceFault,
    WebdataError,
)
from webdata_nb.toolkit import recording
from webdata_nb.toolkit.cache.result_cache import JobClaim, ResultCache, Snapshot, deliver
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.display.bars import UNITS, View
from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.frames import receipt
from webdata_nb.toolkit.frames.rows import CallResult
from webdata_nb.toolkit.jobs.sources import (
    JobSource,
    ListingSource,
    OnCancelClick,
    RowSource,
    collect,
    show_progress,
)
from webdata_nb.toolkit.requests.arguments import CallOptions
from webdata_nb.toolkit.requests.inputs import JobSpec

if TYPE_CHECKING:
    import pandas as pd

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


@dataclass(frozen=True, slots=True)
class Call:
    """One request, with the options and the cache of its call."""

    spec: JobSpec
    options: CallOptions
    cache: ResultCache

    @classmethod
    def of(cls, spec: JobSpec, options: CallOptions) -> Call:
        """Return the call of a request."""
        return cls(spec, options, ResultCache.of_spec(spec, options))

    # ------------------------------------------------------------------------- recording and cache

    async def replayed(self) -> CallResult | None:
        """Return the recorded result, where the settings ask for a replay."""
        folder = self.options.settings.replay
        return None if folder is None else await recording.replay_call(folder, self.spec)

    async def record(self, result: CallResult) -> None:
        """Record a complete result, where the settings ask for it."""
        folder = self.options.settings.record
        if folder is not None and result.complete:
            await recording.record_call(folder, self.spec, result)

    async def cached(self, *, since: datetime | None = None) -> CallResult | None:
        """Return the cached result, or one that an identical call has stored after `since`.

        Raises
        ------
        OfflineError
            Offline mode is on, and the cache has no result, or the call asks for a new one.
        """
        spec = self.spec
        if spec.since is not None and self.options.settings.offline:
            raise OfflineError("offline mode is on, and since asks the site anew")
        if spec.only_new or spec.since is not None:
            return None
        return await asyncio.to_thread(self.cache.look_up, spec.columns, since=since)

    async def earlier_listing(self) -> Snapshot | None:
        """Return the listing whose creatives `only_new` omits; raises `OfflineError` offline."""
        if not self.spec.only_new:
            return None
        return await asyncio.to_thread(self.cache.newest_snapshot, ("creative_id",))

    async def stale(self, error: WebdataError) -> CallResult:
        """Return the cached result that replaces an error; raises the error where there is none."""
        spec = self.spec
        snapshot = None
        if isinstance(error, TRANSIENT_ERRORS):
            snapshot = await asyncio.to_thread(self.cache.stale_snapshot, spec.columns)
        if snapshot is None:
            raise error
        age_s = (datetime.now(UTC) - snapshot.at).total_seconds()
        caller.warn(
            f"{spec.op} {receipt.shorten(spec.subject)}: using a cached result from {age_s:.0f} s "
            f"ago, because of {type(error).__name__}: {error}"
        )
        return snapshot.result("stale")

    # -------------------------------------------------------------------------------------- source

    async def with_earlier_crawl(self) -> Call:
        """Return the call with the earlier crawl that the cache has for an incremental one."""
        since = self.spec.since
        if since is None or since.is_exact:
            return self
        job_id = await asyncio.to_thread(self.cache.last_job_id, since.before)
        return replace(self, spec=replace(self.spec, since=replace(since, job_id=job_id)))

    @asynccontextmanager
    async def source(
        self,
        claim: JobClaim | None,
        *,
        on_cancel: OnCancelClick | None = None,
        **reading: Any,
    ) -> AsyncIterator[RowSource]:
        """Connect, show the progress of the block, and yield the source of the rows.

        Parameters
        ----------
        claim
            The claim of the call to its job.
        on_cancel
            As in `show_progress`.
        **reading
            How the sink reads: `batch_rows`, `as_they_arrive`, `cancelled`, and of a job
            `job_id`, `run_id` and `first_row`.
        """
        spec, options = self.spec, self.options
        description = f"{spec.op} {receipt.shorten(spec.subject)}"
        view = View(description, spec.total, unit=UNITS[spec.op])
        async with (
            show_progress(view, options, on_cancel=on_cancel) as listener,
            options.connection.client(
                options.settings, seen_s=options.seen_s, on_start=listener.starting_service
            ) as client,
        ):
            await _announce_providers(client, spec, options, listener)
            common: dict[str, Any] = {
                "client": client,
                "listener": listener,
                "op": spec.op,
                "subject": spec.subject,
                "options": options,
                "spec": spec,
                **reading,
            }
            if spec.op == "creatives":
                listener.update(phase="")
                yield ListingSource(**common)
            else:
                yield JobSource(**common, claim=claim, on_start=self._started, audits=spec.audits)

    def _started(self, source: JobSource) -> None:
        """Show a job that has started, and remember its id in the cache where the call uses it."""
        source.listener.job_id = source.job_id
        if source.joined:
            source.listener.update(
                notice=f"This call joins job {source.job_id} of "
                f"{receipt.shorten(self.spec.subject)}, which an earlier call started and did not "
                "finish; refresh=True starts anew."
            )
        source.listener.update(phase="")
        if self.options.cache:
            self.cache.write_job_ref(self.cache.job_ref_of(self.spec, source.job_id))

    async def fetch(self) -> CallResult:
        """Return all rows of the source; they are not stored.

        Raises
        ------
        WebdataError
            The job cannot be started, or its state or its first rows cannot be read.
        """
        async with self.cache.claim_job(self.spec) as claim:
            return await self._fetch(claim)

    async def _fetch(self, claim: JobClaim | None) -> CallResult:
        async with self.source(claim) as source:
            result = await collect(source)
            if result.outcome is not None:
                source.ended(result.outcome)
                if claim is not None:
                    claim.is_running = result.outcome.timeout is not None
        return result

    async def fetch_and_store(self) -> CallResult:
        """Return all rows of the source, stored in the cache, or an older result for an error.

        The claim is held until then: a call that dies before leaves its job to the next one.
        """
        spec = self.spec
        try:
            async with self.cache.claim_job(spec) as claim:
                started_at = datetime.now(UTC)
                result = await self._fetch(claim)
                error = result.error()
                if isinstance(error, TRANSIENT_ERRORS):
                    with suppress(WebdataError):
                        return await self.stale(error)
                store = partial(
                    self.cache.store,
                    result,
                    columns=spec.columns,
                    request=spec.public_request,
                    started_at=started_at,
                )
                # Without a file, a few short rows take less time than a switch of threads.
                is_short = spec.brief and not self.options.cache
                return store() if is_short else await asyncio.to_thread(store)
        except TRANSIENT_ERRORS as error:
            return await self.stale(error)


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
    """Return the rows of one request: recorded, cached or from the service.

    One identical call at a time asks the service. A listing with `only_new` is stored whole, which
    the next call compares with.
    """
    call = Call.of(spec, options)
    replayed = await call.replayed()
    if replayed is not None:
        return replayed
    asked_at = datetime.now(UTC)
    result = await call.cached() if options.cache or options.settings.offline else None
    if result is None:
        async with call.cache.single_flight():
            earlier = await call.earlier_listing()
            result = await call.cached(since=asked_at) if options.cache else None
            if result is None:
                result = await (await call.with_earlier_crawl()).fetch_and_store()
        if spec.only_new:
            result = await asyncio.to_thread(_only_new, result, earlier)
    await call.record(result)
    return result


def _only_new(result: CallResult, earlier: Snapshot | None) -> CallResult:
    """Return the creatives that the earlier listing did not have."""
    new = result if earlier is None else result.without_creatives(earlier.creative_ids)
    comparison = {
        "only_new": True,
        "compared_with": earlier and str(earlier.path),
        "known": result.table.num_rows - new.table.num_rows,
    }
    return replace(new, attrs={**new.attrs, **comparison})


# ---------------------------------------------------------------------------- notice of providers

_MARKER: Final = "providers-announced"
_DEFAULT_ENGINE: Final = "engine_one"
_LOCAL_INDEX: Final = "local"
_PUBLIC_PAGE: Final = "ddgs."


async def _announce_providers(
    client: Client, spec: JobSpec, options: CallOptions, listener: Listener
) -> None:
    """Show the providers of a search, and how to add one, once per home without own providers."""
    settings = options.settings
    # The inputs of one call are silent themselves; the listener of the call shows their notice.
    silent = settings.progress is False and options.also is None
    configured = bool(settings.base_url or settings.providers or settings.engines)
    if spec.op != "search" or silent or configured:
        return
    marker = settings.data_dir / _MARKER
    if await asyncio.to_thread(marker.exists):
        return
    try:
        entries = await client.engines()
    except WebdataError:
        return  # the search itself says what is wrong
    text = provider_notice(entries, spec.body.get("engine") or _DEFAULT_ENGINE)
    if not text:
        return
    try:
        await asyncio.to_thread(marker.touch, 0o600, exist_ok=False)
    except OSError:  # another call has shown the notice, or nothing can be written
        return
    listener.update(notice=text)


def provider_notice(entries: Sequence[EngineEntry], engine: str) -> str:
    """Return the sentence about the usable web providers of an engine; empty without any."""
    names = [
        entry.provider.removeprefix(_PUBLIC_PAGE)
        for entry in entries
        if entry.engine == engine and entry.usable and entry.provider != _LOCAL_INDEX
    ]
    if not names:
        return ""
    return (
        f"Searches ask {', '.join(names)}, in this order. To add a provider, set its key, such as "
        "WEBDATA_BRAVE_KEY; engines_df() lists all."
    )
