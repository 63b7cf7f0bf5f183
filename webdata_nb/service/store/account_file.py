"""The file that moves accounts, keys and credits from one store to another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from webdata_nb.service.credits.ledger import LineKind
from webdata_nb.service.errors import AccountImportRefused

FORMAT: Final = "webdata accounts 1"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ExportedKey(_Record):
    """An API key: its hash, never the key itself."""

    id: str
    name: str
    hash: str
    created_at: float
    revoked_at: float | None


class ExportedLine(_Record):
    """A line of an account's ledger."""

    line: int
    at: float
    kind: LineKind
    monthly: int
    topup: int
    hold_id: str | None
    platform: str | None
    operation: str | None
    units: int | None
    credits: int


class ExportedReservation(_Record):
    """Credits that a job or a call held; an import gives them back, for neither of them moves."""

    id: str
    monthly: int
    topup: int
    period_start: float


class ExportedAccount(_Record):
    """An account with its keys and its whole ledger."""

    id: str
    name: str
    created_at: float
    plan: str
    monthly: int | None
    concurrency: int | None
    monthly_left: int
    topup_left: int
    period_start: float
    keys: list[ExportedKey]
    ledger: list[ExportedLine]
    reservations: list[ExportedReservation]

    @property
    def is_consistent(self) -> bool:
        """Whether the sums of the ledger are the balance, and no line is missing."""
        sums = (sum(each.monthly for each in self.ledger), sum(each.topup for each in self.ledger))
        numbers = [each.line for each in self.ledger]
        return sums == (self.monthly_left, self.topup_left) and numbers == [
            *range(1, len(numbers) + 1)
        ]


class AccountExport(_Record):
    """The accounts of a store."""

    format: Literal["webdata accounts 1"] = FORMAT
    accounts: list[ExportedAccount]


def write_account_file(path: Path, export: AccountExport) -> None:
    """Write a new file that only its owner can read, whole or not at all.

    Raises
    ------
    AccountImportRefused
        The file exists.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise AccountImportRefused(f"{path} exists already; name a new file") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(export.model_dump(), option=orjson.OPT_INDENT_2))
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise


def read_account_file(path: Path) -> AccountExport:
    """Return the accounts of a file; raises `AccountImportRefused` if it is damaged."""
    try:
        export = AccountExport.model_validate_json(path.read_bytes())
    except OSError as error:
        raise AccountImportRefused(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError:
        raise AccountImportRefused(f"{path} is not a whole file of `webdata keys export`") from None
    for account in export.accounts:
        if not account.is_consistent:
            raise AccountImportRefused(
                f"{path}: the credits of the account {account.name!r} are not the sum of its "
                "ledger; export it again"
            )
    return export
