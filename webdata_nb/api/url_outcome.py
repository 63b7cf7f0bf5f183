"""Why a URL is, or is not, a row of a crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webdata_nb.bridge import blocking
from webdata_nb.cache import receipt_files
from webdata_nb.cache.result_cache import find_job_ref
from webdata_nb.contract import outcomes
from webdata_nb.contract.fields import http_url
from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.errors import InvalidArgument, NotFound, NotSupported, OfflineError
from webdata_nb.jobs.job import Job, checked_id
from webdata_nb.requests.call_options import CallOptions, within

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.session import Connection


@dataclass(frozen=True, slots=True)
class Why:
    """What became of one URL in a crawl; printed, it is a sentence.

    Attributes
    ----------
    url : str
        The URL that was asked about.
    outcome : str or None
        `fetched`, `failed:<kind>`, `robots`, `scope` ...; None where the crawl never saw it.
    detail : str
        More about it, such as where a redirect led; often empty.
    looked_up : str
        The spelling that the receipt has, where it is another one than `url`.
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
        return "; ".join([f"{self.looked_up or self.url}: {self._said()}", *self._others()])

    def _said(self) -> str:
        if self.outcome is None:
            return "not seen: no page of the crawl links to it"
        detail = f" ({self.detail})" if self.detail else ""
        meaning = outcomes.meaning(self.outcome)
        return f"{self.outcome}{detail}" + (f": {meaning}" if meaning else "")

    def _others(self) -> list[str]:
        return [f"also seen: {url} ({outcome})" for url, outcome in self.near]


async def awhy(
    crawl: pd.DataFrame | Job | str,
    url: str,
    *,
    session: Connection | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
) -> Why:
    """Say what became of a URL in a crawl: whether it is a row, and if not, why.

    `awhy` is the same for async code. A crawl that was cached answers from the receipt beside its
    file, also offline; for any other the service is asked.

    Parameters
    ----------
    crawl
        What `crawl_df` returned, a job, or the id of one. Of a frame of several start URLs every
        crawl is asked, and a row counts before any other outcome.
    url
        The URL, in any spelling.
    session
        What `connect()` returned; the default session when None. A job has its own.
    timeout
        Seconds to wait for the service.

    Returns
    -------
    Why
        `outcome`, `detail`, `is_row`, the spelling that was found (`looked_up`) and others that
        are `near`. Printed, it is a sentence.

    Raises
    ------
    InvalidArgument
        `crawl` is none of a crawl, or `url` is no URL.
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
        wanted = http_url(url) if isinstance(url, str) else ""
    except ValueError as error:
        raise InvalidArgument(f"url {error}") from None
    if not wanted:
        raise InvalidArgument("url must be a string")
    call = CallOptions.of(
        session=crawl.connection if isinstance(crawl, Job) else session, timeout=timeout
    )
    subjects = await asyncio.to_thread(_subjects, crawl, call)
    answers = [await _answer(subject, wanted, call) for subject in subjects]
    return max(answers, key=lambda each: (each.is_row, each.outcome is not None))


why = blocking(awhy)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The crawl that is meant: its id at the service, and its file."""

    job_id: str | None
    file: str | None

    def receipt(self) -> Sequence[ReceiptEntry] | None:
        return receipt_files.read(Path(self.file)) if self.file else None


async def _answer(subject: _Subject, url: str, call: CallOptions) -> Why:
    kept = await asyncio.to_thread(subject.receipt)
    if kept is not None:
        return _told(url, *receipt_files.find_entry(kept, url))
    return await _asked(subject, url, call)


def _subjects(crawl: object, call: CallOptions) -> list[_Subject]:
    """Return the crawls that are meant: a frame of several inputs has several."""
    if isinstance(crawl, Job | str):
        return [_of_id(crawl.job_id if isinstance(crawl, Job) else checked_id(crawl), call)]
    told: Any = getattr(crawl, "attrs", {}).get("webdata") if hasattr(crawl, "attrs") else None
    if not isinstance(told, dict) or told.get("kind") != "crawl":
        raise InvalidArgument(
            "crawl must be what crawl_df returned (with its attrs), a job, or a job's id"
        )
    runs = [run["job_id"] for run in told.get("runs", ()) if run.get("job_id")]
    if runs:
        return [_of_id(job_id, call) for job_id in runs]
    return [_Subject(told.get("job_id"), told.get("file"))]


def _of_id(job_id: str, call: CallOptions) -> _Subject:
    job_ref = find_job_ref(job_id, call)
    return _Subject(job_id, None if job_ref is None else job_ref.file)


async def _asked(subject: _Subject, url: str, call: CallOptions) -> Why:
    if call.settings.offline or subject.job_id is None:
        raise OfflineError(
            "the cache has no receipt of this crawl, and the service cannot be asked: run the "
            "crawl online once, with cache=True"
        )
    async with call.connection.client(call.settings) as client:
        try:
            reply = await within(call.timeout_s, client.receipt_of(subject.job_id, url))
        except (NotFound, NotSupported) as error:
            error.add_note("the receipt of a crawl is an extra of our service")
            raise
    found = next(iter(reply.data), None)
    why = _told(url, found, ())
    return why if found or reply.url in {None, url} else Why(url, None, looked_up=reply.url or "")


def _told(url: str, exact: ReceiptEntry | None, near: Sequence[ReceiptEntry]) -> Why:
    """Return the answer; a single other spelling is the one that was meant."""
    found, others = exact, list(near)
    if found is None and others:
        found = others.pop(0)
    if found is None:
        return Why(url, None)
    looked_up = "" if found.url == url else found.url
    listed = tuple((other.url, other.outcome) for other in others)
    return Why(url, found.outcome, found.detail, looked_up, listed)
