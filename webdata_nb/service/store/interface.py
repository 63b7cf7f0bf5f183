"""Defines the protocols of the store that engines, routes and background tasks use.

`Store` is a `JobStore`, `JobQueue` and `IndexSource`, with the parts `accounts`, `outbox`,
`replicas`, `retention`, `secrets`, and `segments`. An engine sees one job only:
`job_context`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol, Self

from webdata_nb.contract.replies import Receipt
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.credits.plans import Terms
from webdata_nb.service.credits.weights import Charge
from webdata_nb.service.observability.logs import Caller
from webdata_nb.service.store.account_records import Account, AccountUsage, ApiKey, LedgerEntry
from webdata_nb.service.store.records import (
    ALL_ENTRIES,
    EMPTY_BATCH,
    NO_CURSORS,
    CommitBatch,
    CrawlState,
    IdempotencyKey,
    JobRecord,
    JobSnapshot,
    Lease,
    LegEnd,
    NewJob,
    Replica,
    RowRange,
    RowSummary,
    StateCounts,
    StoredEntry,
    StoredSource,
    StoredVisit,
    StoreSignal,
    UnindexedRow,
    UrlOutcome,
    WholeEntry,
)
from webdata_nb.service.store.segments import SegmentStore
from webdata_nb.service.store.webhook_records import (
    LANES_PER_ENDPOINT,
    Delivery,
    DeliveryCount,
    DueEndpoint,
)


class JobStore(Protocol):
    """Jobs as clients see them."""

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

    async def job(self, account_id: str, job_id: str) -> JobRecord:
        """Return an account's job; raises `NoSuchJob`."""

    async def jobs(
        self, account_id: str, *, limit: int, before: tuple[float, str] | None = None
    ) -> list[JobRecord]:
        """Return an account's jobs, newest first, older than `before` (created_at, id)."""

    async def rows(self, account_id: str, job_id: str, *, start: int, count: int) -> list[bytes]:
        """Return the JSON of visible rows from position `start`."""

    async def page_sources(
        self, account_id: str, job_id: str, urls: Sequence[str]
    ) -> list[StoredSource]:
        """Return the sources of the pages with these URLs, from which values were extracted.

        Nothing is stored for a URL that is no row, and for a page without an extraction.
        """

    async def row_summaries(self, job_id: str, *, start: int, count: int) -> list[RowSummary]:
        """Return the visible rows from position `start`, without their content."""

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

    async def receipt(self, job_id: str, *, examples: int) -> Receipt:
        """Count the outcomes of a job's URLs, with up to `examples` URLs of each."""

    async def receipt_page(
        self, job_id: str, *, start: int, count: int, outcome: str | None = None
    ) -> list[UrlOutcome]:
        """Return entries of the receipt by URL, of all outcomes or of one, from entry `start`."""

    async def receipt_entry(self, job_id: str, url: str) -> UrlOutcome | None:
        """Return the receipt's entry of a URL; None if the job never saw it."""

    async def cancel(self, account_id: str, job_id: str, *, now: float) -> JobRecord:
        """Cancel a job that is pending or running; raises `NoSuchJob`, `InvalidJobState`."""

    async def active_jobs(self) -> int:
        """Count the pending and running jobs of all accounts."""

    def data_version(self) -> int:
        """Return a number that differs from earlier ones after any commit.

        After one of another process, within a second.
        """

    def subscribe(self, on_signal: Callable[[StoreSignal], None]) -> None:
        """Call `on_signal` on the event loop soon after another process changed something."""

    def now(self) -> float:
        """Return the store's time in Unix seconds, by which leases and limits are measured."""


class JobQueue(Protocol):
    """Jobs as workers see them: claimed under a lease, written behind its fence."""

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

    async def release(self, worker: str, *, held_jobs: Collection[str] = ()) -> None:
        """Return a worker's jobs to the queue, except `held_jobs`; the attempts do not count.

        Other processes are notified. The worker's later writes to these jobs raise `LeaseLost`.
        """

    async def expire_leases(self) -> None:
        """End the leases of all running jobs; only for a process that is alone on the store."""

    async def next_lease_end(self, worker: str, *, after: float) -> float | None:
        """Return the first time after `after` at which another worker's lease ends, or None."""

    async def renew(self, lease: Lease, *, lease_s: float, now: float) -> None:
        """Extend a lease; raises `LeaseLost`."""

    async def commit(self, lease: Lease, batch: CommitBatch) -> None:
        """Write a batch in one transaction; writing the same batch again changes nothing.

        Raises
        ------
        LeaseLost
            Another attempt has begun, or the job is over.
        MissingRows
            The batch names rows that are not stored, or makes rows visible before those of lower
            positions.
        """

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

        Returns
        -------
        JobSnapshot
            The job and its receipt without examples; its rows only if `batch` has all of them.
        """

    async def end_leg(self, lease: Lease, leg_end: LegEnd, *, now: float) -> bool:
        """End a leg of a long crawl in one transaction, and begin the next one.

        Stores the state, charges for the visible rows of the leg, and reserves the credits of the
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
            The account's credits do not suffice for the next leg; nothing was changed.
        """

    async def crawl_state(self, job_id: str) -> CrawlState | None:
        """Return the state at the end of a long crawl's last leg; None if none has ended."""

    async def journal(
        self, job_id: str, *, start: int = 0, count: int = ALL_ENTRIES
    ) -> Sequence[StoredEntry]:
        """Return up to `count` entries of a job's journal in order, from ordinal `start`.

        Entries whose content is damaged are left out.
        """

    async def earlier_job(self, account_id: str, job_id: str) -> JobRecord | None:
        """Return an account's job; None if there is none."""

    async def visits(self, account_id: str, job_id: str) -> Sequence[StoredVisit]:
        """Return the pages of an account's job that a later crawl may ask the site about."""

    async def whole_entry(self, account_id: str, job_id: str, ordinal: int) -> WholeEntry | None:
        """Return a page of an account's job; None if it is deleted or damaged."""

    async def pinned_files(self, job_id: str) -> dict[str, bytes]:
        """Return the files that earlier attempts pinned, such as robots.txt, by name."""


class IndexSource(Protocol):
    """Visible rows for the text index."""

    async def jobs_to_index(
        self, account_id: str | None = None, *, cursors: Mapping[str, int] = NO_CURSORS
    ) -> list[JobRecord]:
        """Return the jobs, of one account or of all, with visible rows beyond their cursor.

        The oldest job comes first. `cursors` has the number of indexed rows by job id.
        """

    async def unindexed_rows(self, job_id: str, *, start: int, count: int) -> list[UnindexedRow]:
        """Return visible rows with their journal, from position `start`."""

    async def indexed_rows(self, places: Sequence[tuple[str, int]]) -> list[UnindexedRow | None]:
        """Return the rows at some jobs' positions, in their order; None for those that are gone."""

    async def is_expired(self, job_id: str) -> bool:
        """Return whether a job's rows are expired or deleted."""


class AccountStore(Protocol):
    """Accounts, their API keys and their credits."""

    async def ensure(self, account_id: str, name: str, *, now: float) -> None:
        """Create an account without limits, unless it exists."""

    async def add(self, account_id: str, name: str, terms: Terms, *, now: float) -> None:
        """Create an account, with its first month's credits.

        Raises `NoSuchAccount` if there is an account of that name.
        """

    async def all(self, *, now: float) -> list[Account]:
        """Return every account, oldest first."""

    async def named(self, name: str, *, now: float) -> Account:
        """Return the account of that name; raises `NoSuchAccount`."""

    async def set_terms(self, name: str, terms: Terms, *, now: float) -> None:
        """Change an account's terms at once; the credits used this month stay used."""

    async def top_up(self, name: str, amount: int, *, now: float) -> Account:
        """Add credits that do not expire."""

    async def add_key(
        self, key_id: str, account_id: str, name: str, key_hash: str, *, now: float
    ) -> None:
        """Add an API key, given by its hash."""

    async def keys(self, account_id: str | None = None) -> list[ApiKey]:
        """Return all keys ever made, of one account or of all, oldest first."""

    async def end_key(self, key_id: str, *, at: float) -> None:
        """End a key at a time, or at an earlier one set before; raises `NoSuchAccount`."""

    async def rotate_key(
        self, key_id: str, new_id: str, key_hash: str, *, ends_at: float, now: float
    ) -> None:
        """Add a key of the same account and name, and end the old one at `ends_at`."""

    async def caller(self, key_hash: str, *, now: float) -> Caller | None:
        """Return the account and the id of a valid key, or None.

        A key that another process ends is refused from then on.
        """

    async def open_call(
        self,
        account_id: str,
        call_id: str,
        max_charges: Sequence[Charge],
        *,
        until: float,
        now: float,
    ) -> None:
        """Count a call as active until `until` and reserve its credits.

        Raises `AccountLimitReached`.
        """

    async def close_call(
        self, account_id: str, call_id: str, charges: Sequence[Charge], *, now: float
    ) -> None:
        """End a call and charge for it."""

    async def expire_calls(self) -> None:
        """End the calls of a process that died; only for a process that is alone on the store."""

    async def release_expired_calls(self, *, now: float) -> None:
        """Give back the credits that calls past their time have reserved."""

    async def usage(self, account_id: str, *, now: float) -> AccountUsage:
        """Return an account's credits and charges; raises `NoSuchAccount`."""

    async def ledger(self, account_id: str) -> list[LedgerEntry]:
        """Return an account's whole ledger in order; its sums are the balance."""


class Outbox(Protocol):
    """Webhook deliveries, written in the transaction of what they report."""

    async def due(self, *, now: float, lanes: int = LANES_PER_ENDPOINT) -> list[DueEndpoint]:
        """Return the endpoints with due deliveries and free lanes, the longest waiting one first.

        Every leased delivery uses one of an endpoint's `lanes`, also those of other processes.
        """

    async def next_due(self, *, after: float) -> float | None:
        """Return the first time after `after` at which a delivery is due; None without one."""

    async def take(
        self,
        endpoint: DueEndpoint,
        *,
        lease_s: float,
        now: float,
        lanes: int = LANES_PER_ENDPOINT,
    ) -> Delivery | None:
        """Lease the oldest due delivery of an endpoint; None without one, or without a lane."""

    async def release(self, delivery: Delivery) -> None:
        """Return a leased delivery without an attempt, if the lease holds."""

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

    async def expire_leases(self) -> None:
        """End all leases; only for a process that is alone on the store."""

    async def pending(self) -> int:
        """Count the pending deliveries of all accounts."""

    async def deliveries(
        self,
        account_id: str,
        *,
        job_id: str | None,
        limit: int,
        before: tuple[float, str] | None = None,
    ) -> list[Delivery]:
        """Return an account's deliveries, newest first, older than `before` (created_at, id)."""

    async def counts(self, account_id: str) -> Sequence[DeliveryCount]:
        """Count an account's deliveries by event and state."""

    async def replay(self, account_id: str, delivery_id: str, *, now: float) -> Delivery:
        """Send an event again as a new delivery with the same event id.

        Raises
        ------
        NoSuchDelivery
            The account has no delivery of that id.
        InvalidJobState
            It is pending.
        """


class RetentionStore(Protocol):
    """Deletes old rows, jobs and keys in slices; every step can be repeated."""

    async def active_job_ids(self) -> set[str]:
        """Return the pending and running jobs of all accounts."""

    async def due_jobs(self, *, searches_before: float, crawls_before: float) -> list[str]:
        """Return some of the ended jobs whose rows are to be deleted, oldest first."""

    async def mark_expired(self, job_id: str, *, now: float) -> None:
        """Mark a job, so that its remaining rows are not read any more."""

    async def delete_rows(self, job_id: str, *, now: float) -> None:
        """Delete the rows, receipt and pinned files of a marked job."""

    async def delete_jobs(self, *, before: float) -> int:
        """Delete some jobs without rows that ended before; return how many."""

    async def delete_idempotency_keys(self, *, before: float) -> int:
        """Delete some idempotency keys that are older; return how many."""

    async def pack_receipts(self) -> bool:
        """Compress a part of the receipt of an ended job; return whether there may be more."""

    async def return_space(self) -> None:
        """Return the space of deleted data to the file system, where the database can."""


class SecretStore(Protocol):
    """The encrypted parts of all jobs."""

    async def check_key(self) -> None:
        """Raise `OtherKey` unless the keys decrypt what other processes encrypt.

        The first process leaves an encrypted text for the others.
        """

    async def reencrypt(self) -> tuple[int, int]:
        """Encrypt every job's secrets with the newest key.

        Returns
        -------
        tuple of int
            How many jobs were encrypted, and how many no key decrypts: those stay as they are.
        """


class ReplicaStore(Protocol):
    """The processes that serve the store now; none on a store for one process.

    A process whose last heartbeat is older than `LIVE_S` counts as dead.
    """

    async def join(self, replica: Replica, *, previous: str | None = None) -> None:
        """Add a process; it replaces an earlier one of its name.

        `previous` is the id of a process that has ended: its jobs can be claimed at once.
        """

    async def heartbeat(self, replica: Replica) -> list[Replica]:
        """Write that a process is alive; return all live ones."""

    async def leave(self, replica: Replica) -> None:
        """Remove a process that stops."""

    async def live(self) -> list[Replica]:
        """Return the live processes, the one that started first at the front."""

    def count(self) -> int:
        """Return the largest number of live processes at a heartbeat of the last `LIVE_S` seconds.

        1 before the first heartbeat. The store is not read.
        """


class Store(JobStore, JobQueue, IndexSource, Protocol):
    """All durable state; safe to use from any task of one event loop, by `async with`.

    Raises
    ------
    StoreUnavailable, StoreDamaged
        From every method: the database cannot be read or written now, or not at all.
    """

    accounts: AccountStore
    outbox: Outbox
    replicas: ReplicaStore
    retention: RetentionStore
    secrets: SecretStore
    segments: SegmentStore

    def exclusive(self, work: str) -> AbstractAsyncContextManager[bool]:
        """Return a context for work that one process does at a time.

        It yields False at once if another process does that work now. A process that dies leaves
        its work to others. If the connection to the database breaks, another process may begin
        meanwhile: the work has to be repeatable.
        """

    def retried_transactions(self) -> int:
        """Return how many transactions were run again because the database had ended them."""

    async def state_counts(self) -> StateCounts:
        """Count jobs and deliveries by their state."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
