"""Accounts, their keys and their credits: reserved, charged, exported and imported."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from webdata_nb.contract.choices import DEFAULT_SCOPES, KEY_SCOPES, KeyScope
from webdata_nb.contract.outcomes import JobKind, JobStatus
from webdata_nb.service import ledger
from webdata_nb.service.errors import (
    AccountImportRefused,
    AccountSuspended,
    ConcurrencyReached,
    CreditsUsedUp,
    NoSuchAccount,
)
from webdata_nb.service.ledger import (
    LOCAL_TERMS,
    Balance,
    Charge,
    LedgerLine,
    LineKind,
    Reservation,
    Terms,
)
from webdata_nb.service.observability.logs import Caller
from webdata_nb.service.store.records import (
    Account,
    AccountContents,
    AccountUsage,
    ApiKey,
    LedgerEntry,
    OperationUsage,
)
from webdata_nb.service.store.sql.connection import (
    QUEUE_LANE,
    Lane,
    NamedStatement,
    SqlDatabase,
    SqlRow,
    Transaction,
)

FORMAT: Final = "webdata accounts 2"


def parse_scopes(text: str) -> tuple[KeyScope, ...]:
    """Return the scopes of a text that separates them by commas; raises `ValueError`."""
    names = {name.strip() for name in text.split(",")}
    if unknown := sorted(names.difference(KEY_SCOPES)):
        raise ValueError(f"scopes are {', '.join(KEY_SCOPES)}, not {unknown[0]!r}")
    return tuple(scope for scope in KEY_SCOPES if scope in names)


def scopes_text(scopes: frozenset[KeyScope]) -> str:
    """Return the scopes of a key for people."""
    if scopes == DEFAULT_SCOPES:
        return "all but admin"
    return ",".join(scope for scope in KEY_SCOPES if scope in scopes) or "none"


def scopes_of(text: str | None) -> frozenset[KeyScope]:
    """Return the scopes of a stored key; names of another release open nothing."""
    if text is None:
        return DEFAULT_SCOPES
    names = text.split(",")
    return frozenset(scope for scope in KEY_SCOPES if scope in names)


class _Record(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, strict=True)


class ExportedKey(_Record):
    """An API key: its hash, never the key itself."""

    id: str
    name: str
    hash: str
    created_at: float
    scopes: str | None
    ends_at: float | None
    last_used_at: float | None

    @field_validator("scopes")
    @classmethod
    def _check_scopes(cls, text: str | None) -> str | None:
        return text if text is None else ",".join(parse_scopes(text))


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
    suspended_at: float | None = None
    deleted_at: float | None = None
    cleared_at: float | None = None
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

    format: Literal["webdata accounts 2"] = FORMAT
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


# Nobody knows when a job ends: this only spreads the callers' next attempts.
RETRY_S: Final = 2


def account_of_row(row: SqlRow, now: float) -> tuple[Account, list[LedgerLine]]:
    """Return an account, and the lines that a new billing period adds to its ledger."""
    terms = Terms(row["plan"], row["monthly"], row["concurrency"])
    balance, lines = ledger.renew_period(_balance_of_row(row), terms, row["created_at"], now)
    account = Account(
        row["id"],
        row["name"],
        terms,
        balance,
        row["created_at"],
        suspended_at=row["suspended_at"],
        deleted_at=row["deleted_at"],
        cleared_at=row["cleared_at"],
    )
    return account, lines


def _balance_of_row(row: SqlRow) -> Balance:
    return Balance(row["monthly_left"], row["topup_left"], row["period_start"])


UsageCounts = Mapping[tuple[str, str, str], int]
"""Amounts by fact, kind and label; see the table `usage`."""
_NO_COUNTS: Final[UsageCounts] = MappingProxyType({})


def add_usage(
    transaction: Transaction, account_id: str, key_id: str | None, counts: UsageCounts, now: float
) -> None:
    """Count what a key of an account has used."""
    write_usage(
        transaction, {(account_id, key_id or "", *key): n for key, n in counts.items()}, now
    )


def write_usage(
    transaction: Transaction, counts: Mapping[tuple[str, str, str, str, str], int], now: float
) -> None:
    """Count usage by account, key, fact, kind and label."""
    names = ("account_id", "key_id", "fact", "kind", "label")
    # In one order: processes that count the same do not wait for each other in a circle.
    rows = [
        {**dict(zip(names, key, strict=True)), "amount": amount}
        for key, amount in sorted(counts.items())
        if amount
    ]
    if rows:
        day = utc_day(now)
        transaction.send("add_usage", rows=orjson.dumps(rows).decode(), day=day, now=now)


def utc_day(now: float) -> str:
    """Return the date of a time in UTC, by which usage is counted."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def _charge_counts(charges: Iterable[Charge]) -> UsageCounts:
    counts: Counter[tuple[str, str, str]] = Counter()
    for charge in charges:
        counts["units", charge.platform, charge.operation] += charge.units
        counts["credits", charge.platform, charge.operation] += charge.credits
    return counts


class LockedCredits:
    """An account's credits, locked until the transaction ends.

    Locking begins the account's billing period, if it is a new one.
    """

    def __init__(self, transaction: Transaction, locked_row: SqlRow, now: float) -> None:
        self._transaction, self._now = transaction, now
        row = locked_row
        self._line_count: int = row["lines"]
        self._stored_balance = _balance_of_row(row)
        account, period_lines = account_of_row(row, now)
        self.account: Account = account
        self._post(self.account.balance, period_lines, None)

    @classmethod
    def lock(cls, transaction: Transaction, account_id: str, now: float) -> Self:
        """Lock an account; raises `NoSuchAccount`."""
        row = transaction.row("lock_account", id=account_id)
        if row is None:
            raise NoSuchAccount(f"no account {account_id}")
        return cls(transaction, row, now)

    def reserve(
        self,
        reservation_id: str,
        charges: Sequence[Charge],
        *,
        key_id: str | None,
        until: float | None = None,
        is_renewal: bool = False,
    ) -> int | None:
        """Count one more job or call of a key, and reserve its credits.

        A renewal is of a job that runs already: the limit of active jobs does not apply.

        Returns
        -------
        int or None
            The credits reserved; None if the account has no limit.

        Raises
        ------
        AccountSuspended, ConcurrencyReached, CreditsUsedUp
            Nothing was changed.
        """
        account_id, terms = self.account.id, self.account.terms
        if self.account.suspended_at is not None:
            raise AccountSuspended
        values = {"account_id": account_id, "now": self._now}
        expired, active_rows = self._transaction.rows_of_each(
            [("expired_reservations", values), ("active_reservations", values)]
        )
        self._release(expired)
        active = int(active_rows[0]["active"])
        limit = None if is_renewal else terms.concurrency
        if limit is not None and active >= limit:
            raise ConcurrencyReached(limit=limit, active=active, retry_after=RETRY_S)
        credits_needed = sum(charge.credits for charge in charges)
        reserved = ledger.reserve(self.account.balance, terms, credits_needed)
        if reserved is None:
            _, period_end = ledger.billing_period(self.account.created_at, self._now)
            raise CreditsUsedUp(
                needed=credits_needed,
                left=self.account.balance.left,
                limit=terms.concurrency,
                active=active,
                retry_after=max(1, round(period_end - self._now)),
            )
        reservation, lines = reserved
        self._transaction.send(
            "add_reservation",
            id=reservation_id,
            account_id=account_id,
            until=until,
            monthly=reservation.monthly,
            topup=reservation.topup,
            period_start=reservation.period_start,
            key_id=key_id,
        )
        self.post(lines, reservation_id)
        return None if terms.monthly is None else credits_needed

    def settle(self, reservation_id: str, charges: Sequence[Charge]) -> None:
        """End a reservation and charge for what was used; one that has ended stays settled."""
        self.charge(self._transaction.rows("end_reservation", id=reservation_id), charges)

    def charge(
        self,
        ended: Sequence[SqlRow],
        charges: Sequence[Charge],
        counts: UsageCounts = _NO_COUNTS,
    ) -> None:
        """Charge for what was used of a reservation that this transaction ends, if it does.

        `counts` is what else its key has used.
        """
        for row in ended:
            reservation = Reservation(row["monthly"], row["topup"], row["period_start"])
            lines = ledger.settle(self.account.balance, reservation, charges)
            self.post(lines, row["id"])
            charged = _charge_counts(line.charge for line in lines if line.charge)
            self.count(row["key_id"], {**counts, **charged})

    def count(self, key_id: str | None, counts: UsageCounts) -> None:
        """Count what a key of the account has used."""
        add_usage(self._transaction, self.account.id, key_id, counts, self._now)

    def release_expired(self) -> None:
        """Settle the calls past their time without a charge: their process has died."""
        self._release(
            self._transaction.rows(
                "expired_reservations", account_id=self.account.id, now=self._now
            )
        )

    def _release(self, expired: Sequence[SqlRow]) -> None:
        for row in expired:
            self.settle(row["id"], ())

    def post(self, lines: Sequence[LedgerLine], reservation_id: str | None = None) -> None:
        """Add lines to the ledger, and their sums to the balance."""
        self._post(ledger.apply(self.account.balance, lines), lines, reservation_id)

    def _post(
        self, balance: Balance, lines: Sequence[LedgerLine], reservation_id: str | None
    ) -> None:
        for line in lines:
            self._line_count += 1
            charge = line.charge
            self._transaction.send(
                "add_ledger_line",
                account_id=self.account.id,
                line=self._line_count,
                at=self._now,
                kind=line.kind,
                monthly=line.monthly,
                topup=line.topup,
                hold_id=reservation_id,
                platform=charge and charge.platform,
                operation=charge and charge.operation,
                units=charge and charge.units,
                credits=charge.credits if charge else 0,
            )
        self.account = replace(self.account, balance=balance)
        if not lines and balance == self._stored_balance:
            return
        self._stored_balance = balance
        self._transaction.send(
            "set_balance",
            id=self.account.id,
            monthly_left=balance.monthly_left,
            topup_left=balance.topup_left,
            period_start=balance.period_start,
            lines=self._line_count,
        )


def settlement_statements(job_id: str) -> list[NamedStatement]:
    """Return the statements whose rows `settle_job` receives: they lock the job's account."""
    return [
        ("charged_rows", {"job_id": job_id}),
        ("lock_account_of_job", {"id": job_id}),
        ("end_reservation", {"id": job_id}),
        ("receipt_counts", {"job_id": job_id}),
    ]


def settle_job(
    transaction: Transaction, job_row: SqlRow, settlement: Sequence[Sequence[SqlRow]], now: float
) -> int:
    """Charge for the visible rows of a job that has just ended, and count it; return its credits.

    `settlement` has the rows of the `settlement_statements`, run after the job's end.
    """
    charged_rows, [account_row], ended, outcomes = settlement
    row_counts = {row["charged"]: row["n"] for row in charged_rows}
    kind: JobKind = job_row["kind"]
    charges = ledger.final_charges(
        kind, JobStatus(job_row["state"]), row_counts, any_row=job_row["published"] > 0
    )
    counts = Counter({("jobs", kind, job_row["state"]): 1}) + count_rows(kind, charged_rows)
    for row in outcomes:
        counts["urls", kind, row["outcome"]] += row["n"]
    for attempt in orjson.loads(job_row["outcome"]).get("fallback_chain", []):
        counts["attempts", attempt["provider"], attempt["status"]] += 1
    account = LockedCredits(transaction, account_row, now)
    account.charge(ended, charges, counts)
    if not ended:
        account.count(job_row["key_id"], counts)
    cost: int = job_row["settled_credits"] + sum(charge.credits for charge in charges)
    transaction.send("set_job_credits", id=job_row["id"], credits=cost)
    return cost


def count_rows(kind: str, charged_rows: Sequence[SqlRow]) -> Counter[tuple[str, str, str]]:
    """Return the usage of the rows that a settlement charges for."""
    return Counter(
        {
            ("rows", kind, ""): sum(row["n"] for row in charged_rows),
            ("bytes", kind, ""): int(sum(row["bytes"] for row in charged_rows)),
        }
    )


R = TypeVar("R", bound=BaseModel)
MAX_CACHED_KEYS: Final = 1024
# How exact the time of a key's last use is.
USE_INTERVAL_S: Final = 60.0
_ACCOUNT_COLUMNS: Final = (
    *("id", "name", "created_at", "plan", "monthly", "concurrency"),
    *("monthly_left", "topup_left", "period_start", "suspended_at", "deleted_at", "cleared_at"),
)


class AccountStore:
    """Accounts, their API keys and their credits."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        self._cached_keys: dict[str, Caller] = {}
        self._cache_version = 0
        # When keys were used since the last write, and when their uses were written, by their ids.
        self._uses: dict[str, float] = {}
        self._written_uses: dict[str, float] = {}

    async def ensure(self, account_id: str, name: str, *, now: float) -> None:
        """Create an account without limits, unless it exists."""
        await self._database.write(
            "add_account", id=account_id, name=name, now=now, **_terms_values(LOCAL_TERMS)
        )

    async def add(self, account_id: str, name: str, terms: Terms, *, now: float) -> None:
        """Create an account, with its first month's credits.

        Raises `NoSuchAccount` if there is an account of that name.
        """

        def change(transaction: Transaction) -> None:
            values = {"id": account_id, "name": name, "now": now, **_terms_values(terms)}
            if not transaction.execute("add_account", **values):
                raise NoSuchAccount(
                    f"there is an account named {name!r} already; `webdata keys create --account "
                    f"{name}` makes another key for it"
                )
            LockedCredits.lock(transaction, account_id, now)

        await self._database.change(change)

    async def all(self, *, now: float) -> list[Account]:
        """Return every account, oldest first."""
        return [account_of_row(row, now)[0] for row in await self._database.read("accounts")]

    async def named(self, name: str, *, now: float) -> Account:
        """Return the account of that name; raises `NoSuchAccount`."""
        return await self._database.query(lambda transaction: _load_account(transaction, name, now))

    async def set_terms(self, name: str, terms: Terms, *, now: float) -> None:
        """Change an account's terms at once; the credits used this month stay used."""

        def change(transaction: Transaction) -> None:
            credits_ = LockedCredits.lock(
                transaction, _load_account(transaction, name, now).id, now
            )
            account = credits_.account
            credits_.post(ledger.change_terms(account.balance, account.terms, terms))
            transaction.execute("set_terms", id=account.id, **_terms_values(terms))

        await self._database.change(change)

    async def top_up(self, name: str, amount: int, *, now: float) -> Account:
        """Add credits that do not expire."""

        def change(transaction: Transaction) -> Account:
            credits_ = LockedCredits.lock(
                transaction, _load_account(transaction, name, now).id, now
            )
            credits_.post([LedgerLine("topup", 0, amount)])
            return credits_.account

        return await self._database.change(change)

    async def suspend(self, name: str, *, now: float) -> Account:
        """Refuse an account's keys, stop its jobs and send no webhooks, until it is resumed.

        Running jobs return to the queue; they continue where they were. Repeating it changes
        nothing more.
        """

        def change(transaction: Transaction) -> tuple[Account, list[str]]:
            # Of a claim at the same time either finds the account suspended, or its jobs are here.
            transaction.send("lock_queue")
            account = _load_account(transaction, name, now)
            stopped = transaction.rows("stop_jobs", account_id=account.id)
            transaction.execute("suspend_account", id=account.id, now=now)
            return _load_account(transaction, name, now), [row["id"] for row in stopped]

        account, job_ids = await self._database.change(change, lane=QUEUE_LANE)
        await self._notify_workers(job_ids)
        return account

    async def _notify_workers(self, job_ids: Iterable[str]) -> None:
        """Have processes that run some jobs look at once whether they still hold them."""
        for job_id in job_ids:
            await self._database.change(_change_nothing, lane=Lane(job_id))

    async def resume(self, name: str, *, now: float) -> Account:
        """End the suspension of an account; its jobs and webhooks continue."""

        def change(transaction: Transaction) -> Account:
            account = _load_account(transaction, name, now)
            transaction.execute("resume_account", id=account.id)
            return account

        return await self._database.change(change, lane=QUEUE_LANE)

    async def contents(self, name: str) -> AccountContents:
        """Count what a deletion of an account deletes; raises `NoSuchAccount`."""

        def query(transaction: Transaction) -> AccountContents:
            row = _account_row(transaction, name)
            [counts] = transaction.rows("account_contents", account_id=row["id"])
            return AccountContents(
                account_id=row["id"],
                jobs=counts["jobs"],
                active_jobs=counts["active_jobs"],
                rows=counts["rows"],
                deliveries=counts["deliveries"],
                keys=counts["keys"],
                segments=counts["segments"],
                bytes=counts["bytes"],
            )

        return await self._database.query(query)

    async def mark_deleted(self, name: str, *, now: float) -> str:
        """Begin to delete an account: its keys are deleted, and it is suspended; return its id.

        Raises `NoSuchAccount`.
        """

        def change(transaction: Transaction) -> tuple[str, list[str]]:
            transaction.send("lock_queue")
            row = _account_row(transaction, name)
            account_id = str(row["id"])
            stopped = transaction.rows("stop_jobs", account_id=account_id)
            transaction.execute("mark_account_deleted", id=account_id, now=now)
            transaction.execute("delete_keys", account_id=account_id)
            return account_id, [each["id"] for each in stopped]

        account_id, job_ids = await self._database.change(change, lane=QUEUE_LANE)
        await self._notify_workers(job_ids)
        return account_id

    async def active_jobs(self, account_id: str, *, limit: int) -> list[str]:
        """Return some of an account's pending and running jobs."""
        rows = await self._database.read("active_jobs_of", account_id=account_id, limit=limit)
        return [str(row["id"]) for row in rows]

    async def end_of_calls(self, account_id: str, *, now: float) -> float | None:
        """Return when the calls of an account that are under way end; None without one."""
        if await self._database.read("expired_reservations", account_id=account_id, now=now):
            await self._release_expired_calls(account_id, now)
        [row] = await self._database.read("end_of_calls", account_id=account_id, now=now)
        return None if row["ends_at"] is None else float(row["ends_at"])

    async def clear(self, account_id: str, *, now: float) -> bool:
        """Free the name of an account of which only the ledger is left; return whether it is."""

        def change(transaction: Transaction) -> bool:
            transaction.execute("delete_keys", account_id=account_id)
            remains = transaction.row("remains_of_account", account_id=account_id)
            if remains is None or remains["n"]:
                return False
            transaction.execute("clear_account", id=account_id, now=now)
            return True

        return await self._database.change(change)

    async def deleted(self, *, since: float) -> list[str]:
        """Return the ids of the accounts whose deletion began after a time."""
        rows = await self._database.read("deleted_accounts", since=since)
        return [str(row["id"]) for row in rows]

    async def add_key(
        self,
        key_id: str,
        account_id: str,
        name: str,
        key_hash: str,
        *,
        now: float,
        scopes: Sequence[KeyScope] | None = None,
        ends_at: float | None = None,
    ) -> None:
        """Add an API key, given by its hash; without scopes it has all but `admin`."""
        await self._database.write(
            "add_key",
            id=key_id,
            account_id=account_id,
            name=name,
            hash=key_hash,
            now=now,
            scopes=None if scopes is None else ",".join(scopes),
            ends_at=ends_at,
        )

    async def keys(self, account_id: str | None = None) -> list[ApiKey]:
        """Return all keys ever made, of one account or of all, oldest first."""
        return [
            ApiKey(
                row["id"],
                row["name"],
                row["account_id"],
                row["account"],
                row["created_at"],
                scopes_of(row["scopes"]),
                row["ends_at"],
                row["last_used_at"],
            )
            for row in await self._database.read("keys", account_id=account_id)
        ]

    async def end_key(self, key_id: str, *, at: float) -> None:
        """End a key at a time, or at an earlier one set before; raises `NoSuchAccount`."""

        def change(transaction: Transaction) -> None:
            _load_key(transaction, key_id)
            transaction.execute("end_key", id=key_id, at=at)

        await self._database.change(change)

    async def rotate_key(
        self,
        key_id: str,
        new_id: str,
        key_hash: str,
        *,
        ends_at: float,
        new_ends_at: float | None = None,
        now: float,
    ) -> float | None:
        """Add a key of the same account, name and scopes, and end the old one at `ends_at`.

        The new key ends at `new_ends_at`, or else when the old one was to end: a rotation does not
        prolong an expiry. Returns that time, None if it does not end.
        """

        def change(transaction: Transaction) -> float | None:
            old = _load_key(transaction, key_id)
            until: float | None = old["ends_at"] if new_ends_at is None else new_ends_at
            if old["ends_at"] is not None and old["ends_at"] <= now:
                raise NoSuchAccount(f"key {key_id} is over; create a new one instead")
            transaction.execute(
                "add_key",
                id=new_id,
                account_id=old["account_id"],
                name=old["name"],
                hash=key_hash,
                now=now,
                scopes=old["scopes"],
                ends_at=until,
            )
            transaction.execute("end_key", id=key_id, at=ends_at)
            return until

        return await self._database.change(change)

    async def caller(self, key_hash: str, *, now: float) -> Caller | None:
        """Return the account, id and scopes of a valid key, or None.

        A key that another process ends is refused from then on. `write_uses` stores the use. Raises
        `AccountSuspended`.
        """
        version = self._database.data_version()
        if version != self._cache_version or len(self._cached_keys) > MAX_CACHED_KEYS:
            self._cached_keys, self._cache_version = {}, version
        caller = self._cached_keys.get(key_hash)
        if caller is None:
            cache = self._cached_keys  # another one, if the version changes meanwhile
            rows = await self._database.read("valid_key", hash=key_hash, now=now)
            if not rows:
                return None
            [row] = rows
            if row["suspended_at"] is not None:
                raise AccountSuspended
            scopes, key_id = scopes_of(row["scopes"]), str(row["id"])
            caller = Caller(str(row["account_id"]), key_id, scopes, row["ends_at"])
            cache[key_hash] = caller
        if caller.ends_at is not None and caller.ends_at <= now:
            return None
        if caller.key_id is not None:
            self._uses[caller.key_id] = now
        return caller

    async def write_uses(self, *, now: float) -> None:
        """Store when keys were used, each key at most once in `USE_INTERVAL_S`."""
        due = {
            key_id: used_at
            for key_id, used_at in sorted(self._uses.items())
            if now - self._written_uses.get(key_id, -USE_INTERVAL_S) >= USE_INTERVAL_S
        }
        if not due:
            return
        # In the order of the ids, in which other processes lock the rows too.
        values = [
            {"id": key_id, "at": used_at, "interval_s": USE_INTERVAL_S}
            for key_id, used_at in due.items()
        ]
        await self._database.change(lambda change: change.execute_many("use_key", values))
        self._written_uses = {
            key_id: at for key_id, at in self._written_uses.items() if now - at < USE_INTERVAL_S
        } | dict.fromkeys(due, now)
        for key_id, used_at in due.items():
            if self._uses[key_id] == used_at:  # not used again meanwhile
                del self._uses[key_id]

    async def open_call(
        self,
        account_id: str,
        call_id: str,
        max_charges: Sequence[Charge],
        *,
        key_id: str | None = None,
        until: float,
        now: float,
    ) -> None:
        """Count a call of a key as active until `until` and reserve its credits.

        Raises `AccountLimitReached`.
        """

        def change(transaction: Transaction) -> None:
            LockedCredits.lock(transaction, account_id, now).reserve(
                call_id, max_charges, key_id=key_id, until=until
            )

        await self._database.change(change)

    async def close_call(
        self, account_id: str, call_id: str, charges: Sequence[Charge], *, now: float
    ) -> None:
        """End a call and charge for it."""

        def change(transaction: Transaction) -> None:
            LockedCredits.lock(transaction, account_id, now).settle(call_id, charges)

        await self._database.change(change)

    async def expire_calls(self) -> None:
        """End the calls of a process that died; only for a process that is alone on the store."""
        await self._database.write("expire_calls")

    async def release_expired_calls(self, *, now: float) -> None:
        """Give back the credits that calls past their time have reserved."""
        for row in await self._database.read("accounts_with_expired_reservations", now=now):
            await self._release_expired_calls(row["account_id"], now)

    async def _release_expired_calls(self, account_id: str, now: float) -> None:
        await self._database.change(
            lambda transaction: LockedCredits.lock(transaction, account_id, now).release_expired()
        )

    async def usage(self, account_id: str, *, now: float) -> AccountUsage:
        """Return an account's credits and charges; raises `NoSuchAccount`."""
        if await self._database.read("expired_reservations", account_id=account_id, now=now):
            await self._release_expired_calls(account_id, now)
        return await self._database.query(
            lambda transaction: read_usage(transaction, account_id, now)
        )

    async def ledger(self, account_id: str) -> list[LedgerEntry]:
        """Return an account's whole ledger in order; its sums are the balance."""
        return [
            LedgerEntry(
                number=row["line"],
                at=row["at"],
                kind=row["kind"],
                monthly=row["monthly"],
                topup=row["topup"],
                reservation_id=row["hold_id"],
                platform=row["platform"],
                operation=row["operation"],
                units=row["units"],
                credits=row["credits"],
            )
            for row in await self._database.read("ledger", account_id=account_id)
        ]

    async def count_usage(
        self, counts: Mapping[tuple[str, str, str, str, str], int], *, now: float
    ) -> None:
        """Count usage by account, key, fact, kind and label; see the table `usage`."""
        await self._database.change(lambda transaction: write_usage(transaction, counts, now))

    async def export(self) -> AccountExport:
        """Return all accounts with their keys and ledgers, as of one moment."""
        return await self._database.query(_export)

    async def import_accounts(self, export: AccountExport, *, now: float) -> int:
        """Add exported accounts and keys, all or none; return how many accounts are new.

        An account that was imported before stays as it is, with what it has used since; keys that
        it lacks are added. Credits that jobs and calls had reserved are given back: those stay in
        the other store.

        Raises
        ------
        AccountImportRefused
            The database has another account or key of a name or an id, or the account of an
            earlier state.
        """

        def change(transaction: Transaction) -> int:
            return sum(_import(transaction, account, now) for account in export.accounts)

        return await self._database.change(change)


def _export(transaction: Transaction) -> AccountExport:
    keys = transaction.rows("all_keys")
    accounts = []
    for row in transaction.rows("accounts"):
        owner = {"account_id": row["id"]}
        accounts.append(
            ExportedAccount(
                **{name: row[name] for name in _ACCOUNT_COLUMNS},
                keys=[_record(ExportedKey, key) for key in keys if key["account_id"] == row["id"]],
                ledger=[
                    _record(ExportedLine, each) for each in transaction.rows("ledger", **owner)
                ],
                reservations=[
                    _record(ExportedReservation, each)
                    for each in transaction.rows("reservations", **owner)
                ],
            )
        )
    return AccountExport(accounts=accounts)


def _record(kind: type[R], row: SqlRow) -> R:
    return kind(**{name: row[name] for name in kind.model_fields})


def _import(transaction: Transaction, account: ExportedAccount, now: float) -> bool:
    """Add an account and its keys; return whether the account is new."""
    present = transaction.rows("account_with", id=account.id, name=account.name)
    if not present:
        values = {name: getattr(account, name) for name in _ACCOUNT_COLUMNS}
        transaction.send("import_account", **values, lines=len(account.ledger))
        for each in account.ledger:
            transaction.send("add_ledger_line", account_id=account.id, **each.model_dump())
            if each.kind == "charge" and each.platform and each.operation:
                charge = Charge(each.platform, each.operation, each.units or 0)
                add_usage(transaction, account.id, None, _charge_counts([charge]), each.at)
        held = [{**each.model_dump(), "key_id": None} for each in account.reservations]
        LockedCredits.lock(transaction, account.id, now).charge(held, ())
    else:
        # It must have been imported from this state of the account.
        known = [(row["id"], row["created_at"]) for row in present]
        if known != [(account.id, account.created_at)]:
            raise AccountImportRefused(
                f"the database has another account named {account.name!r}, or of its id: import "
                "into a database without accounts"
            )
        stored = transaction.rows("ledger", account_id=account.id)[: len(account.ledger)]
        if [_record(ExportedLine, row) for row in stored] != account.ledger:
            raise AccountImportRefused(
                f"the database has the account {account.name!r} with other credits than the file: "
                "credits of two states are not merged"
            )
    for key in account.keys:
        same = transaction.rows("key_with_hash", id=key.id, hash=key.hash)
        if not same:
            transaction.send("import_key", account_id=account.id, **key.model_dump())
        elif [(row["id"], row["account_id"], row["hash"]) for row in same] != [
            (key.id, account.id, key.hash)
        ]:
            raise AccountImportRefused(
                f"the database has another key of the id or hash of {key.id}"
            )
    return not present


def _change_nothing(_transaction: Transaction) -> None:
    """Signal the lane of a change alone."""


def _account_row(transaction: Transaction, name: str) -> SqlRow:
    row = transaction.row("account_named", name=name)
    if row is None:
        raise NoSuchAccount(f"no account named {name!r}; `webdata accounts list` shows them")
    return row


def _load_account(transaction: Transaction, name: str, now: float) -> Account:
    row = _account_row(transaction, name)
    if row["deleted_at"] is not None:
        raise NoSuchAccount(
            f"the account {name!r} is being deleted; `webdata accounts delete` finishes it"
        )
    return account_of_row(row, now)[0]


def _load_key(transaction: Transaction, key_id: str) -> SqlRow:
    row = transaction.row("key", id=key_id)
    if row is None:
        raise NoSuchAccount(f"no key {key_id}; `webdata keys list` shows them")
    return row


def read_usage(transaction: Transaction, account_id: str, now: float) -> AccountUsage:
    """Return an account's credits and charges; raises `NoSuchAccount`."""
    row = transaction.row("account", id=account_id)
    if row is None:
        raise NoSuchAccount(f"no account {account_id}")
    account, _ = account_of_row(row, now)
    period = ledger.billing_period(account.created_at, now)
    [active] = transaction.rows("active_reservations", account_id=account_id, now=now)
    charges = transaction.rows("usage_by_operation", account_id=account_id, since=period[0])
    operations = tuple(
        OperationUsage(charge["platform"], charge["operation"], charge["units"], charge["credits"])
        for charge in charges
    )
    return AccountUsage(account, period, active["active"], active["reserved"], operations)


def _terms_values(terms: Terms) -> dict[str, Any]:
    return {"plan": terms.plan, "monthly": terms.monthly, "concurrency": terms.concurrency}
