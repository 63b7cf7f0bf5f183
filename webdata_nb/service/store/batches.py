"""Writes a batch of an engine inside a transaction, behind the fence of its lease.

A batch may be written again, after an attempt of which nobody knows how it ended: what is stored
already stays as it is and is not counted twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

import orjson

from webdata_nb.service.errors import LeaseLost, MissingRows
from webdata_nb.service.store.queries import queries
from webdata_nb.service.store.records import Batch, JournalEntry, Lease, UrlOutcome

_Q: Final = queries()
_Values = dict[str, Any]


def write(connection: sqlite3.Connection, lease: Lease, batch: Batch) -> int:
    """Write a batch, its first statement is the fence; return how many entries are new.

    Raises
    ------
    LeaseLost
        Another attempt exists, or the job is over.
    MissingRows
        The batch updates or publishes entries that are not stored, publishes one at another
        position than it has, or before a row of a lower position.
    """
    job_id = lease.job_id
    _check_lease(connection, lease, batch)
    hidden = [entry for entry in batch.entries if entry.position is None]
    visible = [entry for entry in batch.entries if entry.position is not None]
    added = _add(connection, job_id, hidden)
    shown = _add(connection, job_id, visible)
    if shown < len(visible):
        _check_visible(connection, [_entry(job_id, entry) for entry in visible])
    _update(connection, job_id, batch.updates)
    published = _publish(connection, job_id, batch.published)
    seen = _account(connection, job_id, batch.seen)
    connection.executemany(
        _Q["put_snapshot"],
        [{"job_id": job_id, "name": name, "body": body} for name, body in batch.snapshots],
    )
    if added or shown or batch.updates or published or seen:
        values = {"id": job_id, "published": shown + published}
        row = connection.execute(_Q["progressed"], values).fetchone()
        _check_order(batch, row["published"])
    return added + shown


def _check_lease(connection: sqlite3.Connection, lease: Lease, batch: Batch) -> None:
    held = connection.execute(
        _Q["hold"],
        {
            **of_lease(lease),
            "total": batch.total,
            "completed": batch.completed,
            "outcome": None if batch.outcome is None else orjson.dumps(batch.outcome).decode(),
        },
    )
    if not held.rowcount:
        raise LeaseLost(lease.job_id)


def _add(connection: sqlite3.Connection, job_id: str, entries: Sequence[JournalEntry]) -> int:
    return _count(connection, "put_entry", [_entry(job_id, entry) for entry in entries])


def _update(connection: sqlite3.Connection, job_id: str, entries: Sequence[JournalEntry]) -> None:
    updated = _count(connection, "update_page", [_entry(job_id, entry) for entry in entries])
    if updated < len(entries):
        raise MissingRows(f"{len(entries)} stored rows were to change, {updated} were found")


def _publish(
    connection: sqlite3.Connection, job_id: str, published: Sequence[tuple[int, int]]
) -> int:
    """Make entries visible; return how many were not so before."""
    rows: list[_Values] = [
        {"job_id": job_id, "ordinal": ordinal, "position": position}
        for ordinal, position in published
    ]
    fresh = _count(connection, "publish", rows)
    if fresh < len(rows):
        _check_visible(connection, rows)
    return fresh


def _check_visible(connection: sqlite3.Connection, rows: Sequence[_Values]) -> None:
    """Rows that an earlier attempt made visible have their position already; others must not be."""
    missing = [
        row["ordinal"]
        for row in rows
        if connection.execute(_Q["visible_at"], row).fetchone() is None
    ]
    if missing:
        raise MissingRows(
            f"{len(rows)} rows were to become visible, {len(missing)} of them are not stored or "
            f"have another position: {missing[:10]}"
        )


def _check_order(batch: Batch, count: int) -> None:
    """Rows become visible in their order: `count` of them have the positions below it."""
    named = [position for _, position in batch.published]
    named += [entry.position for entry in batch.entries if entry.position is not None]
    if named and max(named) >= count:
        raise MissingRows(f"row {max(named)} was to become visible, rows before it are not yet")


def _account(connection: sqlite3.Connection, job_id: str, seen: Sequence[UrlOutcome]) -> int:
    """Write what became of URLs, and count by outcome what is new."""
    by_outcome: dict[str, list[_Values]] = {}
    for each in seen:
        values = {"job_id": job_id, "url": each.url, "outcome": each.outcome}
        by_outcome.setdefault(each.outcome, []).append({**values, "detail": each.detail})
    total = 0
    for outcome, rows in by_outcome.items():
        added = _count(connection, "add_seen", rows)
        if added:
            counted = {"job_id": job_id, "outcome": outcome, "n": added}
            connection.execute(_Q["count_seen"], counted)
        total += added
    return total


def _count(connection: sqlite3.Connection, query: str, rows: Sequence[_Values]) -> int:
    """Run a statement for each of some values; return how many rows it touched."""
    return connection.executemany(_Q[query], rows).rowcount if rows else 0


def of_lease(lease: Lease) -> _Values:
    """Return the values of a lease that statements name."""
    return {"id": lease.job_id, "worker": lease.worker, "attempt": lease.attempt}


def _entry(job_id: str, entry: JournalEntry) -> _Values:
    return {
        "job_id": job_id,
        "ordinal": entry.ordinal,
        "position": entry.position,
        "url": entry.url,
        "success": entry.success,
        "page": entry.page,
        "journal": entry.journal,
        "charged": ",".join(entry.charged),
    }
