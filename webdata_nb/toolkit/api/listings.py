"""Lists advertisers of a source of ads, and what web archives captured."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.contract import limits, paths
from webdata_nb.contract.archives import without_scheme
from webdata_nb.contract.requests import CapturesRequest
from webdata_nb.errors import InvalidArgument, NotFound, NotSupported, OfflineError
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.client import paging
from webdata_nb.toolkit.jobs.listings import listing_frame
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.arguments import CallOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    import pandas as pd

    from webdata_nb.contract.choices import ArchiveSource, CaptureMatch
    from webdata_nb.contract.replies import CaptureEntry, CapturesReply, Reply
    from webdata_nb.settings import Duration
    from webdata_nb.toolkit.client.client import Client
    from webdata_nb.toolkit.frames.frame import DtypeBackend
    from webdata_nb.toolkit.session import Connection

# Advertisers


async def aadvertisers_df(
    query: str,
    *,
    limit: int = limits.ADVERTISERS_DEFAULT,
    session: Connection | None = None,
    timeout: Duration | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    dtype_backend: DtypeBackend = "pandas",
) -> pd.DataFrame:
    """Find the advertisers that a name or a domain may mean, best first.

    `aadvertisers_df` is the same for async code. Names are not unique: look at the alternatives
    before listing the creatives of the first. Finding advertisers is an extra of our service.

    Parameters
    ----------
    query
        A name, or part of one, or a domain such as `"example.com"`.
    limit
        Advertisers at most, 1 to 50.
    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for the answer.
    dtype_backend
        `"pandas"` or `"pyarrow"`.

    Returns
    -------
    pandas.DataFrame
        ================== ======= =====================================================
        column             dtype   meaning
        ================== ======= =====================================================
        rank               Int32   from 1, best first
        advertiser_id      str     what `creatives_df` takes
        region             str     where the advertiser is based, by the source
        ads_min, ads_max   Int64   how many ads there are, where the source tells
        extra              object  fields unknown to this version
        domain             str     where its ads lead, as far as known
        name               str     as the source has it
        ================== ======= =====================================================

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    NotSupported
        The service does not offer it, or has no source to ask.
    WebdataError
        The root of these, and of what a connection may meet.

    Examples
    --------
    >>> advertisers_df("fulmar")["advertiser_id"].tolist()
    ['AR1', 'AR2']
    """
    if not isinstance(query, str) or not query.strip():
        raise InvalidArgument(f"query must be a name or a domain; it is {format_value(query)}")
    limit = arguments.check_count("limit", limit)
    if limit > limits.ADVERTISERS[1]:
        raise InvalidArgument(f"limit must be at most {limits.ADVERTISERS[1]}; it is {limit}")
    call = CallOptions.of(session=session, timeout=timeout, dtype_backend=dtype_backend)
    text = query.strip()

    async def fetch(client: Client) -> Sequence[Reply]:
        return (await client.advertisers(text, limit=limit)).advertisers

    return await listing_frame("advertisers", {"query": text, "limit": limit}, call, fetch)


advertisers_df: Final = blocking(aadvertisers_df)


# Captures of web archives


MAX_ROWS_DEFAULT: Final = 1000


async def acaptures_df(
    url: str,
    *,
    source: ArchiveSource = "wayback",
    match: CaptureMatch = "exact",
    start: str | date | None = None,
    end: str | date | None = None,
    max_rows: int | None = MAX_ROWS_DEFAULT,
    session: Connection | None = None,
    timeout: Duration | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    dtype_backend: DtypeBackend = "pandas",
) -> pd.DataFrame:
    """List what a web archive captured of a URL, one row for each distinct capture.

    `acaptures_df` is the same for async code. Captures with the content of an earlier one, by its
    digest, are left out. `crawl_df(url, as_of=...)` reads captures.

    Parameters
    ----------
    url
        The URL.
    source
        `"wayback"`, the Wayback Machine of the Internet Archive, or `"commoncrawl"`, whose crawls
        are asked one after the other, the newest first.
    match
        `"exact"`; `"prefix"` for all URLs that begin with it; `"host"` for those of its host, or
        `"domain"` with all hosts below it.
    start, end
        The earliest and the latest time of a capture, such as `"2023-01-01"`; a day is its first
        moment in UTC.
    max_rows
        Rows at most; all of them when None. Asking all crawls of Common Crawl takes minutes.
    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for all pages together.
    dtype_backend
        `"pandas"` or `"pyarrow"`.

    Returns
    -------
    pandas.DataFrame
        By URL, then by time. `df.attrs["webdata"]["indexes"]` counts what became of each index:
        `listed`, `no_captures`, `excluded` (the archive shows none of the site) or `unavailable`
        (it did not answer, so captures may be missing).

        =========== =================== =======================================================
        column      dtype               meaning
        =========== =================== =======================================================
        url         str                 the URL that was captured, with http or https
        captured_at datetime64[us, UTC] when
        status_code Int16               of the answer; missing where the index does not say
        mime_type   str                 type of the content; `warc/revisit` for an unchanged one
        digest      str                 equal for equal content
        length      Int64               bytes of the stored record
        index       str                 `wayback`, or the crawl of Common Crawl
        offset      Int64               of Common Crawl: where the record is in its file
        extra       object              fields unknown to this version
        archive_url str                 where the archive has it as it was sent
        =========== =================== =======================================================

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    NotSupported
        The service asks no web archives, as a service of another maker.
    ServiceFault
        The archive does not answer, or asks to wait for longer than the call may take.
    OfflineError
        Offline mode is on.
    WebdataError
        The root of these, and of what a connection may meet.

    Examples
    --------
    >>> from webdata_nb import errors
    >>> try:
    ...     captures_df("https://example.com/", start="2024-01-01", end="2023-01-01")
    ... except errors.InvalidArgument as error:
    ...     print(error)
    start must not be after end; it is '2024-01-01'
    """
    times = {"start": start, "end": end}
    time_bounds = {
        name: arguments.time_text(name, at) for name, at in times.items() if at is not None
    }
    values = {"url": url, "source": source, "match": match, **time_bounds}
    request = arguments.build_request(CapturesRequest, values)
    if max_rows is not None:
        max_rows = arguments.check_count("max_rows", max_rows)
    call = CallOptions.of(session=session, timeout=timeout, dtype_backend=dtype_backend)
    if call.settings.offline:
        raise OfflineError("an archive is asked anew at each call, and offline mode is on")
    listing = _CaptureListing(arguments.request_body(request), max_rows)
    params = {**listing.body, "max_rows": max_rows}
    return await listing_frame("captures", params, call, listing.fetch, listing.facts)


captures_df: Final = blocking(acaptures_df)


class _CaptureListing:
    """The listing of one call: its distinct captures, and what became of each index."""

    def __init__(self, body: dict[str, Any], max_rows: int | None) -> None:
        page = limits.CAPTURES_LISTED[1]
        self.body = {**body, "limit": page if max_rows is None else min(page, max_rows)}
        self._max_rows = max_rows
        self._distinct: dict[tuple[str, str], CaptureEntry] = {}
        self._replies: Sequence[CapturesReply] = ()

    async def fetch(self, client: Client) -> list[CaptureEntry]:
        """Return the distinct captures, by URL and time."""
        try:
            self._replies = await paging.captures(client, self.body, enough=self._is_enough)
        except (NotFound, NotSupported) as error:
            raise NotSupported(
                f"the service at {client.base_url} asks no web archives (POST {paths.CAPTURES})",
                status=error.status,
            ) from None
        found = list(self._distinct.values())[: self._max_rows]
        return sorted(found, key=lambda capture: (capture.url, capture.captured_at))

    def _is_enough(self, reply: CapturesReply) -> bool:
        for capture in reply.captures:
            # Captures of one URL with the same content are one.
            key = without_scheme(capture.url), capture.digest or f"at {capture.captured_at}"
            known = self._distinct.get(key)
            if known is None or capture.captured_at < known.captured_at:
                self._distinct[key] = capture
        return self._max_rows is not None and len(self._distinct) >= self._max_rows

    def facts(self) -> dict[str, Any]:
        """Return what the receipt says of the indexes."""
        read = [index for reply in self._replies for index in reply.indexes]
        outcomes = Counter(index.outcome for index in read)
        problems = [
            {"index": index.index, "outcome": index.outcome, "detail": index.detail}
            for index in read
            if index.outcome in {"excluded", "unavailable"}
        ]
        is_cut = bool(self._replies) and (
            self._replies[-1].cursor is not None or len(self._distinct) > (self._max_rows or inf)
        )
        is_full = len(self._distinct) >= (self._max_rows or inf)
        cut = "there are more than max_rows" if is_full else "an index repeats a page"
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
        rows = min(len(self._distinct), self._max_rows or len(self._distinct))
        line = f"captures of {self.body['url']}: {rows:,} distinct; indexes: {counts}"
        return {
            "indexes": dict(outcomes),
            "problems": problems[: limits.RECEIPT_EXAMPLES],
            "complete": not is_cut and not problems,
            "line": f"{line}; {cut}" if is_cut else line,
        }
