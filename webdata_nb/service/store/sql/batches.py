"""Writes the batches of an engine, and the end of its job, behind the fence of a lease.

A batch may be written again after a commit with an unknown result: stored entries stay as they are
and are not counted twice. Batches of one lease that wait together are written as one set. All
statements of a set, and the commit, are sent in one round trip: the statement `begin_batch` marks
the job with the number of the set if all of it can be written, and the others look for the mark.
If it cannot, they are sent once more with the job locked before, to find the reason.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import orjson

from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.contract.replies import Receipt
from webdata_nb.service import ledger
from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import LeaseLost, MissingRows
from webdata_nb.service.store.records import (
    Checkpoint,
    CommitBatch,
    JobRecord,
    JobSnapshot,
    JournalEntry,
    Lease,
    UrlOutcome,
)
from webdata_nb.service.store.sql.accounts import (
    LockedCredits,
    count_rows,
    settle_job,
    settlement_statements,
)
from webdata_nb.service.store.sql.connection import NamedStatement, RowSet, SqlRow, Transaction
from webdata_nb.service.store.sql.contents import delete_unused
from webdata_nb.service.store.sql.job_rows import job_of_row, lease_values
from webdata_nb.service.store.sql.outbox import add_end_delivery, add_page_deliveries
from webdata_nb.service.store.sql.receipts import receipt_counts


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """A change that writes batches and the deliveries of the rows that they make visible."""

    lease: Lease
    batches: tuple[CommitBatch, ...]
    cipher: SecretCipher
    now: float

    def __call__(self, transaction: Transaction) -> None:
        """Write the batches."""
        self.write(transaction)

    def write(
        self, transaction: Transaction, then: Sequence[NamedStatement] = ()
    ) -> tuple[bool, list[Sequence[SqlRow]]]:
        """Write the batches, and run the statements that end the job in the same round trip.

        Returns
        -------
        bool
            Whether all entries are new.
        list
            The rows of each of the statements `then`.
        """
        published = [position for batch in self.batches for _, position in batch.published]
        has_deliveries = self.lease.page_events and bool(published)
        # The deliveries of pages are written before the job ends.
        later = then if has_deliveries else ()
        are_new, rows = write_batches(
            transaction,
            self.lease,
            self.batches,
            () if has_deliveries else then,
            is_last=not (then or has_deliveries),
        )
        if has_deliveries and (row := transaction.row("job_by_id", id=self.lease.job_id)):
            job = job_of_row(row, self.cipher)
            add_page_deliveries(transaction, job, min(published), self.now)
        return are_new, transaction.rows_of_each(later) if later else rows


@dataclass(frozen=True, slots=True)
class JobFinish:
    """A change that ends a running job behind the fence of its lease, after its last batches."""

    lease: Lease
    state: JobStatus
    error: str | None
    commit: BatchCommit
    cipher: SecretCipher
    now: float

    def __call__(self, transaction: Transaction) -> JobSnapshot:
        """Write the last batches, and end the job."""
        job_id = self.lease.job_id
        values = {**lease_values(self.lease), "state": self.state.value, "error": self.error}
        are_new, (ended, *settlement) = self.commit.write(
            transaction,
            [
                ("finish", {**values, "now": self.now}),
                *settlement_statements(job_id),
            ],
        )
        if not ended:
            raise LeaseLost(job_id)
        job = settle_end(transaction, ended[0], settlement, self.cipher, self.now)
        rows: tuple[bytes, ...] = ()
        if are_new:
            # The visible rows of the job, if its last batches have all of them.
            entries = [entry for batch in self.commit.batches for entry in batch.entries]
            visible = {each.position: each.page for each in entries if each.position is not None}
            is_whole = all(each.content_id is None for each in entries)
            if len(visible) == job.published and is_whole:
                rows = tuple(visible[position] or b"" for position in sorted(visible))
        counts = receipt_counts(settlement[-1])
        return JobSnapshot(job, rows, Receipt(counts=counts, examples={}))


def settle_end(
    transaction: Transaction,
    row: SqlRow,
    settlement: Sequence[Sequence[SqlRow]],
    cipher: SecretCipher,
    now: float,
) -> JobRecord:
    """Settle the credits of a job that has just ended, and write its webhook delivery."""
    job = job_of_row(row, cipher)
    cost = settle_job(transaction, row, settlement, now)
    if job.settled_rows:
        transaction.send("delete_crawl_state", job_id=job.id)
    add_end_delivery(transaction, job, now)
    return replace(job, credits=cost)


def join_commits(
    changes: Sequence[Callable[[Transaction], Any]],
) -> list[tuple[Callable[[Transaction], Any], int]]:
    """Join neighbouring commits of one lease; return each change with the number of its parts."""
    joined: list[tuple[Callable[[Transaction], Any], int]] = []
    for change in changes:
        earlier, count = joined[-1] if joined else (None, 0)
        commit = change.commit if isinstance(change, JobFinish) else change
        if (
            isinstance(earlier, BatchCommit)
            and isinstance(commit, BatchCommit)
            and commit.lease == earlier.lease
            # With webhooks of pages, each delivery reports the counts of its own batch.
            and not earlier.lease.page_events
        ):
            both = replace(earlier, batches=(*earlier.batches, *commit.batches))
            later = replace(change, commit=both) if isinstance(change, JobFinish) else both
            joined[-1] = (later, count + 1)
        else:
            joined.append((change, 1))
    return joined


def write_batches(
    transaction: Transaction,
    lease: Lease,
    batches: Sequence[CommitBatch],
    then: Sequence[NamedStatement] = (),
    *,
    is_last: bool = False,
) -> tuple[bool, list[Sequence[SqlRow]]]:
    """Write batches of a lease, and run further statements, in one round trip.

    Returns
    -------
    bool
        Whether all entries are new; known if the write is not the last of its transaction.
    list
        The rows of each of the statements `then`.

    Raises
    ------
    LeaseLost
        Another attempt has begun, or the job is over.
    MissingRows
        A batch updates or publishes entries that are not stored, publishes one at another
        position than it has, or before a row of a lower position.
    """
    if not batches:
        return True, transaction.rows_of_each(then)
    rows = _Rows(batches)
    mark = {"job_id": lease.job_id, "batch_id": secrets.randbits(63)}
    begin_batch: NamedStatement = ("begin_batch", {**lease_values(lease), **mark, **rows.begin()})
    row_sets = rows.row_sets(mark)
    if is_last and not rows.updates:
        [begun, *_] = transaction.rows_of_each([begin_batch, *row_sets], is_last=True)
        if begun:
            return True, []
    # Nothing was written: with the job locked, the reason is certain.
    held, begun, stored, *results = transaction.rows_of_each(
        [
            ("check_lease", lease_values(lease)),
            begin_batch,
            ("stored_entries", begin_batch[1]),
            *row_sets,
            *then,
        ]
    )
    if not held:
        raise LeaseLost(lease.job_id)
    if not begun:
        raise MissingRows(
            "rows were to change or to become visible that are not stored, have another position, "
            f"or come after rows that are not visible: {sorted(rows.ordinals)[:10]}"
        )
    if rows.updates:
        delete_unused(transaction, rows.replaced_contents(stored))
    are_new = not any(row["ordinal"] in rows.entries for row in stored)
    return are_new, results[len(row_sets) :]


class _Rows:
    """What batches write, as one set of rows."""

    def __init__(self, batches: Sequence[CommitBatch]) -> None:
        self._batches = batches
        self.entries: dict[int, JournalEntry] = {}
        self.updates: dict[int, JournalEntry] = {}
        self._positions: dict[int, int] = {}
        for batch in batches:
            for entry in batch.entries:
                self.entries.setdefault(entry.ordinal, entry)
                if entry.position is not None:
                    self._publish(entry.ordinal, entry.position)
            for ordinal, position in batch.published:
                self._publish(ordinal, position)
            self.updates.update((entry.ordinal, entry) for entry in batch.updates)
        outcomes: dict[str, UrlOutcome] = {}
        for each in (each for batch in batches for each in batch.url_outcomes):
            outcomes.setdefault(each.url, each)
        self._url_outcomes = [
            {"url": each.url, "outcome": each.outcome, "detail": each.detail}
            for each in outcomes.values()
        ]

    def _publish(self, ordinal: int, position: int) -> None:
        if self._positions.setdefault(ordinal, position) != position:
            raise MissingRows(f"row {ordinal} was to become visible at two positions")

    @property
    def ordinals(self) -> set[int]:
        """The ordinals of all entries that the batches name."""
        return self.entries.keys() | self.updates.keys() | self._positions.keys()

    def begin(self) -> dict[str, Any]:
        """Return the values of the statement `begin_batch`."""
        places = [
            {
                "ordinal": ordinal,
                "position": self._positions.get(ordinal),
                "is_stored": ordinal not in self.entries,
                "is_visible": ordinal in self.entries
                and self.entries[ordinal].position is not None,
            }
            for ordinal in self.ordinals
        ]
        totals = [each.total for each in self._batches if each.total is not None]
        outcomes = [each.outcome for each in self._batches if each.outcome is not None]
        completed = [each.completed for each in self._batches if each.completed is not None]
        return {
            "total": totals[-1] if totals else None,
            "completed": max(completed, default=None),
            "outcome": _json(outcomes[-1]) if outcomes else None,
            "has_updates": bool(self.updates),
            "places": _json(places),
            "url_outcomes": _json(self._url_outcomes),
        }

    def row_sets(self, values: Mapping[str, Any]) -> list[RowSet]:
        """Return the statements that write the rows, with further values of each."""
        entries: list[tuple[int | None, JournalEntry]] = [*self.entries.items()]
        entries += [(None, entry) for entry in self.updates.values()]
        contents = [
            {"ordinal": ordinal, "id": entry.content_id, "body": entry.body, "size": entry.size}
            for ordinal, entry in entries
            if entry.content_id is not None
        ]
        rows_of_each = {
            # In one order: transactions that write the same contents do not wait for each other in
            # a circle.
            "put_contents": sorted(contents, key=itemgetter("id")),
            "put_entries": [
                {**_entry_values(entry), "position": self._positions.get(ordinal)}
                for ordinal, entry in self.entries.items()
            ],
            "update_entries": list(map(_entry_values, self.updates.values())),
            "publish": [
                {"ordinal": ordinal, "position": position}
                for ordinal, position in self._positions.items()
                if ordinal not in self.entries
            ],
            "count_url_outcomes": self._url_outcomes,
            "add_url_outcomes": self._url_outcomes,
            "put_pinned_files": [
                {"name": name, "body": body}
                for batch in self._batches
                for name, body in batch.pinned_files
            ],
        }
        return [RowSet(name, rows, values) for name, rows in rows_of_each.items() if rows]

    def replaced_contents(self, stored: Sequence[SqlRow]) -> set[bytes | None]:
        """Return the contents that the updated entries had before, where they have another one."""
        before = {ordinal: entry.content_id for ordinal, entry in self.entries.items()}
        before |= {row["ordinal"]: row["content_id"] for row in stored}
        return {
            before[ordinal]
            for ordinal, entry in self.updates.items()
            if before[ordinal] != entry.content_id
        }


def _entry_values(entry: JournalEntry) -> dict[str, Any]:
    return {
        "ordinal": entry.ordinal,
        "url": entry.url,
        "success": entry.success,
        "page": entry.page,
        "journal": entry.journal,
        "charged": ",".join(entry.charged),
        "content_id": entry.content_id,
        "visit": entry.visit,
    }


def _json(value: object) -> str:
    """Return values as the JSON text of a parameter."""
    return orjson.dumps(value).decode()


@dataclass(frozen=True, slots=True)
class CheckpointChange:
    """A change that passes a checkpoint behind the fence of its lease."""

    lease: Lease
    checkpoint: Checkpoint
    now: float

    def __call__(self, transaction: Transaction) -> bool:
        """Return whether the lease continues."""
        job_id, checkpoint = self.lease.job_id, self.checkpoint
        batch = CommitBatch(pinned_files=checkpoint.pinned_files)
        write_batches(transaction, self.lease, [batch])
        if (state := checkpoint.state) is not None:
            transaction.send(
                "put_crawl_state",
                job_id=job_id,
                next_ordinal=state.next_ordinal,
                state=state.state,
            )
        # Charge for the rows, and reserve the credits of those that follow.
        settlement = transaction.rows_of_each(settlement_statements(job_id))
        charged_rows, [account_row], ended, _ = settlement
        row_counts = {row["charged"]: row["n"] for row in charged_rows}
        charges = ledger.final_charges("crawl", JobStatus.RUNNING, row_counts, any_row=True)
        account = LockedCredits(transaction, account_row, self.now)
        account.charge(ended, charges, count_rows("crawl", charged_rows))
        key_id = ended[0]["key_id"] if ended else None
        reserved = account.reserve(job_id, checkpoint.max_charges, key_id=key_id, is_renewal=True)
        rows = transaction.rows(
            "pass_checkpoint",
            **lease_values(self.lease),
            now=self.now,
            credits=sum(charge.credits for charge in charges),
            reserved=reserved,
        )
        if not rows:
            raise LeaseLost(job_id)
        return JobStatus(rows[0]["state"]) is JobStatus.RUNNING
