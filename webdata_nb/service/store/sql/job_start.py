"""Adds jobs to the queue with their credits and idempotency keys, inside a transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from webdata_nb.service.errors import IdempotencyConflict
from webdata_nb.service.store.records import IDEMPOTENCY_S, IdempotencyKey, JobRecord, NewJob
from webdata_nb.service.store.sql.connection import Transaction
from webdata_nb.service.store.sql.credit_reservations import LockedCredits
from webdata_nb.service.store.sql.job_rows import accepted_job


def add_job(
    transaction: Transaction,
    account_credits: LockedCredits,
    job: NewJob,
    values: Mapping[str, Any],
    now: float,
) -> JobRecord:
    """Reserve the credits of a job and add it; `values` are those of `new_job_values`."""
    reserved = account_credits.reserve(job.id, job.max_charges)
    reservation: dict[str, Any] = {"reserved": reserved, "unlimited": reserved is None}
    transaction.send("add_job", **values, **reservation)
    return replace(accepted_job(job, now), **reservation)


def replayed_id(
    transaction: Transaction, account_id: str, key: IdempotencyKey, now: float
) -> str | None:
    """Return the id that the same key started within its day."""
    row = transaction.row(
        "idempotent",
        account_id=account_id,
        key=key_digest(account_id, key.key),
        since=now - IDEMPOTENCY_S,
    )
    if row is None:
        return None
    if row["fingerprint"] != key.fingerprint:
        raise IdempotencyConflict("this Idempotency-Key was used with another body; send a new key")
    return str(row["job_id"])


def key_digest(account_id: str, key: str) -> str:
    """Return what is stored of a key, which callers may have built from their own data."""
    return hashlib.sha256(f"{account_id}\0{key}".encode()).hexdigest()


def remember_key(
    transaction: Transaction, account_id: str, key: IdempotencyKey, started_id: str, now: float
) -> None:
    """Store which id a key started."""
    transaction.send(
        "remember_key",
        account_id=account_id,
        key=key_digest(account_id, key.key),
        fingerprint=key.fingerprint,
        job_id=started_id,
        now=now,
    )
