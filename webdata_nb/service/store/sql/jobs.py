"""Jobs as workers see them, claimed under a lease, and as the callers of their account do."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import orjson

from webdata_nb.contract.outcomes import JobKind, JobStatus
from webdata_nb.contract.replies import Receipt
from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import IdempotencyConflict, InvalidJobState, LeaseLost, NoSuchJob
from webdata_nb.service.observability.logs import event, reason
from webdata_nb.service.runtime.bounded_dict import BoundedDict
from webdata_nb.service.store.page_contents import (
    LARGE_BYTES,
    DamagedContent,
    journal_of,
    row_and_journal,
    row_of,
    whole_entry,
)
from webdata_nb.service.store.records import (
    ALL_ENTRIES,
    EMPTY_BATCH,
    IDEMPOTENCY_S,
    LIVE_S,
    SUSPECT_ATTEMPTS,
    Checkpoint,
    CommitBatch,
    CrawlState,
    IdempotencyKey,
    JobRecord,
    JobSnapshot,
    JournalEntry,
    Lease,
    NewJob,
    RowRange,
    RowSummary,
    StoredSource,
    StoredVisit,
    StoreSignal,
    UnindexedRow,
    UrlOutcome,
)
from webdata_nb.service.store.sql.accounts import LockedCredits, settlement_statements
from webdata_nb.service.store.sql.batches import (
    BatchCommit,
    CheckpointChange,
    JobFinish,
    settle_end,
)
from webdata_nb.service.store.sql.connection import (
    QUEUE_LANE,
    Lane,
    NamedStatement,
    SqlDatabase,
    SqlRow,
    Transaction,
    wait_applied,
)
from webdata_nb.service.store.sql.contents import ContentReader, SegmentSource, entry_of_row
from webdata_nb.service.store.sql.job_rows import (
    accepted_job,
    job_of_row,
    lease_values,
    load_job,
    new_job_values,
)
from webdata_nb.service.store.sql.outbox import NEWEST, has_page_events
from webdata_nb.service.store.sql.receipts import ReceiptReader, read_receipt

log: Final = logging.getLogger(__name__)

# Clients read the rows of an ended job page by page, each time with the same receipt.
_MAX_RECEIPTS: Final = 64
_ReceiptKey = tuple[str, float | None, float | None, int]


class JobQueue:
    """Jobs as workers see them: claimed under a lease, written behind its fence."""

    def __init__(
        self, database: SqlDatabase, cipher: SecretCipher, segments: SegmentSource
    ) -> None:
        self.database = database
        self.cipher = cipher
        self.contents: ContentReader = ContentReader(database, segments)

    async def claim(
        self,
        worker: str,
        *,
        max_jobs: int = 1,
        spare_jobs: int = 0,
        held_jobs: Collection[str] = (),
        lease_s: float,
        now: float,
    ) -> list[tuple[JobRecord, Lease]]:
        """Claim jobs that are pending or whose lease ran out, taking turns between accounts.

        An account's first job comes before any account's second, running ones included; within a
        turn the older job goes first. Fewer than `max_jobs` are all there are for this worker: a
        replica takes no more than its fair share while others wait for work. Of jobs with several
        attempts without progress only one runs at a time. A job whose `accept` began before is
        found.

        Parameters
        ----------
        worker
            The name of the worker, or the id of the replica. Jobs that it holds itself are claimed
            again, unless they are in `held_jobs`.
        max_jobs
            How many jobs to claim.
        spare_jobs
            How many more to claim of accounts without a running or claimed job.
        held_jobs
            The ids of the jobs that the worker runs now.
        lease_s, now
            The lease ends `lease_s` seconds after `now`.
        """
        held_jobs = tuple(held_jobs)  # jobs may end until the transaction begins

        def change(transaction: Transaction) -> Sequence[SqlRow]:
            transaction.send("lock_queue")
            free, spare = max_jobs, spare_jobs
            replicas = transaction.rows("replica_slots", since=self.database.now() - LIVE_S)
            own_slots = next((row["slots"] for row in replicas if row["id"] == worker), None)
            if own_slots is not None and len(replicas) > 1:
                share = fair_share(replicas[0]["active_jobs"], [row["slots"] for row in replicas])
                if share < own_slots:  # other replicas wait for work
                    free = min(max_jobs, share - len(held_jobs))
                    spare = min(spare_jobs, share - len(held_jobs) - free)
            if free + spare <= 0:
                return ()
            return transaction.rows(
                "claim",
                worker=worker,
                max_jobs=free,
                spare_jobs=spare,
                held_jobs=" ".join(held_jobs),
                suspect=SUSPECT_ATTEMPTS,
                lease_s=lease_s,
                now=now,
            )

        rows = await self.database.change(change, lane=QUEUE_LANE)
        jobs = sorted(
            (job_of_row(row, self.cipher) for row in rows), key=lambda job: (job.created_at, job.id)
        )
        return [
            (job, Lease(job.id, worker, job.attempt, page_events=has_page_events(job)))
            for job in jobs
        ]

    async def release(self, worker: str, *, held_jobs: Collection[str] = ()) -> None:
        """Return a worker's jobs to the queue, except `held_jobs`; the attempts do not count.

        Other processes are notified. The worker's later writes to these jobs raise `LeaseLost`.
        """
        held = " ".join(held_jobs)
        # In the lane of the queue: after the worker's claims, and other processes are notified.
        await self.database.change(
            lambda transaction: transaction.execute("release", worker=worker, held_jobs=held),
            lane=QUEUE_LANE,
        )

    async def expire_leases(self) -> None:
        """End the leases of all running jobs; only for a process that is alone on the store."""
        await self.database.write("expire_leases")

    async def next_lease_end(self, worker: str, *, after: float) -> float | None:
        """Return the first time after `after` at which another worker's lease ends, or None."""
        [row] = await self.database.read("next_lease_end", worker=worker, now=after)
        return None if row["ends_at"] is None else float(row["ends_at"])

    async def renew(self, lease: Lease, *, lease_s: float, now: float) -> None:
        """Extend a lease; raises `LeaseLost`."""
        if not await self.database.write("renew", **lease_values(lease), lease_s=lease_s, now=now):
            raise LeaseLost(lease.job_id)

    async def commit(self, lease: Lease, *batches: CommitBatch) -> None:
        """Write batches in one transaction; writing the same ones again changes nothing.

        Raises
        ------
        LeaseLost
            Another attempt has begun, or the job is over.
        MissingRows
            A batch names rows that are not stored, or makes rows visible before those of lower
            positions.
        """
        commit = BatchCommit(lease, batches, self.cipher, self.database.now())
        await self.database.change(commit, lane=Lane(lease.job_id))

    async def finish(
        self,
        lease: Lease,
        state: JobStatus,
        *,
        error: str | None,
        batch: CommitBatch = EMPTY_BATCH,
        now: float,
    ) -> JobSnapshot:
        """Write a last batch and end the job in one transaction; raises `LeaseLost`.

        Repeating it after a commit with an unknown result changes nothing.

        Returns
        -------
        JobSnapshot
            The job and its receipt without examples; its rows only if `batch` has all of them.
        """
        batches = () if batch == EMPTY_BATCH else (batch,)
        commit = BatchCommit(lease, batches, self.cipher, self.database.now())
        job_finish = JobFinish(lease, state, error, commit, self.cipher, now)

        async def end() -> JobSnapshot:
            try:
                return await self.database.change(job_finish, lane=Lane(lease.job_id))
            except LeaseLost:
                if (ended := await self._ended_attempt(lease, state)) is None:
                    raise
                return ended

        return await _logged(end(), lambda snapshot: snapshot.job)

    async def _ended_attempt(self, lease: Lease, state: JobStatus) -> JobSnapshot | None:
        """Return the job if the holder of the lease ended it like this; nobody else can have."""

        def query(transaction: Transaction) -> JobSnapshot | None:
            row = transaction.row("job_by_id", id=lease.job_id)
            job = None if row is None else job_of_row(row, self.cipher)
            if job is None or (job.attempt, job.state) != (lease.attempt, state):
                return None
            return JobSnapshot(job, (), read_receipt(transaction, job.id, 0))

        return await self.database.query(query)

    async def pass_checkpoint(self, lease: Lease, checkpoint: Checkpoint, *, now: float) -> bool:
        """Pass a checkpoint of a long crawl in one transaction.

        Stores the state, charges for the visible rows, and reserves the credits of the
        next one. Repeating it changes nothing.

        Returns
        -------
        bool
            Whether the lease continues. If other jobs wait, the job was returned to the queue,
            behind them.

        Raises
        ------
        LeaseLost
            Another attempt has begun, or the job is over.
        CreditsUsedUp
            The account's credits do not suffice to the next checkpoint; nothing was changed.
        """
        change = CheckpointChange(lease, checkpoint, now)
        return await self.database.change(change, lane=Lane(lease.job_id))

    async def crawl_state(self, job_id: str) -> CrawlState | None:
        """Return the state from which a long crawl continues; None if none is stored."""
        rows = await self.database.read("crawl_state", job_id=job_id)
        return CrawlState(bytes(rows[0]["state"]), rows[0]["next_ordinal"]) if rows else None

    async def journal(
        self, job_id: str, *, start: int = 0, count: int = ALL_ENTRIES
    ) -> Sequence[JournalEntry]:
        """Return up to `count` entries of a job's journal in order, from ordinal `start`.

        Entries whose content is damaged are left out.
        """
        rows = await self.database.read("journal", job_id=job_id, start=start, count=count)
        entries = list(map(entry_of_row, rows))
        read = partial(_read_or_none, journal_of, "the journal entry of %s is left out: %s")
        journals = await self.contents.convert(entries, read)
        return [
            replace(entry, journal=journal)
            for entry, journal in zip(entries, journals, strict=True)
            if journal is not None
        ]

    async def earlier_job(self, account_id: str, job_id: str) -> JobRecord | None:
        """Return an account's job; None if there is none."""
        rows = await self.database.read("job", id=job_id, account_id=account_id)
        return job_of_row(rows[0], self.cipher) if rows else None

    async def visits(self, account_id: str, job_id: str) -> Sequence[StoredVisit]:
        """Return the pages of an account's job that a later crawl may ask the site about."""
        rows = await self.database.read("visits", account_id=account_id, job_id=job_id)
        return [StoredVisit(row["ordinal"], row["url"], row["visit"]) for row in rows]

    async def whole_entry(self, account_id: str, job_id: str, ordinal: int) -> JournalEntry | None:
        """Return a page of an account's job; None if it is deleted or damaged."""
        rows = await self.database.read(
            "whole_entry", account_id=account_id, job_id=job_id, ordinal=ordinal
        )
        pages = [entry_of_row(row) for row in rows if row["page"] is not None]
        read = partial(_read_or_none, whole_entry, "the page %s is not used again: %s")
        return next(iter(await self.contents.convert(pages, read)), None)

    async def pinned_files(self, job_id: str) -> dict[str, bytes]:
        """Return the files that earlier attempts pinned, such as robots.txt, by name."""
        rows = await self.database.read("pinned_files", job_id=job_id)
        return {row["name"]: row["body"] for row in rows}

    async def published_counts(self, account_id: str | None = None) -> dict[str, int]:
        """Return how many rows are visible of each job, of one account or of all, by its id.

        The oldest job comes first. Jobs whose rows are expired are left out.
        """
        rows = await self.database.read("published_counts", account_id=account_id)
        return {row["id"]: row["published"] for row in rows}

    async def jobs_by_id(self, job_ids: Iterable[str]) -> list[JobRecord]:
        """Return jobs, in the order of their ids; those that are deleted are left out."""

        def query(transaction: Transaction) -> list[JobRecord]:
            rows = (transaction.row("job_by_id", id=job_id) for job_id in job_ids)
            return [job_of_row(row, self.cipher) for row in rows if row is not None]

        return await self.database.query(query)

    async def unindexed_rows(self, job_id: str, *, start: int, count: int) -> list[UnindexedRow]:
        """Return visible rows with their journal, from position `start`."""
        return await self._indexable_rows(
            await self.database.read(
                "unindexed_rows", job_id=job_id, start=start, stop=start + count
            )
        )

    async def indexed_rows(self, places: Sequence[tuple[str, int]]) -> list[UnindexedRow | None]:
        """Return the rows at some jobs' positions, in their order; None for those that are gone."""
        statements: list[NamedStatement] = [
            ("unindexed_rows", {"job_id": job_id, "start": position, "stop": position + 1})
            for job_id, position in places
        ]
        found = await self.database.query(lambda transaction: transaction.rows_of_each(statements))
        rows = iter(await self._indexable_rows([row for [row] in filter(None, found)]))
        return [next(rows) if each else None for each in found]

    async def _indexable_rows(self, rows: Sequence[SqlRow]) -> list[UnindexedRow]:
        decoded = await self.contents.convert(list(map(entry_of_row, rows)), _decoded_row)
        indexable = []
        for row, (page, journal) in zip(rows, decoded, strict=True):
            if isinstance(page, bytes):  # a large row: the database reads what is indexed
                [indexed] = await self.database.read("indexed_fields", page=page)
                fields: Mapping[str, Any] = orjson.loads(indexed["page"])
            else:
                fields = page
            indexable.append(
                UnindexedRow(
                    position=row["position"],
                    url=fields.get("url") or row["url"],
                    title=fields.get("title"),
                    markdown=fields.get("markdown"),
                    journal=journal,
                    success=bool(row["success"]),
                )
            )
        return indexable

    async def is_over(self, job_id: str) -> bool:
        """Return whether a job has ended or is deleted."""
        rows = await self.database.read("job_by_id", id=job_id)
        return not rows or rows[0]["finished_at"] is not None

    async def is_expired(self, job_id: str) -> bool:
        """Return whether a job's rows are expired or deleted."""
        rows = await self.database.read("job_by_id", id=job_id)
        return not rows or rows[0]["expired_at"] is not None


T = TypeVar("T")


async def _logged(change: Coroutine[Any, Any, T], job_of: Callable[[T], JobRecord | None]) -> T:
    """Return the value of a change, and log the end of the job that it ended.

    Every end of a job is written here, by whichever process. It is logged once it is committed,
    also if the caller was cancelled meanwhile.
    """
    ending = asyncio.ensure_future(change)

    def log_end(done: asyncio.Future[T]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        if (job := job_of(done.result())) is not None:
            event(
                "job_ended",
                logging.WARNING if job.state is JobStatus.FAILED else logging.INFO,
                **event_fields(job),
                status=job.state.value,
                rows=job.published,
                credits=job.credits,
                seconds=job.elapsed(job.finished_at or job.created_at),
                attempt=job.attempt,
                reason=reason(job.error),
            )

    ending.add_done_callback(log_end)
    return await wait_applied(ending)


def event_fields(job: JobRecord) -> dict[str, Any]:
    """Return the fields with which an event names its job."""
    return {"job": job.id, "account": job.account_id, "key": job.key_id, "kind": job.kind}


def _read_or_none(read: Callable[[JournalEntry], T], problem: str, page: JournalEntry) -> T | None:
    """Return what `read` finds in an entry; None if it is damaged, so that it is fetched again."""
    try:
        return read(page)
    except DamagedContent as error:
        log.warning(problem, page.url, error)
        return None


def _decoded_row(page: JournalEntry) -> tuple[bytes | Mapping[str, Any], Mapping[str, Any]]:
    """Return a row, or its JSON if it is large, and its journal."""
    row, journal = row_and_journal(page)
    return row if len(row) >= LARGE_BYTES else orjson.loads(row), orjson.loads(journal or b"{}")


def fair_share(active_jobs: int, slots: Sequence[int]) -> int:
    """Return how many jobs a replica may run at most, within its own slots.

    It is the smallest number with which the replicas together run all active jobs, so that none
    has more while another one waits for work.

    Parameters
    ----------
    active_jobs
        The jobs that wait or run.
    slots
        The slots of each replica.

    Examples
    --------
    >>> fair_share(10, [16, 16])
    5
    >>> fair_share(10, [16, 2])
    8
    >>> fair_share(100, [16, 16])
    16
    """
    most = max(slots)
    for share in range(1, most):
        if sum(min(count, share) for count in slots) >= active_jobs:
            return share
    return most


class JobStore:
    """Jobs as clients see them."""

    def __init__(
        self, database: SqlDatabase, cipher: SecretCipher, segments: SegmentSource
    ) -> None:
        self.database = database
        self.cipher = cipher
        self.contents: ContentReader = ContentReader(database, segments)
        self._receipts = BoundedDict[_ReceiptKey, Receipt](_MAX_RECEIPTS)

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
        self,
        account_id: str,
        *,
        limit: int,
        before: tuple[float, str] | None = None,
        kind: JobKind | None = None,
    ) -> list[JobRecord]:
        """Return an account's jobs, newest first, older than `before` (created_at, id).

        With `kind` only those of that kind.
        """
        created_at, job_id = before or NEWEST
        rows = await self.database.read(
            "jobs",
            account_id=account_id,
            before=created_at,
            before_id=job_id,
            kind=kind,
            limit=limit,
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

        def query(transaction: Transaction) -> tuple[JobRecord, Sequence[SqlRow], Receipt]:
            job = load_job(transaction, account_id, job_id, self.cipher)
            rows: Sequence[SqlRow] = ()
            if (wanted := row_range(job)) is not None:
                bounds = {"start": wanted.start, "stop": wanted.start + wanted.count}
                rows = transaction.rows("rows", account_id=account_id, job_id=job_id, **bounds)
            receipt = self._receipts.get(_receipt_key(job, examples))
            return job, rows, receipt or read_receipt(transaction, job_id, examples)

        job, rows, receipt = await self.database.query(query)
        if job.state.terminal:
            self._receipts[_receipt_key(job, examples)] = receipt
        if all(row["content_id"] is None for row in rows):
            return JobSnapshot(job, tuple(row["page"] or b"" for row in rows), receipt)
        pages = await self.contents.convert(list(map(entry_of_row, rows)), row_of)
        return JobSnapshot(job, tuple(pages), receipt)

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

        def change(transaction: Transaction) -> JobRecord | None:
            row = transaction.row("cancel", id=job_id, account_id=account_id, now=now)
            if row is None:
                return None
            settlement = transaction.rows_of_each(settlement_statements(job_id))
            return settle_end(transaction, row, settlement, self.cipher, now)

        await _logged(self.database.change(change, lane=Lane(job_id)), lambda ended: ended)
        job = await self.job(account_id, job_id)
        if job.state is not JobStatus.CANCELLED:
            raise InvalidJobState(
                f"the job is {job.state.value}; only pending or running jobs can be cancelled",
                state=job.state.value,
            )
        return job

    async def delete(self, account_id: str, job_id: str, *, now: float) -> None:
        """Delete an ended job: nobody reads it from then on, and retention deletes its rows.

        Raises
        ------
        NoSuchJob
            The account has no job of that id.
        InvalidJobState
            It is pending or running.
        """

        def change(transaction: Transaction) -> None:
            state = load_job(transaction, account_id, job_id, self.cipher).state
            if not state.terminal:
                raise InvalidJobState(
                    f"the job is {state.value}; cancel it before you delete it", state=state.value
                )
            of_job = {"id": job_id, "account_id": account_id}
            if not transaction.execute("disown_job", **of_job, now=now):
                raise NoSuchJob("no such job")  # deleted meanwhile
            transaction.execute("forget_starts", **of_job)

        await self.database.change(change, lane=Lane(job_id))

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


def _receipt_key(job: JobRecord, examples: int) -> _ReceiptKey:
    """Return the key of an ended job's receipt, which is deleted after the job has expired."""
    return job.id, job.finished_at, job.expired_at, examples


def _readable_source(page: JournalEntry) -> StoredSource:
    try:
        source = whole_entry(page).source
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
    reserved = account_credits.reserve(job.id, job.max_charges, key_id=job.key_id)
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
