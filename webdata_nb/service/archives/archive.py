"""Opens WARC and WACZ files, and finds the response that was captured of a URL.

The captures of an archive are indexed by URL, as arrays of numbers. A WACZ file is a zip package of
WARC files.

`ArchiveFetcher` answers the requests of a crawl from captures; of a web archive, the capture of a
URL that is nearest to a date answers.
"""

from __future__ import annotations

import asyncio
import os
import stat
import struct
import zipfile
import zlib
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from http import HTTPStatus
from io import BufferedReader, BytesIO, FileIO
from itertools import chain, islice, pairwise
from math import inf
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self, TypeAlias
from weakref import WeakValueDictionary

from webdata_nb.contract.archives import file_version
from webdata_nb.contract.choices import CaptureMatch
from webdata_nb.contract.outcomes import NOT_ARCHIVED
from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.content.page_source import FetchedResponse, Redirect
from webdata_nb.page.declared_refresh import refresh_target
from webdata_nb.page.errors import ApplicationError, FetchError
from webdata_nb.page.urls import canonical_url, split_url, url_origin
from webdata_nb.service.archives.warc import (
    GZIP_MAGIC,
    ArchivedHead,
    ArchivedResponse,
    BrokenRecord,
    Damage,
    SeveralRecords,
    WarcFile,
    WarcRecord,
    parse_date,
    read_head,
    read_record,
    read_response,
)
from webdata_nb.service.archives.web_archives import (
    CdxCapture,
    CdxQuery,
    WebArchive,
    capture_key,
    pack_captures,
    unpack_captures,
)
from webdata_nb.service.errors import JobFailure, NotIndexed, SourceError
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.bounded_dict import BoundedDict
from webdata_nb.service.runtime.work_threads import (
    StopCheck,
    StoppableFile,
    WorkThreads,
    never_stop,
)
from webdata_nb.service.web.fetch import redirect_target
from webdata_nb.service.web.polite_fetcher import PageDeadline, ResponseSource
from webdata_nb.service.web.request import FetchLimits, FetchRequest

ZIP_MAGIC: Final = b"PK\x03\x04"
# Of the package's directory, which is read into memory.
MAX_DIRECTORY_BYTES: Final = 4 * 1024 * 1024
MAX_WARC_FILES: Final = 10_000
_PAGES: Final = "pages/pages.jsonl"
_PAGES_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_MAX_PAGES_BYTES: Final = 1024 * 1024
_MAX_PAGES: Final = 10_000
_LOCAL_HEADER: Final = struct.Struct("<26xHH")
_ENCRYPTED: Final = 0x1
_DAMAGED: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    ValueError,
    OSError,  # an offset before the file
)


class UnusableArchive(ApplicationError):
    """A file is no archive that can be read; the text says why."""


@dataclass(frozen=True, slots=True)
class WarcWindow:
    """The bytes of one WARC file: the whole file, or a part of a package."""

    start: int
    limit: int


@dataclass(frozen=True, slots=True)
class WaczPackage:
    """The WARC files of a package, and the addresses of its pages in their order."""

    windows: tuple[WarcWindow, ...]
    pages: tuple[str, ...]


class _PackageFile(FileIO):
    """A package whose directory is refused where `zipfile` would read too much into memory."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` bytes; raises `UnusableArchive`."""
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise UnusableArchive(
                f"{self._path.name} has a directory of more than {MAX_DIRECTORY_BYTES:,} bytes"
            )
        return super().read(size) or b""


def read_wacz(path: Path) -> WaczPackage:
    """Read the directory of a package; nothing of it is unpacked to files.

    Raises
    ------
    UnusableArchive
        The package is damaged, too large, or has no WARC file that can be read in place.
    """
    try:
        with _PackageFile(path) as file, zipfile.ZipFile(file) as package:
            windows = tuple(_wacz_windows(path, package))
            in_order = sorted(windows, key=lambda window: window.start)
            # A small package whose members share bytes could have millions of records.
            if any(first.limit > second.start for first, second in pairwise(in_order)):
                raise UnusableArchive(f"{path.name} is a damaged package (its WARC files overlap)")
            pages = tuple(_pages(package))
    except _DAMAGED as error:
        raise UnusableArchive(f"{path.name} is a damaged package ({error})") from None
    if not windows:
        raise UnusableArchive(f"{path.name} has no WARC file in its folder archive/")
    return WaczPackage(windows, pages)


def _wacz_windows(path: Path, package: zipfile.ZipFile) -> Iterator[WarcWindow]:
    members = [
        member
        for member in package.infolist()
        if member.filename.startswith("archive/")
        and member.filename.lower().endswith((".warc", ".warc.gz"))
    ]
    if len(members) > MAX_WARC_FILES:
        raise UnusableArchive(f"{path.name} has more than {MAX_WARC_FILES:,} WARC files")
    size = path.stat().st_size
    with path.open("rb") as file:
        for member in sorted(members, key=lambda each: each.filename):
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & _ENCRYPTED:
                raise UnusableArchive(
                    f"{path.name} has compressed or encrypted WARC files: a WACZ stores them as "
                    "they are"
                )
            file.seek(member.header_offset)
            name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            start = member.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
            limit = start + member.file_size
            if limit > size:
                raise UnusableArchive(f"{path.name} is a damaged package (it is cut off)")
            yield WarcWindow(start, limit)


def _pages(package: zipfile.ZipFile) -> Iterator[str]:
    """Yield the addresses in the list of pages, those of seeds first."""
    if _PAGES not in package.namelist():
        return
    member = package.getinfo(_PAGES)
    if member.compress_type not in _PAGES_METHODS or member.flag_bits & _ENCRYPTED:
        raise ValueError("its list of pages is encrypted, or compressed in an unusual way")
    pages: list[tuple[str, bool]] = []
    with package.open(member) as listing:
        for line in islice(BytesIO(listing.read(_MAX_PAGES_BYTES)), _MAX_PAGES):
            try:
                page = decode_json(line)
            except MalformedJson:
                continue
            if isinstance(page, dict) and isinstance(url := page.get("url"), str):
                pages.append((url, bool(page.get("seed"))))
    yield from (url for url, is_seed in sorted(pages, key=lambda page: not page[1]))


# A capture takes 26 bytes of memory, and 90 while the index is built.
MAX_CAPTURES: Final = 2_000_000
_MAX_URL_LENGTH: Final = 200
_KINDS: Final = frozenset({"response", "resource", "revisit"})


class Capture(NamedTuple):
    """Where the record of a capture is: the number of its window, and its offset in the file."""

    window: int
    offset: int


@dataclass(slots=True)
class ArchiveIndex:
    """The captures of an archive, sorted by a hash of their URL, then by time.

    `conversions` counts the texts and pictures that were made of pages, which are no captures, and
    `rejected_count` the captures of what is no valid URL.
    """

    _hashes: array[int] = field(default_factory=lambda: array("Q"))
    _windows: array[int] = field(default_factory=lambda: array("H"))
    _offsets: array[int] = field(default_factory=lambda: array("Q"))
    _times: array[int] = field(default_factory=lambda: array("q"))
    problems: list[str] = field(default_factory=list)
    conversions: int = 0
    rejected_count: int = 0
    first_rejected: str = ""

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, record: WarcRecord, window: int) -> None:
        """Add a record, unless it is no capture of a web page."""
        self.conversions += record.kind == "conversion"
        if record.kind not in _KINDS:
            return
        if (key := url_key(record.url)) is None:
            if is_web_address(record.url):  # unlike those of name servers and attachments
                self.rejected_count += 1
                self.first_rejected = self.first_rejected or record.url
            return
        if len(self) == MAX_CAPTURES:
            raise UnusableArchive(f"the archive has more than {MAX_CAPTURES:,} captures")
        at = record.captured_at
        self._hashes.append(_hash(key))
        self._windows.append(window)
        self._offsets.append(record.offset)
        self._times.append(0 if at is None else int(at.timestamp()))

    def rejections(self) -> list[str]:
        """Return how many captures are of a URL that cannot be requested, as a sentence."""
        if not self.rejected_count:
            return []
        captures = (
            "1 capture is" if self.rejected_count == 1 else f"{self.rejected_count:,} captures are"
        )
        url = self.first_rejected[:_MAX_URL_LENGTH]
        return [f"{captures} of no valid URL, such as {url!r}"]

    def sort(self, check: StopCheck) -> None:
        """Sort the captures, once all are added."""
        order = sorted(range(len(self)), key=self._times.__getitem__)
        check()
        order.sort(key=self._hashes.__getitem__)
        check()
        self._hashes = array("Q", (self._hashes[i] for i in order))
        self._windows = array("H", (self._windows[i] for i in order))
        self._offsets = array("Q", (self._offsets[i] for i in order))
        self._times = array("q", (self._times[i] for i in order))

    def captures(self, key: str) -> Iterator[Capture]:
        """Yield the captures that may be of a URL, the newest first; their records tell."""
        number = _hash(key)
        first = bisect_left(self._hashes, number)
        end = bisect_left(self._hashes, number + 1, lo=first)
        for position in reversed(range(first, end)):
            yield Capture(self._windows[position], self._offsets[position])


def build_index(file: BinaryIO, windows: tuple[WarcWindow, ...], check: StopCheck) -> ArchiveIndex:
    """Read all records of an archive; `check` may end it by an exception.

    Raises
    ------
    UnusableArchive
        It has no capture, or single records cannot be read.
    """
    index, damage = ArchiveIndex(), Damage()
    for number, window in enumerate(windows):
        warc = WarcFile(file, window.start, window.limit, damage, check)
        try:
            for record in warc.records():
                index.add(record, number)
        except SeveralRecords:
            raise UnusableArchive(
                "the archive is compressed as a whole, so that its records cannot be read one by "
                "one: `warcio recompress` writes one that can be read"
            ) from None
    index.problems = [*damage.problems, *index.rejections()]
    if not len(index):
        problem = f": {index.problems[0]}" if index.problems else ""
        if index.conversions and not problem:
            problem = (
                f", only {index.conversions:,} conversions of pages, such as to_warc writes of "
                'frames without the format "raw_html"'
            )
        raise UnusableArchive(f"the archive has no capture of a web page{problem}")
    index.sort(check)
    return index


def url_key(url: str) -> str | None:
    """Return the key by which a URL is found; None for what is no web address."""
    if not is_web_address(url):
        return None
    try:
        return canonical_key(canonical_url(url))
    except FetchError:
        return None


def is_web_address(url: str) -> bool:
    """Return whether a URL is meant to be one of the web."""
    return url[:4].lower() == "http"


def _hash(key: str) -> int:
    # One bit less than the array holds, so that the next number fits too.
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) >> 1


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
            record = self._find(file, url)
            if record is None:
                raise NotIndexed(f"The archive has no capture of {url}")
            try:
                if record.kind == "revisit":
                    return self._revisited(file, record, limits)
                return read_response(record, limits)
            except BrokenRecord as error:
                raise FetchError("protocol", f"The archive's record is damaged: {error}.") from None

    def first_page(self, check: StopCheck = never_stop) -> str | None:
        """Return the page where a crawl starts: the first one listed, else the first one stored.

        That is an HTML page, or a redirect. It is not robots.txt, which many crawlers read first,
        and many sites answer with a page.
        """
        with self._opened(check) as file:
            for url in self.listed_pages:
                if self._find(file, url) is not None:
                    return url
            for window in self.windows:
                records = WarcFile(file, window.start, window.limit).records()
                for number, record in enumerate(records):
                    if number == _MAX_START_RECORDS:
                        break
                    key = url_key(record.url) if record.kind in {"response", "resource"} else None
                    if key is None or split_url(key).path == "/robots.txt":
                        continue
                    try:
                        head, _ = read_head(read_record(file, record.offset, window.limit))
                    except (BrokenRecord, FetchError):
                        continue
                    kinds = head.values("content-type")
                    if _is_redirect(head.status) or (
                        head.status < HTTPStatus.MULTIPLE_CHOICES
                        and any("html" in kind.lower() for kind in kinds)
                    ):
                        return record.url
        return None

    @contextmanager
    def _opened(self, check: StopCheck) -> Iterator[BinaryIO]:
        with _opened(self.path, check) as file:
            if _version_of(file) != self.version:
                raise JobFailure(_changed_text(self.path))
            yield file

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
        head: ArchivedHead | None = None
        with suppress(BrokenRecord, FetchError):  # a revisit need not have a head
            head, _ = read_head(record)
        key = url_key(record.fields.get("warc-refers-to-target-uri", record.url).strip("<>"))
        captures = () if key is None else self.index.captures(key)
        records = (self._read(file, each) for each in islice(captures, _MAX_EARLIER_CAPTURES))
        original = next(
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
        if original is None:
            raise FetchError(
                NOT_ARCHIVED,
                f"The archive refers to a capture of {record.url} that it does not have",
            )
        response = read_response(original, limits)
        # The head that was sent with an unchanged body counts, unless it only says so.
        if head is not None and head.status != HTTPStatus.NOT_MODIFIED:
            response = response.below(head)
        return replace(response, captured_at=record.captured_at)


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
        self._open = BoundedDict[tuple[Path, str], Archive](_MAX_OPEN_ARCHIVES)
        self._locks: WeakValueDictionary[tuple[Path, str], asyncio.Lock] = WeakValueDictionary()
        self.index_threads: WorkThreads = WorkThreads("webdata-archive-index", _INDEX_THREADS)
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


UNAVAILABLE: Final = "archive_unavailable"
"""The kind of failure of a page that the archive did not give, although it may have it."""

# Of a host or a URL; they take some 30 MB.
MAX_CAPTURES_LISTED: Final = 50_000
# Of all hosts and URLs of a crawl together.
MAX_CAPTURES_KEPT: Final = 4 * MAX_CAPTURES_LISTED
# A reply of the Wayback Machine, and no less than a page of Common Crawl.
_PAGE: Final = 15_000
# An index that goes on without captures would never end.
_MAX_INDEX_PAGES: Final = 200
# URLs of another host than that of the start which are looked up one by one.
_SINGLE_LOOKUPS: Final = 3
_MAX_LOOKUPS: Final = 20_000
# Narrower windows for a URL with too many captures, each a tenth of the one before.
_NARROWER_WINDOWS: Final = 4

CapturesByKey = dict[str, list[CdxCapture]]


@dataclass(slots=True)
class CaptureLists:
    """The captures of hosts and of single URLs; those that were used last, within a limit.

    The name of a list is a host or the key of a URL. A host with too many captures has None.
    """

    _lists: OrderedDict[str, CapturesByKey | None] = field(default_factory=OrderedDict)
    captures: int = 0

    def __contains__(self, name: str) -> bool:
        return name in self._lists

    def get(self, name: str) -> CapturesByKey | None:
        """Return a list; None without one, or where there are too many captures."""
        if name in self._lists:
            self._lists.move_to_end(name)
        return self._lists.get(name)

    def add(self, name: str, captures: CapturesByKey | None) -> None:
        """Add a list, and drop the ones that were not used for the longest time."""
        self._lists[name] = captures
        self.captures += _size(captures)
        while self.captures > MAX_CAPTURES_KEPT and len(self._lists) > 1:
            self.captures -= _size(self._lists.popitem(last=False)[1])


@dataclass(frozen=True, slots=True)
class DatedCaptures:
    """The captures of an archive at about a time.

    The captures of a host are listed once; a host with too many is asked for each URL.

    Parameters
    ----------
    archive
        The archive.
    as_of
        The time: of the captures of a URL the nearest one counts.
    max_distance
        Between a capture and that time at most; captures beyond do not count.
    start_url
        The URL of a crawl's start, whose host is listed at once.
    lists
        What the archive has listed so far.
    pin
        Stores the list of the start's host, for `restore` when the crawl resumes.
    """

    archive: WebArchive
    as_of: datetime
    max_distance: timedelta
    start_url: str
    lists: CaptureLists = field(default_factory=CaptureLists)
    pin: Callable[[bytes], Awaitable[None]] | None = None
    _lookups: BoundedDict[str, int] = field(default_factory=lambda: BoundedDict(_MAX_LOOKUPS))
    # Why the archive shows no captures, by host.
    _excluded: dict[str, str] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self, url: str, limits: FetchLimits) -> ArchivedResponse:
        """Return the response of a URL that was captured nearest to the time.

        Raises
        ------
        FetchError
            Of kind ``not_archived`` where there is none within the distance, and of kind
            ``archive_unavailable`` where the archive cannot be asked.
        """
        try:
            candidates = await self._candidates(url)
            # A capture of the same URL with http may be a redirect to that with https.
            exact = [capture for capture in candidates if capture.url == url]
            others = [capture for capture in candidates if not _is_redirect(capture.status)]
            near = [capture for capture in exact or others if self._is_near(capture.captured_at)]
            if not near:
                reason = f"{self.archive.name} has no capture of {url} {self._window}"
                detail = self._excluded.get(_host(url), reason)
                if self.lists.get(_host(url)) is not None:
                    raise NotIndexed(detail)
                raise FetchError(NOT_ARCHIVED, detail)
            capture = min(near, key=self._distance)
            response = await self.archive.read(capture, limits)
        except SourceError as error:
            raise FetchError(UNAVAILABLE, str(error)) from None
        at = response.captured_at
        if at is not None and not self._is_near(at):
            raise FetchError(
                NOT_ARCHIVED,
                f"{self.archive.name} has a capture of {url} at {at:%Y-%m-%d %H:%M} only, and "
                f"none {self._window}",
            )
        return response

    def restore(self, pinned: bytes) -> None:
        """Use the list of the start's host that an earlier attempt pinned."""
        self.lists.add(_host(self.start_url), self._nearest_of_each(unpack_captures(pinned)))

    def _distance(self, capture: CdxCapture) -> tuple[timedelta, datetime]:
        # Of two that are equally far, the earlier one.
        return abs(capture.captured_at - self.as_of), capture.captured_at

    def _is_near(self, at: datetime) -> bool:
        return abs(at - self.as_of) <= self.max_distance

    @property
    def _window(self) -> str:
        days = self.max_distance / timedelta(days=1)
        unit = "day" if days == 1 else "days"
        return f"within {days:g} {unit} of {self.as_of:%Y-%m-%d %H:%M}"

    async def _candidates(self, url: str) -> list[CdxCapture]:
        """Return the captures of a URL in the window."""
        key = capture_key(url)
        if key is None:
            return []
        host = _host(url)
        if (by_key := self.lists.get(host)) is not None:
            return by_key.get(key, [])
        async with self._lock:
            if host not in self.lists:
                # The host of the start is listed at once, another one after some single lookups.
                is_start = host == _host(self.start_url)
                lookups = self._lookups.get(host, 0) + 1
                if not is_start:
                    self._lookups[host] = lookups
                if is_start or lookups > _SINGLE_LOOKUPS:
                    listed = await self._list(f"{url_origin(url)}/", "host", self.max_distance)
                    by_key = None if listed is None else self._nearest_of_each(listed)
                    if self.pin is not None and by_key is not None and is_start:
                        captures = chain.from_iterable(by_key.values())
                        await self.pin(await asyncio.to_thread(pack_captures, captures))
                    self.lists.add(host, by_key)
            if (by_key := self.lists.get(host)) is not None:
                return by_key.get(key, [])
            if (by_key := self.lists.get(key)) is None:
                by_key = {key: await self._captures_of_url(url, key)}
                self.lists.add(key, by_key)
            return by_key[key]

    def _nearest_of_each(self, captures: Iterable[CdxCapture]) -> CapturesByKey:
        """Return the captures that may be read: the nearest of each URL, redirects apart."""
        nearest: dict[tuple[str, bool], CdxCapture] = {}
        for capture in captures:
            kind = capture.url, _is_redirect(capture.status)
            if self._distance(capture) < self._distance(nearest.setdefault(kind, capture)):
                nearest[kind] = capture
        by_key: CapturesByKey = {}
        for capture in nearest.values():
            by_key.setdefault(capture_key(capture.url) or "", []).append(capture)
        return by_key

    async def _captures_of_url(self, url: str, key: str) -> list[CdxCapture]:
        distance = self.max_distance
        for _ in range(1 + _NARROWER_WINDOWS):
            listed = await self._list(url, "exact", distance)
            if listed is not None:
                # A capture in a narrower window is nearer than all beyond it.
                found = self._nearest_of_each(listed).get(key, [])
                if found or distance == self.max_distance:
                    return found
                break
            distance /= 10
        raise FetchError(
            UNAVAILABLE,
            f"{self.archive.name} has too many captures of {url} to find the nearest one: try a "
            "smaller max_distance",
        )

    async def _list(
        self, url: str, match: CaptureMatch, distance: timedelta
    ) -> list[CdxCapture] | None:
        """Return the captures that match; None if there are too many.

        Raises
        ------
        SourceError
            The index does not answer, or not to its end.
        """
        query = CdxQuery(url, match, self.as_of - distance, self.as_of + distance)
        captures: list[CdxCapture] = []
        cursor: str | None = None
        for _ in range(_MAX_INDEX_PAGES):
            page = await self.archive.list_captures(query, limit=_PAGE, cursor=cursor)
            if page.outcome == "unavailable":
                raise SourceError(f"{self.archive.name}, {page.index}: {page.detail}")
            if page.outcome == "excluded":
                self._excluded[_host(url)] = page.detail
            captures += page.captures
            if page.cursor is None and len(captures) <= MAX_CAPTURES_LISTED:
                return captures
            if len(captures) >= MAX_CAPTURES_LISTED:
                return None
            if page.cursor == cursor:
                raise SourceError(f"{self.archive.name}, {page.index}: it repeats a page")
            cursor = page.cursor
        raise SourceError(f"the index of {self.archive.name} has no end")


def _is_redirect(status: int | None) -> bool:
    return HTTPStatus.MULTIPLE_CHOICES <= (status or 0) < HTTPStatus.BAD_REQUEST


def _host(url: str) -> str:
    """Return the host of a URL as archives tell hosts apart."""
    return (capture_key(url) or "").partition("/")[0]


def _size(captures: CapturesByKey | None) -> int:
    return 1 + sum(map(len, (captures or {}).values()))


ReadCapture: TypeAlias = "Callable[[str, FetchLimits, float], Awaitable[ArchivedResponse]]"
"""Returns the response that was captured of a URL, in so many seconds; raises `FetchError`."""


class SingleAttemptDeadline(PageDeadline):
    """A deadline that leaves no time for a second attempt: the record would be the same."""

    @property
    def remaining_s(self) -> float:
        """No seconds."""
        return 0.0


class ArchiveFetcher(ResponseSource):
    """Returns the responses that an archive has, and follows its redirects."""

    def __init__(self, read: ReadCapture) -> None:
        self._read = read

    @classmethod
    def of_file(cls, archive: Archive, archives: Archives) -> Self:
        """Return a fetcher that reads an archive file."""

        def read(url: str, limits: FetchLimits, timeout_s: float) -> Awaitable[ArchivedResponse]:
            return archives.response(archive, url, limits, timeout_s=timeout_s)

        return cls(read)

    @contextmanager
    def deadline(self, timeout_s: float) -> Iterator[PageDeadline]:
        """Start the deadline of a page, which is read once."""
        yield SingleAttemptDeadline(timeout_s)

    async def fetch(
        self,
        request: FetchRequest,
        deadline: PageDeadline,
        *,
        queued: bool = True,  # noqa: ARG002 - the site is not asked
    ) -> FetchedResponse:
        """Return the response of a URL, after its redirects; raises `FetchError`."""
        limits = request.limits or FetchLimits()
        requested = url = canonical_url(request.url)
        hops: list[Redirect] = []
        stopped: str | None = None
        try:
            while True:
                remaining_s = max(0.001, deadline.timeout_s - deadline.elapsed_s)
                archived = await self._read(url, limits, remaining_s)
                target = redirect_target(url, archived.status, archived.header("location"))
                if target is None and archived.status == HTTPStatus.OK:
                    target = refresh_target(url, archived.header("refresh"), archived.body)
                    if any(hop.url == target for hop in hops):
                        break  # no duty, unlike a circle of redirects
                if target is None:
                    break
                hops.append(Redirect(url, archived.status))
                _check_hops(hops, target, limits)
                url = target
                stopped = None if request.allow_hop is None else await request.allow_hop(url)
                if stopped is not None:
                    break
        except FetchError as failure:
            failure.hops = len(hops)
            raise
        return FetchedResponse(
            url=requested,
            final_url=url,
            status=archived.status,
            content_type=archived.header("content-type"),
            body=b"" if stopped else archived.body,
            redirects=tuple(hops),
            fetched_at=archived.captured_at or datetime.now(UTC),
            headers=archived.headers,
            wire_bytes=archived.stored_bytes,
            stopped=stopped,
        )


def _check_hops(hops: list[Redirect], target: str, limits: FetchLimits) -> None:
    if len(hops) > limits.redirects:
        raise FetchError("redirects", f"The page redirects more than {limits.redirects} times.")
    if any(hop.url == target for hop in hops):
        raise FetchError("redirects", f"The page redirects in a circle, to {target!r}.")
