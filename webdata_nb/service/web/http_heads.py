"""Parses the heads of HTTP/1.1 messages strictly, and rewrites them for the next hop of a proxy."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LINE_BREAKING: Final = re.compile(r"[\x00\r\n]")
_MAX_HEADERS: Final = 256
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
    }
)
_START_LINE_PARTS: Final = 3


class HttpHeadError(ValueError):
    """The head of a message is malformed or ambiguous."""


@dataclass(frozen=True, slots=True)
class HttpHead:
    """The start line and the headers of a message.

    Attributes
    ----------
    start_line : tuple of str
        Its three parts.
    headers : tuple of (str, str)
        The headers in their order.
    """

    start_line: tuple[str, str, str]
    headers: tuple[tuple[str, str], ...]

    @property
    def method(self) -> str:
        """A request's method."""
        return self.start_line[0]

    @property
    def target(self) -> str:
        """A request's target, as sent."""
        return self.start_line[1]

    @property
    def status(self) -> int:
        """A response's status; raises `HttpHeadError` for anything but an HTTP/1 response."""
        version, status, _ = self.start_line
        if not version.startswith("HTTP/1.") or not re.fullmatch(r"\d{3}", status):
            raise HttpHeadError("not an HTTP/1 response")
        return int(status)

    def header(self, name: str) -> str | None:
        """Return the first header of a name, given in lower case; None without one."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    def request_length(self) -> int:
        """Return the length of a request's body; raises `HttpHeadError` if it is ambiguous."""
        if self.header("transfer-encoding") is not None:
            raise HttpHeadError("a request body without a length")
        return self._content_length() or 0

    def response_length(self, method: str) -> int | None:
        """Return the length of the body of a response to `method`; None if its end marks it."""
        if method == "HEAD" or self.status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
            return 0
        return None if self.header("transfer-encoding") is not None else self._content_length()

    def _content_length(self) -> int | None:
        lengths = {value for name, value in self.headers if name.lower() == "content-length"}
        if not lengths:
            return None
        length = lengths.pop()
        if lengths or not re.fullmatch(r"[0-9]{1,15}", length):
            raise HttpHeadError("an ambiguous length")
        return int(length)

    def forwarded_request(self, target: str, extra: list[tuple[str, str]]) -> bytes:
        """Return the request for the next hop: another target, and no hop-by-hop headers."""
        headers = [header for header in self._end_to_end_headers() if header[0].lower() != "host"]
        return format_head(f"{self.method} {target} HTTP/1.1", [*extra, *headers])

    def forwarded_response(self, extra: list[tuple[str, str]]) -> bytes:
        """Return the response for the previous hop, without hop-by-hop headers."""
        start_line = " ".join(self.start_line).rstrip()
        return format_head(start_line, [*self._end_to_end_headers(), *extra])

    def _end_to_end_headers(self) -> list[tuple[str, str]]:
        connection_headers = {
            token.strip().lower()
            for name, value in self.headers
            if name.lower() == "connection"
            for token in value.split(",")
        }
        # Headers that frame the message stay, even if Connection lists them.
        removed = _HOP_BY_HOP | (connection_headers - {"content-length", "transfer-encoding"})
        return [header for header in self.headers if header[0].lower() not in removed]


async def read_head(reader: asyncio.StreamReader) -> HttpHead:
    """Read a head, at most as large as the reader's limit.

    Raises
    ------
    HttpHeadError
        The head is too large or malformed.
    EOFError
        The connection ended before the head did.
    """
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise HttpHeadError("the head is too large") from None
    start_line, *lines = raw[:-4].decode("latin-1").split("\r\n")
    words = start_line.split(" ", 2)
    if len(words) == _START_LINE_PARTS - 1 and start_line.startswith("HTTP/"):
        words.append("")  # The reason phrase of a response is optional.
    if len(words) != _START_LINE_PARTS or _LINE_BREAKING.search(start_line) or not words[1]:
        raise HttpHeadError("a malformed start line")
    if len(lines) > _MAX_HEADERS:
        raise HttpHeadError("too many headers")
    return HttpHead((words[0], words[1], words[2]), tuple(map(_parse_header, lines)))


def _parse_header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN.fullmatch(name) or _LINE_BREAKING.search(value):
        raise HttpHeadError("a malformed header")
    return name, value.strip(" \t")


def format_head(start_line: str, headers: list[tuple[str, str]]) -> bytes:
    """Return the bytes of a head."""
    lines = [start_line, *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")
