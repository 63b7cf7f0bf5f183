"""Accounts, their keys and their credits."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.service.credits import ledger
from webdata_nb.service.credits.ledger import Line
from webdata_nb.service.credits.plans import Terms
from webdata_nb.service.credits.weights import Charge
from webdata_nb.service.errors import NoSuchAccount
from webdata_nb.service.observability.logs import Caller
from webdata_nb.service.store.credit_reservations import Account, Book, account
from webdata_nb.service.store.database import Database
from webdata_nb.service.store.queries import queries

# Keys remembered as found.
OPENED: Final = 1024
_Q: Final = queries()


@dataclass(frozen=True, slots=True)
class Key:
    """A key as listed: never the key itself. Over when `ends_at` has passed."""

    id: str
    name: str
    account_id: str
    account: str
    created_at: float
    ends_at: float | None


@dataclass(frozen=True, slots=True)
class Used:
    """What was charged for one operation in a billing period."""

    platform: str
    operation: str
    units: int
    credits: int


@dataclass(frozen=True, slots=True)
class Usage:
    """An account's credits, and what is under way, at one moment."""

    account: Account
    period: tuple[float, float]
    active: int
    reserved: int
    used: tuple[Used, ...]


class Accounts:
    """Who may use the service, and how much."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._opened: dict[str, tuple[Caller, float | None]] = {}
        self._opened_at = 0

    async def add(self, account_id: str, name: str, terms: Terms, *, now: float) -> None:
        """Create an account, with its first month's credits; raises `NoSuchAccount` if taken."""

        def change(connection: sqlite3.Connection) -> None:
            if connection.execute(_Q["account_named"], {"name": name}).fetchone():
                raise NoSuchAccount(
                    f"there is an account named {name!r} already; `webdata keys create --account "
                    f"{name}` makes another key for it"
                )
            connection.execute(_Q["add_account"], {"id": account_id, "name": name, "now": now,
                                                   **_terms(terms)})  # fmt: skip
            Book(connection, account_id, now)

        await self._database.change(change)

    async def all(self, *, now: float) -> list[Account]:
        """Return every account, oldest first."""
        return [account(row, now)[0] for row in await self._database.read("accounts")]

    async def named(self, name: str, *, now: float) -> Account:
        """Return the account of that name; raises `NoSuchAccount`."""
        return await self._database.ask(lambda connection: _named(connection, name, now))

    async def set_terms(self, name: str, terms: Terms, *, now: float) -> None:
        """Put an account on other terms at once: what was used this month stays used."""

        def change(connection: sqlite3.Connection) -> None:
            book = Book(connection, _named(connection, name, now).id, now)
            known = book.account
            book.write(ledger.replanned(known.balance, known.terms, terms))
            connection.execute(_Q["set_terms"], {"id": known.id, **_terms(terms)})

        await self._database.change(change)

    async def top_up(self, name: str, amount: int, *, now: float) -> Account:
        """Add credits that do not expire."""

        def change(connection: sqlite3.Connection) -> Account:
            book = Book(connection, _named(connection, name, now).id, now)
            book.write([Line("topup", 0, amount)])
            return book.account

        return await self._database.change(change)

    async def add_key(
        self, key_id: str, account_id: str, name: str, key_hash: str, *, now: float
    ) -> None:
        """Add a key, given by its hash, to an account."""
        await self._database.write(
            "add_key", id=key_id, account_id=account_id, name=name, hash=key_hash, now=now
        )

    async def keys(self, account_id: str | None = None) -> list[Key]:
        """Return all keys ever made, of one account or of all, oldest first."""
        return [
            Key(
                row["id"],
                row["name"],
                row["account_id"],
                row["account"],
                row["created_at"],
                row["revoked_at"],
            )
            for row in await self._database.read("keys", account_id=account_id)
        ]

    async def end_key(self, key_id: str, *, at: float) -> None:
        """End a key at a moment, or earlier if that was said before; raises `NoSuchAccount`."""

        def change(connection: sqlite3.Connection) -> None:
            _key(connection, key_id)
            connection.execute(_Q["end_key"], {"id": key_id, "at": at})

        await self._database.change(change)

    async def rotate_key(
        self, key_id: str, new_id: str, key_hash: str, *, ends_at: float, now: float
    ) -> None:
        """Add a key beside another of the same account and name, which ends at `ends_at`."""

        def change(connection: sqlite3.Connection) -> None:
            old = _key(connection, key_id)
            if old["revoked_at"] is not None and old["revoked_at"] <= now:
                raise NoSuchAccount(f"key {key_id} is over; create a new one instead")
            values = {"id": new_id, "account_id": old["account_id"], "name": old["name"]}
            connection.execute(_Q["add_key"], {**values, "hash": key_hash, "now": now})
            connection.execute(_Q["end_key"], {"id": key_id, "at": ends_at})

        await self._database.change(change)

    async def owner(self, key_hash: str, *, now: float) -> str | None:
        """Return the account that a key opens, or None; see `caller`."""
        caller = await self.caller(key_hash, now=now)
        return None if caller is None else caller.account_id

    async def caller(self, key_hash: str, *, now: float) -> Caller | None:
        """Return the account that a key opens, with the key's id, or None.

        Keys that were found are remembered until any process commits anything: one that is
        revoked elsewhere is refused from then on.
        """
        moment = self._database.moment()
        if moment != self._opened_at or len(self._opened) > OPENED:
            self._opened, self._opened_at = {}, moment
        known = self._opened.get(key_hash)
        if known is None:
            opened = self._opened
            found = await self._database.read("account_of_key", hash=key_hash, now=now)
            if not found:
                return None
            caller = Caller(str(found[0]["account_id"]), str(found[0]["id"]))
            known = opened[key_hash] = (caller, found[0]["revoked_at"])
        caller, until = known
        return caller if until is None or until > now else None

    async def open_call(
        self, account_id: str, call_id: str, most: Sequence[Charge], *, until: float, now: float
    ) -> None:
        """Count a call as active, and hold what it may cost; raises `OverLimit`."""

        def change(connection: sqlite3.Connection) -> None:
            Book(connection, account_id, now).place(call_id, most, until=until)

        await self._database.change(change)

    async def close_call(
        self, account_id: str, call_id: str, charges: Sequence[Charge], *, now: float
    ) -> None:
        """End a call, and take what it used."""

        def change(connection: sqlite3.Connection) -> None:
            Book(connection, account_id, now).settle(call_id, charges)

        await self._database.change(change)

    async def void_calls(self) -> None:
        """End the calls of a process that died; only for one that knows itself to be alone."""
        await self._database.write("void_calls")

    async def bury(self, *, now: float) -> None:
        """Give back what calls still hold that died with their process."""
        for row in await self._database.read("dead_accounts", now=now):
            await self._bury(row["account_id"], now)

    async def _bury(self, account_id: str, now: float) -> None:
        await self._database.change(lambda connection: Book(connection, account_id, now).bury())

    async def usage(self, account_id: str, *, now: float) -> Usage:
        """Return what an account has and has used; raises `NoSuchAccount`."""

        def ask(connection: sqlite3.Connection) -> Usage:
            row = connection.execute(_Q["account"], {"id": account_id}).fetchone()
            if row is None:
                raise NoSuchAccount(f"no account {account_id}")
            known, _ = account(row, now)
            period = ledger.period(known.created_at, now)
            values = {"account_id": account_id, "now": now, "since": period[0]}
            active = connection.execute(_Q["active"], values).fetchone()
            used = connection.execute(_Q["used"], values).fetchall()
            return Usage(
                known,
                period,
                active["active"],
                active["reserved"],
                tuple(Used(*each) for each in used),
            )

        if await self._database.read("dead_holds", account_id=account_id, now=now):
            await self._bury(account_id, now)
        return await self._database.ask(ask)

    async def ledger(self, account_id: str) -> list[Mapping[str, Any]]:
        """Return an account's whole ledger, in its order."""
        found = await self._database.read("ledger", account_id=account_id)
        return [dict(row) for row in found]


def _named(connection: sqlite3.Connection, name: str, now: float) -> Account:
    row = connection.execute(_Q["account_named"], {"name": name}).fetchone()
    if row is None:
        raise NoSuchAccount(f"no account named {name!r}; `webdata accounts list` shows them")
    return account(row, now)[0]


def _key(connection: sqlite3.Connection, key_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = connection.execute(_Q["key_row"], {"id": key_id}).fetchone()
    if row is None:
        raise NoSuchAccount(f"no key {key_id}; `webdata keys list` shows them")
    return row


def _terms(terms: Terms) -> dict[str, Any]:
    return {"plan": terms.plan, "monthly": terms.monthly, "concurrency": terms.concurrency}
