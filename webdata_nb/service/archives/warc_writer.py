"""Writes the requests and responses of a crawl to a WARC file, as they were sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from webdata_nb.contract.archives import (
    WRITTEN_SUFFIX,
    payload_digest,
    record_id,
    warc_fields,
    warc_record,
)
from webdata_nb.service.archives.warc import SeveralRecords, WarcFile, read_record
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.runtime.work_threads import StopCheck, StoppableFile, WorkThreads
from webdata_nb.service.web.polite_fetcher import PageDeadline, ResponseSource
from webdata_nb.service.web.request import AllowHop, FetchedResponse, FetchRequest, HttpExchange

_INFO_BYTES: Final = 64 * 1024


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
            return _end_in(file, path.stat().st_size, info)
    except FileNotFoundError:
        return 0


def _end_in(file: BinaryIO, size: int, info: bytes) -> int:
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
        delay_s: float = 0.0,
        allow_hop: AllowHop | None = None,
        queued: bool = True,
    ) -> FetchedResponse:
        """Return the response to a request; raises `FetchError`, or `JobFailure` by the file."""
        return await self._source.fetch(
            replace(request, record=self._writer.write),
            deadline,
            delay_s=delay_s,
            allow_hop=allow_hop,
            queued=queued,
        )
