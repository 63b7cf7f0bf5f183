"""The cache of one request: looks results up, stores them, and serializes identical requests."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb import caller
from webdata_nb.contract.states import JobStatus
from webdata_nb.errors import OfflineError
from webdata_nb.toolkit.cache import (
    eviction,
    job_claims,
    job_refs,
    receipt_files,
    single_flight,
    snapshots,
)
from webdata_nb.toolkit.cache.closest_request import CachedRequest, closest_request
from webdata_nb.toolkit.cache.job_claims import JobClaim
from webdata_nb.toolkit.cache.job_refs import JobRef
from webdata_nb.toolkit.cache.result import CallResult
from webdata_nb.toolkit.cache.snapshots import CacheKey, Snapshot
from webdata_nb.toolkit.frames import receipt
from webdata_nb.toolkit.requests.call_options import within

if TYPE_CHECKING:
    import pyarrow as pa

    from webdata_nb.contract.replies import CrawlStatus, ReceiptEntry, SearchStatus
    from webdata_nb.toolkit.requests.call_options import CallOptions
    from webdata_nb.toolkit.requests.job_spec import JobSpec
    from webdata_nb.toolkit.session import ResultScope

# The provider that searches the local index, and the marker that a crawl of the index leaves.
_LOCAL_INDEX: Final = "local"
_CRAWL_MARKER: Final = "crawled"
# Seconds for which the rows of an ended job that a dead call left are the present state of a site,
# which an incremental crawl asks for.
_PRESENT_S: Final = 3600.0

log = logging.getLogger("webdata_nb")

_unwritable_roots: Final[set[Path]] = set()


@dataclass(frozen=True, slots=True)
class ResultCache:
    """The cached results of one request, within the options of one call."""

    root: Path
    key: CacheKey
    scope: ResultScope
    options: CallOptions
    spec: JobSpec | None = None

    @classmethod
    def of(cls, key: CacheKey, options: CallOptions) -> ResultCache:
        """Return the cache of a known key."""
        scope = options.connection.scope(options.settings)
        return cls(options.settings.cache_dir, key, scope, options)

    @classmethod
    def of_spec(cls, spec: JobSpec, options: CallOptions) -> ResultCache:
        """Return the cache of a request; its key covers secret parameters."""
        scope = options.connection.scope(options.settings)
        key = CacheKey.of(
            spec.op,
            base_url=scope.service,
            identity=scope.identity,
            params=spec.params(local=scope.local),
        )
        return cls(options.settings.cache_dir, key, scope, options, spec)

    # ----------------------------------------------------------------------------------- look-up

    def look_up(
        self, columns: Sequence[str], *, since: datetime | None = None
    ) -> CallResult | None:
        """Return the cached result that answers this call, with these columns.

        A result taken after `since` always does: an identical request finished meanwhile.

        Raises
        ------
        OfflineError
            There is none, and offline mode is on.
        """
        snapshot = self._fresh_snapshot(columns, since)
        if snapshot is None and self.options.settings.offline:
            raise OfflineError(self._offline_message())
        return None if snapshot is None else CallResult.from_snapshot(snapshot)

    def has_fresh_result(self) -> bool:
        """Whether the cache answers this call; reads no rows."""
        return self._fresh_snapshot((), None) is not None

    def _fresh_snapshot(self, columns: Sequence[str], since: datetime | None) -> Snapshot | None:
        now = datetime.now(UTC)
        ages = [(now - since).total_seconds()] if since is not None else []
        if not self.options.refresh:
            ttl_s = self.options.ttl_s(self.key.op)
            ages.append(inf if ttl_s is None else ttl_s)
        if not self.options.cache or not ages:
            return None
        snapshot = snapshots.newest(self.root, self.key, now=now, ttl_s=max(ages), columns=columns)
        if snapshot is None or self._is_outdated(snapshot.attrs.get("provider_used"), snapshot.at):
            return None
        return snapshot

    def _is_outdated(self, provider: object, at: datetime) -> bool:
        """Whether a later crawl added pages to the local index that answered a search."""
        if self.options.settings.offline or not self.scope.local or provider != _LOCAL_INDEX:
            return False
        crawled_at = snapshots.marker_time(self.root, _CRAWL_MARKER)
        return crawled_at is not None and crawled_at >= at

    def _offline_message(self) -> str:
        mode = "offline mode is on (offline=, WEBDATA_OFFLINE)"
        if not self.options.cache or self.options.refresh:
            return f"{mode}, and cache=False or refresh=True rule the cache out"
        call = "this call"
        if self.spec is not None:
            call = f"this {self.spec.op} of {receipt.shorten(self.spec.subject)}"
        message = f"{mode}, and the cache has no result of {call}: run it online once"
        closest = self._closest_request()
        return f"{message}. {closest}" if closest else message

    def _closest_request(self) -> str:
        """Return a sentence about the cached request that is most similar to this one."""
        if self.spec is None:
            return ""
        spec, now = self.spec, datetime.now(UTC)
        wanted = CachedRequest(spec.op, spec.subject, spec.public_request, now)
        closest = closest_request(self.root, wanted, self.scope.service)
        if closest is None:
            return "cache.ls() lists what it has"
        return f"The closest cached request is {closest.describe(wanted)}"

    def newest_snapshot(self, columns: Sequence[str]) -> Snapshot | None:
        """Return the newest snapshot of any age, for comparison; None where the cache is off.

        Raises
        ------
        OfflineError
            Offline mode is on, and `only_new` needs the service.
        """
        if self.options.settings.offline:
            raise OfflineError("offline mode is on, and only_new asks the service anew")
        if not self.options.cache:
            return None
        return snapshots.newest(self.root, self.key, now=datetime.now(UTC), columns=columns)

    def last_job_id(self, before: datetime | None) -> str | None:
        """Return the job of the newest snapshot, or of the newest one that is not after a time."""
        now = datetime.now(UTC)
        snapshot = snapshots.newest(self.root, self.key, now=now, until=before, columns=())
        job_id = None if snapshot is None else snapshot.attrs.get("job_id")
        return job_id if isinstance(job_id, str) else None

    def stale_snapshot(self, columns: Sequence[str]) -> Snapshot | None:
        """Return the snapshot that may replace an error, by `stale_if_error`."""
        age_s = self.options.stale_if_error
        if not self.options.cache or age_s is None:
            return None
        now = datetime.now(UTC)
        return snapshots.newest(self.root, self.key, now=now, ttl_s=age_s, columns=columns)

    @asynccontextmanager
    async def single_flight(self) -> AsyncIterator[None]:
        """Hold the lock of this request inside the block.

        Raises
        ------
        ConnectionFailed
            An identical request held it for longer than the call's timeout.
        """
        if not self.options.cache:
            yield
            return
        async with AsyncExitStack() as stack:
            acquired = stack.enter_async_context(single_flight.lock(self.root, self.key))
            await within(self.options.timeout_s, acquired)
            yield

    # ------------------------------------------------------------------------------ claims of jobs

    @asynccontextmanager
    async def claim_job(self, spec: JobSpec) -> AsyncIterator[JobClaim | None]:
        """Hold the claim to the job of this request inside the block.

        None without a cache, and for creatives, which have no jobs.
        """
        if not self.options.cache or spec.op == "creatives":
            yield None
            return
        since = None if spec.since is None else spec.since.fields
        refresh = self.options.refresh
        async with job_claims.claim(self.root, self.key, since, refresh=refresh) as claim:
            yield claim

    def may_join(self, claim: JobClaim, status: SearchStatus | CrawlStatus) -> bool:
        """Whether the job of an abandoned claim answers this call: it runs, or its rows are fresh.

        A job that failed or was cancelled does not, nor one whose rows the service has deleted.
        """
        if not status.status.terminal:
            return True
        is_expired = getattr(status, "result_expired", None)
        if status.status != JobStatus.COMPLETED or is_expired:
            return False
        ended_at = datetime.fromtimestamp(claim.started_at + (status.time_taken or 0.0), UTC)
        is_incremental = self.spec is not None and self.spec.since is not None
        ttl_s = _PRESENT_S if is_incremental else self.options.ttl_s(self.key.op)
        if ttl_s is not None and (datetime.now(UTC) - ended_at).total_seconds() > ttl_s:
            return False
        return not self._is_outdated(getattr(status, "provider_used", None), ended_at)

    # ------------------------------------------------------------------------------------- store

    def store(
        self,
        result: CallResult,
        *,
        columns: Sequence[str],
        request: Mapping[str, Any],
        started_at: datetime,
        of_list: bool = False,
    ) -> CallResult:
        """Add the receipt to a fetched result, cache it if it is good, and select its columns.

        One `of_list` is one of the results of a job; after all of them the caller calls
        `listed`.
        """
        outcome, finished_at = result.outcome, datetime.now(UTC)
        if outcome is None:
            return result
        attrs = receipt.build(
            outcome,
            request=request,
            service=self.scope.service,
            started_at=started_at,
            finished_at=finished_at,
        )
        if self.key.op == "crawl" and not of_list:
            self._mark_crawl()
        path = None
        if self.options.cache and outcome.cacheable:
            table = result.table.select(list(columns))
            path = self._write(table, attrs, finished_at, of_list=of_list)
        if path is not None and not of_list:
            if result.receipt_entries is not None:
                _write_receipt(path, result.receipt_entries)
            self._set_job_file(outcome.job_id, path)
        state = {"cache": "miss" if self.options.cache else "off", "file": path and str(path)}
        return replace(
            result,
            table=result.table.select(list(columns)),
            attrs={**attrs, **state},
            receipt_entries=None,
        )

    def listed(self) -> None:
        """Note that the results of a list are stored."""
        self._mark_crawl()
        if self.options.cache:
            with suppress(OSError):
                eviction.shrink(self.root, self.options.settings.cache_bytes)

    def _write(
        self, table: pa.Table, attrs: Mapping[str, Any], at: datetime, *, of_list: bool
    ) -> Path | None:
        """Write a snapshot; where the cache is not writable, warn once and continue."""
        try:
            # A sync of each page would take longer than the pages of a list.
            durable = not of_list
            path = snapshots.put(self.root, self.key, table, attrs, now=at, durable=durable).path
            if not of_list:
                eviction.shrink(self.root, self.options.settings.cache_bytes, in_use=path)
        except OSError as error:
            if self.root not in _unwritable_roots:
                _unwritable_roots.add(self.root)
                caller.warn(
                    f"the cache at {self.root} cannot be written ({error}): results are not "
                    "kept; WEBDATA_CACHE names another place, cache=False does without"
                )
            return None
        return path

    def _mark_crawl(self) -> None:
        """Mark that the local index has changed; an unused cache needs no marker."""
        if self.scope.local and self.root.is_dir():
            with suppress(OSError):  # then nothing new is cached either
                snapshots.touch_marker(self.root, _CRAWL_MARKER)

    # ---------------------------------------------------------------------------- job references

    def job_ref_of(self, spec: JobSpec, job_id: str) -> JobRef:
        """Return the reference to a job of this request."""
        return JobRef(
            job_id, spec.op, spec.subject, self.key.digest, spec.columns, spec.public_request
        )

    def read_job_ref(self, job_id: str) -> JobRef | None:
        """Return the stored reference to a job; None where there is none."""
        return job_refs.read(self.root, self.scope.service, self.scope.identity, job_id)

    def write_job_ref(self, job_ref: JobRef) -> None:
        """Store the reference to a job, so that `job()` finds it."""
        job_refs.write(self.root, self.scope.service, self.scope.identity, job_ref)

    def _set_job_file(self, job_id: str | None, path: Path) -> None:
        """Store the cache file of a job's rows in its reference."""
        job_ref = None if job_id is None else self.read_job_ref(job_id)
        if job_ref is not None:
            self.write_job_ref(replace(job_ref, file=str(path)))


def find_job_ref(job_id: str, options: CallOptions) -> JobRef | None:
    """Return the stored reference to a job of this service and account; None if there is none."""
    scope = options.connection.scope(options.settings)
    return job_refs.read(options.settings.cache_dir, scope.service, scope.identity, job_id)


def _write_receipt(path: Path, entries: Sequence[ReceiptEntry]) -> None:
    """Write the receipt beside the rows; the rows are valid without it."""
    try:
        receipt_files.write(path, entries)
    except OSError as error:
        log.warning("the receipt beside %s cannot be written: %s", path, error)
