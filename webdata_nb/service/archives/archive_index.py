"""Indexes the captures of an archive by URL, as arrays of numbers."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import BinaryIO, Final, NamedTuple

from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url
from webdata_nb.service.archives.wacz import UnusableArchive, WarcWindow
from webdata_nb.service.archives.warc_records import (
    Damage,
    SeveralRecords,
    WarcFile,
    WarcRecord,
)
from webdata_nb.service.runtime.work_threads import StopCheck

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
