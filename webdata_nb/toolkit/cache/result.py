"""The result of a call: rows with their receipt, and their delivery as a frame."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webdata_nb import caller
from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.errors import IncompleteResult, JobCancelled, JobError, WebdataError
from webdata_nb.toolkit.bridge import set_partial_result
from webdata_nb.toolkit.cache.snapshots import Snapshot
from webdata_nb.toolkit.frames import arrow_memory, exports, frame, receipt
from webdata_nb.toolkit.frames.receipt import JobOutcome
from webdata_nb.toolkit.frames.rows import TableBatch
from webdata_nb.toolkit.requests.call_options import CallOptions

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class CallResult:
    """Rows with their receipt `attrs`, whether fetched, cached, recorded or combined.

    A fetched result gets its `attrs` when the cache stores it. `outcome` tells how its job ended;
    `receipt_entries` is the full receipt of a crawl. `objects` are the Python values of JSON
    columns, where they are at hand.
    """

    table: pa.Table
    attrs: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, list[Any]] = field(default_factory=dict)
    outcome: JobOutcome | None = None
    receipt_entries: Sequence[ReceiptEntry] | None = None

    @classmethod
    def from_batch(cls, batch: TableBatch, outcome: JobOutcome) -> CallResult:
        """Return rows that the service sent."""
        return cls(batch.table, objects=batch.objects, outcome=outcome)

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, state: str = "hit") -> CallResult:
        """Return the rows of a cached file."""
        attrs = {**snapshot.attrs, "cache": state, "file": str(snapshot.path)}
        return cls(snapshot.table, attrs)

    @classmethod
    def from_recording(cls, path: Path, table: pa.Table, attrs: Mapping[str, Any]) -> CallResult:
        """Return the rows of a recording."""
        return cls(table, {**attrs, "cache": "replay", "file": str(path)})

    @property
    def complete(self) -> bool:
        """Whether every row is there."""
        return self.outcome is None or self.outcome.complete

    @property
    def cache_file(self) -> Path | None:
        """The cached file of these rows, where there is one."""
        file = self.attrs.get("file")
        return None if file is None else Path(file)

    def error(self) -> WebdataError | None:
        """Return the error that describes how the job ended; None where it succeeded."""
        return None if self.outcome is None else self.outcome.error()

    def without_creatives_of(self, earlier: Snapshot | None) -> CallResult:
        """Return the rows whose creative the earlier result did not have."""
        table = self.table
        if earlier is not None:
            known_ids = set(earlier.table["creative_id"].to_pylist())
            table = table.filter(
                [creative_id not in known_ids for creative_id in table["creative_id"].to_pylist()]
            )
        comparison = {
            "only_new": True,
            "compared_with": earlier and str(earlier.path),
            "known": self.table.num_rows - table.num_rows,
        }
        return replace(self, table=table, objects={}, attrs={**self.attrs, **comparison})


async def deliver(result: CallResult, options: CallOptions) -> pd.DataFrame:
    """Return the frame of a result, after writing it to `out` where the call names a file.

    Raises
    ------
    JobFailed, JobCancelled, JobTimeout, IncompleteResult
        Rows are missing; what arrived is on the error.
    """
    built = await asyncio.to_thread(_build_frame, result, options)
    if result.outcome is not None:
        _raise_or_warn(result.outcome, built, options)
    else:
        warn_of_shortcoming(result.attrs)
    if options.out is not None:
        try:
            await asyncio.to_thread(exports.write, options.out, result.table, result.attrs)
        except OSError as error:
            error.add_note(f"the rows themselves are safe in {result.attrs['file']}")
            raise
    return built


def _build_frame(result: CallResult, options: CallOptions) -> pd.DataFrame:
    built = frame.build(
        result.table,
        attrs=result.attrs,
        dtype_backend=options.dtype_backend,
        objects=result.objects,
    )
    if result.outcome is not None:
        arrow_memory.trim(result.table)
    return built


def _raise_or_warn(outcome: JobOutcome, built: pd.DataFrame, options: CallOptions) -> None:
    """Raise or warn where a job did not succeed; the error carries the rows that arrived."""
    error = outcome.error()
    if outcome.interrupted:
        set_partial_result(built)
    elif isinstance(error, JobCancelled) and options.on_cancel == "partial":
        return
    elif isinstance(error, JobError):
        error.partial = built if len(built) else None
        raise error
    elif isinstance(error, IncompleteResult):
        error.frame = built
        if options.on_incomplete == "raise":
            raise error
        if options.on_incomplete == "warn":
            caller.warn(f"incomplete result: {error}")
    elif outcome.rows == 0:
        caller.warn(receipt.empty_result_reason(outcome))
    else:
        warn_of_shortcoming(built.attrs[frame.ATTRS])


def warn_of_shortcoming(attrs: Mapping[str, Any]) -> None:
    """Warn where a receipt says that the rows may not be the wanted ones."""
    if attrs.get("warning"):
        caller.warn(f"{attrs['kind']} {attrs['subject']}: {attrs['warning']}")
