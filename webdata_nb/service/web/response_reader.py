"""Hands responses to the parser of aiohttp that browsers accept and it would refuse or confuse."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from aiohttp.client_proto import ResponseHandler

_MAX_BYTES: Final = 256 * 1024
"""A larger head is left to the parser, which refuses it."""

_END: Final = re.compile(rb"\r?\n\r?\n")
_LINE: Final = re.compile(rb"([^\r\n]*)\r?\n")
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEADER: Final = re.compile(rb"(" + _TOKEN + rb")[ \t]*:([^\n]*)")
_WELL_FORMED: Final = re.compile(
    rb"HTTP/[^\r\n]*\r?\n(?:" + _TOKEN + rb":[^\n]*\n|[ \t][^\n]*\n)*\r?\n"
)
_START: Final = b"HTTP/"
_STATUS: Final = slice(9, 12)
_BODILESS: Final = frozenset({b"204", b"304"})
_SWITCHING_PROTOCOLS: Final = b"101"
_ANNOUNCES_BODY: Final = re.compile(
    rb"\n(?:content-length:[ \t]*0*[1-9]|transfer-encoding:)", re.IGNORECASE
)


def repair_head(head: bytes) -> bytes:
    r"""Return the head of a response as the parser accepts it, with the empty line at its end.

    Spaces before a colon, lines without one, and repetitions of one Content-Length are dropped, as
    browsers do.

    Examples
    --------
    >>> repair_head(b"HTTP/1.1 200 OK\r\nServer : x\r\n\"junk\"\r\n\r\n")
    b'HTTP/1.1 200 OK\r\nServer: x\r\n\r\n'
    """
    if _WELL_FORMED.fullmatch(head) and head.lower().count(b"\ncontent-length:") <= 1:
        return head
    start_line, *lines = [match[1] for match in _LINE.finditer(head)]
    kept = [start_line]
    lengths: set[bytes] = set()
    is_kept = False
    for line in lines:
        header = _HEADER.fullmatch(line)
        if line[:1] in {b" ", b"\t"}:  # goes on with the header before it
            kept += [line] * is_kept
            continue
        is_kept = header is not None
        if header is None:
            continue
        name, value = header.groups()
        if name.lower() == b"content-length":
            is_kept = value.strip() not in lengths
            lengths.add(value.strip())
        kept += [name + b":" + value] * is_kept
    return b"\r\n".join([*kept, b"", b""])


class ResponseReader(ResponseHandler):
    """Reads the responses of one connection: repairs their heads, drops bodies that HTTP forbids.

    Some servers send a body with a 204 or 304, or in reply to HEAD. The parser would take it for
    the next response, so that this response, or a later one on the connection, would be lost. A
    connection whose response was changed is not used again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        # What came of the head of the current response; None once it is complete.
        self._head: bytes | None = None
        self._is_reply_to_head = self._is_complete = False
        # Whether the response before had no body, which may still come.
        self._follows_bodiless = False

    def set_response_params(self, *, skip_payload: bool = False, **options: Any) -> None:
        """Begin the next response of the connection."""
        self._follows_bodiless = self._is_complete
        self._head, self._is_complete = b"", False
        self._is_reply_to_head = skip_payload
        super().set_response_params(skip_payload=skip_payload, **options)

    def data_received(self, data: bytes) -> None:
        """Hand the next bytes on to the parser, heads as a whole."""
        is_body_of_last = (
            self._follows_bodiless and self._head == b"" and data[:5] != _START[: len(data)]
        )
        if data and (self._is_complete or is_body_of_last):
            self._drop_connection()  # the next request is sent again on another one
            return
        while self._head is not None:
            received = self._head + data
            end = _END.search(received, max(0, len(self._head) - 3))
            if end is None and len(received) <= _MAX_BYTES:
                self._head = received
                return
            self._head, data = None, received
            if end is None:
                break
            head, rest = repair_head(received[: end.end()]), received[end.end() :]
            if head != received[: end.end()]:
                self.force_close()
            if _is_interim(head):
                super().data_received(head)
                self._head, data = b"", rest
            else:
                data = head + self._allowed_body(head, rest)
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Let the parser judge a head that was cut off."""
        head, self._head = self._head, None
        if head:
            super().data_received(head)
        super().connection_lost(exc)

    def _allowed_body(self, head: bytes, body: bytes) -> bytes:
        """Return the start of a body, nothing of one that HTTP forbids."""
        has_no_body = head[_STATUS] in _BODILESS
        if not has_no_body and not self._is_reply_to_head:
            return body
        self._is_complete = True
        # A body that the head announces may still come, and must not meet the next response.
        if body or (has_no_body and _ANNOUNCES_BODY.search(head)):
            self.force_close()
        return b""

    def _drop_connection(self) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.close()


def _is_interim(head: bytes) -> bool:
    return head[_STATUS].startswith(b"1") and head[_STATUS] != _SWITCHING_PROTOCOLS
