"""Answers questions about a crawl: what became of a URL, its links, and extracted values."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from webdata_nb.contract import limits, outcomes, paths
from webdata_nb.contract.fields import http_url
from webdata_nb.contract.replies import ReceiptEntry, VerifiedPage
from webdata_nb.errors import (
    InvalidArgument,
    InvalidRequest,
    NotFound,
    NotSupported,
    OfflineError,
)
from webdata_nb.suggestions import closest_url, did_you_mean, format_value
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.cache import result_cache
from webdata_nb.toolkit.cache.result_cache import find_job_ref
from webdata_nb.toolkit.client import paging
from webdata_nb.toolkit.display import bars
from webdata_nb.toolkit.frames import extracted, frame
from webdata_nb.toolkit.frames.rows import dumps
from webdata_nb.toolkit.jobs.job import Job, checked_id
from webdata_nb.toolkit.requests.arguments import CallOptions, check_flag, within
from webdata_nb.toolkit.requests.options import ConnectionOptions
from webdata_nb.toolkit.requests.signatures import with_options
from webdata_nb.toolkit.sites import pages
from webdata_nb.toolkit.sites.pages import PAGE_FACTS

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.toolkit.client.client import Client
    from webdata_nb.toolkit.frames.extracted import ExtractedRow

# The outcome of a URL


@dataclass(frozen=True, slots=True, repr=False)
class Why:
    """The outcome of one URL in a crawl; printed or displayed, it is a sentence.

    Attributes
    ----------
    url : str
        The URL as the caller wrote it.
    outcome : str or None
        `fetched`, `failed:<kind>`, `robots`, `scope` ...; None if the crawl never saw the URL.
    detail : str
        Details, such as the target of a redirect; often empty.
    looked_up : str
        The spelling in the receipt, if it differs from `url`.
    near : tuple of (str, str)
        URL and outcome of other spellings that the crawl saw.
    """

    url: str
    outcome: str | None
    detail: str = ""
    looked_up: str = ""
    near: tuple[tuple[str, str], ...] = ()

    @property
    def is_row(self) -> bool:
        """Whether the URL is a row of the crawl."""
        return self.outcome is not None and outcomes.is_row(self.outcome)

    def __str__(self) -> str:
        if self.outcome is None:
            text = "not seen: no page of the crawl links to it"
        else:
            detail = f" ({self.detail})" if self.detail else ""
            meaning = outcomes.meaning(self.outcome)
            text = f"{self.outcome}{detail}" + (f": {meaning}" if meaning else "")
        near = (f"also seen: {url} ({outcome})" for url, outcome in self.near)
        return "; ".join([f"{self.looked_up or self.url}: {text}", *near])

    def __repr__(self) -> str:
        return f"Why({self})"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        _ = include, exclude
        return bars.object_bundle(repr(self), str(self))


@with_options(ConnectionOptions)
async def awhy(
    crawl: pd.DataFrame | Job | str, url: str, **options: Unpack[ConnectionOptions]
) -> Why:
    """Look up what happened to a URL in a crawl: whether it is a row, and if not, why.

    `awhy` is the same for async code. The receipt of a cached crawl is read from the cache, also
    offline; any other receipt comes from the service.

    Parameters
    ----------
    crawl
        What `crawl_df` returned, a job, or the id of one. For a frame of several start URLs, every
        crawl is searched, and a row has precedence over any other outcome.
    url
        The URL, in any spelling.
    session
        What `connect()` returned; the default session when None. A job has its own.

    Returns
    -------
    Why
        `outcome`, `detail`, `is_row`, the spelling in the receipt (`looked_up`) and similar ones
        (`near`). Printed, it is a sentence.

    Raises
    ------
    InvalidArgument
        `crawl` is no crawl, or `url` is no URL.
    NotFound, NotSupported
        The service has no such crawl, or keeps no receipts.
    OfflineError
        Offline mode is on, and the cache has no receipt of this crawl.
    WebdataError
        The root of these, and of what a connection may meet.

    Examples
    --------
    >>> df = crawl_df(start_url, max_pages=5)
    >>> why(df, df["url"][0]).outcome
    'fetched'
    """
    try:
        checked_url = http_url(url) if isinstance(url, str) else ""
    except ValueError as error:
        suggestion = did_you_mean(closest_url(url))
        raise InvalidArgument(f"url {error}; it is {format_value(url)}{suggestion}") from None
    if not checked_url:
        raise InvalidArgument(f"url must be a string; it is {format_value(url)}")
    session = crawl.connection if isinstance(crawl, Job) else options["session"]
    call = CallOptions.of(session=session, timeout=options["timeout"])
    crawls = await asyncio.to_thread(_stored_crawls, crawl, call)
    outcomes = [await _outcome(each, checked_url, call) for each in crawls]
    return max(outcomes, key=lambda each: (each.is_row, each.outcome is not None))


why: Final = blocking(awhy)


@dataclass(frozen=True, slots=True)
class _StoredCrawl:
    """A crawl's id at the service, and its file in the cache."""

    job_id: str | None
    file: str | None

    def receipt(self) -> Sequence[ReceiptEntry] | None:
        return result_cache.read_receipt(Path(self.file)) if self.file else None


async def _outcome(crawl: _StoredCrawl, url: str, call: CallOptions) -> Why:
    receipt = await asyncio.to_thread(crawl.receipt)
    if receipt is not None:
        return _from_entries(url, *result_cache.find_receipt_entry(receipt, url))
    if call.settings.offline or crawl.job_id is None:
        raise OfflineError(
            "the cache has no receipt of this crawl, and the service cannot be reached: run the "
            "crawl online once, with cache=True"
        )
    async with call.connection.client(call.settings) as client:
        reply = await within(call.timeout_s, client.receipt_of(crawl.job_id, url))
    entry = next(iter(reply.data), None)
    if entry is None and reply.url not in {None, url}:
        return Why(url, None, looked_up=reply.url or "")
    return _from_entries(url, entry, ())


def _stored_crawls(crawl: object, call: CallOptions) -> list[_StoredCrawl]:
    """Return the crawls of a frame, a job or an id; a frame of several inputs has several."""
    if isinstance(crawl, Job | str):
        return [_crawl_of_job(crawl.job_id if isinstance(crawl, Job) else checked_id(crawl), call)]
    attrs: Any = getattr(crawl, "attrs", {}).get("webdata")
    if not isinstance(attrs, dict) or attrs.get("kind") != "crawl":
        given = format_value(crawl)
        if isinstance(attrs, dict):
            given = f"the result of a {attrs.get('kind')}"
        elif hasattr(crawl, "attrs"):
            given = f"{given} without a receipt"
        raise InvalidArgument(
            "crawl must be what crawl_df returned (with its attrs), a job, or a job's id; "
            f"it is {given}"
        )
    runs = [run["job_id"] for run in attrs.get("runs", ()) if run.get("job_id")]
    if runs:
        return [_crawl_of_job(job_id, call) for job_id in runs]
    return [_StoredCrawl(attrs.get("job_id"), attrs.get("file"))]


def _crawl_of_job(job_id: str, call: CallOptions) -> _StoredCrawl:
    job_ref = find_job_ref(job_id, call)
    return _StoredCrawl(job_id, None if job_ref is None else job_ref.file)


def _from_entries(url: str, exact: ReceiptEntry | None, near: Sequence[ReceiptEntry]) -> Why:
    """Return the outcome; without an exact entry, the first near spelling stands for the URL."""
    entry, others = exact, list(near)
    if entry is None and others:
        entry = others.pop(0)
    if entry is None:
        return Why(url, None)
    looked_up = "" if entry.url == url else entry.url
    listed = tuple((other.url, other.outcome) for other in others)
    return Why(url, entry.outcome, entry.detail, looked_up, listed)


# Links


@with_options(ConnectionOptions)
async def alinks_df(
    df: pd.DataFrame | Job | str, *, broken: bool = False, **options: Unpack[ConnectionOptions]
) -> pd.DataFrame:
    """Return every link of the pages, or the broken ones, one row each, with what it leads to.

    `alinks_df` is the same for async code. The links of a frame with the column `links` or
    `page_facts` come from there. For any other crawl they come from the service, for as long as it
    keeps the job: no format has to be requested for them.

    Parameters
    ----------
    df
        A frame of `crawl_df`, a job, or the id of one.
    session
        What `connect()` returned; the default session when None. A job has its own.
    broken
        True returns the links to pages that failed only: missing pages, pages without an answer,
        redirects that lead to one or to nothing. A file that the crawl could not read, such as a
        picture, is not broken, and neither is another site that answers with 401, 403 or 429.

    Returns
    -------
    pandas.DataFrame
        ============ ========= ====================================================
        column       dtype     meaning
        ============ ========= ====================================================
        url          str       the page
        position     Int32     position among the page's links, from 1
        link         str       the URL of the link
        internal     boolean   whether it is on the site of the page
        text, rel    str       text and `rel` of the first link to the URL; null for
                               a crawl without `audit=True`, but for `nofollow`
        status_code  Int32     HTTP status of what it leads to, after redirects
        error        str       why that failed
        ============ ========= ====================================================

        Each link of a page is there once, without fragment. `status_code` and `error` are null
        where the crawl requested nothing: at links to other sites, or beyond `max_pages`, without
        `check_links=True`.

        With the column `links` in `df`, links have their fragments, and what they lead to is known
        from the rows of `df`: not for a URL that was merged with another one.

    Raises
    ------
    InvalidArgument
        `df` is no crawl, and has no links, or `broken` is not True or False.
    NotFound, NotSupported
        The service has no such crawl, or offers no facts of pages.
    OfflineError
        The links would come from the service, and offline mode is on.

    Examples
    --------
    >>> import pandas as pd
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "links": [["http://b.test/"]]})
    >>> links_df(pages)["link"].tolist()
    ['http://b.test/']
    >>> pages["status_code"], pages["error"] = 404, "HTTP 404 Not Found"
    >>> pages["links"] = [["http://a.test/#top", "http://b.test/"]]
    >>> links_df(pages, broken=True)[["link", "status_code"]].values.tolist()
    [['http://a.test/#top', 404]]
    """
    check_flag("broken", broken)
    session = df.connection if isinstance(df, Job) else options["session"]
    if isinstance(df, Job | str):
        call = CallOptions.of(session=session, timeout=options["timeout"])
        crawl_id = df.job_id if isinstance(df, Job) else checked_id(df)
        return pages.links_of_facts(await _facts(crawl_id, call), broken=broken)
    frame.require_frame(df)
    if not {PAGE_FACTS, "links"}.isdisjoint(df.columns):
        return pages.links_df(df, broken=broken)
    job_id = _job_id(df)
    if job_id is None or "url" not in df.columns:
        return pages.links_df(df, broken=broken)  # says which column is missing
    call = CallOptions.of(session=session, timeout=options["timeout"])
    facts = await _facts(job_id, call)
    return await asyncio.to_thread(pages.links_of_facts, facts, df, broken=broken)


links_df: Final = blocking(alinks_df)


def _job_id(df: pd.DataFrame) -> str | None:
    """Return the crawl that a frame comes from; None if there is none, or are several."""
    receipt = frame.receipt_of(df)
    return receipt.get("job_id") if receipt.get("kind") == "crawl" else None


async def _facts(job_id: str, call: CallOptions) -> list[dict[str, Any]]:
    """Return the facts of all URLs of a crawl."""
    if call.settings.offline:
        raise OfflineError(
            'offline, and the links of this crawl are at the service: pass formats=["links"] or '
            "audit=True to crawl_df"
        )
    async with call.connection.client(call.settings) as client:
        try:
            facts: list[dict[str, Any]] = await within(
                call.timeout_s, paging.page_facts(client, job_id)
            )
        except (NotFound, NotSupported) as error:
            error.add_note(
                "the facts of pages are an extra of our service: with another one, pass "
                'formats=["links"] to crawl_df'
            )
            raise
    return facts


# Evidence of extracted values


_MAX_BODY_CHARACTERS: Final = limits.BODY_BYTES // 3
"""Characters of the data in one request, which may take three bytes each."""
_REQUESTS_AT_ONCE: Final = 4
_MAX_JOBS: Final = 5000
"""Jobs that are listed to find those of a frame of many inputs."""

PageRequest = dict[str, Any]


@with_options(ConnectionOptions)
async def averify(df: pd.DataFrame, **options: Unpack[ConnectionOptions]) -> pd.DataFrame:
    """Compare every extracted value with the page that it was extracted from.

    `averify` is the same for async code. The service keeps the source of pages from which it
    extracts values, for as long as their rows, and compares the values with it: also those of a
    language model, and those that you changed. Nothing is fetched from the web.

    Parameters
    ----------
    df
        A frame with an `extract` column, from a call with `extract`, whole or filtered, with its
        receipt in `attrs`; also from the cache, a Parquet file or a batch.
    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for the answer.

    Returns
    -------
    pandas.DataFrame
        One row for each value that is not null.

        ============ ========= ====================================================
        column       dtype     meaning
        ============ ========= ====================================================
        url          str       the page
        field        str       the field, such as `price` or `products.0.price`
        value        str       the value as text
        verdict      str       see below
        reason       str       why, in words; empty if that is clear
        quote        str       the place in the page's source, as written there
        start, end   Int64     characters of that place in the source
        digest       str       SHA-256 of the source, its first 32 hex digits
        ============ ========= ====================================================

        The verdict is `verbatim` (the page contains the value as it is), `derived` (in another
        notation: separators, units, currencies, dates, case, spaces, items of a list) or
        `unsupported` (not on the page, or only for another field or another thing). Where a page
        could not be compared, it is `changed` (the stored page is another one), `gone` (the
        service has no such page any more) or `failed` (it took too much time or memory, its
        data is more than the service compares, or the stored page is damaged).

    Raises
    ------
    InvalidArgument
        `df` has no column `extract` or no receipt, or text that is not JSON in a nested column;
        nothing was sent.
    NotSupported
        The service does not keep pages, as a service of another maker.
    OfflineError
        Offline mode is on.
    WebdataError
        The root of these, and of what a connection may meet.

    Examples
    --------
    >>> df = crawl_df(start_url, max_pages=1)
    >>> checked = verify(df.assign(extract=None))  # nothing was extracted
    >>> checked.columns.tolist()[:4]
    ['url', 'field', 'value', 'verdict']
    """
    rows = extracted.extracted_rows(df)
    receipt = df.attrs.get(frame.ATTRS)
    if not isinstance(receipt, Mapping):
        raise InvalidArgument(
            "df has no receipt in df.attrs['webdata'], which names the job of its pages: pass the "
            "frame as the call returned it"
        )
    call = CallOptions.of(session=options["session"], timeout=options["timeout"])
    if not rows:
        return await asyncio.to_thread(extracted.build, [], [])
    if call.settings.offline:
        raise OfflineError("the service keeps the pages, and offline mode is on")
    async with call.connection.client(call.settings) as client:
        pages = await within(call.timeout_s, _Verification(client, receipt).compare(rows))
    return await asyncio.to_thread(extracted.build, rows, pages)


verify: Final = blocking(averify)


class _Verification:
    """The comparison of the rows of one frame."""

    def __init__(self, client: Client, receipt: Mapping[str, Any]) -> None:
        self._client = client
        self._runs = [run for run in receipt.get("runs", ()) if run.get("job_id")]
        self._labels = tuple(receipt.get("labels", ()))
        self._job_id = receipt.get("job_id")
        self._requests = asyncio.Semaphore(_REQUESTS_AT_ONCE)
        self._listed: dict[str, list[str]] | None = None

    async def compare(self, rows: Sequence[ExtractedRow]) -> list[VerifiedPage]:
        """Return what became of each row's page: in the first job that has it."""
        compared: dict[int, VerifiedPage] = {}
        candidates = [await self._job_ids(row) for row in rows]
        for attempt in range(max(map(len, candidates), default=0)):
            # Another job may have a page that is gone or changed in this one.
            requests = {
                number: {
                    "job_id": job_ids[attempt],
                    "url": row.url,
                    "extract": dict(row.data),
                    "digest": row.digest,
                }
                for number, (row, job_ids) in enumerate(zip(rows, candidates, strict=True))
                if attempt < len(job_ids)
                and (number not in compared or compared[number].outcome in {"gone", "changed"})
            }
            batches = _batches(requests.values())
            replies = await asyncio.gather(*map(self._ask_some, batches))
            compared |= zip(requests, chain.from_iterable(replies), strict=True)
        detail = "the receipt of the frame names no job of this page"
        missing = (VerifiedPage(job_id="", url=r.url, outcome="gone", detail=detail) for r in rows)
        return [compared.get(number, page) for number, page in enumerate(missing)]

    async def _job_ids(self, row: ExtractedRow) -> list[str]:
        """Return the jobs that may have the page of a row, the most likely one first."""
        if row.job_id is not None:
            return [row.job_id]
        if not self._labels:
            return [self._job_id] if self._job_id else await self._listed_jobs(row)
        named = [run for run in self._runs if row.label in {run.get(n) for n in self._labels}]
        return [run["job_id"] for run in named] or await self._listed_jobs(row)

    async def _listed_jobs(self, row: ExtractedRow) -> list[str]:
        """Return the jobs of an input that a long receipt leaves out; the digest decides."""
        if row.digest is None or row.label is None:
            return []
        if self._listed is None:
            jobs = await paging.all_jobs(self._client, newest=_MAX_JOBS)
            self._listed = {}
            for job in jobs:
                self._listed.setdefault(job.subject, []).append(job.job_id)
        return self._listed.get(row.label, [])

    async def _ask_some(self, requests: Sequence[PageRequest]) -> list[VerifiedPage]:
        async with self._requests:
            try:
                return (await self._client.verify(requests)).pages
            except (NotFound, NotSupported) as error:
                raise NotSupported(
                    f"the service at {self._client.base_url} does not keep the pages that it "
                    f"extracts from (POST {paths.VERIFY}), so their values cannot be verified",
                    status=error.status,
                ) from None
            except (InvalidArgument, InvalidRequest) as error:
                if len(requests) == 1:
                    job_id, url = requests[0]["job_id"], requests[0]["url"]
                    detail = str(error)
                    return [VerifiedPage(job_id=job_id, url=url, outcome="failed", detail=detail)]
        # One page that the service refuses leaves the others as they are.
        return [page for each in requests for page in await self._ask_some([each])]


def _batches(requests: Iterable[PageRequest]) -> Iterator[list[PageRequest]]:
    """Divide requests so that each body is within the limit of the service."""
    batch: list[PageRequest] = []
    size = 0
    for request in requests:
        length = len(dumps(request))
        if batch and (len(batch) == limits.PAGES_TO_VERIFY or size + length > _MAX_BODY_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(request)
        size += length
    if batch:
        yield batch
