"""Writes the batches of an engine, and the end of its job, behind the fence of a lease.

A batch may be written again after a commit with an unknown result: stored entries stay as they are
and are not counted twice. Batches of one lease that wait together are written as one set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from webdata_nb.contract.replies import Receipt
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.credits import tariff
from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import LeaseLost, MissingRows
from webdata_nb.service.store.records import (
    CommitBatch,
    JobRecord,
    JobSnapshot,
    JournalEntry,
    Lease,
    LegEnd,
    UrlOutcome,
)
from webdata_nb.service.store.sql.connection import SqlRow, Transaction
from webdata_nb.service.store.sql.contents import delete_unused
from webdata_nb.service.store.sql.credit_reservations import (
    LockedCredits,
    settle_job,
    settlement_statements,
)
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

    def __call__(self, transaction: Transaction) -> int:
        """Write the batches; return their number of new entries."""
        new_entries = write_batches(transaction, self.lease, self.batches)
        published = [position for batch in self.batches for _, position in batch.published]
        if published and self.lease.page_events:
            row = transaction.row("job_by_id", id=self.lease.job_id)
            if row is not None:
                job = job_of_row(row, self.cipher)
                add_page_deliveries(transaction, job, min(published), self.now)
        return new_entries


@dataclass(frozen=True, slots=True)
class JobFinish:
    """A change that ends a running job behind the fence of its lease, after its last batches."""

    lease: Lease
    state: JobStatus
    error: str | None
    commit: BatchCommit | None
    cipher: SecretCipher
    now: float

    def __call__(self, transaction: Transaction) -> JobSnapshot:
        """Write the last batches, and end the job."""
        new_entries = 0 if self.commit is None else self.commit(transaction)
        job_id = self.lease.job_id
        values = {**lease_values(self.lease), "state": self.state.value, "error": self.error}
        ended, counts, *settlement = transaction.rows_of_each(
            [
                ("finish", {**values, "now": self.now}),
                ("receipt_counts", {"job_id": job_id}),
                *settlement_statements(job_id),
            ]
        )
        if not ended:
            raise LeaseLost(job_id)
        job = settle_end(transaction, ended[0], settlement, self.cipher, self.now)
        rows = self._all_rows(job, new_entries)
        return JobSnapshot(job, rows, Receipt(counts=receipt_counts(counts), examples={}))

    def _all_rows(self, job: JobRecord, new_entries: int) -> tuple[bytes, ...]:
        """Return the visible rows of the job if its last batches have all of them."""
        batches = () if self.commit is None else self.commit.batches
        entries = [entry for batch in batches for entry in batch.entries]
        visible = {each.position: each.page for each in entries if each.position is not None}
        is_whole = all(each.content is None for each in entries)
        if len(visible) != job.published or new_entries < len(entries) or not is_whole:
            return ()
        return tuple(visible[position] or b"" for position in sorted(visible))


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


def apply_together(
    transaction: Transaction, changes: Sequence[Callable[[Transaction], Any]]
) -> list[Any]:
    """Apply changes in order, neighbouring commits of one lease as one; return their values.

    A commit that was joined with a later change has the value None.
    """
    joined: list[tuple[Callable[[Transaction], Any], int]] = []
    for change in changes:
        both = _join(joined[-1][0], change) if joined else None
        if both is None:
            joined.append((change, 1))
        else:
            joined[-1] = (both, joined[-1][1] + 1)
    values: list[Any] = []
    for change, count in joined:
        values += [*[None] * (count - 1), change(transaction)]
    return values


def _join(
    earlier: Callable[[Transaction], Any], later: Callable[[Transaction], Any]
) -> BatchCommit | JobFinish | None:
    """Return two changes as one; None if they are no commits of a lease.

    With webhooks of pages, each delivery reports the counts of its own batch.
    """
    if not isinstance(earlier, BatchCommit) or earlier.lease.page_events:
        return None
    commit = later.commit if isinstance(later, JobFinish) else later
    if commit is None:
        both = earlier
    elif isinstance(commit, BatchCommit) and commit.lease == earlier.lease:
        both = replace(earlier, batches=(*earlier.batches, *commit.batches))
    else:
        return None
    if not isinstance(later, JobFinish):
        return both
    return replace(later, commit=both) if later.lease == earlier.lease else None


def write_batches(transaction: Transaction, lease: Lease, batches: Sequence[CommitBatch]) -> int:
    """Write batches of a lease; return how many entries are new.

    One round trip checks the lease, locks the job and finds what is stored; the statements that
    write need no result and travel with what comes next in the transaction.

    Raises
    ------
    LeaseLost
        Another attempt has begun, or the job is over.
    MissingRows
        A batch updates or publishes entries that are not stored, publishes one at another
        position than it has, or before a row of a lower position.
    """
    job_id = lease.job_id
    outcomes: dict[str, UrlOutcome] = {}
    for each in (each for batch in batches for each in batch.url_outcomes):
        outcomes.setdefault(each.url, each)
    outcome_rows = [
        {"url": each.url, "outcome": each.outcome, "detail": each.detail}
        for each in outcomes.values()
    ]
    leases, stored, added = transaction.rows_of_each(
        [
            ("check_lease", lease_values(lease)),
            ("stored_entries", {"job_id": job_id, "ordinals": _json(_ordinals(batches))}),
            ("add_url_outcomes", {"job_id": job_id, "rows": _json(outcome_rows)}),
        ]
    )
    if not leases:
        raise LeaseLost(job_id)
    writes = _Writes(stored, leases[0]["published"])
    for batch in batches:
        writes.add(batch)
    writes.send(transaction, job_id, leases[0]["account_id"])
    files = [
        {"job_id": job_id, "name": name, "body": body}
        for batch in batches
        for name, body in batch.pinned_files
    ]
    transaction.write_rows("put_pinned_files", files)
    if added:
        counts = Counter(row["outcome"] for row in added)
        transaction.send("count_url_outcomes", job_id=job_id, counts=_json(counts))
    is_progress = bool(writes.new or writes.updates or writes.newly_published or added)
    transaction.send("progress", id=job_id, **writes.job_values(batches), is_progress=is_progress)
    return len(writes.new)


def _ordinals(batches: Sequence[CommitBatch]) -> list[int]:
    """Return the ordinals of all entries that batches name."""
    ordinals = {ordinal for batch in batches for ordinal, _ in batch.published}
    for batch in batches:
        ordinals.update(entry.ordinal for entry in (*batch.entries, *batch.updates))
    return sorted(ordinals)


class _Writes:
    """What batches change in the entries of a job, of which `stored` are there already."""

    def __init__(self, stored: Sequence[SqlRow], published: int) -> None:
        self.new: dict[int, JournalEntry] = {}
        self.updates: dict[int, JournalEntry] = {}
        self.newly_published: dict[int, int] = {}
        self._stored_content_ids = {row["ordinal"]: row["content_id"] for row in stored}
        self._positions: dict[int, int | None] = {row["ordinal"]: row["position"] for row in stored}
        self._published = published

    def add(self, batch: CommitBatch) -> None:
        """Add a batch after the earlier ones; raises `MissingRows`."""
        visible, misplaced = list(batch.published), []
        for entry in batch.entries:
            if entry.ordinal not in self._positions:
                self.new[entry.ordinal] = entry
                self._positions[entry.ordinal] = None
                if entry.position is not None:
                    visible.append((entry.ordinal, entry.position))
            elif entry.position not in {None, self._positions[entry.ordinal]}:
                misplaced.append(entry.ordinal)
        missing = [each for each in batch.updates if each.ordinal not in self._positions]
        if missing:
            found = len(batch.updates) - len(missing)
            raise MissingRows(
                f"{len(batch.updates)} stored rows were to change, {found} were found"
            )
        self.updates.update((entry.ordinal, entry) for entry in batch.updates)
        for ordinal, position in visible:
            present = self._positions.get(ordinal)
            if ordinal not in self._positions or present not in {None, position}:
                misplaced.append(ordinal)
            elif present is None:
                self._positions[ordinal] = self.newly_published[ordinal] = position
        if misplaced:
            raise MissingRows(
                f"{len(misplaced)} rows were to become visible that are not stored or have another "
                f"position: {misplaced[:10]}"
            )
        last = max((position for _, position in visible), default=-1)
        if last >= self._published + len(self.newly_published):
            raise MissingRows(f"row {last} was to become visible, rows before it are not yet")

    def send(self, transaction: Transaction, job_id: str, account_id: str) -> None:
        """Write the entries and their contents."""
        contents = {
            content.id: {
                "id": content.id,
                "account_id": account_id,
                "body": content.body,
                "size": content.size,
            }
            for entry in (*self.new.values(), *self.updates.values())
            if (content := entry.content) is not None
        }
        # In one order: transactions that write the same contents do not wait for each other in a
        # circle.
        transaction.write_rows("put_contents", [contents[each] for each in sorted(contents)])
        new = [
            _entry_values(job_id, entry) | {"position": self.newly_published.get(ordinal)}
            for ordinal, entry in self.new.items()
        ]
        transaction.write_rows("put_entries", new)
        updates = [_entry_values(job_id, entry) for entry in self.updates.values()]
        transaction.write_rows("update_entries", updates)
        positions = [
            {"job_id": job_id, "ordinal": ordinal, "position": position}
            for ordinal, position in self.newly_published.items()
            if ordinal not in self.new
        ]
        transaction.write_rows("publish", positions)
        delete_unused(transaction, self._replaced_contents())

    def _replaced_contents(self) -> set[bytes | None]:
        before = self._stored_content_ids | {
            ordinal: entry.content and entry.content.id for ordinal, entry in self.new.items()
        }
        return {
            before[ordinal]
            for ordinal, entry in self.updates.items()
            if before[ordinal] != (entry.content and entry.content.id)
        }

    def job_values(self, batches: Sequence[CommitBatch]) -> dict[str, Any]:
        """Return the new values of the job."""
        totals = [each.total for each in batches if each.total is not None]
        outcomes = [each.outcome for each in batches if each.outcome is not None]
        return {
            "published": len(self.newly_published),
            "total": totals[-1] if totals else None,
            "completed": max(
                (b.completed for b in batches if b.completed is not None), default=None
            ),
            "outcome": _json(outcomes[-1]) if outcomes else None,
        }


def _entry_values(job_id: str, entry: JournalEntry) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "ordinal": entry.ordinal,
        "url": entry.url,
        "success": entry.success,
        "page": entry.page,
        "journal": entry.journal,
        "charged": ",".join(entry.charged),
        "content_id": entry.content and entry.content.id,
        "visit": entry.visit,
    }


def _json(value: object) -> str:
    """Return values as one JSON text: a set of rows in one parameter on both databases."""
    return orjson.dumps(value).decode()


@dataclass(frozen=True, slots=True)
class LegChange:
    """A change that ends a leg behind the fence of its lease, and begins the next one."""

    lease: Lease
    leg_end: LegEnd
    now: float

    def __call__(self, transaction: Transaction) -> bool:
        """Return whether the lease continues."""
        job_id, leg_end = self.lease.job_id, self.leg_end
        batch = CommitBatch(pinned_files=leg_end.pinned_files)
        write_batches(transaction, self.lease, [batch])
        if (state := leg_end.state) is not None:
            transaction.send(
                "put_crawl_state",
                job_id=job_id,
                next_ordinal=state.next_ordinal,
                state=state.state,
            )
        credits_, reserved = self._settle(transaction)
        values = {**lease_values(self.lease), "now": self.now}
        rows = transaction.rows("end_leg", **values, credits=credits_, reserved=reserved)
        if not rows:
            raise LeaseLost(job_id)
        return JobStatus(rows[0]["state"]) is JobStatus.RUNNING

    def _settle(self, transaction: Transaction) -> tuple[int, int | None]:
        """Charge for the leg and reserve the next one; return the credits of both."""
        job_id = self.lease.job_id
        charged_rows, [account_row], ended = transaction.rows_of_each(settlement_statements(job_id))
        row_counts = {row["charged"]: row["n"] for row in charged_rows}
        charges = tariff.final_charges("crawl", JobStatus.RUNNING, row_counts, any_row=True)
        account = LockedCredits(transaction, account_row, self.now)
        account.charge(ended, charges)
        reserved = account.reserve(job_id, self.leg_end.max_charges, is_renewal=True)
        return sum(charge.credits for charge in charges), reserved
