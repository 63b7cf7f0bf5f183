"""Runs one partition of a call's inputs, in this process or on a worker, and writes its part.

A partition may run more than once, at the same time even: its jobs are found by their idempotency
keys, and its part is replaced by an equal one.
"""

from __future__ import annotations

import asyncio
import hashlib
import platform
import threading
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from webdata_nb import __version__
from webdata_nb.errors import InvalidArgument, JobCancelled, WebdataError
from webdata_nb.settings import Options
from webdata_nb.toolkit.bridge import PORTAL
from webdata_nb.toolkit.calls import multi_input
from webdata_nb.toolkit.calls.executor import InputResult
from webdata_nb.toolkit.frames.parquet import PartDataset
from webdata_nb.toolkit.frames.receipt import MAX_LISTED_RUNS
from webdata_nb.toolkit.requests.call_options import CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import Input
from webdata_nb.toolkit.requests.options import OnError, OnIncomplete
from webdata_nb.toolkit.session import Connection

# A local service that was seen alive less than this many seconds ago is not looked for again.
_SEEN_S: Final = 1.0
_CHECK_CHARS: Final = 8


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


def lend_connection(call: PartitionCall, connection: Connection) -> None:
    """Let workers that are threads of this process use the connection of the call."""
    _CONNECTIONS.lent[call.run_id] = connection


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
    running = run(call, partition, concurrency, connection)
    return PORTAL.run(_run_unless_cancelled(running, partition.number, is_cancelled))


async def run(
    call: PartitionCall, partition: Partition, concurrency: int, connection: Connection
) -> PartitionOutcome:
    """Run a partition, and write its part unless it is there."""
    dataset = PartDataset(call.target)
    try:
        if await asyncio.to_thread(dataset.has_part, partition.number):
            stored = await asyncio.to_thread(dataset.figures_of, partition.number)
            return PartitionOutcome(partition.number, stored)
        figures = await _run_inputs(call, partition, concurrency, connection, dataset)
    except (WebdataError, OSError) as error:
        return PartitionOutcome(partition.number, error=error)
    return PartitionOutcome(partition.number, figures)


async def _run_inputs(
    call: PartitionCall,
    partition: Partition,
    concurrency: int,
    connection: Connection,
    dataset: PartDataset,
) -> dict[str, Any]:
    options = CallOptions(
        connection,
        connection.settings(Options(progress=False)),
        timeout_s=call.timeout_s,
        on_incomplete=call.on_incomplete,
        seen_s=_SEEN_S,
    )
    started_at = datetime.now(UTC)
    slots = asyncio.Semaphore(concurrency)

    async def run_one(item: Input) -> InputResult:
        if item.error is not None:
            return item.error
        async with slots:
            key = item.spec.idempotency_key(call.run_id)
            result = await multi_input.run_input(item.spec, replace(options, idempotency_key=key))
        await multi_input.raise_fatal_error(result, options, call.fan_out)
        return result

    tasks = [asyncio.create_task(run_one(item)) for item in partition.inputs]
    try:
        results = await asyncio.gather(*tasks)
    finally:
        await multi_input.cancel_and_wait(tasks)
    combined = await asyncio.to_thread(
        multi_input.stack, partition.inputs, results, options, call.fan_out, started_at
    )
    listed = max(0, MAX_LISTED_RUNS - partition.first)
    figures = {**combined.attrs, "runs": combined.attrs["runs"][:listed]}
    await asyncio.to_thread(
        dataset.write_part, partition.number, combined.table, figures, call.run_id
    )
    return figures


async def _run_unless_cancelled(
    running: Coroutine[Any, Any, PartitionOutcome],
    number: int,
    is_cancelled: Callable[[], bool],
) -> PartitionOutcome:
    """Wait for a partition, and cancel it once the call is cancelled; its jobs end then."""
    task = asyncio.create_task(running)
    cancel_check: asyncio.Task[bool] | None = None
    while not task.done():
        cancel_check = asyncio.create_task(asyncio.to_thread(is_cancelled))
        await asyncio.wait([task, cancel_check], return_when=asyncio.FIRST_COMPLETED)
        if cancel_check.done() and cancel_check.result() and not task.done():
            await multi_input.cancel_and_wait([task])
    if cancel_check is not None:
        cancel_check.cancel()
    return PartitionOutcome(number, error=JobCancelled("")) if task.cancelled() else task.result()
