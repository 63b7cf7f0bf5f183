"""The store on SQLite: WAL, full synchronisation, one writer with group commit."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import orjson

from webdata_nb.contract.replies import Receipt
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.credits.plans import OWN
from webdata_nb.service.encryption import KEY_FILE, KeyFile, Vault
from webdata_nb.service.errors import Conflict, LeaseLost, NoSuchJob, SecretsLost, WrongState
from webdata_nb.service.store import batches, outbox
from webdata_nb.service.store.batches import of_lease
from webdata_nb.service.store.credit_reservations import Book, settle_job
from webdata_nb.service.store.database import Database
from webdata_nb.service.store.key_rotation import Secrets
from webdata_nb.service.store.queries import queries
from webdata_nb.service.store.records import (
    EMPTY_BATCH,
    NO_CURSORS,
    Batch,
    IdempotencyKey,
    Job,
    JobSnapshot,
    Lease,
    NewJob,
    RowRange,
    RowSummary,
    StoredEntry,
    UnindexedRow,
    UrlOutcome,
)
from webdata_nb.service.store.sealed_fields import joined, parted

IDEMPOTENCY_S: Final = 24 * 3600.0
# Jobs that made no progress in so many attempts run one at a time.
SUSPECT_ATTEMPTS: Final = 2
_Q: Final = queries()
_END: Final = (float("inf"), "\U0010ffff")


class SqliteStore(Database):
    """Jobs in one SQLite file, for one service process at a time.

    Their secrets are sealed with `vault`, by default with the key file beside the database.
    """

    def __init__(self, path: Path, vault: Vault | None = None) -> None:
        super().__init__(path)
        self.vault = vault or Vault(KeyFile(path.with_name(KEY_FILE)))

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await Secrets(self, self.vault).seal_old()
        return self

    async def add_account(self, account_id: str, name: str, *, now: float) -> None:
        """See `Store.add_account`."""
        await self.write(
            "add_account",
            id=account_id,
            name=name,
            plan=OWN.plan,
            monthly=OWN.monthly,
            concurrency=OWN.concurrency,
            now=now,
        )

    async def accept(
        self, job: NewJob, *, key: IdempotencyKey | None = None, now: float
    ) -> tuple[Job, bool]:
        """See `Store.accept`."""
        values, fresh = _job_values(job, self.vault, now), _accepted(job, now)

        def change(connection: sqlite3.Connection) -> tuple[Job, bool]:
            if key is not None and (earlier := _replayed(connection, job, key, now)):
                return _found(connection, job.account_id, earlier, self.vault), False
            reserved = Book(connection, job.account_id, now).place(job.id, job.most)
            held: dict[str, Any] = {"reserved": reserved, "unlimited": reserved is None}
            connection.execute(_Q["add_job"], values | held)
            if key is not None:
                connection.execute(_Q["remember_key"], _key_values(job, key, now))
            return replace(fresh, **held), True

        return await self.change(change)

    async def job(self, account_id: str, job_id: str) -> Job:
        """See `Store.job`."""
        found = await self.read("job", id=job_id, account_id=account_id)
        if not found:
            raise NoSuchJob("no such job")
        return _job(found[0], self.vault)

    async def jobs(
        self, account_id: str, *, limit: int, before: tuple[float, str] | None = None
    ) -> list[Job]:
        """See `Store.jobs`."""
        at, job_id = before or _END
        found = await self.read(
            "jobs", account_id=account_id, before=at, before_id=job_id, limit=limit
        )
        return [_job(row, self.vault) for row in found]

    async def pages(self, account_id: str, job_id: str, *, start: int, count: int) -> list[bytes]:
        """See `Store.pages`."""
        found = await self.read(
            "pages", account_id=account_id, job_id=job_id, start=start, stop=start + count
        )
        return [row["page"] for row in found]

    async def look(
        self,
        account_id: str,
        job_id: str,
        *,
        window: Callable[[Job], RowRange | None],
        examples: int,
    ) -> JobSnapshot:
        """See `Store.look`."""

        def ask(connection: sqlite3.Connection) -> JobSnapshot:
            with _one_moment(connection):
                job = _found(connection, account_id, job_id, self.vault)
                rows = _rows(connection, job, window(job))
                return JobSnapshot(job, rows, _receipt(connection, job_id, examples))

        return await self.ask(ask)

    async def receipt(self, job_id: str, *, examples: int) -> Receipt:
        """See `Store.receipt`."""
        return await self.ask(lambda connection: _receipt(connection, job_id, examples))

    async def receipt_page(
        self, job_id: str, *, start: int, count: int, outcome: str | None = None
    ) -> list[UrlOutcome]:
        """See `Store.receipt_page`."""
        name = "receipt_page" if outcome is None else "receipt_page_of_outcome"
        values: dict[str, Any] = {"job_id": job_id, "limit": count, "offset": start}
        given = values if outcome is None else {**values, "outcome": outcome}
        return [_seen(row) for row in await self.read(name, **given)]

    async def receipt_entry(self, job_id: str, url: str) -> UrlOutcome | None:
        """See `Store.receipt_entry`."""
        found = await self.read("receipt_entry", job_id=job_id, url=url)
        return _seen(found[0]) if found else None

    async def cancel(self, account_id: str, job_id: str, *, now: float) -> Job:
        """See `Store.cancel`."""
        values = {"id": job_id, "account_id": account_id, "now": now}

        def change(connection: sqlite3.Connection) -> None:
            ended = connection.execute(_Q["cancel"], values).fetchone()
            if ended is not None:
                _ended(connection, ended, self.vault, now)

        await self.change(change)
        job = await self.job(account_id, job_id)
        if job.state is not JobStatus.CANCELLED:
            raise WrongState(
                f"the job is {job.state.value}; only pending or running jobs can be cancelled",
                state=job.state.value,
            )
        return job

    async def claim(
        self,
        worker: str,
        *,
        most: int = 1,
        spare: int = 0,
        held: Collection[str] = (),
        lease_s: float,
        now: float,
    ) -> list[tuple[Job, Lease]]:
        """See `Store.claim`."""
        values = {
            "worker": worker,
            "most": most,
            "spare": spare,
            "held": " ".join(held),
            "suspect": SUSPECT_ATTEMPTS,
            "lease_s": lease_s,
            "now": now,
        }
        found = await self.change(
            lambda connection: connection.execute(_Q["claim"], values).fetchall()
        )
        jobs = sorted(
            (_job(row, self.vault) for row in found), key=lambda job: (job.created_at, job.id)
        )
        return [(job, Lease(job.id, worker, job.attempt)) for job in jobs]

    async def release(self, worker: str, *, held: Collection[str] = ()) -> None:
        """See `Store.release`."""
        await self.write("release", worker=worker, held=" ".join(held))

    async def void_leases(self) -> None:
        """See `Store.void_leases`."""
        await self.write("void_leases")

    async def renew(self, lease: Lease, *, lease_s: float, now: float) -> None:
        """See `Store.renew`."""
        if not await self.write("renew", **of_lease(lease), lease_s=lease_s, now=now):
            raise LeaseLost(lease.job_id)

    async def commit(self, lease: Lease, batch: Batch) -> None:
        """See `Store.commit`."""
        await self.change(lambda connection: _commit(connection, lease, batch, self.vault))

    async def finish(
        self,
        lease: Lease,
        state: JobStatus,
        *,
        error: str | None,
        batch: Batch = EMPTY_BATCH,
        now: float,
    ) -> JobSnapshot:
        """See `Store.finish`."""
        values = {
            **of_lease(lease),
            "state": state.value,
            "error": error,
            "now": now,
        }

        def change(connection: sqlite3.Connection) -> JobSnapshot:
            added = _commit(connection, lease, batch, self.vault)
            ended = connection.execute(_Q["finish"], values).fetchone()
            job = _ended(connection, ended, self.vault, now)
            rows = _whole(job, batch) if added == len(batch.entries) else ()
            return JobSnapshot(job, rows, _receipt(connection, job.id, examples=0))

        return await self.change(change)

    async def entries(self, job_id: str) -> Sequence[StoredEntry]:
        """See `Store.entries`."""
        found = await self.read("entries", job_id=job_id)
        return [StoredEntry(row["ordinal"], row["position"], row["journal"]) for row in found]

    async def snapshots(self, job_id: str) -> dict[str, bytes]:
        """See `Store.snapshots`."""
        return {row["name"]: row["body"] for row in await self.read("snapshots", job_id=job_id)}

    async def published(
        self, account_id: str | None = None, *, beyond: Mapping[str, int] = NO_CURSORS
    ) -> list[Job]:
        """See `Store.published`."""

        def ask(connection: sqlite3.Connection) -> list[Job]:
            found = connection.execute(_Q["published"], {"account_id": account_id}).fetchall()
            ids = [row["id"] for row in found if row["published"] > beyond.get(row["id"], 0)]
            rows = (connection.execute(_Q["job_as_it_is"], {"id": job_id}) for job_id in ids)
            return [_job(row, self.vault) for each in rows for row in each]

        return await self.ask(ask)

    async def listed(self, job_id: str, *, start: int, count: int) -> list[RowSummary]:
        """See `Store.listed`."""
        found = await self.read("listed", job_id=job_id, start=start, stop=start + count)
        return [
            RowSummary(row["position"], row["url"], bool(row["success"]), bool(row["final"]))
            for row in found
        ]

    async def unindexed(self, job_id: str, *, start: int, count: int) -> list[UnindexedRow]:
        """See `Store.unindexed`."""
        found = await self.read("unindexed", job_id=job_id, start=start, stop=start + count)
        return [
            UnindexedRow(row["position"], row["page"], row["journal"], bool(row["success"]))
            for row in found
        ]

    async def active_jobs(self) -> int:
        """See `Store.active_jobs`."""
        return int((await self.read("active_jobs"))[0]["n"])


@contextmanager
def _one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """Let every question inside see the same state of the database."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # an I/O error may have ended it
            connection.execute("ROLLBACK")


def _found(connection: sqlite3.Connection, account_id: str, job_id: str, vault: Vault) -> Job:
    values = {"id": job_id, "account_id": account_id}
    row = connection.execute(_Q["job"], values).fetchone()
    if row is None:
        raise NoSuchJob("no such job")
    return _job(row, vault)


def _rows(connection: sqlite3.Connection, job: Job, window: RowRange | None) -> tuple[bytes, ...]:
    if window is None:
        return ()
    values = {
        "account_id": job.account_id,
        "job_id": job.id,
        "start": window.start,
        "stop": window.start + window.count,
    }
    return tuple(row["page"] for row in connection.execute(_Q["pages"], values))


def _receipt(connection: sqlite3.Connection, job_id: str, examples: int) -> Receipt:
    found = connection.execute(_Q["receipt_counts"], {"job_id": job_id})
    counts = {row["outcome"]: row["n"] for row in found}
    named = {
        outcome: [row["url"] for row in connection.execute(_Q["receipt_examples"], values)]
        for outcome in counts
        if examples
        for values in [{"job_id": job_id, "outcome": outcome, "limit": examples}]
    }
    return Receipt(counts=counts, examples=named)


def _ended(connection: sqlite3.Connection, row: sqlite3.Row, vault: Vault, now: float) -> Job:
    """Do what belongs to the end of a job, in the transaction that ended it."""
    job = _job(row, vault)
    cost = settle_job(connection, row, now)
    outbox.ended(connection, job, now)
    return replace(job, credits=cost)


def _whole(job: Job, batch: Batch) -> tuple[bytes, ...]:
    """Return the visible rows of a job that has no others than those of its last batch."""
    visible = sorted(
        (each for each in batch.entries if each.position is not None),
        key=lambda each: each.position or 0,
    )
    if len(visible) != job.published:
        return ()
    return tuple(each.page or b"" for each in visible)


def _commit(connection: sqlite3.Connection, lease: Lease, batch: Batch, vault: Vault) -> int:
    """Write a batch, and the notices of the rows that it makes visible; count its new entries."""
    added = batches.write(connection, lease, batch)
    if batch.published:
        job = connection.execute(_Q["job_as_it_is"], {"id": lease.job_id}).fetchone()
        first = min(position for _, position in batch.published)
        outbox.paged(connection, _job(job, vault), first, time.time())
    return added


def _seen(row: sqlite3.Row) -> UrlOutcome:
    return UrlOutcome(row["url"], row["outcome"], row["detail"])


def _replayed(
    connection: sqlite3.Connection, job: NewJob, key: IdempotencyKey, now: float
) -> str | None:
    """Return the job that the same key made within its day."""
    values = {"account_id": job.account_id, "key": key.key, "since": now - IDEMPOTENCY_S}
    row = connection.execute(_Q["idempotent"], values).fetchone()
    if row is None:
        return None
    if row["fingerprint"] != key.fingerprint:
        raise Conflict("this Idempotency-Key was used with another body; send a new key")
    return str(row["job_id"])


def _job_values(job: NewJob, vault: Vault, now: float) -> dict[str, Any]:
    request, secrets = parted(job.request, job.context)
    return {
        "id": job.id,
        "account_id": job.account_id,
        "key_id": job.key_id,
        "kind": job.kind,
        "subject": job.subject,
        "request": orjson.dumps(request).decode(),
        "sealed": vault.seal(secrets),
        "now": now,
    }


def _accepted(job: NewJob, now: float) -> Job:
    """Return a job as the store holds it from its first moment on."""
    return Job(
        id=job.id,
        account_id=job.account_id,
        kind=job.kind,
        state=JobStatus.PENDING,
        subject=job.subject,
        request=job.request,
        context=job.context,
        created_at=now,
        started_at=None,
        finished_at=None,
        attempt=0,
        total=0,
        completed=0,
        published=0,
        error=None,
        outcome={},
        key_id=job.key_id,
    )


def _key_values(job: NewJob, key: IdempotencyKey, now: float) -> dict[str, Any]:
    return {
        "account_id": job.account_id,
        "key": key.key,
        "fingerprint": key.fingerprint,
        "job_id": job.id,
        "now": now,
    }


def _job(row: sqlite3.Row, vault: Vault) -> Job:
    request: dict[str, Any] = orjson.loads(row["request"])
    context: dict[str, Any] = {}
    locked = False
    try:
        request, context = joined(request, vault.open(row["sealed"]))
    except SecretsLost:
        locked = True
    return Job(
        id=row["id"],
        account_id=row["account_id"],
        kind=row["kind"],
        state=JobStatus(row["state"]),
        subject=row["subject"],
        request=request,
        context=context,
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        attempt=row["attempt"],
        total=row["total"],
        completed=row["completed"],
        published=row["published"],
        error=row["error"],
        outcome=orjson.loads(row["outcome"]),
        locked=locked,
        expired_at=row["expired_at"],
        reserved=row["reserved"],
        unlimited=bool(row["unlimited"]),
        credits=row["credits"],
        attempts_since_progress=row["attempts_since_progress"],
        key_id=row["key_id"],
    )
