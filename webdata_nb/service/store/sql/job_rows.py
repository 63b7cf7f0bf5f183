"""Converts between jobs and rows of their tables, and encrypts their secret parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import NoSuchJob, OtherKey, UnreadableSecrets
from webdata_nb.service.store.records import JobRecord, Lease, NewJob
from webdata_nb.service.store.sql.connection import SqlDatabase, SqlRow, Transaction

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


def new_job_values(job: NewJob, cipher: SecretCipher, now: float) -> dict[str, Any]:
    """Return the values of the statement `add_job`."""
    request, secrets = split_secrets(job.request, job.context)
    return {
        "id": job.id,
        "account_id": job.account_id,
        "key_id": job.key_id,
        "kind": job.kind,
        "subject": job.subject,
        "request": orjson.dumps(request).decode(),
        "sealed": cipher.encrypt(secrets),
        "now": now,
    }


def accepted_job(job: NewJob, now: float) -> JobRecord:
    """Return a new job as it is stored."""
    return JobRecord(
        id=job.id,
        account_id=job.account_id,
        kind=job.kind,
        state=JobStatus.PENDING,
        subject=job.subject,
        request=job.request,
        context=job.context,
        created_at=now,
        started_at=None,
        finished_at=None,
        attempt=0,
        total=0,
        completed=0,
        published=0,
        error=None,
        outcome={},
        key_id=job.key_id,
    )


def job_of_row(row: SqlRow, cipher: SecretCipher) -> JobRecord:
    """Return a stored job with its secrets; `locked` without them if no key decrypts them."""
    request: dict[str, Any] = orjson.loads(row["request"])
    context: dict[str, Any] = {}
    locked = False
    try:
        request, context = merge_secrets(request, cipher.decrypt(row["sealed"]))
    except UnreadableSecrets:
        locked = True
    return JobRecord(
        id=row["id"],
        account_id=row["account_id"],
        kind=row["kind"],
        state=JobStatus(row["state"]),
        subject=row["subject"],
        request=request,
        context=context,
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        attempt=row["attempt"],
        total=row["total"],
        completed=row["completed"],
        published=row["published"],
        error=row["error"],
        outcome=orjson.loads(row["outcome"]),
        locked=locked,
        expired_at=row["expired_at"],
        reserved=row["reserved"],
        unlimited=bool(row["unlimited"]),
        credits=row["credits"],
        attempts_since_progress=row["attempts_since_progress"],
        key_id=row["key_id"],
        settled_rows=row["settled_rows"],
    )


def load_job(
    transaction: Transaction, account_id: str, job_id: str, cipher: SecretCipher
) -> JobRecord:
    """Return an account's job; raises `NoSuchJob`."""
    row = transaction.row("job", id=job_id, account_id=account_id)
    if row is None:
        raise NoSuchJob("no such job")
    return job_of_row(row, cipher)


def lease_values(lease: Lease) -> dict[str, Any]:
    """Return the values of a lease for the statements that check it."""
    return {"id": lease.job_id, "worker": lease.worker, "attempt": lease.attempt}


# A webhook's URL is secret too: most endpoints accept a post from anyone who knows it.
SECRET_FIELDS: Final = ("webhook_url", "webhook_secret", "headers", "cookies")
# The field of a request that has the options of its pages.
PAGE_OPTIONS: Final = "scrape_options"


def split_secrets(
    request: Mapping[str, Any], context: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a request without its secrets, and the secrets of request and context.

    The whole context is secret: it has providers' keys and proxies with passwords.
    """
    page_options = request.get(PAGE_OPTIONS)
    options = page_options if isinstance(page_options, Mapping) else {}
    public = {name: value for name, value in request.items() if name not in SECRET_FIELDS}
    if page_options is not None:
        public[PAGE_OPTIONS] = {
            name: value for name, value in options.items() if name not in SECRET_FIELDS
        }
    secrets = {
        "request": {name: request[name] for name in SECRET_FIELDS if name in request},
        PAGE_OPTIONS: {name: options[name] for name in SECRET_FIELDS if name in options},
        "context": dict(context),
    }
    return public, {name: part for name, part in secrets.items() if part}


def merge_secrets(
    request: Mapping[str, Any], secrets: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the whole request and the context; undoes `split_secrets`."""
    merged = {**request, **secrets.get("request", {})}
    if PAGE_OPTIONS in secrets:
        merged[PAGE_OPTIONS] = {**merged.get(PAGE_OPTIONS, {}), **secrets[PAGE_OPTIONS]}
    return merged, secrets.get("context", {})
