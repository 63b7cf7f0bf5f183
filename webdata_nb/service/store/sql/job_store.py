"""Starts, reads and cancels jobs for clients."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from webdata_nb.contract.replies import Receipt
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import IdempotencyConflict, InvalidJobState, NoSuchJob
from webdata_nb.service.store.page_contents import DamagedContent, row_of, source_json
from webdata_nb.service.store.records import (
    IDEMPOTENCY_S,
    IdempotencyKey,
    JobRecord,
    JobSnapshot,
    JournalEntry,
    NewJob,
    RowRange,
    RowSummary,
    StoredSource,
    StoreSignal,
    UrlOutcome,
)
from webdata_nb.service.store.segments import SegmentSource
from webdata_nb.service.store.sql.accounts import LockedCredits, settlement_statements
from webdata_nb.service.store.sql.batches import settle_end
from webdata_nb.service.store.sql.connection import Lane, SqlDatabase, Transaction
from webdata_nb.service.store.sql.contents import ContentReader, entry_of_row
from webdata_nb.service.store.sql.job_queue import QUEUE_LANE
from webdata_nb.service.store.sql.job_rows import (
    accepted_job,
    job_of_row,
    load_job,
    new_job_values,
)
from webdata_nb.service.store.sql.receipts import ReceiptReader, read_receipt

NEWEST: Final = (float("inf"), "\U0010ffff")


class JobStore:
    """Jobs as clients see them."""

    def __init__(
        self, database: SqlDatabase, cipher: SecretCipher, segments: SegmentSource
    ) -> None:
        self.database = database
        self.cipher = cipher
        self.contents = ContentReader(database, segments)

    async def accept(
        self, job: NewJob, *, key: IdempotencyKey | None = None, now: float
    ) -> tuple[JobRecord, bool]:
        """Persist a job, or find the one that the same key started; return whether it is new.

        Raises
        ------
        IdempotencyConflict
            The key came with another body before.
        AccountLimitReached
            The account may not start another job now.
        """
        values = new_job_values(job, self.cipher, now)

        def change(transaction: Transaction) -> tuple[JobRecord, bool]:
            # Locked first: of two starts with one key, the second finds the job of the first.
            credits_ = LockedCredits.lock(transaction, job.account_id, now)
            if key and (earlier := replayed_id(transaction, job.account_id, key, now)):
                return load_job(transaction, job.account_id, earlier, self.cipher), False
            accepted = add_job(transaction, credits_, job, values, now)
            if key is not None:
                remember_key(transaction, job.account_id, key, job.id, now)
            return accepted, True

        return await self.database.change(change, lane=QUEUE_LANE)

    async def job(self, account_id: str, job_id: str) -> JobRecord:
        """Return an account's job; raises `NoSuchJob`."""
        rows = await self.database.read("job", id=job_id, account_id=account_id)
        if not rows:
            raise NoSuchJob("no such job")
        return job_of_row(rows[0], self.cipher)

    async def jobs(
        self, account_id: str, *, limit: int, before: tuple[float, str] | None = None
    ) -> list[JobRecord]:
        """Return an account's jobs, newest first, older than `before` (created_at, id)."""
        created_at, job_id = before or NEWEST
        rows = await self.database.read(
            "jobs", account_id=account_id, before=created_at, before_id=job_id, limit=limit
        )
        return [job_of_row(row, self.cipher) for row in rows]

    async def rows(self, account_id: str, job_id: str, *, start: int, count: int) -> list[bytes]:
        """Return the JSON of visible rows from position `start`."""
        rows = await self.database.read(
            "rows", account_id=account_id, job_id=job_id, start=start, stop=start + count
        )
        return await self.contents.convert(list(map(entry_of_row, rows)), row_of)

    async def page_sources(
        self, account_id: str, job_id: str, urls: Sequence[str]
    ) -> list[StoredSource]:
        """Return the sources of the pages with these URLs, from which values were extracted.

        Nothing is stored for a URL that is no row, and for a page without an extraction.
        """

        def query(transaction: Transaction) -> list[JournalEntry]:
            of_job = {"account_id": account_id, "job_id": job_id}
            found = transaction.rows_of_each([("row_of_url", {**of_job, "url": u}) for u in urls])
            return [
                entry_of_row(rows[0]) if rows else JournalEntry(0, url, success=False, journal=b"")
                for url, rows in zip(urls, found, strict=True)
            ]

        return await self.contents.convert(await self.database.query(query), _readable_source)

    async def row_summaries(self, job_id: str, *, start: int, count: int) -> list[RowSummary]:
        """Return the visible rows from position `start`, without their content."""
        rows = await self.database.read(
            "row_summaries", job_id=job_id, start=start, stop=start + count
        )
        return [
            RowSummary(row["position"], row["url"], bool(row["success"]), bool(row["final"]))
            for row in rows
        ]

    async def job_snapshot(
        self,
        account_id: str,
        job_id: str,
        *,
        row_range: Callable[[JobRecord], RowRange | None],
        examples: int,
    ) -> JobSnapshot:
        """Return an account's job, the rows that `row_range` chooses for it, and its receipt.

        All of it is read in one transaction. Raises `NoSuchJob`.
        """

        def query(transaction: Transaction) -> tuple[JobRecord, list[JournalEntry], Receipt]:
            job = load_job(transaction, account_id, job_id, self.cipher)
            pages = _pages_in_range(transaction, job, row_range(job))
            return job, pages, read_receipt(transaction, job_id, examples)

        job, pages, receipt = await self.database.query(query)
        rows = await self.contents.convert(pages, row_of)
        return JobSnapshot(job, tuple(rows), receipt)

    async def receipt(self, job_id: str, *, examples: int) -> Receipt:
        """Count the outcomes of a job's URLs, with up to `examples` URLs of each."""
        return await self.database.query(
            lambda transaction: read_receipt(transaction, job_id, examples)
        )

    async def receipt_page(
        self, job_id: str, *, start: int, count: int, outcome: str | None = None
    ) -> list[UrlOutcome]:
        """Return entries of the receipt by URL, of all outcomes or of one, from entry `start`."""
        return await self.database.query(
            lambda transaction: ReceiptReader(transaction, job_id).page(
                start=start, count=count, outcome=outcome
            )
        )

    async def receipt_entry(self, job_id: str, url: str) -> UrlOutcome | None:
        """Return the receipt's entry of a URL; None if the job never saw it."""
        return await self.database.query(
            lambda transaction: ReceiptReader(transaction, job_id).entry(url)
        )

    async def cancel(self, account_id: str, job_id: str, *, now: float) -> JobRecord:
        """Cancel a job that is pending or running; raises `NoSuchJob`, `InvalidJobState`."""

        def change(transaction: Transaction) -> None:
            row = transaction.row("cancel", id=job_id, account_id=account_id, now=now)
            if row is not None:
                settlement = transaction.rows_of_each(settlement_statements(job_id))
                settle_end(transaction, row, settlement, self.cipher, now)

        await self.database.change(change, lane=Lane(job_id))
        job = await self.job(account_id, job_id)
        if job.state is not JobStatus.CANCELLED:
            raise InvalidJobState(
                f"the job is {job.state.value}; only pending or running jobs can be cancelled",
                state=job.state.value,
            )
        return job

    async def active_jobs(self) -> int:
        """Count the pending and running jobs of all accounts."""
        return int((await self.database.read("active_jobs"))[0]["n"])

    def data_version(self) -> int:
        """Return a number that differs from earlier ones after any commit.

        After one of another process, within a second.
        """
        return self.database.data_version()

    def now(self) -> float:
        """Return the store's time in Unix seconds, by which leases and limits are measured."""
        return self.database.now()

    def subscribe(self, on_signal: Callable[[StoreSignal], None]) -> None:
        """Call `on_signal` on the event loop soon after another process changed something."""

        def on_lane(name: str | None) -> None:
            if name == QUEUE_LANE.name:
                on_signal(StoreSignal(is_queue=True))
            else:
                on_signal(StoreSignal(job_id=name))

        self.database.subscribe(on_lane)


def _pages_in_range(
    transaction: Transaction, job: JobRecord, row_range: RowRange | None
) -> list[JournalEntry]:
    if row_range is None:
        return []
    rows = transaction.rows(
        "rows",
        account_id=job.account_id,
        job_id=job.id,
        start=row_range.start,
        stop=row_range.start + row_range.count,
    )
    return list(map(entry_of_row, rows))


def _readable_source(page: JournalEntry) -> StoredSource:
    try:
        source = source_json(page)
    except DamagedContent as error:
        return StoredSource(damage=str(error))
    return StoredSource(str(orjson.loads(source)) if source else None)


def add_job(
    transaction: Transaction,
    account_credits: LockedCredits,
    job: NewJob,
    values: Mapping[str, Any],
    now: float,
) -> JobRecord:
    """Reserve the credits of a job and add it; `values` are those of `new_job_values`."""
    reserved = account_credits.reserve(job.id, job.max_charges)
    reservation: dict[str, Any] = {"reserved": reserved, "unlimited": reserved is None}
    transaction.send("add_job", **values, **reservation)
    return replace(accepted_job(job, now), **reservation)


def replayed_id(
    transaction: Transaction, account_id: str, key: IdempotencyKey, now: float
) -> str | None:
    """Return the id that the same key started within its day."""
    row = transaction.row(
        "idempotent",
        account_id=account_id,
        key=key_digest(account_id, key.key),
        since=now - IDEMPOTENCY_S,
    )
    if row is None:
        return None
    if row["fingerprint"] != key.fingerprint:
        raise IdempotencyConflict("this Idempotency-Key was used with another body; send a new key")
    return str(row["job_id"])


def key_digest(account_id: str, key: str) -> str:
    """Return what is stored of a key, which callers may have built from their own data."""
    return hashlib.sha256(f"{account_id}\0{key}".encode()).hexdigest()


def remember_key(
    transaction: Transaction, account_id: str, key: IdempotencyKey, started_id: str, now: float
) -> None:
    """Store which id a key started."""
    transaction.send(
        "remember_key",
        account_id=account_id,
        key=key_digest(account_id, key.key),
        fingerprint=key.fingerprint,
        job_id=started_id,
        now=now,
    )
