"""What every start shares: validate, check, persist, wake the runner, answer."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.requests import Request

from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.contract.requests import CrawlRequest, Extract, ScrapeOptions, SearchRequest
from webdata_nb.contract.states import JobKind
from webdata_nb.service.content.page_source import check_selectors
from webdata_nb.service.credits import tariff
from webdata_nb.service.errors import BadInput, PageError, ScrapeError
from webdata_nb.service.observability.logs import CALLER
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.store.records import IdempotencyKey, JobRecord, NewJob
from webdata_nb.service.web.egress_policy import EgressPolicy


def account_of(request: Request) -> str:
    """Return the account that the gate found."""
    return str(request.state.account_id)


def caller_key_id() -> str | None:
    """Return which key of its account the request came with; None in a local service."""
    caller = CALLER.get()
    return None if caller is None else caller.key_id


def check_url(policy: EgressPolicy, url: str, *, field: str) -> None:
    """Refuse a URL that no job may fetch, before anything is stored."""
    try:
        policy.check_url(url)
    except PageError as error:
        raise BadInput(str(error), loc=("body", field)) from None


async def check_rendering(
    state: AppState, wanted: SearchRequest | ScrapeOptions, *loc: str
) -> None:
    """Refuse what no browser would know, and what needs a browser where there is none."""
    mobile_device, wait_for = wanted.mobile_device, getattr(wanted, "wait_for", None)
    if (field := _needs_browser(wanted)) is not None:
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


def _needs_browser(wanted: SearchRequest | ScrapeOptions) -> str | None:
    """Return the field for which every page would be loaded in a browser; None for none."""
    if not wanted.formats and isinstance(wanted, SearchRequest):
        return None  # no page is visited
    render = getattr(wanted, "render", None)
    if "screenshot" in wanted.formats:
        return "formats"
    if render is False:
        return None
    fields = ("render", "wait_for", "mobile", "mobile_device")
    given = (name for name in fields if getattr(wanted, name, None) not in (None, False, "auto"))
    return next(given, None)


def check_extract(state: AppState, request: Request, wanted: Extract | None, *loc: str) -> None:
    """Refuse an extraction that nobody here could carry out."""
    session = state.sessions.context_of(request.headers.get(LEASE_HEADER))
    state.engines.check_extract(wanted, session, loc)


async def start(
    state: AppState,
    request: Request,
    wanted: SearchRequest | CrawlRequest,
    idempotency_key: str | None,
) -> tuple[JobRecord, bool]:
    """Persist a job and have it run; a start repeated under its key finds the first one.

    Raises `StoreUnavailable` while running jobs wait for space on the disk.
    """
    if (trouble := state.retry.trouble) is not None:
        raise trouble
    body = await request.json()  # as it was sent: defaults may change before a retry
    kind: JobKind = "crawl" if isinstance(wanted, CrawlRequest) else "search"
    context = state.sessions.context_of(request.headers.get(LEASE_HEADER))
    job = NewJob(
        id=str(uuid.uuid4()),
        account_id=account_of(request),
        kind=kind,
        subject=wanted.url if isinstance(wanted, CrawlRequest) else wanted.query,
        request=body,
        context=await state.webhooks.add_options(wanted, context),
        max_charges=tariff.max_charges(wanted),
        key_id=caller_key_id(),
    )
    key = None if idempotency_key is None else idempotency_key_of(idempotency_key, kind, body)
    state.runner.wake()  # first: its claim shares the job's own transaction
    return await state.store.accept(job, key=key, now=time.time())


def idempotency_key_of(key: str, what: str, body: Mapping[str, Any] | str) -> IdempotencyKey:
    """Return a caller's key with the hash of what it was sent with: a start's body, a job's id."""
    canonical = orjson.dumps([what, body], option=orjson.OPT_SORT_KEYS)
    return IdempotencyKey(key, hashlib.sha256(canonical).hexdigest())
