"""Compares extracted values with the stored pages: POST /v1/verify."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

import msgspec
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.replies import PageVerdict, VerifyReply
from webdata_nb.contract.requests import PageToVerify, VerifyRequest
from webdata_nb.page.errors import PageError
from webdata_nb.page.extract.evidence.messages import page_digest
from webdata_nb.service.errors import NoSuchJob
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.expiry import expiry_of
from webdata_nb.service.routes.routing import AccountId, StateDep, examples, strict_router
from webdata_nb.service.store.records import StoredSource

router = strict_router("jobs")


@router.post(
    paths.VERIFY,
    summary="Compare extracted values with the stored pages (ours)",
    response_model=VerifyReply,
)
async def verify_values(
    state: StateDep,
    account_id: AccountId,
    verify_request: Annotated[VerifyRequest, examples("verifyValues")],
) -> Response:
    """Say of each value whether the page from which it was extracted contains it.

    The service keeps the source of pages from which values are extracted, as long as the rows. It
    is read again, and each value gets its place, a quote and a verdict. Nothing is fetched, and
    nothing is charged.
    """
    pages = await _compare_all(state, account_id, verify_request.pages)
    return JSONResponse({"success": True, "pages": pages})


async def _compare_all(
    state: AppState, account_id: str, pages: Sequence[PageToVerify]
) -> list[dict[str, object]]:
    urls: dict[str, list[str]] = defaultdict(list)
    for page in pages:
        urls[page.job_id].append(page.url)
    sources: dict[tuple[str, str], StoredSource] = {}
    reasons: dict[str, str] = {}
    for job_id, of_job in urls.items():
        found, reasons[job_id] = await _sources(state, account_id, job_id, of_job)
        keys = ((job_id, url) for url in of_job)
        sources.update(zip(keys, found, strict=True))
    compared = (
        _compare(state, page, sources[page.job_id, page.url], reasons[page.job_id])
        for page in pages
    )
    return list(await asyncio.gather(*compared))


async def _sources(
    state: AppState, account_id: str, job_id: str, urls: Sequence[str]
) -> tuple[Sequence[StoredSource], str]:
    """Return the sources of pages of a job, and why one that is missing is."""
    no_sources = [StoredSource()] * len(urls)
    try:
        job = await state.store.job(account_id, job_id)
    except NoSuchJob:
        return no_sources, "the service has no such job, or not any more"
    if expiry_of(state, job) is not None:
        return no_sources, "the rows of the job are past their retention"
    reason = "the job has no row with this URL, or extracted nothing from it"
    return await state.store.page_sources(account_id, job_id, urls), reason


async def _compare(
    state: AppState, page: PageToVerify, source: StoredSource, reason: str
) -> dict[str, object]:
    if source.text is None:
        outcome: PageVerdict = "failed" if source.damage else "gone"
        return _reply(page, outcome, detail=source.damage or reason)
    digest = page_digest(source.text)
    if page.digest not in {None, digest}:
        detail = "the stored page is not the one of the digest"
        return _reply(page, "changed", digest=digest, detail=detail)
    try:
        evidence = await state.engines.find_evidence(source.text, page.url, page.extract)
    except PageError as error:
        return _reply(page, "failed", digest=digest, detail=str(error))
    return _reply(page, "compared", digest=digest) | {"values": msgspec.to_builtins(evidence)}


def _reply(
    page: PageToVerify, outcome: PageVerdict, *, digest: str | None = None, detail: str = ""
) -> dict[str, object]:
    values: list[object] = []
    return {
        "job_id": page.job_id,
        "url": page.url,
        "outcome": outcome,
        "digest": digest,
        "detail": detail,
        "values": values,
    }
