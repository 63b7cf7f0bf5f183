"""Heads of HTTP/1.1 messages as a proxy handles them: read strictly, written anew."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LINE_BREAKING: Final = re.compile(r"[\x00\r\n]")
_MAX_LINES: Final = 256
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
_REQUEST_PARTS: Final = 3


class HttpHeadError(ValueError):
    """The head of a message is not one that a proxy may pass on."""


@dataclass(frozen=True, slots=True)
class HttpHead:
    """The first line and the headers of a message.

    Attributes
    ----------
    first : tuple of str
        The three parts of the first line.
    lines : tuple of (str, str)
        The header lines in their order.
    """

    first: tuple[str, str, str]
    lines: tuple[tuple[str, str], ...]

    @property
    def method(self) -> str:
        """A request's method."""
        return self.first[0]

    @property
    def target(self) -> str:
        """A request's target, as sent."""
        return self.first[1]

    @property
    def status(self) -> int:
        """An answer's status; raises `HttpHeadError` where there is none."""
        if not self.first[0].startswith("HTTP/1.") or not re.fullmatch(r"\d{3}", self.first[1]):
            raise HttpHeadError("no HTTP/1 answer")
        return int(self.first[1])

    def value(self, name: str) -> str | None:
        """Give the first header of that name, in lower case; None where there is none."""
        return next((value for key, value in self.lines if key.lower() == name), None)

    def body_length(self) -> int:
        """Give the length of a request's body; raises `HttpHeadError` where it is not plain."""
        if self.value("transfer-encoding") is not None:
            raise HttpHeadError("a request body without a length")
        return self._length() or 0

    def answer_length(self, method: str) -> int | None:
        """Give the length of the body of an answer to `method`; None where its end tells."""
        if method == "HEAD" or self.status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
            return 0
        return None if self.value("transfer-encoding") is not None else self._length()

    def _length(self) -> int | None:
        lengths = {value for name, value in self.lines if name.lower() == "content-length"}
        if not lengths:
            return None
        length = lengths.pop()
        if lengths or not re.fullmatch(r"[0-9]{1,15}", length):
            raise HttpHeadError("no clear length")
        return int(length)

    def request(self, target: str, extra: list[tuple[str, str]]) -> bytes:
        """Write a request for the next hop: another target, and no header of this hop's."""
        kept = [line for line in self._end_to_end() if line[0].lower() != "host"]
        return _written(f"{self.method} {target} HTTP/1.1", [*extra, *kept])

    def answer(self, extra: list[tuple[str, str]]) -> bytes:
        """Write an answer for the hop before, with no header of this hop's."""
        return _written(" ".join(self.first).rstrip(), [*self._end_to_end(), *extra])

    def _end_to_end(self) -> list[tuple[str, str]]:
        named = {
            token.strip().lower()
            for name, value in self.lines
            if name.lower() == "connection"
            for token in value.split(",")
        }
        # A header that frames the message stays, whatever the other side says of it.
        gone = _HOP_BY_HOP | (named - {"content-length", "transfer-encoding"})
        return [line for line in self.lines if line[0].lower() not in gone]


async def read_head(reader: asyncio.StreamReader) -> HttpHead:
    """Read a head, at most as large as the reader's limit.

    Raises
    ------
    HeadError
        When it is too large or not well formed.
    EOFError
        When the connection ends before it does.
    """
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise HttpHeadError("the head is too large") from None
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) == _REQUEST_PARTS - 1 and first.startswith("HTTP/"):
        words.append("")  # an answer may come without a reason phrase
    if len(words) != _REQUEST_PARTS or _LINE_BREAKING.search(first) or not words[1]:
        raise HttpHeadError("no first line")
    if len(lines) > _MAX_LINES:
        raise HttpHeadError("too many headers")
    return HttpHead((words[0], words[1], words[2]), tuple(map(_header, lines)))


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN.fullmatch(name) or _LINE_BREAKING.search(value):
        raise HttpHeadError("a malformed header")
    return name, value.strip(" \t")


def _written(first: str, lines: list[tuple[str, str]]) -> bytes:
    text = "\r\n".join([first, *(f"{name}: {value}" for name, value in lines), "", ""])
    return text.encode("latin-1")
