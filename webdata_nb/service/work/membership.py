"""Keeps this process among the live replicas of its store."""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from webdata_nb.service.store.records import Replica
from webdata_nb.service.store.sql.store import ReplicaStore

log = logging.getLogger(__name__)

# Four heartbeats may fail before the others count the process as dead.
HEARTBEAT_S: Final = 2.0


class Membership:
    """The entry of this process among the replicas.

    The loop that claims jobs calls `refresh`, so that a replica that is alive also takes jobs.

    Parameters
    ----------
    replicas
        The processes on the store.
    name, slots
        Of this process.
    id_file
        Keeps the id for the next process of this data directory, which continues the jobs of a
        killed one at once. The process holds the lock of the directory, so the earlier one has
        ended.
    now
        The time by the store's clock.
    """

    def __init__(
        self, replicas: ReplicaStore, name: str, slots: int, *, id_file: Path, now: float
    ) -> None:
        # The id is random for each start: a process that died does not return under its old one.
        self.replica = Replica(secrets.token_hex(8), name, slots, now)
        self._replicas, self._id_file = replicas, id_file
        self._previous = _read_id(id_file)
        self._next_at = float("-inf")
        self._has_joined = False
        self._has_warned = False

    async def refresh(self) -> None:
        """Write a heartbeat if it is due."""
        if time.monotonic() < self._next_at:
            return
        if self._has_joined:
            live = await self._replicas.heartbeat(self.replica)
            name = self.replica.name
            is_shared = any(each.name == name and each.id != self.replica.id for each in live)
            if is_shared and not self._has_warned:
                log.warning(
                    "another live replica is named %s too; start each with a --replica of its own, "
                    "or their logs and metrics cannot be told apart",
                    name,
                )
                self._has_warned = True
        else:
            await self._replicas.join(self.replica, previous=self._previous)
            with suppress(OSError):  # then the jobs of a killed process wait for their leases' ends
                self._id_file.write_text(self.replica.id, "ascii")
        self._has_joined = True
        self._next_at = time.monotonic() + HEARTBEAT_S

    async def position(self) -> tuple[int | None, int]:
        """Return the position of this process among the live ones by age, and their number."""
        ids = [replica.id for replica in await self._replicas.live()]
        return (ids.index(self.replica.id) if self.replica.id in ids else None), len(ids)

    def set_slots(self, slots: int) -> None:
        """Change how many jobs this process runs at a time; the next `refresh` writes it."""
        if slots != self.replica.slots:
            self.replica = replace(self.replica, slots=slots)
            self._next_at = float("-inf")

    async def leave(self) -> None:
        """Tell the others that this process takes no more jobs."""
        await self._replicas.leave(self.replica)


def _read_id(file: Path) -> str | None:
    try:
        return file.read_text("ascii") or None
    except (OSError, ValueError):
        return None
