"""What is asked of the fetcher and what it gives back: plain values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from webdata_nb.pacing.retry_after import parse_retry_after

AllowHop = Callable[[str], Awaitable[str | None]]
"""Asked with the URL of a redirect hop before it is requested; an answer is a reason to stop."""

_MIB: Final = 1024 * 1024
ACCEPT_PAGES: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
"""The Accept header of a browser that opens a page."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much one page may cost.

    Attributes
    ----------
    wire_bytes : int
        The most bytes of body to take from the wire.
    decoded_bytes : int
        The most bytes that they may unpack to.
    redirects : int
        The most redirects to follow.
    timeout_s : float
        The deadline in seconds for the whole page: names, redirects and body included.
    header_bytes : int
        The most bytes of response headers, those of one hop.
    """

    wire_bytes: int = 10 * _MIB
    decoded_bytes: int = 20 * _MIB
    redirects: int = 10
    timeout_s: float = 30.0
    header_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One page to fetch.

    Attributes
    ----------
    url : str
        An absolute http or https URL.
    headers, cookies : mapping of str to str
        The job's own; sent to the page's own origin only.
    timeout_s : float, optional
        The deadline in seconds for the whole page; that of the limits when not given.
    limits : Limits, optional
        Those of the fetcher when not given.
    accept : str
        The Accept header; a header of that name in `headers` comes before it.
    method : str
        The HTTP method; one that is not idempotent is never sent twice.
    body : bytes, optional
        What to send; a redirect never takes it to another origin.
    follow_redirects : bool
        False gives a redirecting answer as it is.
    read_body : bool
        False leaves the answer's body where it is, and closes the connection on it.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    limits: FetchLimits | None = None
    accept: str = ACCEPT_PAGES
    method: str = "GET"
    body: bytes | None = None
    follow_redirects: bool = True
    read_body: bool = True


@dataclass(frozen=True, slots=True)
class Redirect:
    """A URL that answered with a redirect, and the status it did so with."""

    url: str
    status: int


@dataclass(frozen=True, slots=True)
class FetchedResponse:
    """An answer, whatever its status.

    Attributes
    ----------
    url : str
        The canonical form of what was asked for.
    final_url : str
        Where the redirects led. When `stopped` is set, the hop that was not requested.
    status : int
        The HTTP status of the last answer.
    headers : tuple of (str, str)
        Its header lines in their order, names in lower case.
    body : bytes
        Its body with the content codings undone.
    wire_bytes : int
        The length of the body as it was sent.
    redirects : tuple of Redirect
        The hops before `final_url`, the first being `url`.
    elapsed_s : float
        Seconds from the request to the end of the body, redirects included.
    stopped : str, optional
        The reason that `allow_hop` gave for going no further; the body is empty then.
    """

    url: str
    final_url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    wire_bytes: int
    redirects: tuple[Redirect, ...]
    elapsed_s: float
    stopped: str | None = None

    def header(self, name: str) -> str | None:
        """Give the first header line of that name, in any case; None where there is none."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)

    @property
    def retry_after_s(self) -> float | None:
        """Seconds for which the reply asks to wait; None without a valid Retry-After."""
        return parse_retry_after(self.header("retry-after"), datetime.now(UTC))


def format_seconds(seconds: float) -> str:
    """Write what is left of a deadline as it was given, a few milliseconds later."""
    return f"{round(seconds, 1) or seconds:g}"
