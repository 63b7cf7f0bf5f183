"""One async method per endpoint of the contract."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import uuid
from collections.abc import (
    AsyncGenerator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypeVar, Unpack

from pydantic import BaseModel

from webdata_nb import errors
from webdata_nb.contract import limits, paths
from webdata_nb.contract.events import Event
from webdata_nb.contract.outcomes import JobKind
from webdata_nb.contract.replies import (
    AdvertisersReply,
    CancelReply,
    CapturesReply,
    CrawlStatus,
    CreativesReply,
    DeleteReply,
    EngineEntry,
    EngineList,
    JobList,
    PageFactsPage,
    ReceiptPage,
    RetryReply,
    SearchStart,
    SearchStatus,
    SiteReply,
    StartReply,
    UsageReply,
    VerifyReply,
    Weight,
)
from webdata_nb.contract.requests import CrawlRequest, ScrapeOptions
from webdata_nb.errors import BadAnswer, InvalidRequest, NotFound, NotSupported, ServiceError
from webdata_nb.toolkit.client import transport
from webdata_nb.toolkit.client.transport import ApiRequest, LateReply, Transport, TransportOptions

log: Final = logging.getLogger("webdata_nb")

ExportFormat = Literal["json", "csv", "zip"]

CANCEL_S: Final = 2.5
R = TypeVar("R", bound=BaseModel)

_NO_BODY: Final[Mapping[str, Any]] = MappingProxyType({})
_ACCEPTED: Final[Mapping[str, Any]] = MappingProxyType({"success": True})
_STARTED: Final[Mapping[str, Any]] = MappingProxyType({"success": True, "status": "started"})
# The operations whose optional parameters a service may refuse.
_START: Final = "start"
_SEARCH_STATUS: Final = "status of a search"
_CRAWL_STATUS: Final = "status of a crawl"
# A parameter of the latter with a value that a service may refuse.
_LATE_PAGE: Final = "late page"
_RECEIPTS: Final = "receipts, which say what became of each URL"
_FACTS: Final = "the facts of pages, such as the texts of their links"
# No crawl of the contract has so many pages that one of them would be here.
_PAGE_WITHOUT_ROWS: Final = limits.MAX_PAGES[1] + 1
_EVENTS: Final = {"search": paths.SEARCH_EVENTS, "crawl": paths.CRAWL_EVENTS}
_EXPORT: Final = {"search": paths.SEARCH_EXPORT, "crawl": paths.CRAWL_EXPORT}


class Client:
    """Calls one service with one key, from one event loop.

    Every call is bounded, paced together with all clients of the same key, and tried again where
    that cannot act twice. A start carries an `Idempotency-Key` and is repeated only once the
    service is known to honour it.

    Parameters
    ----------
    base_url : str
        The service's address.
    api_key : str
        The bearer key; empty for a service without keys. It is never logged or shown.
    **options
        See `TransportOptions`.

    Attributes
    ----------
    offers_events : bool
        Whether the service may offer event streams; False once it is known not to.
    offers_folders : bool
        Whether it may offer crawls of a folder, likewise.

    Raises
    ------
    InvalidArgument
        A key that no header can carry.
    """

    def __init__(self, base_url: str, api_key: str, **options: Unpack[TransportOptions]) -> None:
        self._honours_keys: bool | None = None
        self.offers_events = self.offers_folders = True
        self._transport = Transport(base_url, api_key, **options)
        self._offered = OfferedOptions(self._transport)
        self._optional = OptionalParameters(self._transport)

    def __repr__(self) -> str:
        return f"Client({self.base_url!r})"

    @property
    def base_url(self) -> str:
        """The service's address, without a slash at its end."""
        return self._transport.base_url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    def _parse(self, model: type[R], body: Any, known: Mapping[str, Any] | None = None) -> R:
        return transport.parse(model, body, self.base_url, known=known)

    async def _extra(self, what: str, request: ApiRequest, *, crawl: str = "") -> Any:
        """Send a request that another service may not know; `what` completes "does not offer".

        One about a `crawl` raises `NotFound` where that does not exist.
        """
        try:
            return await self._transport.json(request)
        except errors.ServiceError as error:
            if crawl and isinstance(error, NotFound):
                await self.crawl_state(crawl)
            raise absent_operation(error, self.base_url, what) from None

    # ----------------------------------------------------------------------------------- starts

    async def start_search(
        self,
        body: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        wait_s: int = 0,
    ) -> SearchStart:
        """POST /v1/search.

        Parameters
        ----------
        body : Mapping
            The request, named as in the contract.
        idempotency_key : str, optional
            Up to 255 characters; a fresh one by default.
        wait_s : int
            Seconds for which the answer may wait for the job's end, and then hold its `result`;
            a service that does not know this (ours) answers at once.

        Raises
        ------
        UnknownOutcome
            The answer was lost, and the service is not known to honour keys.
        ServiceError, ConnectionFailed, BadAnswer
            As every call.
        """
        request = _creating(paths.SEARCH, body, _key(idempotency_key))
        if wait_s:
            request = replace(request, params={"wait": wait_s})
        return self._parse(SearchStart, await self._start(request), _STARTED)

    async def start_crawl(
        self,
        body: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> StartReply:
        """POST /v1/crawl; parameters and errors as `start_search`.

        Raises
        ------
        NotSupported
            The service does not offer an option that must not be ignored; nothing was started.
        """
        await self._offered.check(paths.CRAWL, body)
        return await self._start_job(paths.CRAWL, body, idempotency_key)

    async def start_extended_crawl(
        self,
        body: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> StartReply:
        """POST /v1/crawls (ours): other sources, sinks and sizes; parameters as `start_search`.

        Raises
        ------
        NotFound, NotSupported
            The service offers no such crawls; nothing was started.
        """
        return await self._start_job(paths.EXTENDED_CRAWLS, body, idempotency_key)

    async def _start_job(
        self,
        path: str,
        body: Mapping[str, Any],
        idempotency_key: str | None,
    ) -> StartReply:
        request = _creating(path, body, _key(idempotency_key))
        try:
            return self._parse(StartReply, await self._start(request), _STARTED)
        except errors.InvalidRequest as error:
            raise refused_start(error, self.base_url, body) from None

    async def _start(self, request: ApiRequest) -> Any:
        try:
            return await self._create(replace(request, idempotent=bool(self._honours_keys)))
        except (errors.UnknownOutcome, errors.ServiceFault):
            # Sent again only where the service honours the key, so that no second job starts.
            if self._honours_keys is not None or not await self._learn_of_keys():
                raise
            return await self._create(replace(request, idempotent=True))

    async def _create(self, request: ApiRequest) -> Any:
        """Start a job; one whose caller was cancelled meanwhile is cancelled as well."""
        try:
            return await self._optional.json(_START, request, ["wait"])
        except LateReply as late:
            # Its caller will never learn the id, so nobody else could end this job.
            with contextlib.suppress(errors.BadAnswer):
                job_id = self._parse(RetryReply, late.reply.decoded, _ACCEPTED).started
                await self.cancel_quietly(job_id, within_s=CANCEL_S / 2)
            # Plain again: asyncio.timeout of Python 3.11 knows no subclass.
            raise asyncio.CancelledError from None

    async def _learn_of_keys(self) -> bool:
        """Whether the service honours keys: they are an extra of those that also list jobs."""
        try:
            await self.jobs(limit=1)
        except (errors.ServiceError, errors.BadAnswer):
            self._honours_keys = False
        except errors.ConnectionFailed:
            return False
        else:
            self._honours_keys = True
        return self._honours_keys

    # --------------------------------------------------------------------------------- job state

    async def search_status(
        self, job_id: str, *, include_data: bool = True, wait_s: int = 0
    ) -> SearchStatus:
        """GET /v1/search/{job_id}; without data it is cheap to poll.

        With `wait_s` (ours, up to 30) the answer comes when the job has ended, or after that time;
        a service that does not know it answers at once.
        """
        params = {**_data(include_data), **({"wait": wait_s} if wait_s else {})}
        request = ApiRequest("GET", _of_job(paths.SEARCH_JOB, job_id), params)
        reply = await self._optional.json(_SEARCH_STATUS, request, ["include_data", "wait"])
        status = self._parse(SearchStatus, reply, {"job_id": job_id})
        for rank, row in enumerate(status.data, 1):
            row.setdefault("rank", rank)  # the contract sends the results in organic order
        return status

    async def crawl_status(
        self,
        job_id: str,
        *,
        page: int = 1,
        per_page: int = limits.PER_PAGE_DEFAULT,
        include_data: bool = True,
    ) -> CrawlStatus:
        """GET /v1/crawl/{job_id}; `page` counts from 1, `per_page` up to 1000.

        Raises
        ------
        NotSupported
            Only of a later page: the service has no parameter for it that we know.
        """
        params = {"page": page, "per_page": per_page, **_data(include_data)}
        request = ApiRequest("GET", _of_job(paths.CRAWL_JOB, job_id), params)
        # The contract does not name these parameters; without `page`, the first one arrives.
        optional = ["include_data", "per_page", *(["page"] if page == 1 else [])]
        if page > 1 and self._optional.refuses(_CRAWL_STATUS, "page"):
            raise errors.NotSupported(
                f"the service at {self.base_url} shows only the first page of a crawl",
                status=HTTPStatus.NOT_IMPLEMENTED,
            )
        reply = await self._optional.json(_CRAWL_STATUS, request, optional)
        return self._parse(CrawlStatus, reply, {"job_id": job_id})

    async def receipt(
        self, job_id: str, *, page: int = 1, per_page: int = limits.RECEIPT_PER_PAGE_DEFAULT
    ) -> ReceiptPage:
        """GET /v1/crawl/{job_id}/receipt (ours): what became of each URL, by URL.

        Raises
        ------
        NotFound, NotSupported
            The service offers no receipt, or knows no such crawl.
        """
        params = {"page": page, "per_page": per_page}
        request = ApiRequest("GET", _of_job(paths.CRAWL_RECEIPT, job_id), params)
        return self._parse(ReceiptPage, await self._extra(_RECEIPTS, request))

    async def receipt_of(self, job_id: str, url: str) -> ReceiptPage:
        """Ask what became of one URL; the reply's `url` is the form that was looked up."""
        request = ApiRequest("GET", _of_job(paths.CRAWL_RECEIPT, job_id), {"url": url})
        return self._parse(ReceiptPage, await self._extra(_RECEIPTS, request, crawl=job_id))

    async def page_facts(
        self, job_id: str, *, per_page: int = limits.PAGE_FACTS_DEFAULT, cursor: str | None = None
    ) -> PageFactsPage:
        """GET /v1/crawl/{job_id}/page-facts (ours): what an audit compares of each page.

        Raises
        ------
        NotFound, NotSupported
            The service offers no facts of pages, or knows no such crawl.
        """
        params: dict[str, str | int] = {"per_page": per_page}
        if cursor is not None:
            params["cursor"] = cursor
        request = ApiRequest("GET", _of_job(paths.CRAWL_PAGE_FACTS, job_id), params)
        return self._parse(PageFactsPage, await self._extra(_FACTS, request, crawl=job_id))

    async def verify(self, pages: Sequence[Mapping[str, Any]]) -> VerifyReply:
        """POST /v1/verify (ours): compare extracted values with the stored pages.

        Raises
        ------
        NotFound, NotSupported
            The service does not keep the pages from which it extracts values.
        """
        request = ApiRequest("POST", paths.VERIFY, body={"pages": list(pages)}, idempotent=True)
        return self._parse(VerifyReply, await self._transport.json(request))

    async def captures(self, body: Mapping[str, Any]) -> CapturesReply:
        """POST /v1/captures (ours): list a page of a web archive's index.

        Raises
        ------
        NotFound, NotSupported
            The service asks no web archives.
        """
        request = ApiRequest("POST", paths.CAPTURES, body=dict(body), idempotent=True)
        return self._parse(CapturesReply, await self._transport.json(request))

    async def status(self, kind: JobKind, job_id: str) -> SearchStatus | CrawlStatus:
        """Return the status of a job of either kind, without its rows where that is possible."""
        if kind == "search":
            return await self.search_status(job_id, include_data=False)
        return await self.crawl_state(job_id)

    async def crawl_state(self, job_id: str) -> CrawlStatus:
        """Return the status of a crawl without its rows where that is possible.

        A service without `include_data` is asked for the page after the last one that a crawl may
        have, which is empty. If it shows rows even so, those are in the reply.
        """
        refuses = self._optional.refuses
        if not refuses(_CRAWL_STATUS, "include_data"):
            status = await self.crawl_status(job_id, per_page=1, include_data=False)
            if status.data:
                self._optional.refuse(_CRAWL_STATUS, "include_data")  # it was ignored
            return status
        if not (refuses(_CRAWL_STATUS, "page") or refuses(_LATE_PAGE, "page")):
            try:
                status = await self.crawl_status(job_id, page=_PAGE_WITHOUT_ROWS, per_page=1)
            except (errors.InvalidRequest, errors.NotFound):
                self._optional.refuse(_LATE_PAGE, "page")
            else:
                if not status.data:
                    return status
                # Another page came: the first one if `page` is ignored, else perhaps the last one.
                is_first = status.stated("page") in {None, 1}
                self._optional.refuse(_CRAWL_STATUS if is_first else _LATE_PAGE, "page")
                if status.stated("page") == 1:
                    return status
        return await self.crawl_status(job_id, per_page=1, include_data=False)

    async def cancel(self, job_id: str) -> CancelReply:
        """POST /v1/jobs/{job_id}/cancel; repeating it changes nothing.

        Raises
        ------
        WrongState
            The job has ended already.
        """
        path = _of_job(paths.JOB_CANCEL, job_id)
        request = ApiRequest(
            "POST", path, body=_NO_BODY, idempotent=True, lane="none", timeout_s=CANCEL_S
        )
        known = {**_ACCEPTED, "job_id": job_id}
        return self._parse(CancelReply, await self._transport.json(request), known)

    async def cancel_quietly(self, job_id: str, *, within_s: float = CANCEL_S) -> bool:
        """Cancel from a clean-up: in bounded time, and without raising; return whether it ended.

        A service that is busy may cancel the job later than that.
        """
        try:
            async with asyncio.timeout(within_s):
                await self.cancel(job_id)
        except errors.WrongState:
            return True  # it ended by itself
        except TimeoutError:
            log.warning(
                "job %s: the service did not confirm the cancellation in %g s", job_id, within_s
            )
        except errors.WebdataError as error:
            log.warning("job %s could not be cancelled at the service: %s", job_id, error)
        else:
            return True
        return False

    async def delete(self, job_id: str) -> DeleteReply:
        """DELETE /v1/jobs/{job_id}: the job and all that the service stores of it.

        Raises
        ------
        WrongState
            The job is pending or running.
        NotFound
            There is no such job, or it is deleted already.
        """
        request = ApiRequest("DELETE", _of_job(paths.JOB, job_id))
        return self._parse(DeleteReply, await self._transport.json(request))

    async def retry(self, job_id: str) -> RetryReply:
        """POST /v1/jobs/{job_id}/retry: a new job with the saved configuration.

        Raises
        ------
        WrongState
            The job is neither failed nor cancelled.
        UnknownOutcome
            The answer was lost.
        """
        path = _of_job(paths.JOB_RETRY, job_id)
        request = _creating(path, _NO_BODY, _key(None))
        return self._parse(RetryReply, await self._create(request), _ACCEPTED)

    # ------------------------------------------------------------------------------------- lists

    async def creatives(self, body: Mapping[str, Any]) -> CreativesReply:
        """POST .../transparency/creatives: one page; it starts nothing, so losses are retried."""
        requested_ms = body.get("timeout_ms")
        requested_s = requested_ms / 1000 if isinstance(requested_ms, int | float) else 0.0
        request = ApiRequest(
            "POST",
            paths.CREATIVES,
            body=body,
            idempotent=True,
            lane="starts",
            timeout_s=max(self._transport.timeout_s, requested_s + 10),
        )
        known = {"advertiser_id": str(body.get("advertiser_id", ""))}
        return self._parse(CreativesReply, await self._transport.json(request), known)

    async def advertisers(
        self, query: str, *, limit: int = limits.ADVERTISERS_DEFAULT
    ) -> AdvertisersReply:
        """GET .../advertisers: who a name or domain may mean; an extra that a service may lack."""
        params: dict[str, str | int] = {"query": query, "limit": limit}
        request = ApiRequest("GET", paths.ADVERTISERS, params)
        reply = await self._extra("the search for advertisers", request)
        return self._parse(AdvertisersReply, reply)

    async def creative_file(self, sha256: str) -> bytes:
        """GET .../files/{sha256}: a file that a creatives call downloaded; an extra of ours.

        Raises
        ------
        NotFound
            No such file for this key, or it is past its retention.
        """
        path = paths.fill(paths.CREATIVES_FILE, sha256=sha256)
        request = ApiRequest("GET", path, headers={"accept": "*/*"})
        async with self._transport.stream(request) as (_, pieces):
            return b"".join([piece async for piece in pieces])

    async def jobs(
        self, *, cursor: str | None = None, limit: int = limits.JOBS_LISTED_DEFAULT
    ) -> JobList:
        """GET /v1/jobs: the caller's own, newest first; an extra that a service may lack."""
        params: dict[str, str | int] = {"limit": limit}
        if cursor is not None:
            params["cursor"] = cursor
        request = ApiRequest("GET", paths.JOBS, params)
        return self._parse(JobList, await self._extra("a list of jobs", request))

    async def engines(self) -> list[EngineEntry]:
        """GET /v1/engines (ours): whom each engine asks, and what the others lack."""
        answer = await self._extra("a list of its engines", ApiRequest("GET", paths.ENGINES))
        return self._parse(EngineList, answer).engines

    async def remove_site(self, url: str) -> int:
        """Remove a site's pages from the search of a local service; return their number."""
        request = ApiRequest("POST", paths.LOCAL_SITES_REMOVE, body={"url": url}, idempotent=True)
        return self._parse(SiteReply, await self._transport.json(request)).removed

    async def usage(self) -> UsageReply:
        """GET /v1/usage: credits and active work of this key's account."""
        reply = await self._extra("a report of its usage", ApiRequest("GET", paths.USAGE))
        return self._parse(UsageReply, reply)

    async def weights(self) -> list[Weight]:
        """GET /v1/data-api-weights/public: credits by platform and operation."""
        return transport.parse_weights(await self._transport.json(ApiRequest("GET", paths.WEIGHTS)))

    # ----------------------------------------------------------------------------------- streams

    async def export(
        self, kind: JobKind, job_id: str, file_format: ExportFormat
    ) -> AsyncGenerator[bytes, None]:
        """GET .../export: the file in pieces, as they arrive; only opening it is tried again.

        Raises
        ------
        Expired
            The raw results are past their retention.
        NotFound
            No such job, or nothing to export.
        ConnectionFailed
            The file broke off: what was given so far is not the whole.
        """
        path = _of_job(_EXPORT[kind], job_id)
        request = ApiRequest("GET", path, {"format": file_format}, headers={"accept": "*/*"})
        async with self._transport.stream(request) as (_, pieces):
            async for piece in pieces:
                yield piece

    def events(self, kind: JobKind, job_id: str) -> AsyncGenerator[Event, None]:
        """GET .../events: a job's progress, up to its `Done`; reopened where it breaks.

        There is no `Done` where the service says that nothing follows the last event.

        Raises
        ------
        NotSupported, NotFound
            The service offers no stream, or knows no such job.
        ConnectionFailed
            The stream broke several times in a row without a new event.
        """
        return transport.follow(self._transport, _of_job(_EVENTS[kind], job_id))


def _key(caller_key: str | None) -> str:
    """Return the caller's key, or a fresh one."""
    key = uuid.uuid4().hex if caller_key is None else caller_key
    if not 0 < len(key) <= limits.IDEMPOTENCY_KEY_LENGTH or not (
        key.isascii() and key.isprintable()
    ):
        raise errors.InvalidArgument(
            f"idempotency_key must be 1 to {limits.IDEMPOTENCY_KEY_LENGTH} ASCII characters"
        )
    return key


def _of_job(path: str, job_id: str) -> str:
    """Fill a job's id into its path, where it must stay one segment."""
    with contextlib.suppress(ValueError):
        if job_id not in {"", ".", ".."}:
            return paths.fill(path, job_id=job_id)
    raise errors.InvalidArgument(f"{job_id!r} cannot be the id of a job")


def _creating(path: str, body: Mapping[str, Any], key: str) -> ApiRequest:
    headers = {paths.IDEMPOTENCY_KEY: key}
    return ApiRequest("POST", path, body=body, headers=headers, creates=True, lane="starts")


def _data(include: bool) -> dict[str, str | int]:
    """Return the parameters that request a reply with or without rows."""
    return {} if include else {"include_data": "false"}


# The options of crawls that must not be ignored.
CHECKED: Final = frozenset({"purpose", "rights", "check_links"})

_OURS: Final = "(ours)"
_REFUSALS: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
# What services have refused, by `Transport.key_digest`.
_REFUSED: Final[dict[str, set[tuple[str, str]]]] = {}


class OptionalParameters:
    """The query parameters without which a request is valid as well, though its answer is longer.

    A service says that it refuses a parameter by the status 400 or 422. A parameter counts as
    refused once the request succeeds without it.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def refuses(self, operation: str, name: str) -> bool:
        """Whether the service has refused a parameter of an operation."""
        return (operation, name) in _REFUSED.get(self._transport.key_digest, ())

    def refuse(self, operation: str, name: str) -> None:
        """Leave a parameter of an operation out from now on."""
        _REFUSED.setdefault(self._transport.key_digest, set()).add((operation, name))

    async def json(self, operation: str, request: ApiRequest, optional: Sequence[str]) -> Any:
        """Return the reply to a request; `optional` names parameters, the least useful one first.

        Raises
        ------
        ServiceError, ConnectionFailed, UnknownOutcome, BadAnswer
            As `Transport.json`, for the request without what may be left out.
        """
        params = {
            name: value
            for name, value in request.params.items()
            if name not in optional or not self.refuses(operation, name)
        }
        while True:
            try:
                reply = await self._transport.json(replace(request, params=params))
            except InvalidRequest as error:
                names = [name for name in optional if name in params]
                named = _named(error, names)
                # One that the refusal names, or else the first.
                left_out = next(iter(named if named or error.fields else names), None)
                if error.status not in _REFUSALS or left_out is None:
                    raise
                del params[left_out]
            else:
                for name in request.params.keys() - params.keys():
                    self.refuse(operation, name)
                return reply


def absent_operation(error: ServiceError, base_url: str, what: str) -> ServiceError:
    """Return the error of an operation that a service may lack, as a sentence about the service."""
    is_lacking = error.status == HTTPStatus.NOT_IMPLEMENTED and not error.detail
    is_unknown = isinstance(error, NotFound) or error.status == HTTPStatus.METHOD_NOT_ALLOWED
    if not (is_lacking or is_unknown):
        return error
    return NotSupported(f"the service at {base_url} does not offer {what}", status=error.status)


def refused_start(error: InvalidRequest, base_url: str, body: Mapping[str, Any]) -> ServiceError:
    """Return the error of a start; it names options beyond the contract that it did not take."""
    models = ((CrawlRequest, body), (ScrapeOptions, body.get("scrape_options")))
    extras = [
        name
        for model, values in models
        if isinstance(values, Mapping)
        for name, field in model.model_fields.items()
        if name in values and _OURS in (field.description or "")
    ]
    kinds = [
        kind
        for (path, _), kind in zip(error.fields, error.types, strict=False)
        if path.rpartition(".")[2] in extras
    ]
    # A service that refuses the value of an option knows the option.
    states_a_value = bool(kinds) and not any("extra" in kind for kind in kinds)
    if error.status not in _REFUSALS or not extras or states_a_value:
        return error
    refused = _named(error, extras)
    if refused:
        offer = f"does not offer {' and '.join(refused)}"
    elif not _named(error, [*body, *(body.get("scrape_options") or ())]):
        offer = f"refused the request, perhaps because it does not offer {' and '.join(extras)}"
    else:
        return error
    return NotSupported(
        f"the service at {base_url} {offer}; nothing was started",
        status=error.status,
        detail=error.detail,
    )


def _named(error: InvalidRequest, names: Sequence[str]) -> list[str]:
    """Return the names that a refusal mentions."""
    fields = {part for path, _ in error.fields for part in path.split(".")}
    return [name for name in names if name in fields or re.search(rf"\b{name}\b", error.detail)]


class OfferedOptions:
    """The options that the operations of one service accept, read once from its document."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._document: Mapping[str, Any] | None = None

    async def check(self, path: str, body: Mapping[str, Any]) -> None:
        """Check the options of a request before it is sent.

        Raises
        ------
        NotSupported
            The service does not offer one of them.
        ConnectionFailed
            It cannot be reached.
        """
        wanted = sorted(CHECKED & body.keys())
        if not wanted:
            return
        if self._document is None:
            try:
                document = await self._transport.json(ApiRequest("GET", paths.OPENAPI))
            except (ServiceError, BadAnswer):
                document = None
            self._document = document if isinstance(document, dict) else {}
        # Return the names of the fields that the body of POST `path` may have.
        keys = ("paths", path, "post", "requestBody", "content", "application/json", "schema")
        schema = _entry(self._document, keys)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = _entry(self._document, reference.removeprefix("#/").split("/"))
        offered = frozenset(_entry(schema, ("properties",)))
        if missing := [name for name in wanted if name not in offered]:
            raise NotSupported(
                f"the service at {self._transport.base_url} does not offer "
                f"{' and '.join(missing)} (POST {path}); nothing was started",
                status=HTTPStatus.NOT_IMPLEMENTED,
            )


def _entry(value: Any, keys: Sequence[str]) -> Mapping[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
