"""Web archives as the source of a crawl's pages, and WARC files as its sink.

The rest of the service imports what it needs from here: WARC and WACZ files (`Archives`), web
archives at a date (`WebArchives`, `DatedCaptures`), the fetcher of both (`ArchiveFetcher`), and the
writer of WARC files (`WarcWriter`).
"""

from __future__ import annotations

from webdata_nb.service.archives.archive import (
    Archive,
    ArchiveFetcher,
    Archives,
    DatedCaptures,
    UnusableArchive,
)
from webdata_nb.service.archives.warc import RecordingSource, WarcWriter, partial_path
from webdata_nb.service.archives.web_archives import (
    CdxCapture,
    CdxQuery,
    IndexPage,
    InvalidCursor,
    WebArchive,
    WebArchives,
)

__all__ = [
    "Archive",
    "ArchiveFetcher",
    "Archives",
    "CdxCapture",
    "CdxQuery",
    "DatedCaptures",
    "IndexPage",
    "InvalidCursor",
    "RecordingSource",
    "UnusableArchive",
    "WarcWriter",
    "WebArchive",
    "WebArchives",
    "partial_path",
]
