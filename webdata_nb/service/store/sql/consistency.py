"""Finds contradictions in stored data: of counters and rows, ledgers and balances, contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from webdata_nb.service.store.page_contents import DamagedContent, content_text
from webdata_nb.service.store.records import Content
from webdata_nb.service.store.sql.connection import SqlRow, Transaction

MAX_PROBLEMS: Final = 100
_SLICE: Final = 100


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check with its problems, a line each, and what it found apart from them."""

    check: str
    problems: tuple[str, ...] = ()
    detail: str = ""


def find_contradictions(transaction: Transaction) -> Iterator[CheckResult]:
    """Run every check of the stored data, in a fixed order."""
    for check, statement, describe in _CHECKS:
        rows = transaction.rows(statement, limit=MAX_PROBLEMS)
        yield CheckResult(check, tuple(map(describe, rows)))
    yield CheckResult("contents", tuple(islice(_wrong_contents(transaction), MAX_PROBLEMS)))


def _wrong_contents(transaction: Transaction) -> Iterator[str]:
    """Describe contents that are missing, that no entry uses, or that are damaged."""
    for row in transaction.rows("missing_contents", limit=MAX_PROBLEMS):
        yield f"job {row['job_id']}: the content of entry {row['ordinal']} is missing"
    for row in transaction.rows("unused_contents", limit=MAX_PROBLEMS):
        yield f"content {bytes(row['id']).hex()}: no entry uses it"
    after = b""
    while rows := transaction.rows("contents", after=after, limit=_SLICE):
        after = rows[-1]["id"]
        for row in rows:
            if row["body"] is not None and (problem := _damage(row)):
                yield f"content {bytes(row['id']).hex()}: {problem}"


def _damage(row: SqlRow) -> str:
    try:
        content_text(Content(row["id"], row["body"], row["size"]))
    except DamagedContent as error:
        return str(error)
    return ""


def _describe_counts(row: SqlRow) -> str:
    return f"job {row['id']}: {row['counted']} counted, {row['found']} found"


def _describe_rows(row: SqlRow) -> str:
    return f"{_describe_counts(row)}, the last at position {row['upto'] - 1}"


def _describe_receipt(row: SqlRow) -> str:
    return f"{_describe_counts(row)} of outcome {row['outcome']}"


def _describe_balance(row: SqlRow) -> str:
    return (
        f"account {row['id']}: balance {row['monthly_left']} + {row['topup_left']} after "
        f"{row['lines']} lines, ledger {row['monthly']} + {row['topup']} in {row['found']}"
    )


_CHECKS: Final[tuple[tuple[str, str, Callable[[SqlRow], str]], ...]] = (
    ("visible rows", "wrong_published", _describe_rows),
    ("receipts", "wrong_receipts", _describe_receipt),
    ("ledger sums", "wrong_balances", _describe_balance),
    ("credits of jobs", "wrong_credits", _describe_counts),
    ("holds", "wrong_reservations", _describe_counts),
)
