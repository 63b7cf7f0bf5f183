"""Compares the extracted values of a frame with the pages that the service has stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from webdata_nb.contract import limits, paths
from webdata_nb.contract.replies import VerifiedPage
from webdata_nb.errors import (
    InvalidArgument,
    InvalidRequest,
    NotFound,
    NotSupported,
    OfflineError,
)
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.frames import extracted, frame
from webdata_nb.toolkit.frames.extracted import ExtractedRow
from webdata_nb.toolkit.frames.json_columns import dumps
from webdata_nb.toolkit.requests.call_options import CallOptions, within
from webdata_nb.toolkit.requests.options import ConnectionOptions
from webdata_nb.toolkit.requests.signatures import with_options

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.toolkit.client.client import Client

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


verify = blocking(averify)


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
            numbers = [
                number
                for number, job_ids in enumerate(candidates)
                if attempt < len(job_ids) and _is_open(compared.get(number))
            ]
            requests = [_request(rows[number], candidates[number][attempt]) for number in numbers]
            found = await self._ask(requests)
            compared |= dict(zip(numbers, found, strict=True))
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
            self._listed = await self._list_jobs()
        return self._listed.get(row.label, [])

    async def _list_jobs(self) -> dict[str, list[str]]:
        by_subject: dict[str, list[str]] = {}
        cursor, count = None, 0
        while count < _MAX_JOBS:
            listed = await self._client.jobs(limit=limits.JOBS_LISTED[1], cursor=cursor)
            for job in listed.jobs:
                by_subject.setdefault(job.subject, []).append(job.job_id)
            count, cursor = count + len(listed.jobs), listed.cursor
            if cursor is None:
                break
        return by_subject

    async def _ask(self, requests: Sequence[PageRequest]) -> list[VerifiedPage]:
        replies = await asyncio.gather(*map(self._ask_some, _batches(requests)))
        return [page for pages in replies for page in pages]

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
                    return [_refused(requests[0], str(error))]
        # One page that the service refuses leaves the others as they are.
        return [page for each in requests for page in await self._ask_some([each])]


def _refused(request: PageRequest, detail: str) -> VerifiedPage:
    job_id, url = request["job_id"], request["url"]
    return VerifiedPage(job_id=job_id, url=url, outcome="failed", detail=detail)


def _is_open(page: VerifiedPage | None) -> bool:
    """Return whether another job may have the page."""
    return page is None or page.outcome in {"gone", "changed"}


def _request(row: ExtractedRow, job_id: str) -> PageRequest:
    return {"job_id": job_id, "url": row.url, "extract": dict(row.data), "digest": row.digest}


def _batches(requests: Sequence[PageRequest]) -> Iterator[list[PageRequest]]:
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
