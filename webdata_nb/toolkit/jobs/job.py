"""The handle of a job that runs at the service while the notebook continues."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from webdata_nb import caller
from webdata_nb.contract.events import Event, Progress
from webdata_nb.contract.outcomes import JobKind, JobStatus
from webdata_nb.contract.replies import CrawlStatus, SearchStatus
from webdata_nb.errors import InvalidArgument, WebdataError
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit import bridge, recording
from webdata_nb.toolkit.bridge import blocking, synced
from webdata_nb.toolkit.cache import result_cache
from webdata_nb.toolkit.cache.result_cache import JobRef, ResultCache, deliver
from webdata_nb.toolkit.client import job_wait
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.display import bars
from webdata_nb.toolkit.display import progress as display
from webdata_nb.toolkit.display.bars import UNITS, View
from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.frames import exports, frame, receipt
from webdata_nb.toolkit.frames.rows import CallResult
from webdata_nb.toolkit.jobs.sources import JobSource, collect, show_progress
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.arguments import CallOptions
from webdata_nb.toolkit.requests.options import OnCancel, OnIncomplete
from webdata_nb.toolkit.session import Connection
from webdata_nb.toolkit.sites.pages import PAGE_FACTS
from webdata_nb.toolkit.stream import Stream
from webdata_nb.toolkit.terminal_text import encodable

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from polars import DataFrame as PolarsFrame

    from webdata_nb.settings import Duration
    from webdata_nb.toolkit.frames.frame import DtypeBackend

ExportFormat = Literal["json", "csv", "zip", "parquet", "jsonl"]
_SERVICE_FORMATS: Final = ("json", "csv", "zip")
_LOCAL_FORMATS: Final = ("parquet", "jsonl")
_SUFFIXES: Final = {*(f".{name}" for name in (*_SERVICE_FORMATS, *_LOCAL_FORMATS)), ".xlsx"}


class Job:
    """A search or crawl job at the service.

    `search_job` and `crawl_job` start one and return at once; `job(job_id)` attaches to a running
    or ended one, also after a restart of the kernel. Each method that waits has an async twin
    with the prefix `a` (`await_` for `wait`), and `await job` returns the frame.

    As the last expression of a cell, a running job is a live panel with its state, its progress
    and a Cancel button; later cells run while it is shown. An ended job, or one outside a live
    notebook, is shown as one line.

    Attributes
    ----------
    job_id : str
        The id at the service.
    kind : {"search", "crawl"}
        The kind of job.
    subject : str
        The query or the start URL; empty where the job was started elsewhere.

    Examples
    --------
    >>> job = crawl_job(start_url, max_pages=5)
    >>> job.wait()
    'completed'
    >>> df = job.df()
    >>> job.progress.completed
    5
    """

    def __init__(self, job_ref: JobRef, connection: Connection, progress: Progress) -> None:
        self._job_ref = job_ref
        self._connection = connection
        self._progress = progress
        self._panel = LivePanel()
        self._end_was_shown = False
        self._end_summary = ""

    @property
    def job_id(self) -> str:
        """The id at the service."""
        return self._job_ref.job_id

    @property
    def connection(self) -> Connection:
        """The service that runs it."""
        return self._connection

    @property
    def kind(self) -> JobKind:
        """`search` or `crawl`."""
        return self._job_ref.kind

    @property
    def subject(self) -> str:
        """The query or the start URL."""
        return self._job_ref.subject

    # ---------------------------------------------------------------------------------- progress

    async def apoll(self) -> Progress:
        """Return the job's progress from the service; that of an ended job is known already.

        Returns
        -------
        Progress
            `status`, `completed` and `total` rows, `failed` by kind of error, `elapsed` seconds.
        """
        if not self._progress.status.terminal:
            replay = self._connection.settings().replay
            if replay is not None:
                self._progress = await recording.replay_job_progress(replay, self._job_ref)
                return self._progress
            async with self._client() as client:
                self._progress = await job_wait.current_progress(client, self.kind, self.job_id)
        return self._progress

    poll: Final = synced(apoll)

    @property
    def progress(self) -> Progress:
        """The job's progress from the service, as `poll`."""
        return self.poll()

    @property
    def status(self) -> str:
        """The job's status from the service, one of the six of the contract."""
        return self.poll().status.value

    def events(self) -> Stream[Event]:
        """Return the job's events up to its end, for `for` and for `async for`.

        The events are `Progress`; where the service sends them, `Ranked` for each result of a
        search before its page is fetched and `PageDone` for each final row; and `Done` last. A
        service without event streams is polled. Leaving the loop leaves the job running.
        """
        return Stream(self._events)

    async def _events(self) -> AsyncGenerator[Event, None]:
        async with self._client() as client:
            stream = job_wait.events(client, self.kind, self.job_id)
            async with aclosing(stream) as events:
                async for event in events:
                    if isinstance(event, Progress):
                        self._progress = event
                    yield event

    async def await_(
        self,
        *,
        timeout: Duration | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
        progress: bool | str | None = None,
    ) -> str:
        """Wait until the job has ended, and return its final status.

        An interrupt ends the wait and leaves the job running: `cancel` ends the job.

        Parameters
        ----------
        timeout
            Seconds to wait; then JobTimeout, and the job continues.
        progress
            As in `search_df`.
        """
        options = CallOptions.of(session=self._connection, timeout=timeout, progress=progress)
        return await self._wait(options, self._show_progress(options))

    wait: Final = synced(await_)

    async def _wait(
        self, options: CallOptions, progress: AbstractAsyncContextManager[Listener]
    ) -> str:
        if options.settings.replay is not None:
            return (await self.apoll()).status.value
        async with progress as listener:
            listener.report(self._progress)
            async with self._connection.client(options.settings) as client:
                end = await job_wait.wait(
                    client,
                    self.kind,
                    self.job_id,
                    report=partial(self._report, listener),
                    deadline_s=options.timeout_s,
                    cancel_remote=False,
                )
                self._end_summary = await self._summary(client, end.reply)
                listener.ended(end.status, self._end_summary)
        self._end_was_shown = True
        self._progress = self._progress.model_copy(update={"status": end.status})
        return end.status.value

    async def _summary(self, client: Client, reply: SearchStatus | CrawlStatus | None) -> str:
        """Return the receipt line of the ended job; empty if the service does not report it."""
        try:
            reply = reply or await client.status(self.kind, self.job_id)
        except WebdataError:
            return ""
        if isinstance(reply, SearchStatus):
            outcome = receipt.of_search(reply, reply.data, query=self.subject)
        else:
            outcome = receipt.of_ended_crawl(reply, url=self.subject)
        return receipt.summary(outcome, 0.0)

    def _show_progress(
        self, options: CallOptions, *, name: str = ""
    ) -> AbstractAsyncContextManager[Listener]:
        """Show a wait; an interrupt ends the wait alone, the Cancel button cancels the job.

        A wait after one that showed the end of the job shows nothing.
        """
        if self._end_was_shown:
            options = replace(options, settings=replace(options.settings, progress=False))
        description = f"{self.kind} {receipt.shorten(self.subject or self.job_id)}"
        return show_progress(
            View(description, self._progress.total, unit=UNITS[self.kind], name=name),
            options,
            on_cancel=self._cancel_quietly,
            detach_on_interrupt=True,
        )

    def _client(self) -> AbstractAsyncContextManager[Client]:
        """Provide a client for a request about this job."""
        return self._connection.client(self._connection.settings())

    async def _cancel_quietly(self) -> None:
        async with self._client() as client:
            await client.cancel_quietly(self.job_id)

    def _report(self, listener: Listener, progress: Progress) -> None:
        self._progress = progress
        listener.report(progress)

    # ----------------------------------------------------------------------------------- actions

    async def acancel(self) -> Job:
        """Cancel the job at the service; repeated calls change nothing.

        Returns
        -------
        Job
            This job; `df(on_cancel="partial")` returns the rows so far.

        Raises
        ------
        WrongState
            The job has ended already.
        """
        async with self._client() as client:
            await client.cancel(self.job_id)
        self._progress = self._progress.model_copy(update={"status": JobStatus.CANCELLED})
        return self

    cancel: Final = synced(acancel)

    async def adelete(self) -> None:
        """Delete the ended job and its rows at the service, before their retention ends.

        Rows that this machine has in its cache stay there; `webdata cache clear` deletes them.

        Raises
        ------
        WrongState
            The job is pending or running: `cancel` ends it.
        NotFound
            The service has no such job, or not any more.
        """
        async with self._client() as client:
            await client.delete(self.job_id)

    delete: Final = synced(adelete)

    async def aretry(self) -> Job:
        """Start a failed or cancelled job again, with the same request.

        Returns
        -------
        Job
            The new job.

        Raises
        ------
        WrongState
            The job is neither failed nor cancelled.
        """
        async with self._client() as client:
            reply = await client.retry(self.job_id)
        job_ref = replace(self._job_ref, job_id=reply.started, file=None)
        return started_job(job_ref, self._connection, remember=True)

    retry: Final = synced(aretry)

    # -------------------------------------------------------------------------------------- rows

    async def adf(
        self,
        *,
        timeout: Duration | None = None,  # noqa: ASYNC109 - as in `await_`
        progress: bool | str | None = None,
        cache: bool = True,
        on_incomplete: OnIncomplete = "raise",
        on_cancel: OnCancel = "raise",
        dtype_backend: DtypeBackend = "pandas",
        out: str | Path | None = None,
    ) -> pd.DataFrame:
        """Wait for the end and return the rows, as the call that starts and waits would.

        The cache answers later calls, even after the service has deleted the job. Interrupting
        leaves the job running.

        Parameters
        ----------
        timeout, progress, cache, on_incomplete, on_cancel, dtype_backend, out
            As in `search_df`.

        Raises
        ------
        JobFailed, JobCancelled
            The job did not succeed; the rows so far are `partial` on the error.
        IncompleteResult
            Rows are missing; see `on_incomplete`.
        Expired
            The service has deleted the rows, and they are not in the cache.
        """
        options = CallOptions.of(
            session=self._connection,
            timeout=timeout,
            progress=progress,
            cache=cache,
            on_incomplete=on_incomplete,
            on_cancel=on_cancel,
            dtype_backend=dtype_backend,
            out=out,
        )
        return await self.collect(options)

    df: Final = blocking(adf)

    async def collect(self, options: CallOptions) -> pd.DataFrame:
        """Return the frame that `adf` returns for these options."""
        return await deliver(await self._collect(options), options)

    async def aarrow(self) -> pa.Table:
        """Wait for the end and return the rows as an Arrow table; errors as `df`.

        JSON columns are JSON text and images are bytes. The receipt is in the schema's metadata,
        where pandas looks for attrs.
        """
        options = CallOptions.of(session=self._connection, cache=True)
        result = await self._collect(options)
        await deliver(replace(result, objects={}), replace(options, dtype_backend="pyarrow"))
        return frame.with_attrs(result.table, result.attrs)

    arrow: Final = synced(aarrow)

    async def apl(self) -> PolarsFrame:
        """Wait for the end and return the rows as a polars frame, without copying them.

        Raises
        ------
        MissingExtra
            polars is not installed.
        """
        frame.require_polars()
        return frame.to_polars(await self.aarrow())

    pl: Final = synced(apl)

    async def aexport(self, file_format: ExportFormat, path: str | Path) -> Path:
        """Write the job's results to a file atomically.

        Parameters
        ----------
        file_format
            `"json"`, `"csv"` or `"zip"`: the service's own export; `"parquet"` or `"jsonl"`: the
            rows of `df`, typed.
        path
            The file; its directory must exist. Its suffix may not be that of another format.

        Returns
        -------
        Path
            The file.

        Warns
        -----
        UserWarning
            The service's export is partial: the job had not ended, or did not succeed.

        Raises
        ------
        NotFound, Expired
            There are no results, or the service has deleted them.
        ConnectionFailed
            The download broke off; nothing was written.
        """
        arguments.check_choice("file_format", file_format, [*_SERVICE_FORMATS, *_LOCAL_FORMATS])
        target = arguments.check_file_path("path", path)
        if target.suffix.lower() in _SUFFIXES:  # any other name is fine, as the format is given
            exports.require_suffix("path", target, [f".{file_format}"])
        if file_format == "parquet" or file_format == "jsonl":  # noqa: PLR1714 - for the checker
            options = CallOptions.of(session=self._connection, cache=True)
            result = await self._collect(options)
            await deliver(result, options)
            await asyncio.to_thread(exports.write, target, result.table, result.attrs, file_format)
            return target
        async with self._client() as client:
            pieces = client.export(self.kind, self.job_id, file_format)
            async with aclosing(pieces) as chunks:
                await exports.write_pieces(target, chunks)
        if await asyncio.to_thread(exports.is_partial, target, file_format):
            caller.warn(exports.PARTIAL_WARNING.format(path=target))
        return target

    export: Final = synced(aexport)

    def __await__(self) -> Generator[Any, None, pd.DataFrame]:
        return self.adf().__await__()

    async def _collect(self, options: CallOptions) -> CallResult:
        """Return the rows, replayed or recorded where the settings ask for it."""
        if options.settings.replay is not None:
            return await recording.replay_job_result(options.settings.replay, self._job_ref)
        result = await self._look_up_or_fetch(options)
        if options.settings.record is not None and result.complete:
            await recording.record_job_result(options.settings.record, self._job_ref, result)
        return result

    async def _look_up_or_fetch(self, options: CallOptions) -> CallResult:
        """Return the rows from the cache file of an earlier collection, or from the service."""
        cache = ResultCache.of(self._job_ref.cache_key, options)
        snapshot = await asyncio.to_thread(self._cached_snapshot, cache)
        if snapshot is not None:
            return snapshot.result()
        started_at = datetime.now(UTC)
        async with self._show_progress(options) as listener:
            async with self._connection.client(options.settings) as client:
                source = JobSource(
                    client=client,
                    listener=listener,
                    op=self._job_ref.op,
                    subject=self.subject,
                    options=options,
                    job_id=self.job_id,
                    report=partial(self._report, listener),
                    cancels=False,
                    audits=PAGE_FACTS in self._job_ref.columns,
                )
                result = await collect(source)
            if result.outcome is not None:
                source.ended(result.outcome)
                self._end_was_shown, self._end_summary = True, listener.view.summary
        if options.cache:
            cache.write_job_ref(self._job_ref)
        return await asyncio.to_thread(
            cache.store,
            result,
            columns=self._job_ref.columns,
            request=self._job_ref.request,
            started_at=started_at,
        )

    def _cached_snapshot(self, cache: ResultCache) -> result_cache.Snapshot | None:
        if not cache.options.cache:
            return None
        job_ref = result_cache.find_job_ref(self.job_id, cache.options)
        if job_ref is None or job_ref.file is None:
            return None
        return result_cache.read(Path(job_ref.file), job_ref.cache_key, self._job_ref.columns)

    # ----------------------------------------------------------------------------------- display

    def _line(self) -> str:
        subject = f" {receipt.shorten(self.subject)}" if self.subject else ""
        of = "" if self._progress.total is None else f" of {self._progress.total}"
        rows = f"{self._progress.completed}{of} {UNITS[self.kind]}"
        state = self._end_summary or f"{self._progress.status.value}, {rows}"
        return f"{self.kind}{subject}: {state}"

    def __repr__(self) -> str:
        return encodable(f"Job({self.job_id!r}, {self._line()})")

    def _ipython_display_(self) -> None:
        """Show a live panel, where there can be one; else IPython asks for the bundle below."""
        if self._progress.status.terminal:
            raise NotImplementedError
        try:
            options = CallOptions.of(session=self._connection)
        except InvalidArgument:  # an invalid option, which the next call reports
            raise NotImplementedError from None
        if not can_show_panel(options):
            raise NotImplementedError
        self._panel.show(
            lambda: self._wait(options, self._show_progress(options, name=self.job_id))
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the last known state for a notebook; sends no request."""
        _ = include, exclude
        return bars.object_bundle(repr(self), self._line(), self.job_id)


# The coroutine paints itself at once, before any request is sent.
_FIRST_PAINT_S: Final = 1.0
_LIVE_MODES: Final = (None, True, "panel", "html")


class LivePanel:
    """The panel of one job; showing it again moves it to the current cell."""

    def __init__(self) -> None:
        self._call: bridge.PortalCall[Any] | None = None
        self._painting: asyncio.Task[None] | None = None

    def __reduce__(self) -> tuple[type[LivePanel], tuple[()]]:
        # A job pickles; its panel stays in this kernel.
        return LivePanel, ()

    def show(self, follow_job: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Show the progress of `follow_job` below this cell, until the job has ended."""
        self.close()
        self._call = bridge.PORTAL.submit(follow_job())
        # The first paint happens here, so that it becomes this cell's output.
        self._call.ticks.registered.wait(_FIRST_PAINT_S)
        self._call.ticks.run()
        self._painting = bridge.paint_in_background(self._call)

    def close(self) -> None:
        """End the panel; the job continues."""
        if self._call is not None:
            self._call.cancel()


def can_show_panel(options: CallOptions) -> bool:
    """Whether this kernel can show a live panel, and the loop of this thread can paint it."""
    if options.settings.progress not in _LIVE_MODES or display.place() != "live":
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def started_job(job_ref: JobRef, connection: Connection, *, remember: bool) -> Job:
    """Return a job that was just started; `remember` stores its reference."""
    if remember:
        cache = ResultCache.of(job_ref.cache_key, CallOptions.of(session=connection))
        cache.write_job_ref(job_ref)
    progress = Progress(
        job_id=job_ref.job_id,
        type=job_ref.kind,
        status=JobStatus.STARTED,
    )
    return Job(job_ref, connection, progress)


def checked_id(job_id: object) -> str:
    """Check the id of a job as a user gave it."""
    if not isinstance(job_id, str) or not job_id.strip():
        raise InvalidArgument(
            f"job_id must be the id of a job, as in jobs_df(); it is {format_value(job_id)}"
        )
    return job_id.strip()
