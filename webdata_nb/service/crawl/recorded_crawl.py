"""Runs a crawl that writes its requests and responses to a WARC file."""

from __future__ import annotations

from pathlib import Path

from webdata_nb import __version__
from webdata_nb.contract.archive_requests import RecordedCrawlRequest
from webdata_nb.service.archives.warc_writer import (
    RecordingSource,
    WarcWriter,
    partial_path,
)
from webdata_nb.service.crawl import engine
from webdata_nb.service.crawl.engine import CrawlResources
from webdata_nb.service.runtime.work_threads import WorkThreads
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import CommitBatch


async def run(
    context: JobContext,
    request: RecordedCrawlRequest,
    resources: CrawlResources,
    threads: WorkThreads,
) -> CommitBatch:
    """Crawl to the end and return the last batch, as `engine.run` does.

    The file is complete before the job is. If it cannot be written, the job fails.
    """
    info = {
        "software": f"webdata_nb {__version__}",
        "format": "WARC File Format 1.1",
        "description": "a crawl; secrets, cookies and transfer codings are left out",
        "isPartOf": f"urn:uuid:{context.job.id}",
    }
    path = Path(request.warc)
    writer = WarcWriter(path, partial_path(path, context.job.id), info, threads)
    # With robots.txt of its own: what other jobs have fetched would not be in the file.
    recorded = resources.reading_from(RecordingSource(resources.fetcher, writer))
    try:
        await writer.open()
        batch = await engine.run(context, request, recorded)
        await writer.complete()
    finally:
        writer.close()
    return batch
