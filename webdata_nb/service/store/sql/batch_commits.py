"""Commits an engine's batches, and merges those of one lease into a few statements.

Merged statements hold only for batches whose entries are all new, which is the rule. Each of them
fails if it does not change the expected rows; the batches are then written one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.store.records import CommitBatch, JournalEntry, Lease, UrlOutcome
from webdata_nb.service.store.sql.batches import write_batch
from webdata_nb.service.store.sql.connection import Transaction
from webdata_nb.service.store.sql.job_rows import job_of_row, lease_values
from webdata_nb.service.store.sql.outbox import add_page_deliveries

NamedStatement = tuple[str, Mapping[str, Any]]
"""The name of a statement, and its values."""


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """A change that writes a batch and the deliveries of the rows that it makes visible."""

    lease: Lease
    batch: CommitBatch
    cipher: SecretCipher
    now: float

    def __call__(self, transaction: Transaction) -> int:
        """Write the batch; return its number of new entries."""
        new_entries = write_batch(transaction, self.lease, self.batch)
        published = self.batch.published
        if published and (row := transaction.row("job_by_id", id=self.lease.job_id)) is not None:
            first = min(position for _, position in published)
            add_page_deliveries(transaction, job_of_row(row, self.cipher), first, self.now)
        return new_entries


@dataclass(frozen=True, slots=True)
class MergedCommits:
    """Statements that write several batches, and the value of each batch's change.

    Each statement fails with a division by zero if a row is not as a first attempt finds it.
    """

    statements: Sequence[NamedStatement]
    values: Sequence[int]


def merge_commits(changes: Sequence[Callable[[Transaction], Any]]) -> MergedCommits | None:
    """Merge changes that are commits of one lease; return None if that is not possible."""
    commits = [change for change in changes if isinstance(change, BatchCommit)]
    if len(commits) < len(changes) or len({commit.lease for commit in commits}) != 1:
        return None
    lease, merged = commits[0].lease, _MergedBatches()
    if lease.page_events or not all(merged.add(commit.batch) for commit in commits):
        return None
    return MergedCommits(
        merged.statements(lease), [len(commit.batch.entries) for commit in commits]
    )


@dataclass(slots=True)
class _MergedBatches:
    """Batches of one lease as one."""

    entries: dict[int, JournalEntry] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    url_outcomes: dict[str, UrlOutcome] = field(default_factory=dict)
    total: int | None = None
    completed: int | None = None
    outcome: Mapping[str, Any] | None = None

    def add(self, batch: CommitBatch) -> bool:
        """Add a later batch; return whether that is possible."""
        if batch.updates or batch.pinned_files:
            return False
        known = self.entries.keys() | self.positions.keys()
        for entry in batch.entries:
            if entry.ordinal in known:
                return False
            self.entries[entry.ordinal] = entry
            if entry.position is not None:
                self.positions[entry.ordinal] = entry.position
        for ordinal, position in batch.published:
            if ordinal in self.positions:
                return False
            self.positions[ordinal] = position
        for each in batch.url_outcomes:
            self.url_outcomes.setdefault(each.url, each)
        self.total = self.total if batch.total is None else batch.total
        if batch.completed is not None:
            self.completed = max(batch.completed, self.completed or 0)
        self.outcome = self.outcome if batch.outcome is None else batch.outcome
        return True

    def statements(self, lease: Lease) -> list[NamedStatement]:
        """Return the statements; the first one is the fence."""
        stored = [item for item in self.positions.items() if item[0] not in self.entries]
        progress = {
            **lease_values(lease),
            "total": self.total,
            "completed": self.completed,
            "outcome": None if self.outcome is None else orjson.dumps(self.outcome).decode(),
            "is_progress": bool(self.entries or self.positions or self.url_outcomes),
            "published": len(self.positions),
            "min_published": max(self.positions.values(), default=-1) + 1,
        }
        statements: list[NamedStatement] = [("add_progress", progress)]
        if self.entries:
            statements.append(("put_entries", self._entry_arrays(lease.job_id)))
        if stored:
            ordinals, positions = map(list, zip(*stored, strict=True))
            arrays = {"ordinals": ordinals, "positions": positions, "count": len(stored)}
            statements.append(("publish_entries", {"job_id": lease.job_id, **arrays}))
        if self.url_outcomes:
            statements.append(("add_url_outcomes", self._outcome_arrays(lease.job_id)))
        return statements

    def _entry_arrays(self, job_id: str) -> dict[str, Any]:
        entries = self.entries.values()
        return {
            "job_id": job_id,
            "ordinals": list(self.entries),
            "positions": [self.positions.get(ordinal) for ordinal in self.entries],
            "urls": [entry.url for entry in entries],
            "successes": [entry.success for entry in entries],
            "pages": [entry.page for entry in entries],
            "journals": [entry.journal for entry in entries],
            "charged": [",".join(entry.charged) for entry in entries],
            "count": len(entries),
        }

    def _outcome_arrays(self, job_id: str) -> dict[str, Any]:
        outcomes = self.url_outcomes.values()
        return {
            "job_id": job_id,
            "urls": [each.url for each in outcomes],
            "outcomes": [each.outcome for each in outcomes],
            "details": [each.detail for each in outcomes],
            "count": len(outcomes),
        }
