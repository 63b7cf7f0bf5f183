"""A job that runs at the service while the notebook goes on: the object to hold it by."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from webdata_nb.bridge import synced
from webdata_nb.cache import snapshots
from webdata_nb.cache.job_refs import JobRef
from webdata_nb.cache.result import Result, delivered
from webdata_nb.cache.result_cache import ResultCache
from webdata_nb.client import job_wait, progress_events
from webdata_nb.contract.events import Event, Progress
from webdata_nb.contract.states import JobKind, JobStatus
from webdata_nb.display import object_html
from webdata_nb.display.progress import Listener
from webdata_nb.display.progress_view import UNITS
from webdata_nb.errors import InvalidArgument
from webdata_nb.frames import exports, frame, receipt
from webdata_nb.jobs import runner
from webdata_nb.jobs.background_progress import Watch, possible
from webdata_nb.jobs.progress_scope import shown
from webdata_nb.recording import recorded_jobs
from webdata_nb.requests import arguments
from webdata_nb.requests.blocking import blocking
from webdata_nb.requests.call_options import CallOptions
from webdata_nb.requests.options import OnCancel, OnIncomplete
from webdata_nb.session import Connection
from webdata_nb.stream import Stream

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from polars import DataFrame as PolarsFrame

    from webdata_nb.frames.frame import DtypeBackend

ExportFormat = Literal["json", "csv", "zip", "parquet", "jsonl"]
_FROM_SERVICE: Final = ("json", "csv", "zip")
_OWN: Final = ("parquet", "jsonl")


class Job:
    """A search or crawl at the service, from its start on.

    `search_job` and `crawl_job` start one and return at once; `job(job_id)` attaches to one that
    runs or has run, also after the kernel was restarted. Each method that waits has an async twin
    with an `a` in front (`await_` for `wait`), and `await job` gives the frame.

    As the last expression of a cell, a job that has not ended is a live panel with its state,
    how far it is, and a Cancel button; the panel asks nothing of the cells below it. Where
    nobody watches, and once the job has ended, it is a line that sends nothing.

    Attributes
    ----------
    job_id : str
        Its id at the service.
    kind : {"search", "crawl"}
        What it is.
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

    def __init__(self, job_ref: JobRef, connection: Connection, last: Progress) -> None:
        self._job_ref = job_ref
        self._connection = connection
        self._last = last
        self._watch = Watch()

    @property
    def job_id(self) -> str:
        """Its id at the service."""
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

    # ------------------------------------------------------------------------------ how it goes

    async def apoll(self) -> Progress:
        """Ask the service how far the job is; one that has ended is not asked about again.

        Returns
        -------
        Progress
            `status`, `completed` and `total` rows, `failed` by kind of error, `elapsed` seconds.
        """
        if not self._last.status.terminal:
            call = CallOptions.of(session=self._connection)
            if call.settings.replay is not None:
                self._note(await recorded_jobs.replay_progress(call.settings.replay, self._job_ref))
                return self._last
            async with self._connection.client(call.settings) as client:
                reply = await client.status(self.kind, self.job_id)
            elapsed = reply.time_taken or 0.0
            self._note(job_wait.progress_of(self.kind, reply, elapsed_s=elapsed))
        return self._last

    poll = synced(apoll)

    @property
    def progress(self) -> Progress:
        """How far the job is, by the service; as `poll`."""
        return self.poll()

    @property
    def status(self) -> str:
        """The job's state, by the service: one of the contract's six words."""
        return self.poll().status.value

    def events(self) -> Stream[Event]:
        """Return the job's events up to its end, for `for` and for `async for`.

        `Progress` events; where the service tells, `Ranked` for each result of a search before its
        page is fetched, and `PageDone` for each row that is final; and `Done` last. A service
        without such a stream is polled. Leaving the loop leaves the job running.
        """
        return Stream(self._events)

    async def _events(self) -> AsyncGenerator[Event, None]:
        call = CallOptions.of(session=self._connection)
        async with self._connection.client(call.settings) as client:
            told = progress_events.events(client, self.kind, self.job_id)
            async with aclosing(told) as events:
                async for event in events:
                    if isinstance(event, Progress):
                        self._note(event)
                    yield event

    async def await_(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
        progress: bool | str | None = None,
    ) -> str:
        """Wait until the job has ended, and return the state it ended in.

        An interrupt ends the wait and leaves the job running: `cancel` ends the job.

        Parameters
        ----------
        timeout
            Seconds to wait; then JobTimeout, and the job goes on.
        progress
            As in `search_df`.
        """
        call = CallOptions.of(session=self._connection, timeout=timeout, progress=progress)
        return await self._ended(call, self._shown(call))

    wait = synced(await_)

    async def _ended(self, call: CallOptions, shown: AbstractAsyncContextManager[Listener]) -> str:
        if call.settings.replay is not None:
            return (await self.apoll()).status.value
        async with shown as listener:
            listener.report(self._last)
            async with self._connection.client(call.settings) as client:
                ended = await job_wait.wait(
                    client,
                    self.kind,
                    self.job_id,
                    report=partial(self._seen, listener),
                    deadline_s=call.timeout_s,
                    cancel_remote=False,
                )
            listener.ended(ended)
        self._note(self._last.model_copy(update={"status": ended}))
        return ended.value

    def _shown(self, call: CallOptions, *, name: str = "") -> AbstractAsyncContextManager[Listener]:
        """Show a wait: an interrupt ends it and leaves the job, the Cancel button ends the job."""
        what = receipt.shorten(self.subject or self.job_id)
        return shown(
            f"{self.kind} {what}",
            self._last.total,
            call,
            unit=UNITS[self.kind],
            instead=self._end,
            leaves=True,
            name=name,
        )

    async def _end(self) -> None:
        call = CallOptions.of(session=self._connection)
        async with self._connection.client(call.settings) as client:
            await client.cancel_quietly(self.job_id)

    def _seen(self, listener: Listener, progress: Progress) -> None:
        self._note(progress)
        listener.report(progress)

    def _note(self, progress: Progress) -> None:
        self._last = progress

    # ---------------------------------------------------------------------------- what to do

    async def acancel(self) -> Job:
        """Cancel the job at the service; repeating it changes nothing.

        Returns
        -------
        Job
            This one; `df(on_cancel="partial")` gives the rows so far.

        Raises
        ------
        WrongState
            The job has ended already.
        """
        call = CallOptions.of(session=self._connection)
        async with self._connection.client(call.settings) as client:
            await client.cancel(self.job_id)
        self._note(self._last.model_copy(update={"status": JobStatus.CANCELLED}))
        return self

    cancel = synced(acancel)

    async def aretry(self) -> Job:
        """Start a failed or cancelled job again, with the same request.

        Returns
        -------
        Job
            The new one.

        Raises
        ------
        WrongState
            The job is neither failed nor cancelled.
        """
        call = CallOptions.of(session=self._connection)
        async with self._connection.client(call.settings) as client:
            reply = await client.retry(self.job_id)
        job_ref = replace(self._job_ref, job_id=reply.started, file=None)
        return started(job_ref, self._connection, remember=True)

    retry = synced(aretry)

    # ---------------------------------------------------------------------------------- its rows

    async def adf(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as in `await_`
        progress: bool | str | None = None,
        cache: bool = True,
        on_incomplete: OnIncomplete = "raise",
        on_cancel: OnCancel = "raise",
        dtype_backend: DtypeBackend = "pandas",
        out: str | Path | None = None,
    ) -> pd.DataFrame:
        """Wait for the end and return the rows, as the call that starts and waits would.

        A job that is collected once answers from the cache for as long as that keeps it, also
        when the service has forgotten it. Interrupting leaves the job running.

        Parameters
        ----------
        timeout, progress, cache, on_incomplete, on_cancel, dtype_backend, out
            As in `search_df`.

        Raises
        ------
        JobFailed, JobCancelled
            How it ended; the rows so far are `partial` on the error.
        IncompleteResult
            Rows are missing; see `on_incomplete`.
        Expired
            The service no longer has the rows, and the cache never had them.
        """
        call = CallOptions.of(
            session=self._connection,
            timeout=timeout,
            progress=progress,
            cache=cache,
            on_incomplete=on_incomplete,
            on_cancel=on_cancel,
            dtype_backend=dtype_backend,
            out=out,
        )
        return await self.collected(call)

    df = blocking(adf)

    async def collected(self, call: CallOptions) -> pd.DataFrame:
        """Return the frame as `call` wants it."""
        return await delivered(await self._collected(call), call)

    async def aarrow(self) -> pa.Table:
        """Wait for the end and return the rows as an Arrow table; errors as `df`.

        JSON columns are JSON text, images bytes; the receipt is in the schema's metadata, where
        pandas looks for attrs.
        """
        call = CallOptions.of(session=self._connection, cache=True)
        result = await self._collected(call)
        await delivered(replace(result, objects={}), replace(call, dtype_backend="pyarrow"))
        return frame.with_attrs(result.table, result.attrs)

    arrow = synced(aarrow)

    async def apl(self) -> PolarsFrame:
        """Wait for the end and return the rows as a polars frame, without copying them.

        Raises
        ------
        MissingExtra
            polars is not installed.
        """
        frame.require_polars()
        return frame.to_polars(await self.aarrow())

    pl = synced(apl)

    async def aexport(self, file_format: ExportFormat, path: str | Path) -> Path:
        """Write the job's results to a file, which appears whole or not at all.

        Parameters
        ----------
        file_format
            `"json"`, `"csv"` or `"zip"`: the service's own export; `"parquet"` or `"jsonl"`: the
            rows of `df`, typed.
        path
            The file; its directory must exist.

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
            There is nothing to export, or no more.
        ConnectionFailed
            The file broke off; nothing was written.
        """
        arguments.one_of("file_format", file_format, [*_FROM_SERVICE, *_OWN])
        target = arguments.file_path("path", path)
        if file_format == "parquet" or file_format == "jsonl":  # noqa: PLR1714 - for the checker
            call = CallOptions.of(session=self._connection, cache=True)
            result = await self._collected(call)
            await delivered(result, call)
            await asyncio.to_thread(exports.write, target, result.table, result.attrs, file_format)
            return target
        call = CallOptions.of(session=self._connection)
        async with self._connection.client(call.settings) as client:
            pieces = client.export(self.kind, self.job_id, file_format)
            async with aclosing(pieces) as arriving:
                await exports.write_pieces(target, arriving)
        if await asyncio.to_thread(exports.is_partial, target, file_format):
            warnings.warn(exports.PARTIAL_WARNING.format(path=target), stacklevel=2)
        return target

    export = synced(aexport)

    def __await__(self) -> Generator[Any, None, pd.DataFrame]:
        return self.adf().__await__()

    async def _collected(self, call: CallOptions) -> Result:
        """Return the rows, from a recording or into one where there is one."""
        if call.settings.replay is not None:
            return await recorded_jobs.replay_result(call.settings.replay, self._job_ref)
        result = await self._gathered(call)
        if call.settings.record is not None and result.whole:
            await recorded_jobs.record_result(call.settings.record, self._job_ref, result)
        return result

    async def _gathered(self, call: CallOptions) -> Result:
        """Return the rows, from the file of an earlier collection or from the service."""
        memory = ResultCache.of(self._job_ref.cache_key, call)
        kept = await asyncio.to_thread(self._kept, memory)
        if kept is not None:
            return Result.kept(kept)
        began = datetime.now(UTC)
        async with self._shown(call) as listener:
            async with self._connection.client(call.settings) as client:
                fetched = await runner.follow(
                    client,
                    self.kind,
                    self.job_id,
                    self.subject,
                    call=call,
                    report=partial(self._seen, listener),
                    cancel_remote=False,
                )
            listener.ended(fetched.outcome.status)
        if call.cache:
            memory.note(self._job_ref)
        return await asyncio.to_thread(
            Result.fresh,
            fetched,
            memory,
            shown=self._job_ref.shown,
            request=self._job_ref.request,
            began=began,
        )

    def _kept(self, memory: ResultCache) -> snapshots.Snapshot | None:
        if not memory.call.cache:
            return None
        job_ref = memory.job_ref(self.job_id)
        if job_ref is None or job_ref.file is None:
            return None
        return snapshots.read(Path(job_ref.file), job_ref.cache_key, self._job_ref.shown)

    # -------------------------------------------------------------------------------- how it looks

    def _line(self) -> str:
        what = f" {receipt.shorten(self.subject)}" if self.subject else ""
        of = "" if self._last.total is None else f" of {self._last.total}"
        rows = f"{self._last.completed}{of} {UNITS[self.kind]}"
        return f"{self.kind}{what}: {self._last.status.value}, {rows}"

    def __repr__(self) -> str:
        return f"Job({self.job_id!r}, {self._line()})"

    def _ipython_display_(self) -> None:
        """Show a live panel, where there can be one; else IPython asks for the bundle below."""
        if self._last.status.terminal:
            raise NotImplementedError
        try:
            call = CallOptions.of(session=self._connection)
        except InvalidArgument:  # of the options: a look at a job is no place to complain
            raise NotImplementedError from None
        if not possible(call):
            raise NotImplementedError
        self._watch.show(lambda: self._ended(call, self._shown(call, name=self.job_id)))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Show the last known state; a notebook's hook, which sends nothing."""
        _ = include, exclude
        return object_html.bundle(repr(self), self._line(), self.job_id)


def started(job_ref: JobRef, connection: Connection, *, remember: bool) -> Job:
    """Return the job of a job_ref that was just started."""
    if remember:
        ResultCache.of(job_ref.cache_key, CallOptions.of(session=connection)).note(job_ref)
    begun = Progress(
        job_id=job_ref.job_id,
        type=job_ref.kind,
        status=JobStatus.STARTED,
    )
    return Job(job_ref, connection, begun)


def checked_id(job_id: object) -> str:
    """Return the id of a job as a user gave it."""
    if not isinstance(job_id, str) or not job_id.strip():
        raise InvalidArgument("job_id must be the id of a job, as a string")
    return job_id.strip()
