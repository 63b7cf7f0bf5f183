"""Opens WARC and WACZ files, and finds the response that was captured of a URL.

The captures of an archive are indexed by URL, as arrays of numbers. A WACZ file is a zip package of
WARC files.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from http import HTTPStatus
from io import BufferedReader, BytesIO, FileIO
from itertools import islice, pairwise
from math import inf
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from weakref import WeakValueDictionary

from webdata_nb.contract.archives import file_version
from webdata_nb.contract.outcomes import NOT_ARCHIVED
from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.errors import ApplicationError, FetchError
from webdata_nb.page.urls import canonical_url, split_url
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
from webdata_nb.service.errors import JobFailure, NotIndexed
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.work_threads import (
    StopCheck,
    StoppableFile,
    WorkThreads,
    never_stop,
)
from webdata_nb.service.web.request import FetchLimits

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
    with package.open(member) as listing:
        lines = islice(BytesIO(listing.read(_MAX_PAGES_BYTES)), _MAX_PAGES)
        pages = [page for page in map(_page, lines) if page is not None]
    yield from (url for url, is_seed in sorted(pages, key=lambda page: not page[1]))


def _page(line: bytes) -> tuple[str, bool] | None:
    try:
        page = decode_json(line)
    except MalformedJson:
        return None
    url = page.get("url") if isinstance(page, dict) else None
    return (url, bool(page.get("seed"))) if isinstance(url, str) else None


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
        key = url_key(record.url) if record.kind in {"response", "resource"} else None
        if key is not None and split_url(key).path != "/robots.txt":
            try:
                head, _ = read_head(read_record(file, record.offset, window.limit))
            except (BrokenRecord, FetchError):
                continue
            is_html = any("html" in value.lower() for value in head.values("content-type"))
            is_redirect = HTTPStatus.MULTIPLE_CHOICES <= head.status < HTTPStatus.BAD_REQUEST
            if is_redirect or (is_html and head.status < HTTPStatus.MULTIPLE_CHOICES):
                return record.url
    return None


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
