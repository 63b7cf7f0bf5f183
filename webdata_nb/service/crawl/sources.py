"""Runs a crawl with the source and the sink that its request names.

Pages come from their sites, from an archive file, or from a web archive at about a date. Without a
sink, the rows are all that is kept; with one, the exchanges go to a WARC file as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from webdata_nb import __version__
from webdata_nb.contract.choices import ArchiveSource
from webdata_nb.contract.outcomes import DAMAGED_ARCHIVE
from webdata_nb.contract.requests import ExtendedCrawlRequest, FileSource, WebArchiveSource
from webdata_nb.service.archives import (
    Archive,
    ArchiveFetcher,
    Archives,
    DatedCaptures,
    RecordingSource,
    UnusableArchive,
    WarcWriter,
    WebArchive,
    partial_path,
)
from webdata_nb.service.crawl import engine
from webdata_nb.service.crawl.engine import CrawlResources
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import CommitBatch, UrlOutcome

OpenWebArchive: TypeAlias = Callable[[ArchiveSource], Awaitable[WebArchive]]

# The captures of the start's host: an attempt that resumes reads the same ones.
_CAPTURES: Final = "captures"
_MAX_PROBLEMS_LISTED: Final = 10


async def run(
    context: JobContext,
    request: ExtendedCrawlRequest,
    resources: CrawlResources,
    archives: Archives,
    open_web_archive: OpenWebArchive,
) -> CommitBatch:
    """Crawl to the end and return the last batch.

    Raises
    ------
    JobFailure
        The crawl cannot be carried out, or an archive cannot be read or written.
    LeaseLost
        Another worker has the job.
    """
    if (file := request.source.file) is not None:
        return await _crawl_file(context, request, resources, archives, file)
    if (captures := request.source.web_archive) is not None:
        archive = await open_web_archive(captures.archive)
        return await _crawl_captures(context, request, resources, archive, captures)
    if request.sink.warc is not None:
        return await _crawl_to_warc(context, request, resources, archives, Path(request.sink.warc))
    return await engine.run(context, request, resources)


async def _crawl_file(
    context: JobContext,
    request: ExtendedCrawlRequest,
    resources: CrawlResources,
    archives: Archives,
    file: FileSource,
) -> CommitBatch:
    """Crawl the pages of an archive file; no request is sent."""
    try:
        archive = await archives.open(Path(file.path), file.version)
    except UnusableArchive as error:
        raise JobFailure(str(error)) from None
    if not request.start:
        url = await archives.first_page(archive)
        if url is None:
            raise JobFailure(
                "the archive has no page to start from: pass its URL, and the file as archive"
            )
        request = request.model_copy(update={"url": url})
    fetcher = ArchiveFetcher.of_file(archive, archives)
    archived = replace(resources.reading_from(fetcher), signature_agent=None)
    batch = await engine.run(context, request, archived)
    return replace(batch, url_outcomes=(*batch.url_outcomes, *_damage(archive)))


def _damage(archive: Archive) -> list[UrlOutcome]:
    """Return the outcome of an archive with damaged places."""
    problems = archive.index.problems
    if not problems:
        return []
    detail = "; ".join(problems[:_MAX_PROBLEMS_LISTED])
    if len(problems) > _MAX_PROBLEMS_LISTED:
        detail += f"; and {len(problems) - _MAX_PROBLEMS_LISTED:,} more"
    return [UrlOutcome(archive.path.as_uri(), DAMAGED_ARCHIVE, detail)]


async def _crawl_captures(
    context: JobContext,
    request: ExtendedCrawlRequest,
    resources: CrawlResources,
    archive: WebArchive,
    captures: WebArchiveSource,
) -> CommitBatch:
    """Crawl a site as a web archive captured it; no request is sent to the site."""

    async def pin(index: bytes) -> None:
        await context.commit(CommitBatch(pinned_files=((_CAPTURES, index),)))

    reader = DatedCaptures(
        archive,
        datetime.fromisoformat(captures.as_of),
        timedelta(days=captures.max_distance),
        request.start,
        pin=pin,
    )
    if (pinned := (await context.pinned_files()).get(_CAPTURES)) is not None:
        reader.restore(pinned)
    # The deadline of a page is for sites; that of a request to a web archive is another.
    fetcher = ArchiveFetcher(lambda url, limits, _: reader.read(url, limits))
    dated = replace(resources.reading_from(fetcher), signature_agent=None)
    return await engine.run(context, request, dated)


async def _crawl_to_warc(
    context: JobContext,
    request: ExtendedCrawlRequest,
    resources: CrawlResources,
    archives: Archives,
    path: Path,
) -> CommitBatch:
    """Crawl sites and write the exchanges to a WARC file, which is complete before the job is."""
    info = {
        "software": f"webdata_nb {__version__}",
        "format": "WARC File Format 1.1",
        "description": "a crawl; secrets, cookies and transfer codings are left out",
        "isPartOf": f"urn:uuid:{context.job.id}",
    }
    partial = partial_path(path, context.job.id)
    writer = WarcWriter(path, partial, info, archives.index_threads)
    # With robots.txt of its own: what other jobs have fetched would not be in the file.
    recorded = resources.reading_from(RecordingSource(resources.fetcher, writer))
    try:
        await writer.open()
        batch = await engine.run(context, request, recorded)
        await writer.complete()
    finally:
        writer.close()
    return batch
