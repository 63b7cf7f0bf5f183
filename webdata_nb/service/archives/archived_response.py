"""Turns the record of a capture into the response that was captured."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from webdata_nb.page.errors import FetchError
from webdata_nb.service.archives.warc_records import WarcRecord, header_lines
from webdata_nb.service.web.request import FetchLimits
from webdata_nb.service.web.response_reader import ContentDecoder, parse_content_codings

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
