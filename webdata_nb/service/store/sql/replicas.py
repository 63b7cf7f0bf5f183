"""The processes that serve one store: their heartbeats, and how many are alive."""

from __future__ import annotations

from collections import deque

from webdata_nb.service.store.records import LIVE_S, Replica
from webdata_nb.service.store.sql.connection import SqlDatabase, Transaction
from webdata_nb.service.store.sql.job_queue import QUEUE_LANE


class ReplicaStore:
    """The processes that serve the store now; none on a store for one process.

    A process whose last heartbeat is older than `LIVE_S` counts as dead.
    """

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        self._counts: deque[tuple[float, int]] = deque()

    async def join(self, replica: Replica, *, previous: str | None = None) -> None:
        """Add a process; it replaces an earlier one of its name.

        `previous` is the id of a process that has ended: its jobs can be claimed at once.
        """
        now = self._database.now()

        def change(transaction: Transaction) -> None:
            transaction.execute(
                "delete_old_replicas", id=replica.id, name=replica.name, since=now - LIVE_S
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
        return [Replica(row["id"], row["name"], row["slots"], row["started_at"]) for row in rows]

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
        now=now,
    )
