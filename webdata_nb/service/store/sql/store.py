"""Deletes old rows, jobs and idempotency keys, a slice in each transaction."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Final, Self

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.store.page_contents import DamagedContent, content_text
from webdata_nb.service.store.records import LIVE_S, Replica
from webdata_nb.service.store.sql.accounts import AccountStore
from webdata_nb.service.store.sql.connection import (
    QUEUE_LANE,
    VERSION_S,
    SqlDatabase,
    Transaction,
)
from webdata_nb.service.store.sql.contents import (
    NO_SEGMENTS,
    SegmentSource,
    SegmentStore,
    delete_unused,
)
from webdata_nb.service.store.sql.job_rows import SecretStore
from webdata_nb.service.store.sql.jobs import JobQueue, JobStore
from webdata_nb.service.store.sql.operator import OperatorStore
from webdata_nb.service.store.sql.outbox import Outbox
from webdata_nb.service.store.sql.receipts import pack_slice

# Rows may be megabytes each: a slice must not hold up the commits of running jobs.
_ENTRIES: Final = 20
_SLICES: Final = {"delete_receipt": 1000, "delete_receipt_blocks": 20, "delete_pinned_files": 20}
_DELIVERIES: Final = 1000
_JOBS: Final = 50
_KEYS: Final = 1000


class RetentionStore:
    """Deletes old rows, jobs and keys in slices; every step can be repeated."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def active_job_ids(self) -> set[str]:
        """Return the pending and running jobs of all accounts."""
        return {str(row["id"]) for row in await self._database.read("active_job_ids")}

    async def due_jobs(self, *, searches_before: float, crawls_before: float) -> list[str]:
        """Return some of the ended jobs whose rows are to be deleted, oldest first."""
        rows = await self._database.read(
            "due_jobs",
            searches_before=searches_before,
            crawls_before=crawls_before,
            limit=_JOBS,
        )
        return [str(row["id"]) for row in rows]

    async def deleted_jobs(self) -> list[str]:
        """Return some of the jobs that their accounts have deleted."""
        rows = await self._database.read("deleted_jobs", limit=_JOBS)
        return [str(row["id"]) for row in rows]

    async def jobs_of_account(self, account_id: str) -> list[str]:
        """Return some of the jobs of an account, oldest first."""
        rows = await self._database.read("jobs_of_account", account_id=account_id, limit=_JOBS)
        return [str(row["id"]) for row in rows]

    async def delete_account_starts(self, account_id: str) -> None:
        """Delete all idempotency keys of an account."""
        while await self._database.write(
            "forget_account_starts", account_id=account_id, limit=_KEYS
        ):
            pass

    async def erase(self) -> None:
        """Remove what deleted rows leave in the database's files, as far as the database can."""
        await self._database.erase()

    async def mark_expired(self, job_id: str, *, now: float) -> None:
        """Mark a job, so that its remaining rows are not read any more."""
        await self._database.write("mark_expired", id=job_id, now=now)

    async def delete_rows(self, job_id: str, *, now: float) -> None:
        """Delete the rows, receipt and pinned files of a marked job."""
        while await self._database.change(partial(_delete_entries, job_id)):
            pass
        for statement, limit in _SLICES.items():
            while await self._database.write(statement, id=job_id, limit=limit):
                pass
        await self._database.write("mark_cleared", id=job_id, now=now)

    async def delete_jobs(self, *, before: float) -> int:
        """Delete some jobs without rows that ended before; return how many."""
        rows = await self._database.read("old_jobs", before=before, limit=_JOBS)
        for row in rows:
            await self.delete_job(row["id"])
        return len(rows)

    async def delete_job(self, job_id: str) -> None:
        """Delete a job without rows, and its webhook deliveries."""
        while await self._database.write("delete_deliveries", id=job_id, limit=_DELIVERIES):
            pass
        await self._database.write("delete_job", id=job_id)

    async def delete_idempotency_keys(self, *, before: float) -> int:
        """Delete some idempotency keys that are older; return how many."""
        return await self._database.write("delete_idempotency_keys", before=before, limit=_KEYS)

    async def pack_receipts(self) -> bool:
        """Compress a part of the receipt of an ended job; return whether there may be more."""
        return await self._database.change(pack_slice)

    async def return_space(self) -> None:
        """Return the space of deleted data to the file system, where the database can."""
        await self._database.return_space()


def _delete_entries(job_id: str, transaction: Transaction) -> int:
    """Delete some entries, and their contents unless others use them; return how many."""
    entries = transaction.rows("delete_entries", id=job_id, limit=_ENTRIES)
    delete_unused(transaction, (row["content_id"] for row in entries))
    return len(entries)


class ReplicaStore:
    """The processes that serve the store now; none on a store for one process.

    A process whose last heartbeat is older than `LIVE_S` counts as dead.
    """

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        self._counts: deque[tuple[float, int]] = deque()

    async def join(
        self, replica: Replica, *, previous: str | None = None, is_alone: bool = False
    ) -> None:
        """Add a process; it replaces an earlier one of its name, or all if it is alone.

        `previous` is the id of a process that has ended: its jobs can be claimed at once.
        """
        now = self._database.now()
        since = math.inf if is_alone else now - LIVE_S

        def change(transaction: Transaction) -> None:
            transaction.execute(
                "delete_old_replicas", id=replica.id, name=replica.name, since=since
            )
            if previous is not None:
                transaction.execute("expire_leases_of", worker=previous)
            _write_heartbeat(transaction, replica, now)

        # In the lane of the queue: other processes look for the jobs that this one does not take.
        await self._database.change(change, lane=QUEUE_LANE)
        await self._count_live(now)

    async def heartbeat(self, replica: Replica) -> list[Replica]:
        """Write that a process is alive; return all live ones."""
        now = self._database.now()
        await self._database.change(lambda transaction: _write_heartbeat(transaction, replica, now))
        return await self._count_live(now)

    async def leave(self, replica: Replica) -> None:
        """Remove a process that stops."""
        await self._database.write("delete_replica", id=replica.id)

    async def live(self) -> list[Replica]:
        """Return the live processes, the one that started first at the front."""
        rows = await self._database.read("live_replicas", since=self._database.now() - LIVE_S)
        names = ("id", "name", "slots", "started_at", "kind", "version")
        return [Replica(*(row[name] for name in names)) for row in rows]

    def count(self) -> int:
        """Return the largest number of live processes at a heartbeat of the last `LIVE_S` seconds.

        1 before the first heartbeat. The store is not read.
        """
        return max((count for _, count in self._counts), default=1)

    async def _count_live(self, now: float) -> list[Replica]:
        # A crash of the database empties the table: earlier counts are kept as long as its rows.
        live = await self.live()
        self._counts.append((now, len(live)))
        while self._counts[0][0] < now - LIVE_S:
            self._counts.popleft()
        return live


def _write_heartbeat(transaction: Transaction, replica: Replica, now: float) -> None:
    transaction.execute(
        "heartbeat",
        id=replica.id,
        name=replica.name,
        slots=replica.slots,
        started_at=replica.started_at,
        kind=replica.kind,
        version=replica.version,
        now=now,
    )


class Store(JobStore, JobQueue):
    """All durable state; safe to use from any task of one event loop, by `async with`.

    It opens and closes its database. `cipher` encrypts jobs' secrets, and `segments` reads contents
    in files.

    Raises
    ------
    StoreUnavailable, StoreDamaged
        From every method: the database cannot be read or written now, or not at all.
    """

    def __init__(
        self,
        database: SqlDatabase,
        cipher: SecretCipher,
        segments: SegmentSource = NO_SEGMENTS,
    ) -> None:
        super().__init__(database, cipher, segments)
        self.accounts: AccountStore = AccountStore(database)
        self.outbox: Outbox = Outbox(database)
        self.replicas: ReplicaStore = ReplicaStore(database)
        self.retention: RetentionStore = RetentionStore(database)
        self.secrets: SecretStore = SecretStore(database, cipher)
        self.segments: SegmentStore = SegmentStore(database)
        self.operator: OperatorStore = OperatorStore(database)

    async def __aenter__(self) -> Self:
        await self.database.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.database.__aexit__(kind, error, trace)

    def exclusive(self, work: str) -> AbstractAsyncContextManager[bool]:
        """Return a context for work that one process does at a time.

        It yields False at once if another process does that work now. A process that dies leaves
        its work to others. If the connection to the database breaks, another process may begin
        meanwhile: the work has to be repeatable.
        """
        return self.database.exclusive(work)

    async def wait_for_other_processes(self) -> None:
        """Return once each live process has another `data_version` than before the call."""
        if len(await self.replicas.live()) > 1:
            await asyncio.sleep(VERSION_S)

    def retried_transactions(self) -> int:
        """Return how many transactions were run again because the database had ended them."""
        return self.database.retried_transactions


# Contradictions: of counters and rows, ledgers and balances, contents


MAX_PROBLEMS: Final = 100
_SLICE: Final = 100


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check with its problems, a line each, and what it found apart from them."""

    check: str
    problems: tuple[str, ...] = ()
    detail: str = ""


def find_contradictions(transaction: Transaction) -> Iterator[CheckResult]:
    """Run every check of the stored data, in a fixed order."""
    for check, statement, problem in _CHECKS:
        rows = transaction.rows(statement, limit=MAX_PROBLEMS)
        yield CheckResult(check, tuple(map(problem.format_map, rows)))
    yield CheckResult("contents", tuple(islice(_wrong_contents(transaction), MAX_PROBLEMS)))


def _wrong_contents(transaction: Transaction) -> Iterator[str]:
    """Describe contents that are missing, that no entry uses, or that are damaged."""
    for row in transaction.rows("missing_contents", limit=MAX_PROBLEMS):
        yield f"job {row['job_id']}: the content of entry {row['ordinal']} is missing"
    for row in transaction.rows("unused_contents", limit=MAX_PROBLEMS):
        yield f"content {bytes(row['id']).hex()}: no entry uses it"
    after = b""
    while rows := transaction.rows("contents", after=after, limit=_SLICE):
        after = rows[-1]["id"]
        for row in rows:
            if row["body"] is None:  # in a segment
                continue
            try:
                content_text(row["id"], row["body"], row["size"])
            except DamagedContent as error:
                yield f"content {bytes(row['id']).hex()}: {error}"


_COUNTS: Final = "job {id}: {counted} counted, {found} found"
# Each check with its statement, and how a row of it is described.
_CHECKS: Final = (
    ("visible rows", "wrong_published", f"{_COUNTS}, the last at position {{last_position}}"),
    ("receipts", "wrong_receipts", f"{_COUNTS} of outcome {{outcome}}"),
    (
        "ledger sums",
        "wrong_balances",
        (
            "account {id}: balance {monthly_left} + {topup_left} after {lines} lines, ledger "
            "{monthly} + {topup} in {found}"
        ),
    ),
    ("credits of jobs", "wrong_credits", _COUNTS),
    (
        "counted usage",
        "wrong_usage",
        "account {id}: {counted} credits counted, {found} in the ledger",
    ),
    ("holds", "wrong_reservations", _COUNTS),
)
