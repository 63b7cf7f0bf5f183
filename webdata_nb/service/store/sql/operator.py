"""Reads what the operator of a service asks: who used what, what failed and why, how full it is.

Each view of `contract.operator_views` has a function here that reads it, with the statements of
`operator.sql`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from webdata_nb.contract.operator_views import GROUPS, VIEWS, Column, Query, View
from webdata_nb.service.errors import NoSuchAccount, NoSuchJob
from webdata_nb.service.observability.logs import reason
from webdata_nb.service.store.records import LIVE_S, StoreReport
from webdata_nb.service.store.sql.accounts import (
    read_usage,
    scopes_of,
    scopes_text,
    utc_day,
)
from webdata_nb.service.store.sql.connection import SqlDatabase, SqlRow, Transaction

# How many jobs the views read that sum up jobs in Python.
_MOST_JOBS: Final = 50_000
_NUMBER: Final = re.compile(r"\d+")
# Days that no transaction can add to any more.
_CLOSED_AFTER_S: Final = 2 * 86_400.0
# The statuses of providers that have answered.
_ANSWERS: Final = frozenset({"ok", "empty"})
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a view at a time, with its columns."""

    view: View
    rows: Rows
    as_of: float

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the rows have: those of a grouping depend on the query."""
        if not self.rows:
            return self.view.columns
        return tuple(column for column in self.view.columns if column.name in self.rows[0])


class OperatorStore:
    """Reads the views, of all accounts."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        # The sums of the days that are over, and the first day after them.
        self._closed: tuple[str, UsageTotals] = ("", {})

    async def answer(self, name: str, query: Query) -> Answer:
        """Return the rows of a view; raises `NoSuchAccount`."""
        view, now = VIEWS[name], self._database.now()
        rows = await self._database.query(
            lambda transaction: _answer(transaction, view, query, now)
        )
        return Answer(view, rows, now)

    async def job(self, job_id: str) -> dict[str, Any]:
        """Return what is known of any account's job; raises `NoSuchJob`."""
        now = self._database.now()
        return await self._database.query(lambda transaction: _job(transaction, job_id, now))

    async def owner(self, job_id: str) -> str:
        """Return the account of a job; raises `NoSuchJob`."""
        rows = await self._database.read("operator_job", id=job_id)
        if not rows:
            raise NoSuchJob("no such job")
        return str(rows[0]["account_id"])

    async def report(self) -> StoreReport:
        """Return the counts for the metrics."""
        now = self._database.now()
        closed_before = utc_day(now - _CLOSED_AFTER_S)
        is_known = self._closed[0] == closed_before

        def query(transaction: Transaction) -> tuple[StoreReport, UsageTotals]:
            closed = self._closed[1] if is_known else _totals(transaction, "", closed_before)
            usage = Counter(closed)
            usage.update(_totals(transaction, closed_before, "~"))
            [oldest] = transaction.rows("oldest_pending")
            waits_since = now if oldest["waits_since"] is None else oldest["waits_since"]
            live = transaction.rows("live_replicas", since=now - LIVE_S)
            report = StoreReport(
                jobs={
                    (row["kind"], row["state"]): row["n"] for row in transaction.rows("job_counts")
                },
                deliveries={
                    (row["state"],): row["n"] for row in transaction.rows("delivery_counts")
                },
                replicas=Counter((row["kind"],) for row in live),
                oldest_pending_s=max(0.0, now - waits_since),
                usage=usage,
            )
            return report, closed

        report, closed = await self._database.query(query)
        self._closed = (closed_before, closed)
        return report


UsageTotals = Mapping[tuple[str, str, str], int]


def _totals(transaction: Transaction, since: str, before: str) -> UsageTotals:
    rows = transaction.rows("usage_totals", since=since, before=before)
    return {(row["fact"], row["kind"], row["label"]): int(row["amount"]) for row in rows}


def _answer(transaction: Transaction, view: View, query: Query, now: float) -> Rows:
    account_id = None
    if query.account is not None:
        found = transaction.rows("account_with", id=query.account, name=query.account)
        if not found:
            raise NoSuchAccount(
                f"no account {query.account!r}; `webdata accounts list` shows their names"
            )
        account_id = found[0]["id"]
    values = {
        "account_id": account_id,
        "since": query.since,
        "since_day": utc_day(query.since),
        "limit": query.limit,
        "most": _MOST_JOBS,
        "now": now,
    }
    return _READERS[view.name](transaction, values, query)


# The views


def _picked(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names}


def _jobs(transaction: Transaction, values: Mapping[str, Any], query: Query) -> Rows:
    filters = _picked(values, "account_id", "since", "limit")
    rows = transaction.rows("operator_jobs", **filters, state=query.state, kind=query.kind)
    return [_job_row(row, values["now"]) for row in rows]


def _job_row(row: SqlRow, now: float) -> dict[str, Any]:
    started, ended = row["started_at"], row["finished_at"]
    return {
        "job": row["id"],
        "account": row["account"],
        "key": row["key_id"] or "",
        "kind": row["kind"],
        "state": row["state"],
        "subject": row["subject"],
        "replica": (row["replica"] or "") if row["state"] == "running" else "",
        "created": row["created_at"],
        "waited": max(0.0, (started or ended or now) - row["created_at"]),
        "ran": None if started is None else max(0.0, (ended or now) - started),
        "attempt": row["attempt"],
        "rows": row["published"],
        "credits": row["credits"],
        "reason": reason(row["error"]) or "",
    }


def _job(transaction: Transaction, job_id: str, now: float) -> dict[str, Any]:
    row = transaction.row("operator_job", id=job_id)
    if row is None:
        raise NoSuchJob("no such job")
    outcomes = transaction.rows("receipt_counts", job_id=job_id)
    deliveries = transaction.rows("operator_job_deliveries", id=job_id, limit=20)
    facts = _job_row(row, now)
    lease_left = None if row["lease_until"] is None else row["lease_until"] - now
    return {
        **facts,
        "reason": row["error"] or "",
        "lease_left": lease_left if row["state"] == "running" else None,
        "attempts_without_progress": row["attempts_since_progress"],
        "total": row["total"],
        "reserved": row["reserved"],
        "rows_expired": row["expired_at"],
        "urls": {each["outcome"]: each["n"] for each in outcomes},
        "providers": [
            {"provider": each["provider"], "status": each["status"]}
            for each in orjson.loads(row["outcome"]).get("fallback_chain", [])
        ],
        "deliveries": [
            {
                name: each[name]
                for name in ("event", "endpoint", "state", "attempts", "status", "error")
            }
            for each in deliveries
        ],
    }


def _usage(transaction: Transaction, values: Mapping[str, Any], query: Query) -> Rows:
    asked = {f"by_{name}": int(name in query.by) for name in GROUPS}
    rows = transaction.rows(
        "operator_usage", **_picked(values, "account_id", "since_day", "limit"), **asked
    )
    names = {"account": "account", "key": "key_id", "operation": "operation", "day": "day"}
    groups = [name for name in GROUPS if name in query.by]
    sums = {"jobs": "jobs", "failed": "failed", "rows": "rows_", "bytes": "bytes"}
    sums |= {"units": "units", "credits": "credits"}
    return [
        {
            **{name: row[names[name]] for name in groups},
            **{name: int(row[column]) for name, column in sums.items()},
        }
        for row in rows
    ]


def _view(view: str, transaction: Transaction, values: Mapping[str, Any], _query: Query) -> Rows:
    """Return the rows of a view whose statement has its columns."""
    columns = [column.name for column in VIEWS[view].columns]
    filters = _picked(values, "account_id", "since_day", "limit")
    rows = transaction.rows(f"operator_{view}", **filters)
    return [{name: row[name] for name in columns} for row in rows]


def _providers(transaction: Transaction, values: Mapping[str, Any], _query: Query) -> Rows:
    """Sum up the attempts of each provider; `paused` is how long it is not asked any more."""
    pauses: dict[str, float] = defaultdict(float)
    for row in transaction.rows("operator_pauses", now=values["now"]):
        name = row["key"].removeprefix("provider:").partition("#")[0]
        pauses[name] = max(pauses[name], row["open_until"] - values["now"])
    statuses: dict[str, dict[str, SqlRow]] = defaultdict(dict)
    filters = _picked(values, "account_id", "since_day")
    for row in transaction.rows("operator_providers", **filters):
        statuses[row["provider"]][row["status"]] = row
    providers = []
    for name in sorted(statuses.keys() | pauses.keys()):
        answers, failures = [], {}
        for status, row in statuses[name].items():
            if status in _ANSWERS:
                answers.append(row)
            else:
                failures[status] = row
        providers.append(
            {
                "provider": name,
                "attempts": sum(int(row["attempts"]) for row in statuses[name].values()),
                "failed": sum(int(row["attempts"]) for row in failures.values()),
                "failures": ", ".join(
                    f"{int(row['attempts'])} {status}" for status, row in sorted(failures.items())
                ),
                "last_answer": max((row["last_at"] for row in answers), default=None),
                "last_failure": max((row["last_at"] for row in failures.values()), default=None),
                "paused": pauses.get(name),
            }
        )
    return providers


def _webhooks(transaction: Transaction, values: Mapping[str, Any], _query: Query) -> Rows:
    filters = _picked(values, "account_id", "since", "limit")
    return [
        {
            "account": row["account"],
            "endpoint": row["endpoint"],
            "pending": int(row["pending"]),
            "failed": int(row["failed"]),
            "delivered": int(row["delivered"]),
            "attempts": int(row["attempts"]),
            "oldest_pending": row["oldest_pending_at"],
            "error": reason(row["error"]) or "",
        }
        for row in transaction.rows("operator_webhooks", **filters)
    ]


def _replicas(transaction: Transaction, values: Mapping[str, Any], _query: Query) -> Rows:
    now = values["now"]
    return [
        {
            "replica": row["name"],
            "kind": row["kind"],
            "version": row["version"],
            "state": "live" if row["seen_at"] >= now - LIVE_S else "silent",
            "running": row["running"],
            "slots": row["slots"],
            "up": max(0.0, now - row["started_at"]),
            "heartbeat": max(0.0, now - row["seen_at"]),
        }
        for row in transaction.rows("operator_replicas")
    ]


def _sites(transaction: Transaction, values: Mapping[str, Any], query: Query) -> Rows:
    """Sum up crawls by site; the slowest come first."""
    sites: dict[str, dict[str, Any]] = {}
    rows = transaction.rows("operator_crawls", **_picked(values, "account_id", "since", "most"))
    for row in rows:
        name = row["subject"]
        with suppress(ValueError):
            name = urlsplit(name).hostname or name
        site = sites.setdefault(
            name, {"site": name, "crawls": 0, "running": 0, "pages": 0, "failed": 0, "ran": 0.0}
        )
        site["crawls"] += 1
        site["running"] += row["state"] == "running"
        site["pages"] += row["published"]
        site["failed"] += int(row["failed"])
        site["ran"] += max(0.0, (row["finished_at"] or values["now"]) - row["started_at"])
    for site in sites.values():
        site["per_page"] = site["ran"] / site["pages"] if site["pages"] else None
    slowest = sorted(
        sites.values(),
        key=lambda site: -(site["ran"] if site["per_page"] is None else site["per_page"]),
    )
    return slowest[: query.limit]


def _failures(transaction: Transaction, values: Mapping[str, Any], query: Query) -> Rows:
    """Group failed jobs by their reason, whatever hosts and numbers it names."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    accounts: dict[tuple[str, str], set[str]] = defaultdict(set)
    filters = _picked(values, "account_id", "since", "most")
    for row in transaction.rows("operator_failed_jobs", **filters):  # the newest first
        text = reason(row["error"]) or ""
        key = row["kind"], _NUMBER.sub("0", text)
        group = groups.setdefault(
            key,
            {
                "kind": row["kind"],
                "reason": text,
                "jobs": 0,
                "accounts": 0,
                "last": row["finished_at"],
                "example": row["id"],
            },
        )
        group["jobs"] += 1
        accounts[key].add(row["account"])
        group["accounts"] = len(accounts[key])
    most_first = sorted(groups.values(), key=lambda group: (-group["jobs"], -group["last"]))
    return most_first[: query.limit]


def _sizes(transaction: Transaction, values: Mapping[str, Any], _query: Query) -> Rows:
    rows: Iterable[dict[str, Any]] = (
        {
            "account": row["account"],
            "kind": row["kind"],
            "count": int(row["n"]),
            "bytes": None if row["bytes"] is None else int(row["bytes"]),
        }
        for row in transaction.rows("operator_sizes", **_picked(values, "account_id"))
    )
    if values["account_id"] is not None:
        return list(rows)
    [database] = transaction.rows("operator_database_size")
    whole = {"account": "", "kind": "whole database", "count": None, "bytes": database["bytes"]}
    free = {"account": "", "kind": "free in the database", "count": None, "bytes": database["free"]}
    return [whole, *([] if database["free"] is None else [free]), *rows]


def _accounts(transaction: Transaction, values: Mapping[str, Any], _query: Query) -> Rows:
    """List the accounts that are not deleted; an empty number is without limit."""
    return [
        read_usage(transaction, row["id"], values["now"]).facts()
        for row in transaction.rows("accounts")
        if row["cleared_at"] is None
    ]


def _keys(transaction: Transaction, values: Mapping[str, Any], _query: Query) -> Rows:
    return [
        {
            "key": row["id"],
            "name": row["name"],
            "account": row["account"],
            "scopes": scopes_text(scopes_of(row["scopes"])),
            "created": row["created_at"],
            "ends": row["ends_at"],
            "last_used": row["last_used_at"],
        }
        for row in transaction.rows("keys", account_id=values["account_id"])
    ]


_READERS: Final[Mapping[str, Callable[[Transaction, Mapping[str, Any], Query], Rows]]] = {
    "jobs": _jobs,
    "failures": _failures,
    "outcomes": partial(_view, "outcomes"),
    "usage": _usage,
    "refusals": partial(_view, "refusals"),
    "sites": _sites,
    "providers": _providers,
    "webhooks": _webhooks,
    "replicas": _replicas,
    "size": _sizes,
    "accounts": _accounts,
    "keys": _keys,
}
