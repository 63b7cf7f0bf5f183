"""Runs a crawl of a site as a web archive captured it at about a date."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from webdata_nb.contract.archive_requests import DatedCrawlRequest
from webdata_nb.service.archives.archive_fetcher import ArchiveFetcher
from webdata_nb.service.archives.dated_captures import DatedCaptures
from webdata_nb.service.archives.web_archive import WebArchive
from webdata_nb.service.crawl import engine
from webdata_nb.service.crawl.engine import CrawlResources
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import CommitBatch

# The captures of the start's host: an attempt that resumes reads the same ones.
_CAPTURES: Final = "captures"


async def run(
    context: JobContext,
    request: DatedCrawlRequest,
    resources: CrawlResources,
    archive: WebArchive,
) -> CommitBatch:
    """Crawl to the end without a request to the site; return the last batch, as `engine.run`."""

    async def pin(captures: bytes) -> None:
        await context.commit(CommitBatch(pinned_files=((_CAPTURES, captures),)))

    captures = DatedCaptures(
        archive,
        datetime.fromisoformat(request.as_of),
        timedelta(days=request.max_distance),
        request.url,
        pin=pin,
    )
    if (pinned := (await context.pinned_files()).get(_CAPTURES)) is not None:
        captures.restore(pinned)
    # The deadline of a page is for sites; that of a request to a web archive is another.
    fetcher = ArchiveFetcher(lambda url, limits, _: captures.read(url, limits))
    dated = replace(resources.reading_from(fetcher), signature_agent=None)
    return await engine.run(context, request, dated)
