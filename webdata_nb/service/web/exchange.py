"""Describes a request and its response as they were sent, for archives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiohttp import ClientResponse

# Any other header of a request may be a secret of the job.
_REQUEST_HEADERS: Final = frozenset(
    {"host", "user-agent", "accept", "accept-encoding", "accept-language"}
)
_SECRET_RESPONSE_HEADERS: Final = frozenset({b"set-cookie", b"set-cookie2"})
# The body is stored without these codings, as it is not known how they cut it into pieces.
_TRANSFER_HEADERS: Final = frozenset({b"transfer-encoding", b"trailer"})
_ORIGINAL: Final = b"X-Archive-Orig-"


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """One request and its response.

    Attributes
    ----------
    url
        The URL that was requested.
    requested_at
        When the request was sent.
    request_head, response_head
        Start line and headers, with the empty line. Headers that may be secrets are left out.
    body
        The body with its content codings, and without transfer codings.
    is_truncated
        Whether the body was larger than the limit, and was not read to its end.
    """

    url: str
    requested_at: datetime
    request_head: bytes
    response_head: bytes
    body: bytes
    is_truncated: bool = False


RecordExchange = Callable[[HttpExchange], Awaitable[None]]
"""Called with each exchange of a fetch, redirects included, before its response is used."""


def exchange_of(
    url: str,
    response: ClientResponse,
    body: bytes,
    requested_at: datetime,
    *,
    is_truncated: bool,
) -> HttpExchange:
    """Return the exchange of a response whose body was read."""
    return HttpExchange(
        url,
        requested_at,
        _request_head(response.method, response.url.raw_path_qs, response.request_info.headers),
        _response_head(response),
        body,
        is_truncated,
    )


def _request_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"{name}: {value}" for name, value in headers.items() if name.lower() in _REQUEST_HEADERS
    ]
    return "".join(f"{line}\r\n" for line in (f"{method} {target} HTTP/1.1", *lines, "")).encode()


def _response_head(response: ClientResponse) -> bytes:
    version = response.version or (1, 1)
    start_line = f"HTTP/{version[0]}.{version[1]} {response.status} {response.reason or ''}"
    lines = [start_line.encode(), *_response_lines(response.raw_headers), b""]
    return b"".join(line + b"\r\n" for line in lines)


def _response_lines(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[bytes]:
    for name, value in headers:
        if name.lower() in _TRANSFER_HEADERS:
            yield _ORIGINAL + name + b": " + value
        elif name.lower() not in _SECRET_RESPONSE_HEADERS:
            yield name + b": " + value
