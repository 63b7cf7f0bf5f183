"""Seals what older releases stored in the clear, and seals everything anew after a rotation."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import Final

import orjson

from webdata_nb.service.encryption import Vault
from webdata_nb.service.errors import SecretsLost
from webdata_nb.service.store.database import Database
from webdata_nb.service.store.queries import queries
from webdata_nb.service.store.sealed_fields import joined, parted

BATCH: Final = 200
_Q: Final = queries()


class Secrets:
    """The sealed parts of all jobs of a database."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database, self._vault = database, vault

    async def seal_old(self) -> None:
        """Seal what older releases stored in the clear; a job that no key opens stays as it is."""
        after = ""
        if await self._unsealed(after):
            await self._database.change(_prepare)
        while rows := await self._unsealed(after):
            await self._database.change(partial(_seal, rows, self._vault))
            after = rows[-1]["id"]

    async def _unsealed(self, after: str) -> list[sqlite3.Row]:
        return await self._database.read("unsealed", after=after, limit=BATCH)

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


def _prepare(connection: sqlite3.Connection) -> None:
    # What is written over is to be gone from the file, not only from the rows.
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(_Q["nothing_to_seal"])


def _seal(rows: list[sqlite3.Row], vault: Vault, connection: sqlite3.Connection) -> None:
    for row in rows:
        try:
            known = vault.open(row["sealed"] or "")
        except SecretsLost:
            continue
        whole, context = joined(orjson.loads(row["request"]), known)
        request, secrets = parted(whole, context or orjson.loads(row["context"]))
        text, sealed = orjson.dumps(request).decode(), vault.seal(secrets)
        connection.execute(_Q["seal"], {"id": row["id"], "request": text, "sealed": sealed})
