"""Looks up the outcome of a URL in the receipt of a crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from webdata_nb.contract import outcomes
from webdata_nb.contract.fields import http_url
from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.errors import InvalidArgument, OfflineError
from webdata_nb.suggestions import closest_url, did_you_mean, format_value
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.cache import snapshots
from webdata_nb.toolkit.cache.result_cache import find_job_ref
from webdata_nb.toolkit.display import bars
from webdata_nb.toolkit.jobs.job import Job, checked_id
from webdata_nb.toolkit.requests.call_options import CallOptions, within
from webdata_nb.toolkit.requests.options import ConnectionOptions
from webdata_nb.toolkit.requests.signatures import with_options

if TYPE_CHECKING:
    import pandas as pd


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
        return "; ".join(
            [f"{self.looked_up or self.url}: {self._outcome_text()}", *self._near_texts()]
        )

    def __repr__(self) -> str:
        return f"Why({self})"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        _ = include, exclude
        return bars.object_bundle(repr(self), str(self))

    def _outcome_text(self) -> str:
        if self.outcome is None:
            return "not seen: no page of the crawl links to it"
        detail = f" ({self.detail})" if self.detail else ""
        meaning = outcomes.meaning(self.outcome)
        return f"{self.outcome}{detail}" + (f": {meaning}" if meaning else "")

    def _near_texts(self) -> list[str]:
        return [f"also seen: {url} ({outcome})" for url, outcome in self.near]


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


why = blocking(awhy)


@dataclass(frozen=True, slots=True)
class _StoredCrawl:
    """A crawl's id at the service, and its file in the cache."""

    job_id: str | None
    file: str | None

    def receipt(self) -> Sequence[ReceiptEntry] | None:
        return snapshots.read_receipt(Path(self.file)) if self.file else None


async def _outcome(crawl: _StoredCrawl, url: str, call: CallOptions) -> Why:
    receipt = await asyncio.to_thread(crawl.receipt)
    if receipt is not None:
        return _from_entries(url, *snapshots.find_receipt_entry(receipt, url))
    return await _fetch_outcome(crawl, url, call)


def _stored_crawls(crawl: object, call: CallOptions) -> list[_StoredCrawl]:
    """Return the crawls of a frame, a job or an id; a frame of several inputs has several."""
    if isinstance(crawl, Job | str):
        return [_crawl_of_job(crawl.job_id if isinstance(crawl, Job) else checked_id(crawl), call)]
    attrs: Any = getattr(crawl, "attrs", {}).get("webdata")
    if not isinstance(attrs, dict) or attrs.get("kind") != "crawl":
        raise InvalidArgument(
            "crawl must be what crawl_df returned (with its attrs), a job, or a job's id; "
            f"it is {_kind_of(crawl)}"
        )
    runs = [run["job_id"] for run in attrs.get("runs", ()) if run.get("job_id")]
    if runs:
        return [_crawl_of_job(job_id, call) for job_id in runs]
    return [_StoredCrawl(attrs.get("job_id"), attrs.get("file"))]


def _kind_of(crawl: object) -> str:
    attrs: Any = getattr(crawl, "attrs", {}).get("webdata")
    if isinstance(attrs, dict):
        return f"the result of a {attrs.get('kind')}"
    has_attrs = hasattr(crawl, "attrs")
    return f"{format_value(crawl)} without a receipt" if has_attrs else format_value(crawl)


def _crawl_of_job(job_id: str, call: CallOptions) -> _StoredCrawl:
    job_ref = find_job_ref(job_id, call)
    return _StoredCrawl(job_id, None if job_ref is None else job_ref.file)


async def _fetch_outcome(crawl: _StoredCrawl, url: str, call: CallOptions) -> Why:
    if call.settings.offline or crawl.job_id is None:
        raise OfflineError(
            "the cache has no receipt of this crawl, and the service cannot be reached: run the "
            "crawl online once, with cache=True"
        )
    async with call.connection.client(call.settings) as client:
        reply = await within(call.timeout_s, client.receipt_of(crawl.job_id, url))
    entry = next(iter(reply.data), None)
    outcome = _from_entries(url, entry, ())
    return (
        outcome if entry or reply.url in {None, url} else Why(url, None, looked_up=reply.url or "")
    )


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
