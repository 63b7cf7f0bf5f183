"""Encrypts what older releases stored in the clear, and re-encrypts after a key rotation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import orjson

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import OtherKey, UnreadableSecrets
from webdata_nb.service.store.interface import SecretStore
from webdata_nb.service.store.sql.connection import SqlDatabase, SqlRow, Transaction
from webdata_nb.service.store.sql.sealed_fields import merge_secrets, split_secrets

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


class SqlSecretStore(SecretStore):
    """A `SecretStore` on a database."""

    def __init__(self, database: SqlDatabase, cipher: SecretCipher) -> None:
        self._database, self._cipher = database, cipher

    async def check_key(self) -> None:
        canary = new_canary(self._cipher)
        await self._database.write("add_setting", name=CANARY_NAME, value=canary)
        [row] = await self._database.read("setting", name=CANARY_NAME)
        check_canary(self._cipher, row["value"])

    async def encrypt_plaintext(self) -> None:
        after = ""
        if await self._plaintext_jobs(after):
            await self._database.change(_prepare)
        while rows := await self._plaintext_jobs(after):
            await self._database.change(partial(_encrypt, rows, self._cipher))
            after = rows[-1]["id"]

    async def _plaintext_jobs(self, after: str) -> Sequence[SqlRow]:
        return await self._database.read("plaintext_jobs", after=after, limit=_SLICE)

    async def reencrypt(self) -> tuple[int, int]:
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


def _prepare(transaction: Transaction) -> None:
    transaction.erase_replaced_data()
    transaction.execute("mark_jobs_without_plaintext")


def _encrypt(rows: Sequence[SqlRow], cipher: SecretCipher, transaction: Transaction) -> None:
    for row in rows:
        try:
            secrets = cipher.decrypt(row["sealed"] or "")
        except UnreadableSecrets:
            continue
        merged, context = merge_secrets(orjson.loads(row["request"]), secrets)
        request, secrets = split_secrets(merged, context or orjson.loads(row["context"]))
        text, sealed = orjson.dumps(request).decode(), cipher.encrypt(secrets)
        transaction.execute("encrypt_job", id=row["id"], request=text, sealed=sealed)
