"""Merges batches of one lease into a few statements.

Merged statements hold only for batches whose entries are all new, which is the rule. Each of them
fails if it does not change the expected rows; the batches are then written one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from webdata_nb.service.store.records import CommitBatch, JournalEntry, Lease, UrlOutcome
from webdata_nb.service.store.sql.batch_commits import BatchCommit
from webdata_nb.service.store.sql.connection import NamedStatement, Transaction
from webdata_nb.service.store.sql.contents import content_values, in_order
from webdata_nb.service.store.sql.job_finish import JobFinish
from webdata_nb.service.store.sql.job_rows import lease_values


@dataclass(frozen=True, slots=True)
class MergedCommits:
    """Statements that write the batches of several changes, of which the last may end the job.

    They fail with a division by zero or a unique violation if a row is not as a first attempt finds
    it.
    `new_entries` has the number of entries of each change.
    """

    statements: Sequence[NamedStatement]
    new_entries: Sequence[int]
    job_finish: JobFinish | None = None


def merge_commits(changes: Sequence[Callable[[Transaction], Any]]) -> MergedCommits | None:
    """Merge commits of one lease, and its end; return None if that is not possible."""
    *earlier, last = changes
    job_finish = last if isinstance(last, JobFinish) else None
    commits = [*earlier, last if job_finish is None else job_finish.commit]
    merged, new_entries, leases = _MergedBatches(), [], {job_finish.lease} if job_finish else set()
    for commit in commits:
        if commit is None:  # the job ends without a batch
            new_entries.append(0)
        elif isinstance(commit, BatchCommit) and merged.add(commit.batch):
            new_entries.append(len(commit.batch.entries))
            leases.add(commit.lease)
        else:
            return None
    [lease, *others] = leases
    if others or lease.page_events or commits == [None]:
        return None
    return MergedCommits(merged.statements(lease), new_entries, job_finish)


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
            "outcome": None if self.outcome is None else _json(self.outcome),
            "is_progress": bool(self.entries or self.positions or self.url_outcomes),
            "published": len(self.positions),
            "min_published": max(self.positions.values(), default=-1) + 1,
        }
        statements: list[NamedStatement] = [("add_progress", progress)]
        if contents := [content_values(entry) for entry in in_order(self.entries.values())]:
            columns = {
                "ids": [each["id"] for each in contents],
                "bodies": [each["body"] for each in contents],
                "sizes": [each["size"] for each in contents],
            }
            statements.append(("put_new_contents", {"job_id": lease.job_id, **columns}))
        if self.entries:
            statements.append(("put_entries", {"job_id": lease.job_id, **self._entry_values()}))
        if stored:
            rows = [{"ordinal": ordinal, "position": position} for ordinal, position in stored]
            values = {"rows": _json(rows), "count": len(rows)}
            statements.append(("publish_entries", {"job_id": lease.job_id, **values}))
        if self.url_outcomes:
            statements.append(
                ("add_url_outcomes", {"job_id": lease.job_id, **self._outcome_values()})
            )
        return statements

    def _entry_values(self) -> dict[str, Any]:
        entries = self.entries.values()
        rows = [
            {
                "ordinal": entry.ordinal,
                "position": self.positions.get(entry.ordinal),
                "url": entry.url,
                "success": entry.success,
                "charged": ",".join(entry.charged),
                "visit": entry.visit,
            }
            for entry in entries
        ]
        return {
            "rows": _json(rows),
            "pages": [entry.page for entry in entries],
            "journals": [entry.journal for entry in entries],
            "content_ids": [entry.content and entry.content.id for entry in entries],
        }

    def _outcome_values(self) -> dict[str, Any]:
        outcomes = self.url_outcomes.values()
        rows = [
            {"url": each.url, "outcome": each.outcome, "detail": each.detail} for each in outcomes
        ]
        return {"rows": _json(rows), "counts": _json(Counter(each.outcome for each in outcomes))}


def _json(value: object) -> str:
    """Return values as one JSON text: psycopg would encode each value of an array in Python."""
    return orjson.dumps(value).decode()
