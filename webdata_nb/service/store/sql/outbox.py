"""The outbox of webhook deliveries: written with what they report, sent under leases."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from webdata_nb.contract import events
from webdata_nb.contract.events import Profile, WebhookJob, WebhookPayload
from webdata_nb.service.errors import InvalidJobState, NoSuchDelivery
from webdata_nb.service.store.records import (
    LANES_PER_ENDPOINT,
    WEBHOOK_CONTEXT,
    Delivery,
    DeliveryCount,
    DueEndpoint,
    JobRecord,
)
from webdata_nb.service.store.sql.connection import SqlDatabase, SqlRow, Transaction

NEWEST: Final = (float("inf"), "\U0010ffff")


def add_end_delivery(transaction: Transaction, job: JobRecord, now: float) -> None:
    """Write the delivery of a job's end, in the transaction that ends it."""
    if (webhook := _webhook_of(job)) is None:
        return
    notice = events.job_ended(webhook.profile, _webhook_job(job), datetime.fromtimestamp(now, UTC))
    transaction.send("add_delivery", **_new_delivery(job, webhook, notice, "ended", now))


def has_page_events(job: JobRecord) -> bool:
    """Whether each page of a job is reported."""
    webhook = _webhook_of(job)
    return webhook is not None and webhook.pages and job.kind == "crawl"


def add_page_deliveries(transaction: Transaction, job: JobRecord, first: int, now: float) -> None:
    """Write the deliveries of the rows from position `first` on, as they become visible."""
    webhook = _webhook_of(job)
    if webhook is None or not webhook.pages or job.kind != "crawl":
        return
    for row in transaction.rows("row_summaries", job_id=job.id, start=first, stop=job.published):
        notice = events.page_done(
            _webhook_job(job),
            datetime.fromtimestamp(now, UTC),
            url=row["url"],
            success=bool(row["success"]),
        )
        subject = f"page {row['position']}"
        transaction.send("add_delivery", **_new_delivery(job, webhook, notice, subject, now))


@dataclass(frozen=True, slots=True)
class _Webhook:
    """The webhook of a job; `pages` requests a delivery for each page of a crawl."""

    endpoint: str
    profile: Profile
    pages: bool


def _webhook_of(job: JobRecord) -> _Webhook | None:
    url = job.request.get("webhook_url")
    if url is None:
        return None
    options: Mapping[str, Any] = job.context.get(WEBHOOK_CONTEXT) or {}
    parts = urlsplit(url)
    endpoint = f"{parts.scheme}://{parts.netloc}"
    return _Webhook(endpoint, Profile(options.get("profile", "A")), bool(options.get("pages")))


def _webhook_job(job: JobRecord) -> WebhookJob:
    return WebhookJob(
        job_id=job.id,
        kind=job.kind,
        status=job.state,
        subject=job.subject,
        total=job.expected_rows,
        completed=job.published if job.kind == "crawl" else job.completed,
    )


def _new_delivery(
    job: JobRecord, webhook: _Webhook, notice: WebhookPayload, subject: str, now: float
) -> dict[str, Any]:
    # Derived from the job and the subject, so that no event is written twice.
    event_id = uuid.uuid5(uuid.NAMESPACE_URL, f"webdata:{job.id}:{subject}")
    return {
        "id": str(uuid.uuid4()),
        "event_id": str(event_id),
        "account_id": job.account_id,
        "job_id": job.id,
        "event": notice.event,
        "profile": webhook.profile.value,
        "endpoint": webhook.endpoint,
        "body": notice.body,
        "replay": False,
        "now": now,
    }


class Outbox:
    """Webhook deliveries, written in the transaction of what they report."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def due(self, *, now: float, lanes: int = LANES_PER_ENDPOINT) -> list[DueEndpoint]:
        """Return the endpoints with due deliveries and free lanes, the longest waiting one first.

        Every leased delivery uses one of an endpoint's `lanes`, also those of other processes.
        """
        rows = await self._database.read("due_endpoints", now=now, lanes=lanes)
        return [DueEndpoint(row["account_id"], row["endpoint"], row["n"]) for row in rows]

    async def next_due(self, *, after: float) -> float | None:
        """Return the first time after `after` at which a delivery is due; None without one."""
        [row] = await self._database.read("next_due", now=after)
        return None if row["due"] is None else float(row["due"])

    async def take(self, endpoint: DueEndpoint, *, lease_s: float, now: float) -> Delivery | None:
        """Lease the oldest due delivery of an endpoint; None without one, or without a lane."""
        place = {"account_id": endpoint.account_id, "endpoint": endpoint.endpoint}

        def change(transaction: Transaction) -> SqlRow | None:
            transaction.row("lock_endpoint", **place)
            lease = secrets.token_hex(8)
            return transaction.row(
                "take_delivery",
                **place,
                lease=lease,
                lease_s=lease_s,
                now=now,
                lanes=LANES_PER_ENDPOINT,
            )

        row = await self._database.change(change)
        return None if row is None else _delivery(row)

    async def release(self, delivery: Delivery) -> None:
        """Return a leased delivery without an attempt, if the lease holds."""
        await self._database.write("release_delivery", id=delivery.id, lease=delivery.lease)

    async def record_attempt(
        self,
        delivery: Delivery,
        state: str,
        *,
        due_at: float,
        status: int | None,
        error: str | None,
        now: float,
    ) -> None:
        """Write the result of an attempt and the delivery's next state, if the lease holds."""
        await self._database.write(
            "record_attempt",
            id=delivery.id,
            lease=delivery.lease,
            state=state,
            due_at=due_at,
            ended_at=None if state == "pending" else now,
            status=status,
            error=error,
        )

    async def expire_leases(self) -> None:
        """End all leases; only for a process that is alone on the store."""
        await self._database.write("expire_delivery_leases")

    async def pending(self) -> int:
        """Count the pending deliveries of all accounts."""
        return int((await self._database.read("pending_deliveries"))[0]["n"])

    async def deliveries(
        self,
        account_id: str,
        *,
        job_id: str | None,
        limit: int,
        before: tuple[float, str] | None = None,
    ) -> list[Delivery]:
        """Return an account's deliveries, newest first, older than `before` (created_at, id)."""
        created_at, delivery_id = before or NEWEST
        rows = await self._database.read(
            "deliveries",
            account_id=account_id,
            job_id=job_id,
            before=created_at,
            before_id=delivery_id,
            limit=limit,
        )
        return [_delivery(row) for row in rows]

    async def counts(self, account_id: str) -> Sequence[DeliveryCount]:
        """Count an account's deliveries by event and state."""
        rows = await self._database.read("account_delivery_counts", account_id=account_id)
        return [
            DeliveryCount(row["event"], row["state"], row["n"], row["attempts"]) for row in rows
        ]

    async def replay(self, account_id: str, delivery_id: str, *, now: float) -> Delivery:
        """Send an event again as a new delivery with the same event id.

        Raises
        ------
        NoSuchDelivery
            The account has no delivery of that id.
        InvalidJobState
            It is pending.
        """
        old = await self.delivery(account_id, delivery_id)
        if old.state == "pending":
            raise InvalidJobState(
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
        return await self.delivery(account_id, new_id)

    async def delivery(self, account_id: str, delivery_id: str) -> Delivery:
        """Return a delivery of the account; raises `NoSuchDelivery`."""
        rows = await self._database.read("delivery", id=delivery_id, account_id=account_id)
        if not rows:
            raise NoSuchDelivery("no such delivery")
        return _delivery(rows[0])


def _delivery(row: SqlRow) -> Delivery:
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
