"""Writes a batch of an engine behind the fence of its lease.

A batch may be written again after a commit with an unknown result: stored entries stay as they are
and are not counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from webdata_nb.service.errors import LeaseLost, MissingRows
from webdata_nb.service.store.records import CommitBatch, JournalEntry, Lease, UrlOutcome
from webdata_nb.service.store.sql.connection import NamedStatement, Transaction
from webdata_nb.service.store.sql.contents import content_values, delete_unused, in_order
from webdata_nb.service.store.sql.job_rows import lease_values

_Values = dict[str, Any]


def write_batch(transaction: Transaction, lease: Lease, batch: CommitBatch) -> int:
    """Write a batch; return how many entries are new.

    Raises
    ------
    LeaseLost
        Another attempt has begun, or the job is over.
    MissingRows
        The batch updates or publishes entries that are not stored, publishes one at another
        position than it has, or before a row of a lower position.
    """
    job_id = lease.job_id
    _check_lease(transaction, lease, batch)
    _put_contents(transaction, job_id, batch.entries)
    hidden = [entry for entry in batch.entries if entry.position is None]
    visible = [
        _entry_values(job_id, entry) for entry in batch.entries if entry.position is not None
    ]
    new_hidden = transaction.execute_many(
        "put_entry", [_entry_values(job_id, entry) for entry in hidden]
    )
    new_visible = transaction.execute_many("put_entry", visible)
    if new_visible < len(visible):
        _check_published(transaction, visible)
    _update(transaction, job_id, batch.updates)
    newly_published = _publish(transaction, job_id, batch.published)
    new_outcomes = _add_url_outcomes(transaction, job_id, batch.url_outcomes)
    transaction.execute_many(
        "put_pinned_file",
        [{"job_id": job_id, "name": name, "body": body} for name, body in batch.pinned_files],
    )
    if new_hidden or new_visible or batch.updates or newly_published or new_outcomes:
        values = {"id": job_id, "published": new_visible + newly_published}
        [row] = transaction.rows("progressed", **values)
        _check_order(batch, row["published"])
    return new_hidden + new_visible


def _check_lease(transaction: Transaction, lease: Lease, batch: CommitBatch) -> None:
    fenced = transaction.execute(
        "check_lease",
        **lease_values(lease),
        total=batch.total,
        completed=batch.completed,
        outcome=None if batch.outcome is None else orjson.dumps(batch.outcome).decode(),
    )
    if not fenced:
        raise LeaseLost(lease.job_id)


def _put_contents(transaction: Transaction, job_id: str, entries: Sequence[JournalEntry]) -> None:
    """Write the contents of entries that are not stored yet."""
    for entry in in_order(entries):
        transaction.send(
            "put_new_content", job_id=job_id, ordinal=entry.ordinal, **content_values(entry)
        )


def _update(transaction: Transaction, job_id: str, entries: Sequence[JournalEntry]) -> None:
    places = [{"job_id": job_id, "ordinal": entry.ordinal} for entry in entries]
    statements: list[NamedStatement] = [
        *(("content_of_entry", place) for place in places),
        *(("put_content", {"job_id": job_id, **content_values(e)}) for e in in_order(entries)),
        *(("update_entry", _entry_values(job_id, entry)) for entry in entries),
    ]
    if not statements:
        return
    results = transaction.rows_of_each(statements)
    updated = sum(map(len, results[-len(entries) :]))
    if updated < len(entries):
        raise MissingRows(f"{len(entries)} stored rows were to change, {updated} were found")
    replaced = {row["content_id"] for rows in results[: len(entries)] for row in rows}
    delete_unused(transaction, replaced - {each.content and each.content.id for each in entries})


def _publish(transaction: Transaction, job_id: str, published: Sequence[tuple[int, int]]) -> int:
    """Make entries visible; return how many were not visible before."""
    rows: list[_Values] = [
        {"job_id": job_id, "ordinal": ordinal, "position": position}
        for ordinal, position in published
    ]
    newly_published = transaction.execute_many("publish", rows)
    if newly_published < len(rows):
        _check_published(transaction, rows)
    return newly_published


def _check_published(transaction: Transaction, rows: Sequence[_Values]) -> None:
    """Raise `MissingRows` unless each row is visible at its position, by an earlier attempt."""
    missing = [
        row["ordinal"]
        for row in rows
        if transaction.row(
            "published_at",
            job_id=row["job_id"],
            ordinal=row["ordinal"],
            position=row["position"],
        )
        is None
    ]
    if missing:
        raise MissingRows(
            f"{len(rows)} rows were to become visible, {len(missing)} of them are not stored or "
            f"have another position: {missing[:10]}"
        )


def _check_order(batch: CommitBatch, count: int) -> None:
    """Raise `MissingRows` unless the `count` visible rows have the positions below `count`."""
    positions = [position for _, position in batch.published]
    positions += [entry.position for entry in batch.entries if entry.position is not None]
    if positions and max(positions) >= count:
        raise MissingRows(f"row {max(positions)} was to become visible, rows before it are not yet")


def _add_url_outcomes(
    transaction: Transaction, job_id: str, url_outcomes: Sequence[UrlOutcome]
) -> int:
    """Add entries to the receipt and to its counts; return how many are new."""
    by_outcome: dict[str, list[_Values]] = {}
    for entry in url_outcomes:
        values = {"job_id": job_id, "url": entry.url, "outcome": entry.outcome}
        by_outcome.setdefault(entry.outcome, []).append({**values, "detail": entry.detail})
    total = 0
    for outcome, rows in by_outcome.items():
        added = transaction.execute_many("add_url_outcome", rows)
        if added:
            transaction.execute("count_url_outcomes", job_id=job_id, outcome=outcome, n=added)
        total += added
    return total


def _entry_values(job_id: str, entry: JournalEntry) -> _Values:
    return {
        "job_id": job_id,
        "ordinal": entry.ordinal,
        "position": entry.position,
        "url": entry.url,
        "success": entry.success,
        "page": entry.page,
        "journal": entry.journal,
        "charged": ",".join(entry.charged),
        "content_id": entry.content and entry.content.id,
        "visit": entry.visit,
    }
