"""Defines the requests of the fetcher, and exchanges as they were sent, for archives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from webdata_nb.pacing.retry_policies import parse_retry_after
from webdata_nb.page.content.page_source import FetchedResponse

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from webdata_nb.service.signing.request_signer import RequestSigner


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
    request_head = "".join(
        [
            f"{response.method} {response.url.raw_path_qs} HTTP/1.1\r\n",
            *(
                f"{name}: {value}\r\n"
                for name, value in response.request_info.headers.items()
                if name.lower() in _REQUEST_HEADERS
            ),
            "\r\n",
        ]
    )
    version = response.version or (1, 1)
    start_line = f"HTTP/{version[0]}.{version[1]} {response.status} {response.reason or ''}"
    lines = [start_line.encode()]
    for name, value in response.raw_headers:
        if name.lower() in _TRANSFER_HEADERS:
            lines.append(_ORIGINAL + name + b": " + value)
        elif name.lower() not in _SECRET_RESPONSE_HEADERS:
            lines.append(name + b": " + value)
    response_head = b"".join(line + b"\r\n" for line in (*lines, b""))
    return HttpExchange(url, requested_at, request_head.encode(), response_head, body, is_truncated)


AllowHop = Callable[[str], Awaitable[str | None]]
"""Called with the URL of a redirect before it is requested; returns a reason to stop, or None."""
RefuseHeaders = Callable[[str, Sequence[tuple[str, str]]], str | None]
"""Called with a page's URL and headers before its body is read; returns a reason to stop."""

_MIB: Final = 1024 * 1024
ACCEPT_PAGES: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
"""The Accept header of a browser that opens a page."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one page fetch.

    Attributes
    ----------
    wire_bytes : int
        Bytes of the body as sent.
    decoded_bytes : int
        Bytes of the decoded body.
    redirects : int
        Redirects to follow.
    timeout_s : float
        Seconds for the whole page, including lookups, redirects and body.
    header_bytes : int
        Bytes of the response headers of one hop.
    """

    wire_bytes: int = 10 * _MIB
    decoded_bytes: int = 20 * _MIB
    redirects: int = 10
    timeout_s: float = 30.0
    header_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Validators:
    """The validators of an earlier reply (RFC 9110, 8.8), to ask whether it has changed.

    They are sent to `url` alone, the URL that sent them. One of the others is not empty.
    """

    url: str
    etag: str = ""
    last_modified: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a conditional request."""
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in headers.items() if value}


class FetchRequest(Struct, frozen=True):
    """One page to fetch.

    Attributes
    ----------
    url : str
        An absolute http or https URL.
    headers, cookies : mapping of str to str
        The job's headers and cookies; sent to the page's own origin only.
    timeout_s : float, optional
        Seconds for the whole page; by default those of the limits.
    limits : Limits, optional
        By default the fetcher's.
    accept : str
        The Accept header, unless `headers` contains one.
    method : str
        The HTTP method. A request that is not idempotent is never sent twice.
    body : bytes, optional
        The body to send; never to another origin after a redirect.
    follow_redirects : bool
        False returns a redirect as the response.
    read_body : bool
        False does not read the response's body, and closes the connection.
    validators : Validators, optional
        Makes the request conditional: the reply is a 304 if the page has not changed.
    record : callable, optional
        Called with each exchange before its response is used.
    refuse_headers : callable, optional
        Decides by the headers of a successful response whether its body is read.
    signer : RequestSigner, optional
        Signs each request that sends no header or cookie of a user.
    delay_s : float
        Least seconds between the starts of two requests to the host, where requests are queued.
    allow_hop : callable, optional
        Called with the URL of each redirect before it is requested. If it returns a reason, the
        fetch stops there and the reason is in `FetchedResponse.stopped`. Its time counts towards
        the page's deadline.
    """

    url: str
    headers: Mapping[str, str] = {}
    cookies: Mapping[str, str] = {}
    timeout_s: float | None = None
    limits: FetchLimits | None = None
    accept: str = ACCEPT_PAGES
    method: str = "GET"
    body: bytes | None = None
    follow_redirects: bool = True
    read_body: bool = True
    validators: Validators | None = None
    record: RecordExchange | None = None
    refuse_headers: RefuseHeaders | None = None
    signer: RequestSigner | None = None
    delay_s: float = 0.0
    allow_hop: AllowHop | None = None


def retry_after_s(response: FetchedResponse) -> float | None:
    """Return the seconds for which a reply asks to wait; None without a valid Retry-After."""
    return parse_retry_after(response.header("retry-after"), datetime.now(UTC))


def format_seconds(seconds: float) -> str:
    """Format a timeout as it was given, although some milliseconds have passed."""
    return f"{round(seconds, 1) or seconds:g}"


def decode_header(value: bytes) -> str:
    """Return the text of a header, which is UTF-8 or else Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
