"""Runs a crawl whose pages come from a WARC or WACZ file; no request is sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from webdata_nb.contract.archive_requests import ArchiveCrawlRequest
from webdata_nb.contract.outcomes import DAMAGED_ARCHIVE
from webdata_nb.service.archives.archive import Archive, Archives
from webdata_nb.service.archives.archive_fetcher import ArchiveFetcher
from webdata_nb.service.archives.wacz import UnusableArchive
from webdata_nb.service.crawl import engine
from webdata_nb.service.crawl.engine import CrawlResources
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import CommitBatch, UrlOutcome

_MAX_PROBLEMS_LISTED: Final = 10


async def run(
    context: JobContext,
    request: ArchiveCrawlRequest,
    resources: CrawlResources,
    archives: Archives,
) -> CommitBatch:
    """Crawl an archive to the end and return the last batch, as `engine.run` does."""
    archive = await _open(request, archives)
    url: str | None = request.url
    if not url:
        url = await archives.first_page(archive)
    if url is None:
        raise JobFailure(
            "the archive has no page to start from: pass its URL, and the file as archive"
        )
    fetcher = ArchiveFetcher.of_file(archive, archives)
    archived = replace(resources.reading_from(fetcher), signature_agent=None)
    batch = await engine.run(context, request.model_copy(update={"url": url}), archived)
    return replace(batch, url_outcomes=(*batch.url_outcomes, *_problems(archive)))


async def _open(request: ArchiveCrawlRequest, archives: Archives) -> Archive:
    try:
        return await archives.open(Path(request.archive), request.archive_version)
    except UnusableArchive as error:
        raise JobFailure(str(error)) from None


def _problems(archive: Archive) -> list[UrlOutcome]:
    """Return the outcome of an archive with damaged places."""
    problems = archive.index.problems
    if not problems:
        return []
    detail = "; ".join(problems[:_MAX_PROBLEMS_LISTED])
    if len(problems) > _MAX_PROBLEMS_LISTED:
        detail += f"; and {len(problems) - _MAX_PROBLEMS_LISTED:,} more"
    return [UrlOutcome(archive.path.as_uri(), DAMAGED_ARCHIVE, detail)]
