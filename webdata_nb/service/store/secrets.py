"""Seals what older releases stored in the clear, and seals everything anew after a rotation."""

from __future__ import annotations

import sqlite3
from typing import Final

import orjson

from webdata_nb.service.errors import SecretsLost
from webdata_nb.service.store.database import Database
from webdata_nb.service.store.queries import queries
from webdata_nb.service.store.sealing import parted
from webdata_nb.service.vault import Vault

BATCH: Final = 200
_Q: Final = queries()


class Secrets:
    """The sealed parts of all jobs of a database."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database, self._vault = database, vault

    async def seal_old(self) -> None:
        """Seal the jobs that were stored before there was sealing."""
        if not await self._database.read("unsealed"):
            return

        def change(connection: sqlite3.Connection) -> None:
            for row in connection.execute(_Q["unsealed"]).fetchall():
                context = orjson.loads(row["context"])
                request, secrets = parted(orjson.loads(row["request"]), context)
                sealed = self._vault.seal(secrets)
                text = orjson.dumps(request).decode()
                connection.execute(_Q["seal"], {"id": row["id"], "request": text, "sealed": sealed})

        await self._database.change(change)

    async def reseal(self) -> tuple[int, int]:
        """Seal every job's secrets with the newest key.

        Returns
        -------
        tuple of int
            How many jobs were sealed anew, and how many no key opens: those stay as they are.
        """
        done, lost, after = 0, 0, ""
        while rows := await self._database.read("sealed", after=after, limit=BATCH):
            for row in rows:
                try:
                    sealed = self._vault.resealed(row["sealed"])
                except SecretsLost:
                    lost += 1
                    continue
                done += await self._database.write(
                    "reseal", id=row["id"], sealed=sealed, before=row["sealed"]
                )
            after = rows[-1]["id"]
        return done, lost
