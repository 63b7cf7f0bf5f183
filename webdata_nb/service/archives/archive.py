"""Opens WARC and WACZ files, and finds the response that was captured of a URL."""

from __future__ import annotations

import asyncio
import os
import stat
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from io import BufferedReader
from itertools import islice
from math import inf
from pathlib import Path
from typing import BinaryIO, Final
from weakref import WeakValueDictionary

from webdata_nb.contract.archives import file_version
from webdata_nb.contract.outcomes import NOT_ARCHIVED
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import split_url
from webdata_nb.service.archives.archive_index import (
    ArchiveIndex,
    Capture,
    build_index,
    url_key,
)
from webdata_nb.service.archives.archived_response import (
    ArchivedHead,
    ArchivedResponse,
    read_head,
    read_response,
)
from webdata_nb.service.archives.record_bytes import GZIP_MAGIC, BrokenRecord
from webdata_nb.service.archives.wacz import (
    ZIP_MAGIC,
    UnusableArchive,
    WarcWindow,
    read_wacz,
)
from webdata_nb.service.archives.warc_records import (
    WarcFile,
    WarcRecord,
    parse_date,
    read_record,
)
from webdata_nb.service.errors import JobFailure, NotIndexed
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.work_threads import (
    StopCheck,
    StoppableFile,
    WorkThreads,
    never_stop,
)
from webdata_nb.service.web.request import FetchLimits

# Records that are read in search of the first page.
_MAX_START_RECORDS: Final = 10_000
# Captures that are read in search of the one that a revisit refers to.
_MAX_EARLIER_CAPTURES: Final = 10_000
_DIGEST: Final = "warc-payload-digest"
# Indexes that stay in memory for further crawls of the same file.
_MAX_OPEN_ARCHIVES: Final = 4
# Archives that are indexed at a time, which takes minutes for a large one.
_INDEX_THREADS: Final = 3
# Pages that are read at a time, from archives that are indexed.
_READ_THREADS: Final = 3


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive and its index; it can be read from several threads.

    Reading raises `JobFailure` where the file is no longer the one that was indexed.
    """

    path: Path
    version: str
    windows: tuple[WarcWindow, ...]
    index: ArchiveIndex
    listed_pages: tuple[str, ...] = ()

    def response(
        self, url: str, limits: FetchLimits, check: StopCheck = never_stop
    ) -> ArchivedResponse:
        """Return the newest response that was captured of a URL; `check` may end the reading.

        Raises
        ------
        FetchError
            Of kind ``not_archived`` where there is none; ``too_large``, ``decode`` or ``protocol``
            where the record cannot be used.
        """
        with self._opened(check) as file:
            record = self._record(file, url)
            try:
                if record.kind == "revisit":
                    return self._revisited(file, record, limits)
                return read_response(record, limits)
            except BrokenRecord as error:
                raise FetchError("protocol", f"The archive's record is damaged: {error}.") from None

    def first_page(self, check: StopCheck = never_stop) -> str | None:
        """Return the page where a crawl starts: the first one listed, else the first one stored."""
        with self._opened(check) as file:
            for url in self.listed_pages:
                if self._find(file, url) is not None:
                    return url
            pages = (_first_page(file, window) for window in self.windows)
            return next(filter(None, pages), None)

    @contextmanager
    def _opened(self, check: StopCheck) -> Iterator[BinaryIO]:
        with _opened(self.path, check) as file:
            if _version_of(file) != self.version:
                raise JobFailure(_changed_text(self.path))
            yield file

    def _record(self, file: BinaryIO, url: str) -> WarcRecord:
        record = self._find(file, url)
        if record is None:
            raise NotIndexed(f"The archive has no capture of {url}")
        return record

    def _find(self, file: BinaryIO, url: str) -> WarcRecord | None:
        """Return the newest record of a URL."""
        key = url_key(url)
        if key is None:
            return None
        for capture in self.index.captures(key):
            record = self._read(file, capture)
            if record is not None and url_key(record.url) == key:
                return record
        return None

    def _read(self, file: BinaryIO, capture: Capture) -> WarcRecord | None:
        try:
            return read_record(file, capture.offset, self.windows[capture.window].limit)
        except BrokenRecord:
            return None

    def _revisited(
        self, file: BinaryIO, record: WarcRecord, limits: FetchLimits
    ) -> ArchivedResponse:
        """Return the response of a record that refers to an earlier one for its body."""
        head = _head_of_revisit(record)
        original = self._original(file, record)
        if original is None:
            raise FetchError(
                NOT_ARCHIVED,
                f"The archive refers to a capture of {record.url} that it does not have",
            )
        response = read_response(original, limits)
        if head is not None:
            response = response.below(head)
        return replace(response, captured_at=record.captured_at)

    def _original(self, file: BinaryIO, record: WarcRecord) -> WarcRecord | None:
        """Return the record that a revisit refers to."""
        key = url_key(record.fields.get("warc-refers-to-target-uri", record.url).strip("<>"))
        if key is None:
            return None
        captures = islice(self.index.captures(key), _MAX_EARLIER_CAPTURES)
        records = (self._read(file, capture) for capture in captures)
        return next(
            (
                each
                for each in records
                if each is not None
                and each.kind != "revisit"
                and url_key(each.url) == key
                and _may_be_original(each, record)
            ),
            None,
        )


def _head_of_revisit(record: WarcRecord) -> ArchivedHead | None:
    """Return the head that was sent with an unchanged body; None where that of the body counts."""
    try:
        head, _ = read_head(record)
    except (BrokenRecord, FetchError):  # a revisit need not have one
        return None
    return None if head.status == HTTPStatus.NOT_MODIFIED else head


def _may_be_original(record: WarcRecord, revisit: WarcRecord) -> bool:
    """Return whether a revisit may refer to a record, by the digest or, without one, the time."""
    digest = revisit.fields.get(_DIGEST)
    if digest is not None:
        return record.fields.get(_DIGEST) == digest
    at, revisited_at = record.captured_at, revisit.captured_at
    refers_to = parse_date(revisit.fields.get("warc-refers-to-date", ""))
    if refers_to is not None:
        return at is not None and at.replace(microsecond=0) == refers_to.replace(microsecond=0)
    return at is not None and revisited_at is not None and at <= revisited_at


def _first_page(file: BinaryIO, window: WarcWindow) -> str | None:
    """Return the first HTML page, or redirect, of a WARC file.

    It is not robots.txt, which many crawlers read first, and many sites answer with a page.
    """
    for number, record in enumerate(WarcFile(file, window.start, window.limit).records()):
        if number == _MAX_START_RECORDS:
            return None
        if record.kind in {"response", "resource"} and _may_be_page(record.url):
            try:
                head, _ = read_head(read_record(file, record.offset, window.limit))
            except (BrokenRecord, FetchError):
                continue
            is_html = any("html" in value.lower() for value in head.values("content-type"))
            is_redirect = HTTPStatus.MULTIPLE_CHOICES <= head.status < HTTPStatus.BAD_REQUEST
            if is_redirect or (is_html and head.status < HTTPStatus.MULTIPLE_CHOICES):
                return record.url
    return None


def _may_be_page(url: str) -> bool:
    key = url_key(url)
    return key is not None and split_url(key).path != "/robots.txt"


def _changed_text(path: Path) -> str:
    """Return the failure of a crawl whose archive is another file now."""
    return f"{path} has changed since the crawl was started: start it again"


def _version_of(file: BinaryIO) -> str:
    status = os.fstat(file.fileno())
    return file_version(status.st_size, status.st_mtime_ns)


@contextmanager
def _opened(path: Path, check: StopCheck) -> Iterator[BinaryIO]:
    """Open a file; raises `JobFailure` where it cannot be read, and what `check` raises."""
    try:
        with BufferedReader(StoppableFile(path, check)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise JobFailure(f"{path} cannot be read (it is no regular file)")
            yield file
    except TimeoutError:  # an OSError, of the check
        raise
    except OSError as error:
        raise JobFailure(f"{path} cannot be read ({error.strerror})") from None


def open_archive(
    path: Path, check: StopCheck = never_stop, *, version: str | None = None
) -> Archive:
    """Open an archive and index it.

    Parameters
    ----------
    path
        The file.
    check
        Called while the file is read; it ends the reading by an exception.
    version
        The version that the file must have; any when None.

    Raises
    ------
    UnusableArchive
        The file cannot be read as an archive.
    JobFailure
        It has another version, or cannot be read.
    """
    with _opened(path, check) as file:
        found = _version_of(file)
        if version not in {None, found}:
            raise JobFailure(_changed_text(path))
        windows, pages = _windows(path, file.read(8))
        return Archive(path, found, windows, build_index(file, windows, check), pages)


def _windows(path: Path, start: bytes) -> tuple[tuple[WarcWindow, ...], tuple[str, ...]]:
    if start.startswith(ZIP_MAGIC):
        package = read_wacz(path)
        return package.windows, package.pages
    if start.startswith((GZIP_MAGIC, b"WARC/")):
        return (WarcWindow(0, path.stat().st_size),), ()
    raise UnusableArchive(f"{path.name} is neither a WARC nor a WACZ file")


class Archives:
    """Opens archives once for all crawls that read them at about the same time.

    They are read on threads of their own, so that no archive keeps other work of the process from
    running, and none that is indexed keeps those that are indexed from being read.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[Path, str], Archive] = OrderedDict()
        self._locks: WeakValueDictionary[tuple[Path, str], asyncio.Lock] = WeakValueDictionary()
        self.index_threads = WorkThreads("webdata-archive-index", _INDEX_THREADS)
        self._reading = WorkThreads("webdata-archive", _READ_THREADS)

    async def open(self, path: Path, version: str) -> Archive:
        """Return the archive of a file with a version; raises as `open_archive`."""
        key = path, version
        lock = self._locks.setdefault(key, asyncio.Lock())
        with waiting_for(f"the index of {path.name}", inf):
            async with lock:
                archive = self._open.get(key)
                if archive is None:
                    archive = await self.index_threads.run(
                        lambda check: open_archive(path, check, version=version)
                    )
                self._open[key] = archive
                self._open.move_to_end(key)
                while len(self._open) > _MAX_OPEN_ARCHIVES:
                    self._open.popitem(last=False)
        return archive

    async def first_page(self, archive: Archive) -> str | None:
        """Return the page where a crawl of an archive starts."""
        with waiting_for(f"the first page of {archive.path.name}", inf):
            return await self._reading.run(archive.first_page)

    async def response(
        self, archive: Archive, url: str, limits: FetchLimits, *, timeout_s: float
    ) -> ArchivedResponse:
        """Return the newest response that an archive has of a URL; raises `FetchError`."""
        try:
            return await self._reading.run(
                lambda check: archive.response(url, limits, check), timeout_s=timeout_s
            )
        except TimeoutError:
            message = f"The archive's record could not be read within {timeout_s:g} s."
            raise FetchError("timeout", message) from None

    def close(self) -> None:
        """Let the threads end."""
        self.index_threads.close()
        self._reading.close()
