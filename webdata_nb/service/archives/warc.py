"""Reads and writes WARC files (ISO 28500).

Files of any origin are read within limits. The requests and responses of a crawl are written as
they were sent.

A record of a `.warc.gz` is a gzip member of its own, so that it can be read without those before
it.
"""

from __future__ import annotations

import asyncio
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO, Final, Protocol
from uuid import uuid4

from msgspec import structs

from webdata_nb.contract.archives import (
    WRITTEN_SUFFIX,
    payload_digest,
    record_id,
    warc_fields,
    warc_record,
)
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import FetchError
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.runtime.work_threads import (
    StopCheck,
    StoppableFile,
    WorkThreads,
    never_stop,
)
from webdata_nb.service.web.polite_fetcher import PageDeadline, ResponseSource
from webdata_nb.service.web.request import FetchLimits, FetchRequest, HttpExchange, decode_header
from webdata_nb.service.web.response_reader import ContentDecoder, parse_content_codings

GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_CHUNK_BYTES: Final = 64 * 1024
# A record that is larger than this, and compressed better than this, is a decompression bomb.
_BOMB_BYTES: Final = 64 * 1024 * 1024
_BOMB_RATIO: Final = 200
# No page is nearly as large as a record that unpacks to more than this.
_MAX_MEMBER_BYTES: Final = 1024**3
# Compressed bytes that may unpack to nothing.
_MAX_SILENT_BYTES: Final = 1024 * 1024


class BrokenRecord(Exception):
    """The bytes are no complete WARC record; the text says what is wrong."""


class RecordBytes(Protocol):
    """The bytes of one record, from its first one on."""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end. Raises `BrokenRecord`."""

    def skip(self, size: int) -> None:
        """Skip bytes. Raises `BrokenRecord` where there are fewer."""

    def end(self) -> int:
        """Return the offset of what follows in the file. Raises `BrokenRecord`."""


class PlainBytes(RecordBytes):
    """A record that is not compressed: `file` between `start` and `limit`."""

    def __init__(self, file: BinaryIO, start: int, limit: int) -> None:
        self._file, self._position, self._limit = file, start, limit
        file.seek(start)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end."""
        data = self._file.read(min(size, self._limit - self._position))
        self._position += len(data)
        return data

    def skip(self, size: int) -> None:
        """Skip bytes."""
        if size > self._limit - self._position:
            raise BrokenRecord("the file ends within the record")
        self._position += size
        self._file.seek(self._position)

    def end(self) -> int:
        """Return the offset of what was not read."""
        return self._position


class MemberBytes(RecordBytes):
    """A record that is a gzip member: `file` from `start`, and before `limit`."""

    def __init__(self, file: BinaryIO, start: int, limit: int) -> None:
        self._file, self._position, self._limit = file, start, limit
        self._start = start
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._pending = b""
        self._inflated_bytes = self._silent_bytes = 0
        file.seek(start)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end."""
        while not self._inflater.eof:
            if not self._pending:
                chunk = self._file.read(min(_CHUNK_BYTES, self._limit - self._position))
                if not chunk:
                    raise BrokenRecord("the file ends within the record")
                self._position += len(chunk)
                self._silent_bytes += len(chunk)
                if self._silent_bytes > _MAX_SILENT_BYTES:
                    raise BrokenRecord("the compressed data has no content")
                self._pending = chunk
            try:
                data = self._inflater.decompress(self._pending, size)
            except zlib.error as error:
                raise BrokenRecord(f"the compressed data is damaged ({error})") from None
            self._pending = self._inflater.unconsumed_tail
            self._inflated_bytes += len(data)
            read_bytes = self._position - self._start
            if self._inflated_bytes > max(_BOMB_BYTES, _BOMB_RATIO * read_bytes):
                raise BrokenRecord(f"the record unpacks to more than {_BOMB_RATIO} times its size")
            if self._inflated_bytes > _MAX_MEMBER_BYTES:
                raise BrokenRecord(f"the record unpacks to more than {_MAX_MEMBER_BYTES:,} bytes")
            if data:
                self._silent_bytes = 0
                return data
        return b""

    def skip(self, size: int) -> None:
        """Skip bytes."""
        while size:
            data = self.read(min(size, _CHUNK_BYTES))
            if not data:
                raise BrokenRecord("the record is shorter than its Content-Length")
            size -= len(data)

    def end(self) -> int:
        """Return the offset after the member."""
        # At most the line breaks that end a record, and bytes that belong to none.
        while self.read(_CHUNK_BYTES):
            pass
        return self._position - len(self._inflater.unused_data)


def record_bytes(file: BinaryIO, start: int, limit: int) -> RecordBytes:
    """Return the bytes of the record at an offset of a file."""
    file.seek(start)
    is_compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return (MemberBytes if is_compressed else PlainBytes)(file, start, limit)


HEAD_BYTES: Final = 64 * 1024
_VERSION: Final = re.compile(rb"WARC/\d\.\d+\r?\n")
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
# The longest end of a head, of which all but the last byte may be in the chunk before.
_END_OF_HEAD_BYTES: Final = 3
_HEAD_CHUNK_BYTES: Final = 4096
_SCAN_BYTES: Final = 1024 * 1024
# Of an archive that has more damaged places, the rest is not read.
MAX_DAMAGED_PLACES: Final = 100
# Bytes that look like the begin of a record, and are read to find out.
MAX_GUESSES: Final = 10_000
# Of each of them; the head of a record is rarely longer than a kilobyte.
_GUESS_BYTES: Final = 16 * 1024
# Bytes that are searched for the begin of a record, in all damaged places together.
MAX_SEARCHED_BYTES: Final = 1024**3


@dataclass(slots=True)
class RecordReader:
    """Reads one record: its head, then its content."""

    data: RecordBytes
    consumed: int = field(default=0, init=False)
    _buffer: bytes = field(default=b"", init=False)

    def read_head(self, at_most: int = HEAD_BYTES) -> bytes:
        """Read up to the empty line, which is not part of the head."""
        read_bytes, searched_bytes = len(self._buffer), 0
        # A head of many chunks is searched once, not again with each chunk.
        while (end := _END_OF_HEAD.search(self._buffer, searched_bytes)) is None or (
            end.end() > at_most
        ):
            if end is not None or read_bytes >= min(HEAD_BYTES, at_most):
                raise BrokenRecord("a head has no end")
            chunk = self.data.read(_HEAD_CHUNK_BYTES)
            if not chunk:
                raise BrokenRecord("the file ends within a head" if self._buffer else "it is empty")
            read_bytes += len(chunk)
            searched_bytes = max(0, len(self._buffer) - _END_OF_HEAD_BYTES + 1)
            # Line breaks before the first line belong to the record before.
            self._buffer = self._buffer + (
                chunk if self.consumed or self._buffer else chunk.lstrip(b"\r\n")
            )
        head = self._buffer[: end.start()].removesuffix(b"\r")
        self._buffer = self._buffer[end.end() :]
        self.consumed += end.end()
        return head

    def read(self, size: int) -> bytes:
        """Return `size` bytes of the content."""
        parts = [self._buffer[:size]]
        self._buffer = self._buffer[size:]
        missing = size - len(parts[0])
        while missing:
            chunk = self.data.read(missing)
            if not chunk:
                raise BrokenRecord("the record is shorter than its Content-Length")
            parts.append(chunk)
            missing -= len(chunk)
        self.consumed += size
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Skip bytes of the content."""
        buffered = min(size, len(self._buffer))
        self._buffer = self._buffer[buffered:]
        self.data.skip(size - buffered)

    def end(self) -> int:
        """Return the offset of the next record."""
        if not isinstance(self.data, MemberBytes):
            return self.data.end() - len(self._buffer)
        rest = (self._buffer + self.data.read(_HEAD_CHUNK_BYTES)).lstrip(b"\r\n")
        if rest.startswith(b"WARC/"):
            raise SeveralRecords
        return self.data.end()


class SeveralRecords(Exception):
    """A gzip member has several records, so that single ones cannot be read."""


@dataclass(frozen=True, slots=True)
class WarcRecord:
    """A record whose head was read, and whose content follows in `reader`.

    `end` is the offset of what follows the record, where all of it was read.
    """

    offset: int
    fields: Mapping[str, str]
    length: int
    reader: RecordReader
    end: int = -1

    @property
    def kind(self) -> str:
        """The type of the record, such as ``response``."""
        return self.fields.get("warc-type", "").lower()

    @property
    def url(self) -> str:
        """The address that was captured; wget writes it in angle brackets."""
        return self.fields.get("warc-target-uri", "").strip("<>")

    @property
    def captured_at(self) -> datetime | None:
        """When it was captured."""
        return parse_date(self.fields.get("warc-date", ""))


def parse_date(text: str) -> datetime | None:
    """Return the time in a field of a record, in UTC; None for other text."""
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):  # an offset may lead out of the years 1 to 9999
        return None


def read_record(file: BinaryIO, offset: int, limit: int) -> WarcRecord:
    """Return the record at an offset, which ends before `limit`; raises `BrokenRecord`."""
    reader = RecordReader(record_bytes(file, offset, limit))
    head = reader.read_head()
    if not _VERSION.match(head + b"\n"):
        raise BrokenRecord("there is no WARC record")
    fields = header_fields(head)
    length = fields.get("content-length", "")
    if not re.fullmatch("[0-9]{1,18}", length):
        raise BrokenRecord("the record has no valid Content-Length")
    return WarcRecord(offset, fields, int(length), reader)


def header_fields(head: bytes) -> dict[str, str]:
    """Return the fields of a head by name in lower case; of repeated ones the first."""
    fields: dict[str, str] = {}
    for name, value in header_lines(head):
        fields.setdefault(name, value)
    return fields


def header_lines(head: bytes) -> list[tuple[str, str]]:
    """Return the fields of a head in their order; names in lower case, continued lines joined."""
    lines: list[tuple[str, str]] = []
    for raw in head.replace(b"\r\n", b"\n").split(b"\n")[1:]:
        text = decode_header(raw)
        if text[:1] in {" ", "\t"} and lines:
            name, value = lines[-1]
            lines[-1] = name, f"{value} {text.strip()}"
            continue
        name, colon, value = text.partition(":")
        if colon:
            lines.append((name.strip().lower(), value.strip()))
    return lines


@dataclass(slots=True)
class Damage:
    """The damaged places of an archive, and what was done to find the records after them.

    `guesses` counts the places that were read to find out whether they begin a record.
    """

    problems: list[str] = field(default_factory=list)
    guesses: int = 0
    searched_bytes: int = 0

    @property
    def is_too_much(self) -> bool:
        """Whether the rest of the archive is not worth reading."""
        return (
            len(self.problems) >= MAX_DAMAGED_PLACES
            or self.guesses >= MAX_GUESSES
            or self.searched_bytes >= MAX_SEARCHED_BYTES
        )


@dataclass(slots=True)
class WarcFile:
    """Iterates over the records of one file.

    A damaged record is skipped: reading continues at the next place that begins a record.

    Parameters
    ----------
    file, start, limit
        The file, and the offsets between which its records are.
    damage
        That of the archive so far, to which the file adds its own.
    check
        Called before each record and each guess; it ends the iteration by an exception.
    """

    file: BinaryIO
    start: int
    limit: int
    damage: Damage = field(default_factory=Damage)
    check: StopCheck = never_stop

    def records(self) -> Iterator[WarcRecord]:
        """Yield the records that are complete; their content has been skipped.

        Raises
        ------
        SeveralRecords
            The file is not compressed record by record.
        """
        offset: int | None = self.start
        while offset is not None and offset < self.limit:
            self.check()
            try:
                record = read_record(self.file, offset, self.limit)
                record.reader.skip(record.length)
                end = record.reader.end()
            except BrokenRecord as error:
                # Nothing but line breaks may follow: then the file ends here.
                self.file.seek(offset)
                rest = self.file.read(min(_HEAD_CHUNK_BYTES, self.limit - offset))
                if not rest.strip(b"\r\n") and offset + len(rest) >= self.limit:
                    return
                offset = self._after_damage(offset, error)
            else:
                yield replace(record, end=end)
                offset = end

    def _after_damage(self, offset: int, error: BrokenRecord) -> int | None:
        """Return the next place that begins a record; None if there is none."""
        if self.damage.is_too_much:
            return None
        self.damage.problems.append(f"at byte {offset:,}: {error}")
        self.file.seek(offset)
        start = self.file.read(_HEAD_CHUNK_BYTES)
        line_breaks = len(start) - len(start.lstrip(b"\r\n"))
        found: int | None = None
        for mark in self._marks(offset + line_breaks + 1):
            self.check()
            with suppress(BrokenRecord):
                read_record(self.file, mark, min(self.limit, mark + _GUESS_BYTES))
                found = mark
                break
        if self.damage.is_too_much:
            self.damage.problems.append("too many damaged places: the rest was not read")
            return None
        return found

    def _marks(self, start: int) -> Iterator[int]:
        """Yield the places that look like the begin of a record."""
        self.file.seek(self.start)
        is_compressed = self.file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        mark = GZIP_MAGIC if is_compressed else b"WARC/1."
        damage = self.damage
        while start < self.limit and not damage.is_too_much:
            self.check()
            self.file.seek(start)
            block = self.file.read(min(_SCAN_BYTES, self.limit - start))
            damage.searched_bytes += len(block)
            found = block.find(mark)
            while found >= 0 and damage.guesses < MAX_GUESSES:
                damage.guesses += 1
                yield start + found
                found = block.find(mark, found + 1)
            # The last bytes may begin a mark.
            start += max(len(block) - len(mark) + 1, 1)


_STATUS_LINE: Final = re.compile(rb"HTTP/\d(?:\.\d)? +([1-9]\d\d)(?: |\r|\n|$)")
_CHUNK_SIZE: Final = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_GZIP_MAGIC: Final = b"\x1f\x8b"
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class ArchivedHead:
    """The status and the headers of a captured response."""

    status: int
    headers: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        """Return the headers of a name in lower case."""
        return [value for key, value in self.headers if key == name]


@dataclass(frozen=True, slots=True)
class ArchivedResponse:
    """One captured response; `headers` have names in lower case, `body` no content codings."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    stored_bytes: int
    captured_at: datetime | None

    def header(self, name: str) -> str | None:
        """Return the first header of a name in lower case; None without one."""
        return next((value for key, value in self.headers if key == name), None)

    def below(self, head: ArchivedHead) -> ArchivedResponse:
        """Return the body below the head of another capture, which may lack the type of it."""
        kinds = tuple(line for line in self.headers if line[0] == "content-type")
        headers = head.headers if head.values("content-type") else (*head.headers, *kinds)
        return replace(self, status=head.status, headers=headers)


def read_head(record: WarcRecord) -> tuple[ArchivedHead, int]:
    """Read the head of a record's response; return it with the bytes of the body.

    Raises
    ------
    FetchError
        Of kind ``protocol``: the record has no HTTP response.
    BrokenRecord
        The record is damaged.
    """
    if record.kind == "resource":
        kind = record.fields.get("content-type", "")
        headers = (("content-type", kind),) if kind else ()
        return ArchivedHead(_OK, headers), record.length
    before = record.reader.consumed
    head = record.reader.read_head(at_most=record.length)
    match = _STATUS_LINE.match(head)
    if match is None:
        raise FetchError("protocol", "The archive's record has no HTTP response.")
    lines = tuple(header_lines(head))
    return ArchivedHead(int(match[1]), lines), record.length - (record.reader.consumed - before)


def read_response(record: WarcRecord, limits: FetchLimits) -> ArchivedResponse:
    """Return the response in a record, within the limits of a page.

    Raises
    ------
    FetchError
        Of kind ``protocol``, ``too_large`` or ``decode``.
    BrokenRecord
        The record is damaged.
    """
    if (reason := record.fields.get("warc-truncated")) is not None:
        kind = "too_large" if reason == "length" else "protocol"
        raise FetchError(kind, f"The archive has a part of the page only ({reason[:40]}).")
    head, length = read_head(record)
    if length > limits.wire_bytes:
        raise FetchError("too_large", f"The page is larger than {limits.wire_bytes:,} bytes.")
    stored = record.reader.read(length)
    body = stored
    if any("chunked" in value.lower() for value in head.values("transfer-encoding")):
        body = _without_chunks(stored)
    return ArchivedResponse(
        head.status,
        head.headers,
        decode_body(body, head, limits.decoded_bytes),
        len(stored),
        record.captured_at,
    )


def _without_chunks(stored: bytes) -> bytes:
    """Return a chunked body without its framing; unchanged where an archiver removed it."""
    parts, position = list[bytes](), 0
    while (match := _CHUNK_SIZE.match(stored, position)) is not None:
        size = int(match[1], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(stored[match.end() : match.end() + size])
        position = match.end() + size
        position += 2 if stored[position : position + 2] == b"\r\n" else 0
    if parts and position < len(stored):
        return stored  # it only looked like chunks
    return b"".join(parts) if parts else stored


def decode_body(body: bytes, head: ArchivedHead, limit: int) -> bytes:
    """Return a body without the content codings that its head names; raises `FetchError`."""
    codings = parse_content_codings(head.values("content-encoding"))
    # Some archivers store the decoded body below the headers that were sent: its length is another.
    is_as_sent = head.values("content-length") == [str(len(body))]
    if codings == ("gzip",) and not body.startswith(_GZIP_MAGIC) and not is_as_sent:
        codings = ()
    if not codings or not body:
        if len(body) > limit:
            raise FetchError("too_large", f"The page is larger than {limit:,} bytes.")
        return body
    decoder = ContentDecoder(codings, limit)
    decoder.feed(body)
    return decoder.finish()


def partial_path(path: Path, job_id: str) -> Path:
    """Return the name of an archive while a job writes it: readable, and not yet complete."""
    stem = path.name[: -len(WRITTEN_SUFFIX)]
    return path.with_name(f"{stem}.partial-{job_id[:8]}{WRITTEN_SUFFIX}")


@dataclass(slots=True)
class WarcWriter:
    """Appends exchanges to a WARC file, each in one piece, so that a kill leaves whole records.

    Parameters
    ----------
    path, partial
        The file, and its name until it is complete.
    info
        The fields of the first record. A file that begins with the same ones is continued.
    threads
        Where such a file is read.

    Raises
    ------
    JobFailure
        The file cannot be written.
    """

    path: Path
    partial: Path
    info: Mapping[str, str]
    threads: WorkThreads
    _file: FileIO | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def open(self) -> None:
        """Create the file, or continue the one that an earlier attempt left."""
        await self.threads.run(lambda check: self._checked(lambda: self._open(check)))

    async def write(self, exchange: HttpExchange) -> None:
        """Append the request and the response of an exchange."""
        records = await asyncio.to_thread(_exchange_records, exchange)
        async with self._lock:
            await asyncio.to_thread(self._checked, lambda: self._append(records))

    async def complete(self) -> None:
        """Give the file its name."""
        async with self._lock:
            await asyncio.to_thread(self._checked, self._complete)

    def close(self) -> None:
        """Close the file; what is in it can be read."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _checked(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            raise JobFailure(f"{self.path} cannot be written ({error.strerror})") from None

    def _open(self, check: StopCheck) -> None:
        block = warc_fields(self.info)
        # An attempt that was killed may have completed the file already.
        for path in (self.partial, self.path):
            if end := _end_of_records(path, block, check):
                check()  # the job may have ended meanwhile
                path.replace(self.partial)
                self._file = self.partial.open("r+b", buffering=0)
                self._file.truncate(end)
                self._file.seek(end)
                return
        self._file = self.partial.open("wb", buffering=0)
        fields = {
            "WARC-Filename": self.path.name,
            "Content-Type": "application/warc-fields",
        }
        self._append(warc_record("warcinfo", uuid4(), datetime.now(UTC), block, fields))

    def _append(self, records: bytes) -> None:
        if self._file is None:
            raise RuntimeError("the file is not open")
        rest = memoryview(records)
        while rest:  # a full disk takes a part of them
            rest = rest[self._file.write(rest) :]

    def _complete(self) -> None:
        if self._file is None:
            raise RuntimeError("the file is not open")
        os.fsync(self._file.fileno())
        self.close()
        self.partial.replace(self.path)


def _end_of_records(path: Path, info: bytes, check: StopCheck) -> int:
    """Return the end of the last complete record; 0 where the file is not that of this crawl."""
    try:
        with BufferedReader(StoppableFile(path, check)) as file:
            size = path.stat().st_size
            warc, end = WarcFile(file, 0, size), 0
            try:
                for number, record in enumerate(warc.records()):
                    if warc.damage.problems:
                        break
                    if number == 0:
                        start = read_record(file, record.offset, size)
                        if start.length != len(info) or start.reader.read(start.length) != info:
                            return 0
                    end = record.end
            except SeveralRecords:
                return 0
            return end
    except FileNotFoundError:
        return 0


def _exchange_records(exchange: HttpExchange) -> bytes:
    """Return the records of a request and its response."""
    request_number, response_number = uuid4(), uuid4()
    at, url = exchange.requested_at, {"WARC-Target-URI": exchange.url}
    fields = {
        **url,
        "Content-Type": "application/http; msgtype=response",
        "WARC-Payload-Digest": payload_digest(exchange.body),
    }
    if exchange.is_truncated:
        fields["WARC-Truncated"] = "length"
    response = warc_record(
        "response", response_number, at, exchange.response_head + exchange.body, fields
    )
    request = warc_record(
        "request",
        request_number,
        at,
        exchange.request_head,
        {
            **url,
            "Content-Type": "application/http; msgtype=request",
            "WARC-Concurrent-To": record_id(response_number),
        },
    )
    return response + request


class RecordingSource(ResponseSource):
    """Returns the responses of another source, and writes each exchange to a WARC file."""

    def __init__(self, source: ResponseSource, writer: WarcWriter) -> None:
        self._source, self._writer = source, writer

    def deadline(self, timeout_s: float) -> AbstractContextManager[PageDeadline]:
        """Start a page's deadline."""
        return self._source.deadline(timeout_s)

    async def fetch(
        self,
        request: FetchRequest,
        deadline: PageDeadline,
        *,
        queued: bool = True,
    ) -> FetchedResponse:
        """Return the response to a request; raises `FetchError`, or `JobFailure` by the file."""
        return await self._source.fetch(
            structs.replace(request, record=self._writer.write), deadline, queued=queued
        )
