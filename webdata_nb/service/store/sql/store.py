"""The whole store on a database that runs the named statements."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.store.records import StateCounts
from webdata_nb.service.store.segments import NO_SEGMENTS, SegmentSource
from webdata_nb.service.store.sql.accounts import AccountStore
from webdata_nb.service.store.sql.connection import SqlDatabase
from webdata_nb.service.store.sql.job_queue import JobQueue
from webdata_nb.service.store.sql.job_store import JobStore
from webdata_nb.service.store.sql.outbox import Outbox
from webdata_nb.service.store.sql.replicas import ReplicaStore
from webdata_nb.service.store.sql.retention import RetentionStore
from webdata_nb.service.store.sql.secrets import SecretStore
from webdata_nb.service.store.sql.segments import SegmentStore


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
        self.accounts = AccountStore(database)
        self.outbox = Outbox(database)
        self.replicas = ReplicaStore(database)
        self.retention = RetentionStore(database)
        self.secrets = SecretStore(database, cipher)
        self.segments = SegmentStore(database)

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

    def retried_transactions(self) -> int:
        """Return how many transactions were run again because the database had ended them."""
        return self.database.retried_transactions

    async def state_counts(self) -> StateCounts:
        """Count jobs and deliveries by their state."""
        jobs = await self.database.read("job_counts")
        deliveries = await self.database.read("delivery_counts")
        return StateCounts(
            {(row["kind"], row["state"]): row["n"] for row in jobs},
            {(row["state"],): row["n"] for row in deliveries},
        )
