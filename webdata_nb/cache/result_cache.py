"""What the cache knows about one call: whether it was answered before, and the new answer."""

from __future__ import annotations

import logging
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.cache import eviction, job_refs, receipt_files, single_flight, snapshots
from webdata_nb.cache.job_refs import JobRef
from webdata_nb.cache.snapshots import CacheKey, Snapshot
from webdata_nb.errors import OfflineError
from webdata_nb.requests.deadline import within

if TYPE_CHECKING:
    import pyarrow as pa

    from webdata_nb.contract.replies import ReceiptEntry
    from webdata_nb.requests.call_options import CallOptions
    from webdata_nb.requests.job_spec import JobSpec
    from webdata_nb.session import Scope

# The provider that searches the pages crawled here, and the mark that a crawl leaves for it.
_LOCAL_INDEX: Final = "local"
_CRAWLED: Final = "crawled"

log = logging.getLogger("webdata_nb")

_warned: Final[set[Path]] = set()


@dataclass(frozen=True, slots=True)
class ResultCache:
    """The cache, as one call sees it."""

    root: Path
    key: CacheKey
    scope: Scope
    call: CallOptions

    @classmethod
    def of(cls, key: CacheKey, call: CallOptions) -> ResultCache:
        """Return the memory of a call about a question that is known."""
        return cls(call.settings.cache_dir, key, call.connection.scope(call.settings), call)

    @classmethod
    def of_spec(cls, spec: JobSpec, call: CallOptions) -> ResultCache:
        """Return the memory of a call that asks `spec`, secret parameters included."""
        scope = call.connection.scope(call.settings)
        key = CacheKey.of(
            spec.op,
            base_url=scope.service,
            identity=scope.identity,
            params=spec.params(local=scope.local),
        )
        return cls(call.settings.cache_dir, key, scope, call)

    def find(self, shown: Sequence[str], *, since: datetime | None = None) -> Snapshot | None:
        """Return the earlier answer that may stand for this call, in the columns `shown`.

        An answer taken after `since` always may: somebody asked the same while this call waited.

        Raises
        ------
        OfflineError
            There is none, and asking is not allowed.
        """
        found = self._newest(shown, since)
        if found is None and self.call.settings.offline:
            raise OfflineError(self._why_offline())
        return None if found is None or self._outdated(found) else found

    def _newest(self, shown: Sequence[str], since: datetime | None) -> Snapshot | None:
        now = datetime.now(UTC)
        ages = [(now - since).total_seconds()] if since is not None else []
        if not self.call.refresh:
            ages.append(inf if (ttl_s := self.call.ttl_s(self.key.op)) is None else ttl_s)
        if not self.call.cache or not ages:
            return None
        return snapshots.newest(self.root, self.key, now=now, ttl_s=max(ages), columns=shown)

    def has_answer(self) -> bool:
        """Whether the cache answers this call; reads no rows."""
        found = self._newest((), None)
        return found is not None and not self._outdated(found)

    def last(self, shown: Sequence[str]) -> Snapshot | None:
        """Return the last answer of any age, for comparison; none where the cache is off.

        Raises
        ------
        OfflineError
            Asking anew is not allowed.
        """
        if self.call.settings.offline:
            raise OfflineError("offline mode is on, and only_new asks the service anew")
        if not self.call.cache:
            return None
        return snapshots.newest(self.root, self.key, now=datetime.now(UTC), columns=shown)

    def stale(self, shown: Sequence[str]) -> Snapshot | None:
        """Return an answer that is too old, where the call takes one instead of an error."""
        if not self.call.cache or self.call.stale_if_error is None:
            return None
        age = self.call.stale_if_error
        now = datetime.now(UTC)
        return snapshots.newest(self.root, self.key, now=now, ttl_s=age, columns=shown)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until nobody else asks the same question; hold that inside the block.

        Raises
        ------
        ConnectionFailed
            Somebody else asked for longer than this call may take.
        """
        if not self.call.cache:
            yield
            return
        async with AsyncExitStack() as stack:
            entering = stack.enter_async_context(single_flight.lock(self.root, self.key))
            await within(self.call.timeout_s, entering)
            yield

    def _why_offline(self) -> str:
        mode = "offline mode is on (offline=, WEBDATA_OFFLINE)"
        if not self.call.cache or self.call.refresh:
            return f"{mode}, and cache=False or refresh=True rule the cache out"
        return f"{mode}, and the cache has no answer for this call: run it online once"

    def _outdated(self, found: Snapshot) -> bool:
        """Whether a crawl has since added pages to the local index that answered this search."""
        if self.call.settings.offline or found.attrs.get("provider_used") != _LOCAL_INDEX:
            return False
        crawled = snapshots.marker_time(self.root, _CRAWLED) if self.scope.local else None
        return crawled is not None and crawled >= found.at

    def started(self, spec: JobSpec, job_id: str) -> None:
        """Remember a job that was just started, so that it can be attached to again."""
        if self.call.cache:
            public = spec.public
            digest = self.key.digest
            self.note(JobRef(job_id, spec.op, spec.subject, digest, spec.columns, public))

    def job_ref(self, job_id: str) -> JobRef | None:
        """Return what is remembered of a job."""
        return job_refs.read(self.root, self.scope.service, self.scope.identity, job_id)

    @staticmethod
    def remembered(job_id: str, call: CallOptions) -> JobRef | None:
        """Return what is remembered of a job that was started with the service of `call`."""
        scope = call.connection.scope(call.settings)
        return job_refs.read(call.settings.cache_dir, scope.service, scope.identity, job_id)

    def note(self, job_ref: JobRef) -> None:
        """Write a job_ref."""
        job_refs.write(self.root, self.scope.service, self.scope.identity, job_ref)

    def collected(self, job_id: str | None, path: Path | None) -> None:
        """Remember where the rows of a job are."""
        if job_id is None or path is None:
            return
        job_ref = self.job_ref(job_id)
        if job_ref is not None:
            self.note(replace(job_ref, file=str(path)))

    def keep(self, table: pa.Table, attrs: Mapping[str, Any], at: datetime) -> Path | None:
        """Store an answer; where the cache cannot be written, warn once and go on without."""
        if not self.call.cache:
            return None
        try:
            return self._put(table, attrs, at)
        except OSError as error:
            if self.root not in _warned:
                _warned.add(self.root)
                warnings.warn(
                    f"the cache at {self.root} cannot be written ({error}): results are not "
                    "kept; WEBDATA_CACHE names another place, cache=False does without",
                    stacklevel=2,
                )
            return None

    def keep_receipt(self, path: Path, entries: Sequence[ReceiptEntry]) -> None:
        """Store the receipt beside the rows; they are good without it."""
        try:
            receipt_files.write(path, entries)
        except OSError as error:
            log.warning("the receipt beside %s cannot be written: %s", path, error)

    def _put(self, table: pa.Table, attrs: Mapping[str, Any], at: datetime) -> Path:
        path = snapshots.put(self.root, self.key, table, attrs, now=at).path
        eviction.shrink(self.root, self.call.settings.cache_bytes, in_use=path)
        return path

    def note_crawl(self) -> None:
        """Remember that the local index has changed; only a cache in use needs to know."""
        if self.scope.local and self.root.is_dir():
            try:
                snapshots.touch_marker(self.root, _CRAWLED)
            except OSError:  # then nothing new is cached either
                return
