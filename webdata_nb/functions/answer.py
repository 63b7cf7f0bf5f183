"""Answers one call: from the cache or from the service, as a frame with its receipt."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from webdata_nb import bridge
from webdata_nb.client.client import Client
from webdata_nb.contract.fields import Strict
from webdata_nb.contract.states import JobStatus
from webdata_nb.display import progress as display
from webdata_nb.display.progress import Listener
from webdata_nb.errors import IncompleteResult, JobCancelled, JobFailed
from webdata_nb.functions import arguments
from webdata_nb.functions.blocking import salvage
from webdata_nb.functions.call import Call
from webdata_nb.functions.job import Fetched
from webdata_nb.functions.memory import Memory
from webdata_nb.tables import exports, frame, receipt, rows

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from webdata_nb.tables.schemas import TableName

Fetch = Callable[[Client, Call, Listener], Awaitable[Fetched]]


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of the service.

    `shown` are the frame's columns. `assumed` says whether every service shares our defaults,
    so that an argument left out and its default are one question to the cache.
    """

    op: TableName
    request: Strict
    subject: str
    shown: tuple[str, ...]
    fetch: Fetch
    total: int | None = None
    assumed: bool = False
    extent: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """Rows with their receipt, ready to become a frame."""

    table: pa.Table
    attrs: dict[str, Any]
    objects: dict[str, list[Any]] = field(default_factory=dict)


async def answer(ask: Ask, call: Call) -> pd.DataFrame:
    """Return the frame that `ask` stands for.

    Raises
    ------
    OfflineError
        Offline mode is on and the cache has no answer.
    JobFailed, JobCancelled, IncompleteResult
        The job did not give all its rows; what arrived is on the error.
    WebdataError
        Whatever the connection met.
    """
    scope = call.connection.scope(call.settings)
    whole = ask.assumed or scope.local
    params = arguments.resolved(ask.request) if whole else arguments.body(ask.request)
    memory = Memory.of(ask.op, scope, {**params, **dict(ask.extent)}, call)
    found = await asyncio.to_thread(memory.find, ask.shown)
    if found is not None:
        attrs = {**found.attrs, "cache": "hit", "file": str(found.path)}
        result = Result(found.table, attrs)
        return await _delivered(await _framed(result, call), result, call)
    began = datetime.now(UTC)
    fetched = await _fetched(ask, call)
    result = await asyncio.to_thread(_result, ask, call, memory, fetched, began)
    framed = await _framed(result, call)
    _judge(fetched, framed, call)
    return await _delivered(framed, result, call)


async def _fetched(ask: Ask, call: Call) -> Fetched:
    subject = receipt.short(ask.subject)
    listener = display.listener(f"{ask.op} {subject}", ask.total, call.settings.progress)
    # The bar is told the ending before the last tick, which draws it.
    with bridge.on_tick(listener.tick), listener:
        async with call.connection.client(call.settings) as client:
            return await ask.fetch(client, call, listener)


def _result(ask: Ask, call: Call, memory: Memory, fetched: Fetched, began: datetime) -> Result:
    """Turn rows into a table, and keep what is worth keeping."""
    ended = datetime.now(UTC)
    batch = rows.batch(ask.op, fetched.rows)
    attrs = receipt.attrs(
        fetched.outcome,
        request=arguments.public(ask.request),
        service=memory.scope.service,
        started_at=began,
        finished_at=ended,
    )
    if ask.op == "crawl":
        memory.note_crawl()
    path = memory.keep(batch.table, attrs, ended) if _worth_keeping(fetched) else None
    state = {"cache": "miss" if call.cache else "off", "file": path and str(path)}
    return Result(batch.table.select(list(ask.shown)), {**attrs, **state}, batch.objects)


def _worth_keeping(fetched: Fetched) -> bool:
    """Whether to answer later calls with this: only what is whole and not a passing failure.

    A search without rows or a crawl without a single good page may be a blocked engine or a site
    that is down for a minute, which must not stay true for a week.
    """
    outcome = fetched.outcome
    whole = outcome.status == JobStatus.COMPLETED and fetched.shortfall is None
    return whole and not fetched.interrupted and outcome.ok > 0


def _judge(fetched: Fetched, framed: pd.DataFrame, call: Call) -> None:
    """Raise or warn where a job did not end well; what arrived is on the error."""
    outcome, status = fetched.outcome, JobStatus(fetched.outcome.status)
    job_id, partial = outcome.job_id or "", framed if outcome.rows else None
    if fetched.interrupted:
        salvage(framed)
    elif fetched.late is not None:
        fetched.late.partial = partial
        raise fetched.late
    elif status is JobStatus.FAILED:
        raise JobFailed(job_id, fetched.reason or "the service gave no reason", partial)
    elif status is JobStatus.CANCELLED:
        if call.on_cancel == "raise":
            raise JobCancelled(job_id, partial)
    elif fetched.shortfall is not None:
        _complain(fetched.shortfall, framed, call)
    elif outcome.rows == 0:
        warnings.warn(receipt.why_empty(outcome), stacklevel=2)


def _complain(shortfall: IncompleteResult, framed: pd.DataFrame, call: Call) -> None:
    shortfall.frame = framed
    if call.on_incomplete == "raise":
        raise shortfall
    if call.on_incomplete == "warn":
        warnings.warn(f"incomplete result: {shortfall}", stacklevel=2)


async def _framed(result: Result, call: Call) -> pd.DataFrame:
    return await asyncio.to_thread(
        frame.build,
        result.table,
        attrs=result.attrs,
        dtype_backend=call.dtype_backend,
        objects=result.objects,
    )


async def _delivered(framed: pd.DataFrame, result: Result, call: Call) -> pd.DataFrame:
    """Write the rows where `out` wants them, and return the frame."""
    if call.out is not None:
        try:
            await asyncio.to_thread(exports.write, call.out, result.table, result.attrs)
        except OSError as error:
            error.add_note(f"the rows themselves are safe in {result.attrs['file']}")
            raise
    return framed
