"""Finds contradictions between counters and rows, and between balances and ledgers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from webdata_nb.service.store.sql.connection import SqlRow, Transaction

MAX_PROBLEMS: Final = 100


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
