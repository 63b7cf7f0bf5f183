"""The whole store on a database that runs the named statements."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.store.interface import (
    AccountStore,
    Outbox,
    ReplicaStore,
    RetentionStore,
    SecretStore,
    Store,
)
from webdata_nb.service.store.records import StateCounts
from webdata_nb.service.store.segments import NO_SEGMENTS, SegmentSource, SegmentStore
from webdata_nb.service.store.sql.accounts import SqlAccountStore
from webdata_nb.service.store.sql.connection import SqlDatabase
from webdata_nb.service.store.sql.job_queue import SqlJobQueue
from webdata_nb.service.store.sql.job_store import SqlJobStore
from webdata_nb.service.store.sql.outbox import SqlOutbox
from webdata_nb.service.store.sql.replicas import SqlReplicaStore
from webdata_nb.service.store.sql.retention import SqlRetentionStore
from webdata_nb.service.store.sql.secrets import SqlSecretStore
from webdata_nb.service.store.sql.segments import SqlSegmentStore


class SqlStore(SqlJobStore, SqlJobQueue, Store):
    """A `Store` on a database, which it opens and closes.

    `cipher` encrypts jobs' secrets, and `segments` reads contents in files.
    """

    def __init__(
        self,
        database: SqlDatabase,
        cipher: SecretCipher,
        segments: SegmentSource = NO_SEGMENTS,
    ) -> None:
        super().__init__(database, cipher, segments)
        self.accounts: AccountStore = SqlAccountStore(database)
        self.outbox: Outbox = SqlOutbox(database)
        self.replicas: ReplicaStore = SqlReplicaStore(database)
        self.retention: RetentionStore = SqlRetentionStore(database)
        self.secrets: SecretStore = SqlSecretStore(database, cipher)
        self.segments: SegmentStore = SqlSegmentStore(database)

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
        return self.database.exclusive(work)

    def retried_transactions(self) -> int:
        return self.database.retried_transactions

    async def state_counts(self) -> StateCounts:
        jobs = await self.database.read("job_counts")
        deliveries = await self.database.read("delivery_counts")
        return StateCounts(
            {(row["kind"], row["state"]): row["n"] for row in jobs},
            {(row["state"],): row["n"] for row in deliveries},
        )
