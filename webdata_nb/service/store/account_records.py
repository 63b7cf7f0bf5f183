"""Accounts, API keys and credits as the store returns them. Times are Unix seconds, UTC."""

from __future__ import annotations

from dataclasses import dataclass

from webdata_nb.service.credits.ledger import Balance, LineKind, Terms


@dataclass(frozen=True, slots=True)
class Account:
    """An account; its balance is that of the billing period at the time it was read."""

    id: str
    name: str
    terms: Terms
    balance: Balance
    created_at: float


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without the key itself. It is invalid from `ends_at` on."""

    id: str
    name: str
    account_id: str
    account: str
    created_at: float
    ends_at: float | None


@dataclass(frozen=True, slots=True)
class OperationUsage:
    """Units and credits charged for one operation in a billing period."""

    platform: str
    operation: str
    units: int
    credits: int


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """An account's credits, active jobs and calls, and charges of the billing `period`."""

    account: Account
    period: tuple[float, float]
    active: int
    reserved: int
    used: tuple[OperationUsage, ...]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One stored line of an account's ledger, numbered from 1."""

    number: int
    at: float
    kind: LineKind
    monthly: int
    topup: int
    reservation_id: str | None
    platform: str | None
    operation: str | None
    units: int | None
    credits: int
