"""Converts between jobs and rows of their tables, and encrypts secret parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from webdata_nb.contract.states import JobStatus
from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import NoSuchJob, UnreadableSecrets
from webdata_nb.service.store.records import JobRecord, Lease, NewJob
from webdata_nb.service.store.sql.connection import SqlRow, Transaction


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
