"""Rows with their receipt, on their way to being a frame."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webdata_nb.cache.fetched import Fetched
from webdata_nb.cache.result_cache import ResultCache
from webdata_nb.cache.snapshots import Snapshot
from webdata_nb.errors import IncompleteResult, JobCancelled, JobError, WebdataError
from webdata_nb.frames import arrow_memory, exports, frame, receipt, rows
from webdata_nb.requests.blocking import salvage
from webdata_nb.requests.call_options import CallOptions

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Result:
    """Rows with their receipt; `fetched`, without its rows, says how a fresh one came to be."""

    table: pa.Table
    attrs: dict[str, Any]
    objects: dict[str, list[Any]] = field(default_factory=dict)
    fetched: Fetched | None = None

    @property
    def whole(self) -> bool:
        """Whether every row is there."""
        fetched = self.fetched
        return fetched is None or (not fetched.interrupted and fetched.trouble() is None)

    @classmethod
    def kept(cls, found: Snapshot, state: str = "hit") -> Result:
        """Return what a cached file holds."""
        return cls(found.table, {**found.attrs, "cache": state, "file": str(found.path)})

    @classmethod
    def played(cls, path: Path, table: pa.Table, attrs: Mapping[str, Any]) -> Result:
        """Return what a recording holds."""
        return cls(table, {**attrs, "cache": "replay", "file": str(path)})

    @property
    def receipt_of(self) -> Path | None:
        """The cached file that the whole receipt lies beside, where there is one."""
        file = self.attrs.get("file")
        return None if file is None else Path(file)

    def without(self, before: Snapshot | None) -> Result:
        """Return the rows whose creative the earlier answer did not have."""
        table = _without(self.table, before)
        told = {
            "only_new": True,
            "compared_with": before and str(before.path),
            "known": self.table.num_rows - table.num_rows,
        }
        return replace(self, table=table, objects={}, attrs={**self.attrs, **told})

    @classmethod
    def fresh(
        cls,
        fetched: Fetched,
        memory: ResultCache,
        *,
        shown: tuple[str, ...],
        request: Mapping[str, Any],
        began: datetime,
    ) -> Result:
        """Turn what the service gave into a table, and keep what is worth keeping."""
        op, ended = memory.key.op, datetime.now(UTC)
        batch = fetched.batch
        attrs = receipt.build(
            fetched.outcome,
            request=request,
            service=memory.scope.service,
            started_at=began,
            finished_at=ended,
        )
        if op == "crawl":
            memory.note_crawl()
        path = memory.keep(batch.table, attrs, ended) if fetched.worth_keeping else None
        if path is not None and fetched.receipt is not None:
            memory.keep_receipt(path, fetched.receipt)
        memory.collected(fetched.outcome.job_id, path)
        state = {"cache": "miss" if memory.call.cache else "off", "file": path and str(path)}
        known = replace(fetched, batch=rows.joined(op, ()), receipt=None)
        return cls(batch.table.select(list(shown)), {**attrs, **state}, batch.objects, known)


def _without(table: pa.Table, before: Snapshot | None) -> pa.Table:
    if before is None:
        return table
    known = set(before.table["creative_id"].to_pylist())
    return table.filter([each not in known for each in table["creative_id"].to_pylist()])


async def delivered(result: Result, call: CallOptions) -> pd.DataFrame:
    """Return the frame of a result, after writing it where `out` wants it.

    Raises
    ------
    JobFailed, JobCancelled, JobTimeout, IncompleteResult
        The job did not give all its rows; what arrived is on the error.
    """
    framed = await as_frame(result, call)
    if result.fetched is not None:
        _judge(result.fetched, framed, call)
    else:
        warn_of(result.attrs)
    if call.out is not None:
        try:
            await asyncio.to_thread(exports.write, call.out, result.table, result.attrs)
        except OSError as error:
            error.add_note(f"the rows themselves are safe in {result.attrs['file']}")
            raise
    return framed


async def as_frame(result: Result, call: CallOptions) -> pd.DataFrame:
    """Return the frame of a result, whatever became of its job."""
    return await asyncio.to_thread(_framed, result, call)


def _framed(result: Result, call: CallOptions) -> pd.DataFrame:
    made = frame.build(
        result.table,
        attrs=result.attrs,
        dtype_backend=call.dtype_backend,
        objects=result.objects,
    )
    if result.fetched is not None:
        arrow_memory.give_back(result.table)
    return made


def _judge(fetched: Fetched, framed: pd.DataFrame, call: CallOptions) -> None:
    """Raise or warn where a job did not end well; what arrived is on the error."""
    if fetched.interrupted:
        salvage(framed)
    elif (trouble := fetched.trouble()) is not None:
        _complain(trouble, framed, call)
    elif fetched.outcome.rows == 0:
        warnings.warn(receipt.empty_result_reason(fetched.outcome), stacklevel=2)
    else:
        warn_of(framed.attrs[frame.ATTRS])


def warn_of(told: Mapping[str, Any]) -> None:
    """Warn where a receipt says that the rows may not be what was wanted."""
    if told.get("warning"):
        warnings.warn(f"{told['kind']} {told['subject']}: {told['warning']}", stacklevel=2)


def _complain(trouble: WebdataError, framed: pd.DataFrame, call: CallOptions) -> None:
    if isinstance(trouble, JobCancelled) and call.on_cancel == "partial":
        return
    if isinstance(trouble, JobError):
        trouble.partial = framed if len(framed) else None
        raise trouble
    if isinstance(trouble, IncompleteResult):
        trouble.frame = framed
    if call.on_incomplete == "raise":
        raise trouble
    if call.on_incomplete == "warn":
        warnings.warn(f"incomplete result: {trouble}", stacklevel=2)
