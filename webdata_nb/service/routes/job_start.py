"""Checks and stores the start of a job: the part that searches and crawls share."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.requests import Request

from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.contract.requests import CrawlRequest, Extract, ScrapeOptions, SearchRequest
from webdata_nb.page.content.page_source import check_selectors
from webdata_nb.page.errors import BadInput, PageError, ScrapeError
from webdata_nb.service.credits import tariff
from webdata_nb.service.observability.logs import CALLER
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.signing.request_signer import SIGNATURE_HEADERS
from webdata_nb.service.store.records import (
    IdempotencyKey,
    JobRecord,
    NewJob,
)
from webdata_nb.service.web.egress_policy import EgressPolicy


def account_of(request: Request) -> str:
    """Return the account of the request's key."""
    return str(request.state.account_id)


def caller_key_id() -> str | None:
    """Return the id of the request's key; None in a local service."""
    caller = CALLER.get()
    return None if caller is None else caller.key_id


def check_url(policy: EgressPolicy, url: str, *loc: str | int) -> None:
    """Raise `BadInput` for a URL of a body that the egress policy forbids."""
    try:
        policy.check_url(url)
    except PageError as error:
        raise BadInput(str(error), loc=("body", *loc)) from None


async def check_rendering(
    state: AppState, job_request: SearchRequest | ScrapeOptions, *loc: str
) -> None:
    """Raise `BadInput` for unknown devices, and for options that need a missing browser."""
    mobile_device, wait_for = job_request.mobile_device, getattr(job_request, "wait_for", None)
    if (field := _needs_browser(job_request)) is not None:
        try:
            await state.engines.egress.check_browser()
        except ScrapeError as error:
            raise BadInput(str(error), loc=(*loc, field)) from None
    if isinstance(wait_for, str):
        check_selectors((wait_for,), loc=(*loc, "wait_for"))
    if mobile_device is not None:
        try:
            await state.engines.egress.check_device(mobile_device)
        except BadInput as error:
            raise BadInput(str(error), loc=(*loc, "mobile_device")) from None


def _needs_browser(job_request: SearchRequest | ScrapeOptions) -> str | None:
    """Return the option that loads every page in a browser; None if there is none."""
    if not job_request.formats and isinstance(job_request, SearchRequest):
        return None  # no page is visited
    render = getattr(job_request, "render", None)
    if "screenshot" in job_request.formats:
        return "formats"
    if render is False:
        return None
    fields = ("render", "wait_for", "mobile", "mobile_device")
    needed = (
        name for name in fields if getattr(job_request, name, None) not in (None, False, "auto")
    )
    return next(needed, None)


def check_headers(state: AppState, headers: Mapping[str, str] | None, *loc: str) -> None:
    """Raise `BadInput` for headers that a service which signs its requests sets itself."""
    if state.engines.egress.signer is None:
        return
    taken = next((name for name in headers or {} if name.lower() in SIGNATURE_HEADERS), None)
    if taken is not None:
        raise BadInput(
            f"the header {taken!r} cannot be set at a service that signs its requests",
            loc=(*loc, "headers"),
        )


def check_extract(
    state: AppState, request: Request, job_request: Extract | None, *loc: str
) -> None:
    """Raise `BadInput` for an extraction that this service or session cannot perform."""
    session = state.sessions.context_of(request.headers.get(LEASE_HEADER))
    state.engines.check_extract(job_request, session, loc)


async def start(
    state: AppState,
    request: Request,
    job_request: SearchRequest | CrawlRequest,
    idempotency_key: str | None,
) -> tuple[JobRecord, bool]:
    """Store a job and wake the runner; a repeated idempotency key returns the first job.

    Raises `StoreUnavailable` while running jobs wait for disk space.
    """
    if (pending_error := state.retry.pending_error) is not None:
        raise pending_error
    body = await request.json()  # without defaults, which may change before a retry
    context = state.sessions.context_of(request.headers.get(LEASE_HEADER))
    job = NewJob(
        id=str(uuid.uuid4()),
        account_id=account_of(request),
        kind="crawl" if isinstance(job_request, CrawlRequest) else "search",
        subject=job_request.subject if isinstance(job_request, CrawlRequest) else job_request.query,
        request=body,
        context=await state.webhooks.add_options(job_request, context),
        max_charges=tariff.max_charges(job_request),
        key_id=caller_key_id(),
    )
    key = None if idempotency_key is None else idempotency_key_of(idempotency_key, job.kind, body)
    state.runner.wake()  # before `accept`, so that the claim shares its transaction
    return await state.store.accept(job, key=key, now=state.store.now())


def idempotency_key_of(key: str, operation: str, body: Mapping[str, Any] | str) -> IdempotencyKey:
    """Return a key with the hash of its request: the body of a start, or a job's id."""
    canonical = orjson.dumps([operation, body], option=orjson.OPT_SORT_KEYS)
    return IdempotencyKey(key, hashlib.sha256(canonical).hexdigest())
