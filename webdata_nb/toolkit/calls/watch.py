"""Runs one call of `watch_df`: an incremental crawl, its comparison, and the file of changes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.errors import InvalidArgument, JobCancelled, OfflineError, WatchRunning
from webdata_nb.toolkit.cache import result_cache
from webdata_nb.toolkit.cache.result_cache import ResultCache
from webdata_nb.toolkit.calls import pipeline
from webdata_nb.toolkit.frames import frame
from webdata_nb.toolkit.requests.arguments import CallOptions
from webdata_nb.toolkit.requests.inputs import JobSpec
from webdata_nb.toolkit.sites.changes_file import ChangesFile, changes_table
from webdata_nb.toolkit.sites.comparison import Comparison, KnownSite, compare, watch_receipt
from webdata_nb.toolkit.sites.watched_pages import SiteVisit, WatchedFields

if TYPE_CHECKING:
    import pandas as pd

# Requests that differ in these alone are of one watch.
_NOT_COMPARED: Final = frozenset({"max_pages", "concurrency"})


@dataclass(frozen=True, slots=True)
class Watch:
    """One call of `watch_df`, whose arguments are checked.

    Without a `file`, the crawl is compared with the last one in the cache. Without `wait`, a call
    that finds another one at work is refused.
    """

    spec: JobSpec
    options: CallOptions
    fields: WatchedFields
    file: ChangesFile | None
    wait: bool

    @classmethod
    def of(
        cls,
        spec: JobSpec,
        options: CallOptions,
        columns: Sequence[str] | None,
        out: Path | None,
        *,
        wait: bool,
    ) -> Watch:
        """Return the watch of a crawl with `since`.

        Raises
        ------
        InvalidArgument
            The crawl gives no such column.
        OfflineError
            Offline mode is on.
        """
        if options.settings.offline:
            raise OfflineError("offline mode is on, and watch_df asks the site anew")
        request = spec.request
        if not isinstance(request, CrawlRequest):
            raise TypeError(f"{type(request).__name__} is no crawl")
        pages = request.scrape_options
        fields = WatchedFields.choose(columns, pages.formats, pages.extract)
        return cls(spec, options, fields, None if out is None else ChangesFile(out), wait)

    async def run(self) -> pd.DataFrame:
        """Crawl the site, and return what has changed.

        Raises
        ------
        InvalidArgument
            The file is of something else, or cannot be written.
        WatchRunning
            Another call of this watch is not finished.
        WebdataError
            Any error of the crawl; nothing was compared, and the next call makes up for it.
        """
        async with self._lock():
            known = await asyncio.to_thread(self._known)
            crawl = await pipeline.run(self.spec, self.options)
            attrs = crawl.attrs[frame.ATTRS]
            if attrs["status"] != JobStatus.COMPLETED:
                raise JobCancelled(attrs["job_id"] or "")
            return await asyncio.to_thread(self._finish, known, crawl)

    @asynccontextmanager
    async def _lock(self) -> AsyncIterator[None]:
        """Let one call of this watch run at a time."""
        async with AsyncExitStack() as stack:
            try:
                path = await asyncio.to_thread(self._lock_path)
                async with asyncio.timeout(self.options.timeout_s):
                    lock = result_cache.lock_file(path, wait=self.wait)
                    await stack.enter_async_context(lock)
            except TimeoutError:
                raise WatchRunning(
                    f"another call watches {self.spec.subject} and is not finished; nothing was "
                    "sent"
                ) from None
            except (OSError, NotImplementedError) as error:
                # A cache that cannot be written is no obstacle for other calls either.
                if self.file is not None:
                    raise InvalidArgument(f"out cannot be locked: {error}") from None
            yield

    def _lock_path(self) -> Path:
        if self.file is not None:
            self.file.check()
            return self.file.lock_path(self._id)
        cache = ResultCache.of_spec(self.spec, self.options)
        return result_cache.lock_path(cache.root, f"watch-{cache.key.digest}")

    @property
    def _id(self) -> str:
        """A name of the request and the fields, without what may change between two calls."""
        request = self.spec.request.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        compared = {name: value for name, value in request.items() if name not in _NOT_COMPARED}
        parts = [compared, sorted(self.fields.names)]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def _known(self) -> KnownSite | None:
        """Return what is known of the site; None before the first crawl."""
        if self.file is not None:
            return self.file.known(self._id)
        cache = ResultCache.of_spec(self.spec, self.options)
        snapshot = cache.newest_snapshot(self.spec.columns)
        if snapshot is None:
            return None
        pages = frame.build(snapshot.table, attrs=snapshot.attrs)
        return KnownSite.of_first(self._visit(pages, snapshot.path))

    def _visit(self, crawl: pd.DataFrame, file: str | Path | None) -> SiteVisit:
        entries = None if file is None else result_cache.read_receipt(Path(file))
        return SiteVisit.of_crawl(crawl, entries, self.fields)

    def _finish(self, known: KnownSite | None, crawl: pd.DataFrame) -> pd.DataFrame:
        attrs: dict[str, Any] = crawl.attrs[frame.ATTRS]
        visit = self._visit(crawl, attrs["file"])
        comparison: Comparison | None = None
        if known is not None:
            comparison = compare(known, visit)
        table = changes_table(() if comparison is None else comparison.changes)
        if self.file is not None:
            after = KnownSite.of_first(visit) if comparison is None else comparison.known
            self.file.commit(self._id, table, after)
        path = None if self.file is None else self.file.path
        return frame.build(table, attrs=watch_receipt(attrs, known, comparison, path))
