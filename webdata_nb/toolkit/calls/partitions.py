"""Lists in partitions, here or on a Dask cluster; each partition leaves a Parquet part.

A partition may run more than once, at the same time even: its jobs are found by their idempotency
keys, and its part is replaced by an equal one. Parts that are there are not run again.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import logging
import platform
import secrets
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import orjson

from webdata_nb import __version__
from webdata_nb.errors import InvalidArgument, JobCancelled, OfflineError, WebdataError
from webdata_nb.settings import Options
from webdata_nb.suggestions import format_path
from webdata_nb.toolkit.bridge import PORTAL, set_partial_result
from webdata_nb.toolkit.cache.result_cache import deliver
from webdata_nb.toolkit.calls import budget
from webdata_nb.toolkit.calls.lists import (
    MAX_CONCURRENT_INPUTS,
    SEEN_S,
    ListRun,
    cancel_and_wait,
    stack,
)
from webdata_nb.toolkit.dask_executor import DaskExecutor
from webdata_nb.toolkit.display.bars import Inputs, View
from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.frames import input_rows, lazy_frame, receipt, storage
from webdata_nb.toolkit.frames.receipt import MAX_LISTED_RUNS
from webdata_nb.toolkit.frames.rows import CallResult
from webdata_nb.toolkit.frames.storage import Manifest, PartDataset, folder_errors
from webdata_nb.toolkit.jobs.sources import show_progress, unless_cancelled
from webdata_nb.toolkit.requests.arguments import CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import (
    Input,
    JobSpec,
    identity,
    refuse_invalid_inputs,
    representative,
    valid_specs,
)
from webdata_nb.toolkit.requests.options import OnError, OnIncomplete
from webdata_nb.toolkit.session import Connection

if TYPE_CHECKING:
    import pandas as pd
    from dask.dataframe import DataFrame as DaskFrame

log: Final = logging.getLogger("webdata_nb")

# Inputs of about ten seconds of work: searches without pages, other searches, single pages.
_BRIEF_SEARCHES: Final = 100
_SEARCHES: Final = 10
_PAGES: Final = 25
_LISTINGS: Final = 5
# The copy of the figures is written when it lacks this share of the parts, so that all copies of a
# call together take a time in proportion to the number of parts.
_SHARE_PER_COPY: Final = 0.2
_MIN_PARTS_PER_COPY: Final = 50
_SECRET_OPTIONS: Final = ("headers", "cookies")
_CHECK_CHARS: Final = 8


# -------------------------------------------------------------------------------- one partition


@dataclass(frozen=True, slots=True)
class PartitionCall:
    """What all partitions of a call have in common; it pickles, and contains no key.

    `settings_check` is a few characters of a salted hash of the key and the local settings: it
    tells whether a worker has those of the notebook, and nothing about them.
    """

    run_id: str
    target: Path | str
    base_url: str | None
    settings_check: str
    timeout_s: float | None
    on_incomplete: OnIncomplete
    on_error: OnError
    row_each: bool

    @property
    def fan_out(self) -> FanOutOptions:
        """How the inputs of a partition are run."""
        return FanOutOptions(self.on_error, row_each=self.row_each)


@dataclass(frozen=True, slots=True)
class Partition:
    """Some inputs of a call; `first` is the number of the first one, from 0."""

    number: int
    first: int
    inputs: tuple[Input, ...]


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """How a partition ended: the receipt of its part, or the error that ends the whole call."""

    number: int
    figures: dict[str, Any] | None = None
    error: WebdataError | OSError | None = None


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What a worker says of itself before the call."""

    version: str
    node: str
    problem: str | None


class _Connections:
    """The connections of this process: those that a notebook lends, and those of a worker."""

    def __init__(self) -> None:
        self.lent: weakref.WeakValueDictionary[str, Connection] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._own: dict[str | None, Connection] = {}

    def of_call(self, call: PartitionCall) -> Connection:
        lent = self.lent.get(call.run_id)
        if lent is not None:
            return lent
        with self._lock:
            if call.base_url not in self._own:
                self._own[call.base_url] = Connection(base_url=call.base_url)
            return self._own[call.base_url]


_CONNECTIONS: Final = _Connections()


def settings_check(connection: Connection, run_id: str) -> str:
    """Return the characters that tell whether a worker has the settings of the notebook."""
    scope = connection.scope(connection.settings())
    text = f"{run_id} {scope.service} {scope.identity}"
    return hashlib.sha256(text.encode()).hexdigest()[:_CHECK_CHARS]


def worker_state(call: PartitionCall) -> WorkerState:
    """Check this worker: its version, its settings, and that it sees the directory of the call."""
    return WorkerState(__version__, platform.node(), _problem(call))


def _problem(call: PartitionCall) -> str | None:
    try:
        connection = _CONNECTIONS.of_call(call)
        settings = connection.settings()
        check = settings_check(connection, call.run_id)
        manifest = PartDataset(call.target).read_manifest()
    except (WebdataError, OSError, ImportError) as error:
        return f"{type(error).__name__}: {error}"
    if check != call.settings_check and call.base_url is not None:
        if settings.api_key is None:
            return "it has no API key: set WEBDATA_API_KEY in the environment of the workers"
        return "its WEBDATA_API_KEY is another one than that of this call"
    if check != call.settings_check:
        return (
            "its WEBDATA_* variables name another service or other settings than this process has: "
            "set them before the workers start"
        )
    if manifest is None or manifest.run_id != call.run_id:
        return "it does not see the files in out: name a shared folder or an object store"
    return None


def run_on_worker(
    call: PartitionCall,
    partition: Partition,
    concurrency: int,
    is_cancelled: Callable[[], bool],
) -> PartitionOutcome:
    """Run a partition in a thread of a worker; every error is part of the outcome."""
    if problem := _problem(call):
        message = f"executor: a Dask worker on {platform.node()} cannot run partitions: {problem}"
        return PartitionOutcome(partition.number, error=InvalidArgument(message))
    connection = _CONNECTIONS.of_call(call)
    running = run_here(call, partition, concurrency, connection)
    try:
        return PORTAL.run(unless_cancelled(running, _until(is_cancelled)))
    except JobCancelled as error:
        return PartitionOutcome(partition.number, error=error)


async def run_here(
    call: PartitionCall, partition: Partition, concurrency: int, connection: Connection
) -> PartitionOutcome:
    """Run a partition, and write its part unless it is there."""
    dataset = PartDataset(call.target)
    try:
        if await asyncio.to_thread(dataset.has_part, partition.number):
            stored = await asyncio.to_thread(dataset.figures_of, partition.number)
            return PartitionOutcome(partition.number, stored)
        options = CallOptions(
            connection,
            connection.settings(Options(progress=False)),
            timeout_s=call.timeout_s,
            on_incomplete=call.on_incomplete,
            seen_s=SEEN_S,
        )
        started_at = datetime.now(UTC)
        inputs = partition.inputs
        run = ListRun(inputs, options, call.fan_out, None, concurrency, call.run_id)
        results, _ = await run.results()
        combined = await asyncio.to_thread(
            stack, inputs, results, options, call.fan_out, started_at
        )
        listed = max(0, MAX_LISTED_RUNS - partition.first)
        figures = {**combined.attrs, "runs": combined.attrs["runs"][:listed]}
        await asyncio.to_thread(
            dataset.write_part, partition.number, combined.table, figures, call.run_id
        )
    except (WebdataError, OSError) as error:
        return PartitionOutcome(partition.number, error=error)
    return PartitionOutcome(partition.number, figures)


async def _until(is_cancelled: Callable[[], bool]) -> None:
    while not await asyncio.to_thread(is_cancelled):
        pass


# ----------------------------------------------------------------------------- the whole call


@dataclass(frozen=True, slots=True)
class PartitionedCall:
    """A checked call: its inputs, options and files."""

    inputs: Sequence[Input]
    options: CallOptions
    fan_out: FanOutOptions
    dataset: PartDataset
    manifest: Manifest

    @property
    def call(self) -> PartitionCall:
        """What its partitions have in common."""
        connection = self.options.connection
        return PartitionCall(
            run_id=self.manifest.run_id,
            target=self.dataset.target,
            base_url=self.options.settings.base_url,
            settings_check=settings_check(connection, self.manifest.run_id),
            timeout_s=self.options.timeout_s,
            on_incomplete=self.options.on_incomplete,
            on_error=self.fan_out.on_error,
            row_each=self.fan_out.row_each,
        )

    def partition(self, number: int) -> Partition:
        """Return a partition by its number."""
        first = number * self.manifest.partition
        inputs = self.inputs[first : first + self.manifest.partition]
        return Partition(number, first, tuple(inputs))


async def run(
    inputs: Sequence[Input],
    options: CallOptions,
    fan_out: FanOutOptions,
    *,
    out: Path | str,
    lazy: bool,
) -> pd.DataFrame | DaskFrame:
    """Run the partitions that have no part yet, and return the frame of all parts.

    Raises
    ------
    InvalidArgument
        The options, the directory or the cluster do not fit; nothing was started.
    OverBudget
        The missing inputs may cost more than the call allows.
    ConnectionFailed, WorkerLost
        The Dask cluster does not answer, or was lost.
    """
    started_at = datetime.now(UTC)
    if lazy:
        await asyncio.to_thread(lazy_frame.require_dask)
    if fan_out.on_error == "raise":
        refuse_invalid_inputs(inputs)
    if inputs[0].spec.only_new:
        raise InvalidArgument("only_new compares with the cache, which partitions do not use")
    if options.settings.record is not None or options.settings.replay is not None:
        raise InvalidArgument(
            "partitions are neither recorded nor replayed: leave out executor= and lazy=, or end "
            "record() and replay()"
        )
    # Parts take the place of cached results.
    options = replace(options, cache=False, out=None)
    batch = await asyncio.to_thread(_open, inputs, options, fan_out, out)
    with folder_errors(out):
        found = await asyncio.to_thread(batch.dataset.numbers)
    figures = await asyncio.to_thread(batch.dataset.figures, found)
    missing = [number for number in range(batch.manifest.parts) if number not in found]
    interrupted = False
    if missing:
        await _check_before_start(batch, missing)
        interrupted = await _run_missing(batch, missing, figures)
    first, total, inputs_of = (
        representative(inputs),
        batch.manifest.inputs,
        batch.manifest.inputs_of,
    )
    attrs = receipt.of_partitions(
        [figures[number] for number in sorted(figures)],
        request=first.public_request,
        inputs=total,
        unfinished=total - sum(map(inputs_of, figures)),
        found=sum(map(inputs_of, found)),
        started_at=started_at,
        finished_at=datetime.now(UTC),
    )
    rows = {number: figures[number]["counts"]["rows"] for number in sorted(figures)}
    built: pd.DataFrame | DaskFrame
    if lazy:
        schema = input_rows.stacked_schema(first.spec.op, first.spec.columns, list(first.labels))
        built = await asyncio.to_thread(
            lazy_frame.build,
            batch.dataset,
            rows,
            schema,
            attrs=attrs,
            dtype_backend=options.dtype_backend,
        )
    else:
        table = await asyncio.to_thread(batch.dataset.read_parts, list(rows))
        built = await deliver(CallResult(table, attrs), options)
    if interrupted:
        set_partial_result(built)
    return built


# ------------------------------------------------------------------------------------------ checks


def _open(
    inputs: Sequence[Input], options: CallOptions, fan_out: FanOutOptions, out: Path | str
) -> PartitionedCall:
    """Open or create the directory of the call."""
    dataset = PartDataset(out)
    with folder_errors(out):
        manifest = dataset.read_manifest()
    if manifest is None:
        run_id = uuid.UUID(bytes=secrets.token_bytes(16)).hex
        mine = Manifest(
            format=storage.FORMAT,
            run_id=run_id,
            fingerprint=_fingerprint(run_id, inputs, options, fan_out),
            op=inputs[0].spec.op,
            inputs=len(inputs),
            partition=fan_out.partition or _default_partition(inputs[0].spec),
        )
        with folder_errors(out):
            manifest = dataset.create(mine)
    if manifest.fingerprint != _fingerprint(manifest.run_id, inputs, options, fan_out):
        raise InvalidArgument(
            f"out: {format_path(out)} has the parts of another call (a {manifest.op} of "
            f"{manifest.inputs} inputs): name another directory, or repeat that call"
        )
    if fan_out.partition not in (None, manifest.partition):
        raise InvalidArgument(
            f"partition must be {manifest.partition} or None, as in the call that began the parts "
            f"in out; it is {fan_out.partition}"
        )
    return PartitionedCall(inputs, options, fan_out, dataset, manifest)


def _fingerprint(
    run_id: str, inputs: Sequence[Input], options: CallOptions, fan_out: FanOutOptions
) -> str:
    """Return a salted hash of the requests, in which equal calls agree."""
    spec = representative(inputs).spec
    common = {
        "run_id": run_id,
        "op": spec.op,
        "service": options.connection.scope(options.settings).service,
        "columns": spec.columns,
        "row_each": fan_out.row_each,
        "on_incomplete": options.on_incomplete,
        "request": spec.params(local=False),
    }
    digest = hashlib.sha256(orjson.dumps(common, option=orjson.OPT_SORT_KEYS))
    for values in identity(inputs):
        digest.update(orjson.dumps(values))
    return digest.hexdigest()


def _default_partition(spec: JobSpec) -> int:
    if spec.op == "search":
        return _BRIEF_SEARCHES if spec.brief else _SEARCHES
    if spec.op == "creatives":
        return _LISTINGS
    return _PAGES if spec.total == 1 else 1


async def _check_before_start(batch: PartitionedCall, missing: Sequence[int]) -> None:
    """Check the cluster and the budget, before any work."""
    if batch.options.settings.offline:
        raise OfflineError(
            f"offline mode is on, and {len(missing)} of {batch.manifest.parts} parts are missing: "
            "nothing was sent"
        )
    executor = batch.fan_out.dask
    if executor is not None:
        # A scheduler would keep these values, and workers cannot read them elsewhere.
        body = batch.inputs[0].spec.body
        for name in _SECRET_OPTIONS:
            if body.get(name) or (body.get("scrape_options") or {}).get(name):
                raise InvalidArgument(
                    f"{name} are secrets, which a Dask scheduler would keep: run this call without "
                    "executor="
                )
        if any(item.spec.has_credentials for item in batch.inputs):
            raise InvalidArgument(
                "a URL with a password is a secret, which a Dask scheduler would keep: run this "
                "call without executor="
            )
        await asyncio.to_thread(_check_cluster, batch, executor)
    if batch.fan_out.budget is not None:
        inputs = [item for number in missing for item in batch.partition(number).inputs]
        await budget.check(valid_specs(inputs), batch.options, batch.fan_out.budget)


def _check_cluster(batch: PartitionedCall, executor: DaskExecutor) -> None:
    executor.check()
    call = batch.call
    # Workers that are threads of this process use it.
    _CONNECTIONS.lent[call.run_id] = batch.options.connection
    states = executor.run_on_each_worker(worker_state, call)
    base_url = batch.options.settings.base_url
    for address, state in states.items():
        if state.version != __version__:
            raise InvalidArgument(
                f"executor: the Dask worker {address} has webdata_nb {state.version} and this "
                f"process {__version__}: install the same version on both sides"
            )
        if state.node != platform.node() and _is_loopback(base_url):
            service = "the local service" if base_url is None else f"the service at {base_url}"
            raise InvalidArgument(
                f"executor: the Dask worker {address} runs on {state.node}, which cannot reach "
                f"{service} on {platform.node()}: set WEBDATA_BASE_URL to an address that workers "
                "can reach"
            )
        if state.problem is not None:
            raise InvalidArgument(
                f"executor: the Dask worker {address} cannot run partitions: {state.problem}"
            )


def _is_loopback(base_url: str | None) -> bool:
    if base_url is None:
        return True
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# ----------------------------------------------------------------------------------------- running


async def _run_missing(
    batch: PartitionedCall, missing: Sequence[int], figures: dict[int, dict[str, Any]]
) -> bool:
    """Run partitions, and add their figures; return whether an interrupt ended the call."""
    manifest = batch.manifest
    description = f"{manifest.op} of {manifest.inputs} inputs"
    view = View(description, manifest.parts, unit="partitions")
    async with show_progress(view, batch.options) as bar:
        try:
            await _PartitionRun(batch, bar, figures).run(missing)
        except asyncio.CancelledError:
            if batch.options.on_cancel != "partial" or not figures:
                raise
            return True
        finally:
            await asyncio.to_thread(batch.dataset.write_figures, figures)
        bar.ended("completed", f"{len(figures)} partitions")
    return False


class _Totals:
    """The sums over the parts so far, which the progress bar shows."""

    def __init__(self, manifest: Manifest, figures: Mapping[int, Mapping[str, Any]]) -> None:
        self._manifest = manifest
        self._parts = self._inputs = self._failed = 0
        self._credits: float | None = None
        for number, each in figures.items():
            self.add(number, each)

    def add(self, number: int, figures: Mapping[str, Any]) -> None:
        """Add a part."""
        self._parts += 1
        self._inputs += self._manifest.inputs_of(number)
        self._failed += figures["inputs"]["failed"]
        if figures["credits"] is not None:
            self._credits = (self._credits or 0) + figures["credits"]

    def show(self, bar: Listener) -> None:
        inputs = Inputs(self._manifest.inputs, self._inputs, self._failed)
        bar.update(completed=self._parts, credits=self._credits, inputs=inputs)


class _PartitionRun:
    """Runs partitions, as many at a time as there are threads, up to the call's own limit.

    The limit of concurrent inputs is divided among the partitions in flight.
    """

    def __init__(
        self, batch: PartitionedCall, bar: Listener, figures: dict[int, dict[str, Any]]
    ) -> None:
        self._batch, self._bar, self._figures = batch, bar, figures
        self._totals = _Totals(batch.manifest, figures)
        self._call = batch.call
        self._executor = batch.fan_out.dask
        self._free = MAX_CONCURRENT_INPUTS
        self._running: dict[asyncio.Task[PartitionOutcome], int] = {}
        self._copied = len(figures)

    async def run(self, missing: Sequence[int]) -> None:
        """Run every partition; the first error ends the others."""
        remaining = iter(missing)
        self._totals.show(self._bar)
        try:
            await self._fill(remaining)
            while self._running:
                done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._free += self._running.pop(task)
                    await self._finish(task.result())
                await self._fill(remaining)
        except BaseException:
            # Cancel the running partitions, on the workers as well.
            if self._executor is not None and self._running:
                try:
                    await asyncio.to_thread(self._executor.cancel)
                except WebdataError as error:
                    log.warning("the partitions on the workers could not be cancelled: %s", error)
            await cancel_and_wait(self._running)
            raise

    async def _fill(self, remaining: Iterator[int]) -> None:
        width = 1
        if self._executor is not None:
            threads = await asyncio.to_thread(self._executor.threads)
            width = max(1, min(threads, MAX_CONCURRENT_INPUTS, self._batch.manifest.parts))
        while len(self._running) < width and self._free:
            number = next(remaining, None)
            if number is None:
                return
            share = max(1, min(self._free, MAX_CONCURRENT_INPUTS // width))
            self._free -= share
            task = asyncio.create_task(self._run_one(self._batch.partition(number), share))
            self._running[task] = share

    async def _run_one(self, partition: Partition, share: int) -> PartitionOutcome:
        if self._executor is None:
            connection = self._batch.options.connection
            return await run_here(self._call, partition, share, connection)
        return await self._executor.submit(run_on_worker, self._call, partition, share)

    async def _finish(self, outcome: PartitionOutcome) -> None:
        if outcome.error is not None:
            raise outcome.error
        if outcome.figures is not None:
            self._figures[outcome.number] = outcome.figures
            self._totals.add(outcome.number, outcome.figures)
        self._totals.show(self._bar)
        count = len(self._figures)
        if count - self._copied >= max(_MIN_PARTS_PER_COPY, _SHARE_PER_COPY * count):
            self._copied = count
            await asyncio.to_thread(self._batch.dataset.write_figures, dict(self._figures))
