"""What every store offers, and what the engines see of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from webdata_nb.contract.replies import Receipt
from webdata_nb.contract.states import JobStatus
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
    SpoolLocation,
    StoredEntry,
    UnindexedRow,
    UrlOutcome,
)


class Store(Protocol):
    """Durable jobs. Every method is safe to call from any task of one event loop."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    async def add_account(self, account_id: str, name: str, *, now: float) -> None:
        """Create an account without limits; one that exists stays as it is."""

    async def accept(
        self, job: NewJob, *, key: IdempotencyKey | None = None, now: float
    ) -> tuple[Job, bool]:
        """Persist a job, or find the one that the same key made; tell whether it is new.

        Raises `Conflict` when the key came with another body before, `OverLimit` when the
        account may not start another job now.
        """

    def moment(self) -> int:
        """Return a number that is another one once any process has committed anything."""

    async def job(self, account_id: str, job_id: str) -> Job:
        """Return an account's job; raises `NoSuchJob`."""

    async def jobs(
        self, account_id: str, *, limit: int, before: tuple[float, str] | None = None
    ) -> list[Job]:
        """Return an account's jobs, newest first, older than `before` (created_at, id)."""

    async def pages(self, account_id: str, job_id: str, *, start: int, count: int) -> list[bytes]:
        """Return the JSON of visible rows from position `start`."""

    async def look(
        self,
        account_id: str,
        job_id: str,
        *,
        window: Callable[[Job], RowRange | None],
        examples: int,
    ) -> JobSnapshot:
        """Return an account's job, the rows that `window` chooses for it, and its receipt.

        All of it is of one moment, by one visit to the database. Raises `NoSuchJob`.
        """

    async def receipt(self, job_id: str, *, examples: int) -> Receipt:
        """Count what became of every URL, with up to `examples` of each outcome."""

    async def receipt_page(
        self, job_id: str, *, start: int, count: int, outcome: str | None = None
    ) -> list[UrlOutcome]:
        """Return what became of URLs, by URL, of all or of one outcome, from entry `start`."""

    async def receipt_entry(self, job_id: str, url: str) -> UrlOutcome | None:
        """Return what became of one URL; None where the job never saw it."""

    async def cancel(self, account_id: str, job_id: str, *, now: float) -> Job:
        """Cancel a job that is pending or running; raises `NoSuchJob`, `WrongState`."""

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
        """Take `most` of the jobs that wait or lost their worker; accounts take turns.

        An account's first job comes before any account's second, running ones included; within a
        turn the older job goes first. Up to `spare` more are taken of accounts that have no other
        job running or taken. Fewer than `most` are all there are. A job whose `accept` began
        before is among them, and so is one that `worker` itself holds, unless it is in `held`:
        those it works on. Of jobs with `SUSPECT_ATTEMPTS` attempts without progress only one runs
        at a time.
        """

    async def release(self, worker: str, *, held: Collection[str] = ()) -> None:
        """Give back a worker's jobs, all but those in `held`; their attempts do not count."""

    async def void_leases(self) -> None:
        """Free all running jobs; only for a process that knows itself to be alone."""

    async def renew(self, lease: Lease, *, lease_s: float, now: float) -> None:
        """Extend a lease; raises `LeaseLost`."""

    async def commit(self, lease: Lease, batch: Batch) -> None:
        """Write a batch in one transaction.

        Raises `LeaseLost`, or `MissingRows` where it names rows that are not stored, or makes rows
        visible before those of lower positions; then nothing is written. The same batch may be
        written again.
        """

    async def finish(
        self,
        lease: Lease,
        state: JobStatus,
        *,
        error: str | None,
        batch: Batch = EMPTY_BATCH,
        now: float,
    ) -> JobSnapshot:
        """Write a last batch and end the job in one transaction; raises `LeaseLost`.

        Returns the job as it ended and its receipt without examples; its rows only where the
        batch holds all of them.
        """

    async def entries(self, job_id: str) -> Sequence[StoredEntry]:
        """Return the journal in its order."""

    async def snapshots(self, job_id: str) -> dict[str, bytes]:
        """Return what the job froze for itself, such as robots files."""

    async def published(
        self, account_id: str | None = None, *, beyond: Mapping[str, int] = NO_CURSORS
    ) -> list[Job]:
        """Return the jobs with visible rows, of one account or of all, oldest first.

        Those alone that have more of them than `beyond` says of their ids.
        """

    async def listed(self, job_id: str, *, start: int, count: int) -> list[RowSummary]:
        """Return which URLs are visible from position `start`, without their content."""

    async def unindexed(self, job_id: str, *, start: int, count: int) -> list[UnindexedRow]:
        """Return visible rows with their journal, from position `start`."""

    async def active_jobs(self) -> int:
        """Count the jobs, of all accounts, that are not over."""


class JobContext(Protocol):
    """A claimed job in the hands of an engine: read its journal, write behind its fence."""

    @property
    def job(self) -> Job:
        """The job as claimed."""

    async def entries(self) -> Sequence[StoredEntry]:
        """Return what earlier attempts stored."""

    async def snapshots(self) -> dict[str, bytes]:
        """Return what earlier attempts froze."""

    async def commit(self, batch: Batch) -> None:
        """Store a batch durably, then tell listeners; raises `LeaseLost`."""


class Spool(Protocol):
    """What a job has fetched and not stored yet, by ordinal, where a kill leaves it.

    It may refuse, and it may lose what it holds: then a page is fetched again.
    """

    async def keep(self, ordinal: int, *parts: bytes) -> SpoolLocation | None:
        """Keep a new record, given in parts, and say where; None where there is no room for it."""

    def kept(self) -> list[int]:
        """Return the ordinals of all that is kept."""

    def place(self, ordinal: int) -> SpoolLocation:
        """Return where a record lies, until it is dropped."""

    async def take(self, ordinal: int) -> bytes | None:
        """Return what an earlier attempt kept; None where there is nothing whole."""

    def drop(self, ordinal: int) -> None:
        """Remove a record, if there is one."""
