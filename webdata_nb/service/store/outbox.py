"""The outbox of webhooks: filled in the transaction of what it tells, emptied by leases."""

from __future__ import annotations

import secrets
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from webdata_nb.contract import webhook_payloads
from webdata_nb.contract.events import Profile
from webdata_nb.contract.webhook_payloads import Facts, Notice
from webdata_nb.service.errors import NoSuchDelivery, WrongState
from webdata_nb.service.store.database import Database
from webdata_nb.service.store.queries import queries
from webdata_nb.service.store.records import Job

_Q: Final = queries()
_END: Final = (float("inf"), "\U0010ffff")
# What a job's context says of its webhook.
CONTEXT: Final = "webhook"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one endpoint; `event_id` stays the same however often it is sent."""

    id: str
    event_id: str
    account_id: str
    job_id: str
    event: str
    profile: Profile
    endpoint: str
    body: bytes
    replay: bool
    state: str
    attempts: int
    created_at: float
    due_at: float
    ended_at: float | None
    status: int | None
    error: str | None
    lease: str | None


@dataclass(frozen=True, slots=True)
class Due:
    """An account's endpoint that `count` deliveries wait for."""

    account_id: str
    endpoint: str
    count: int


@dataclass(frozen=True, slots=True)
class Count:
    """How many deliveries of an event are in a state, and the attempts that they took."""

    event: str
    state: str
    deliveries: int
    attempts: int


def ended(connection: sqlite3.Connection, job: Job, now: float) -> None:
    """Write the notice of a job's end, in the transaction that ended it."""
    if (plan := _plan(job)) is None:
        return
    notice = webhook_payloads.ended(plan.profile, _facts(job), datetime.fromtimestamp(now, UTC))
    connection.execute(_Q["add_delivery"], _values(job, plan, notice, part="ended", now=now))


def paged(connection: sqlite3.Connection, job: Job, first: int, now: float) -> None:
    """Write the notices of the rows from position `first` on, as they become visible."""
    plan = _plan(job)
    if plan is None or not plan.pages or job.kind != "crawl":
        return
    values = {"job_id": job.id, "start": first, "stop": job.published}
    for row in connection.execute(_Q["listed"], values).fetchall():
        notice = webhook_payloads.page(
            _facts(job),
            datetime.fromtimestamp(now, UTC),
            url=row["url"],
            success=bool(row["success"]),
        )
        part = f"page {row['position']}"
        connection.execute(_Q["add_delivery"], _values(job, plan, notice, part=part, now=now))


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a job tells, how, and to which endpoint."""

    endpoint: str
    profile: Profile
    pages: bool


def _plan(job: Job) -> _Plan | None:
    url = job.request.get("webhook_url")
    if url is None:
        return None
    said: Mapping[str, Any] = job.context.get(CONTEXT) or {}
    parts = urlsplit(url)
    endpoint = f"{parts.scheme}://{parts.netloc}"
    return _Plan(endpoint, Profile(said.get("profile", "A")), bool(said.get("pages")))


def _facts(job: Job) -> Facts:
    return Facts(
        job_id=job.id,
        kind=job.kind,
        status=job.state,
        subject=job.subject,
        total=job.expected,
        completed=job.published if job.kind == "crawl" else job.completed,
    )


def _values(job: Job, plan: _Plan, notice: Notice, *, part: str, now: float) -> dict[str, Any]:
    # Of the job and of what it tells, so that no second event can be made.
    event_id = uuid.uuid5(uuid.NAMESPACE_URL, f"webdata:{job.id}:{part}")
    return {
        "id": str(uuid.uuid4()),
        "event_id": str(event_id),
        "account_id": job.account_id,
        "job_id": job.id,
        "event": notice.event,
        "profile": plan.profile.value,
        "endpoint": plan.endpoint,
        "body": notice.body,
        "replay": False,
        "now": now,
    }


class Outbox:
    """The deliveries of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, *, now: float) -> list[Due]:
        """Return the endpoints that something can be sent to now, longest waiting first."""
        found = await self._database.read("due_endpoints", now=now)
        return [Due(row["account_id"], row["endpoint"], row["n"]) for row in found]

    async def next_due(self) -> float | None:
        """Return when the next delivery is to be sent."""
        [row] = await self._database.read("next_due")
        return None if row["due"] is None else float(row["due"])

    async def take(self, due: Due, *, lease_s: float, now: float) -> Delivery | None:
        """Take the oldest delivery of an endpoint; None where none waits."""
        values = {
            "account_id": due.account_id,
            "endpoint": due.endpoint,
            "lease": secrets.token_hex(8),
            "lease_s": lease_s,
            "now": now,
        }
        found = await self._database.change(
            lambda connection: connection.execute(_Q["take_delivery"], values).fetchall()
        )
        return _delivery(found[0]) if found else None

    async def settle(
        self,
        delivery: Delivery,
        state: str,
        *,
        due_at: float,
        status: int | None,
        error: str | None,
        now: float,
    ) -> None:
        """Write what became of an attempt, and what follows; void once the lease ran out."""
        await self._database.write(
            "settle_delivery",
            id=delivery.id,
            lease=delivery.lease,
            state=state,
            due_at=due_at,
            ended_at=None if state == "pending" else now,
            status=status,
            error=error,
        )

    async def void_leases(self) -> None:
        """Free everything; only for a process that knows itself to be alone."""
        await self._database.write("void_delivery_leases")

    async def pending(self) -> int:
        """Count the deliveries, of all accounts, that are still to be made."""
        return int((await self._database.read("pending_deliveries"))[0]["n"])

    async def listing(
        self,
        account_id: str,
        *,
        job_id: str | None,
        limit: int,
        before: tuple[float, str] | None = None,
    ) -> list[Delivery]:
        """Return an account's deliveries, newest first, older than `before` (created_at, id)."""
        at, delivery_id = before or _END
        found = await self._database.read(
            "deliveries",
            account_id=account_id,
            job_id=job_id,
            before=at,
            before_id=delivery_id,
            limit=limit,
        )
        return [_delivery(row) for row in found]

    async def stats(self, account_id: str) -> Sequence[Count]:
        """Count an account's deliveries by event and state."""
        found = await self._database.read("delivery_stats", account_id=account_id)
        return [Count(row["event"], row["state"], row["n"], row["attempts"]) for row in found]

    async def replay(self, account_id: str, delivery_id: str, *, now: float) -> Delivery:
        """Send an event anew, under its own id, as another delivery.

        Raises
        ------
        NoSuchDelivery
            The account has none of that id.
        WrongState
            It is on its way.
        """
        old = await self._one(account_id, delivery_id)
        if old.state == "pending":
            raise WrongState(
                "the delivery is pending; it can be replayed once it has ended", state=old.state
            )
        new_id = str(uuid.uuid4())
        await self._database.write(
            "add_delivery",
            id=new_id,
            event_id=old.event_id,
            account_id=old.account_id,
            job_id=old.job_id,
            event=old.event,
            profile=old.profile.value,
            endpoint=old.endpoint,
            body=old.body,
            replay=True,
            now=now,
        )
        return await self._one(account_id, new_id)

    async def _one(self, account_id: str, delivery_id: str) -> Delivery:
        found = await self._database.read("delivery", id=delivery_id, account_id=account_id)
        if not found:
            raise NoSuchDelivery("no such delivery")
        return _delivery(found[0])


def _delivery(row: sqlite3.Row) -> Delivery:
    return Delivery(
        id=row["id"],
        event_id=row["event_id"],
        account_id=row["account_id"],
        job_id=row["job_id"],
        event=row["event"],
        profile=Profile(row["profile"]),
        endpoint=row["endpoint"],
        body=row["body"],
        replay=bool(row["replay"]),
        state=row["state"],
        attempts=row["attempts"],
        created_at=row["created_at"],
        due_at=row["due_at"],
        ended_at=row["ended_at"],
        status=row["status"],
        error=row["error"],
        lease=row["lease"],
    )
