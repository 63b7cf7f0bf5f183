"""Checks the key of jobs' secrets, and re-encrypts them after a key rotation."""

from __future__ import annotations

from typing import Final

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import OtherKey, UnreadableSecrets
from webdata_nb.service.store.sql.connection import SqlDatabase

_SLICE: Final = 200
CANARY_NAME: Final = "canary"
_CANARY: Final = {"purpose": "check of the key"}


def new_canary(cipher: SecretCipher) -> str:
    """Return the text by which processes recognize the key."""
    return cipher.encrypt(_CANARY)


def check_canary(cipher: SecretCipher, canary: str) -> None:
    """Raise `OtherKey` unless the keys decrypt the text of `new_canary`."""
    try:
        cipher.decrypt(canary)
    except UnreadableSecrets:
        raise OtherKey(
            "the store's secrets are encrypted with another key: start with the "
            "WEBDATA_SECRET_KEY of the service's other processes"
        ) from None


class SecretStore:
    """The encrypted parts of all jobs."""

    def __init__(self, database: SqlDatabase, cipher: SecretCipher) -> None:
        self._database, self._cipher = database, cipher

    async def check_key(self) -> None:
        """Raise `OtherKey` unless the keys decrypt what other processes encrypt.

        The first process leaves an encrypted text for the others.
        """
        canary = new_canary(self._cipher)
        await self._database.write("add_setting", name=CANARY_NAME, value=canary)
        [row] = await self._database.read("setting", name=CANARY_NAME)
        check_canary(self._cipher, row["value"])

    async def reencrypt(self) -> tuple[int, int]:
        """Encrypt every job's secrets with the newest key.

        Returns
        -------
        tuple of int
            How many jobs were encrypted, and how many no key decrypts: those stay as they are.
        """
        for row in await self._database.read("setting", name=CANARY_NAME):
            sealed = self._cipher.reencrypt(row["value"])
            await self._database.write(
                "replace_setting", name=CANARY_NAME, value=sealed, before=row["value"]
            )
        encrypted, unreadable_count, after = 0, 0, ""
        while rows := await self._database.read("encrypted_jobs", after=after, limit=_SLICE):
            for row in rows:
                try:
                    sealed = self._cipher.reencrypt(row["sealed"])
                except UnreadableSecrets:
                    unreadable_count += 1
                    continue
                encrypted += await self._database.write(
                    "replace_sealed", id=row["id"], sealed=sealed, before=row["sealed"]
                )
            after = rows[-1]["id"]
        return encrypted, unreadable_count
