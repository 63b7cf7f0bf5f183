"""Defines search providers: queries and results, and their HTTP APIs. Pure.

An API builds requests and parses replies; `HttpProvider` sends them.
"""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlencode, urlsplit, urlunsplit

import orjson

from webdata_nb.contract.local import Access
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.pacing.host_pacing import RateLimitPolicy
from webdata_nb.service.foreign_services import (
    KEY_REFUSED,
    PLAN_USED_UP,
    RATE_LIMITED,
    ErrorKind,
    ErrorReply,
)

AttemptStatus = Literal["ok", "empty", "rate_limited", "blocked", "auth", "timeout", "error"]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search, in the contract's terms."""

    text: str
    num_results: int
    language: str
    country: str | None
    safe_search: bool
    account_id: str

    @property
    def language_code(self) -> str:
        """The language without its region or script, in lower case: `pt` of `pt-BR`."""
        return self.language.partition("-")[0].lower()

    @property
    def locale(self) -> str:
        """Language and country as one tag, such as `en-US`; a region in the language is kept."""
        if self.country is None or "-" in self.language:
            return self.language
        return f"{self.language}-{self.country.upper()}"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result; `url` is as the provider returned it."""

    url: str
    title: str
    snippet: str


@dataclass(frozen=True, slots=True)
class ResultPage:
    """One page of results in organic order; `has_more` if the next page is worth a request."""

    results: tuple[SearchResult, ...]
    has_more: bool = True


class ProviderProblem(Exception):
    """A provider could not answer.

    The message may quote the provider's error reply, without keys (`foreign_services`).

    Attributes
    ----------
    status
        The status of the attempt in the fallback chain.
    retry_after_s
        The seconds for which the provider asked to be left alone, if it did.
    blames_provider
        Whether the circuit breaker counts it. A problem of one query, or of our own queue, says
        nothing about the provider.
    """

    blames_provider = True

    def __init__(
        self, status: AttemptStatus, message: str, *, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class ReportedError(ProviderProblem):
    """A reply without results; its body or its HTTP status may say what is wrong."""

    def __init__(
        self, message: str = "it reported an error", *, status: AttemptStatus = "error"
    ) -> None:
        super().__init__(status, message)


class QueryRefused(ProviderProblem):
    """The provider rejects this query; it may answer others."""

    blames_provider = False

    def __init__(self, message: str) -> None:
        super().__init__("error", message)


class QueueFull(ProviderProblem):
    """Too many searches wait for this provider; no request was sent."""

    blames_provider = False

    def __init__(self) -> None:
        super().__init__("rate_limited", "too many searches are queued for this provider")


class SearchProvider(Protocol):
    """A source of ranked results."""

    @property
    def name(self) -> str:
        """The name in settings."""

    @property
    def identity(self) -> str:
        """A hash of name, URL and key: the unit of queues and circuit breakers."""

    async def fetch_page(self, query: SearchQuery, number: int) -> ResultPage:
        """Return page `number` (from 1). Raises `ProviderProblem`."""


_TAGS: Final = re.compile(r"<[^<>]{0,500}>")


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One request to a provider.

    `host_from_query` means that the host depends on the query, such as the language of a wiki. A
    host that does not exist is then an error of the query.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    host_from_query: bool = False


@dataclass(frozen=True, slots=True)
class ProviderReply:
    """One reply; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class SearchApi(ABC):
    """The HTTP API of one provider, with what most providers have in common.

    `url` is its default URL, empty where the settings must name one.
    """

    name: str
    url: str
    needs_key = False
    rate_limit: RateLimitPolicy = RateLimitPolicy()

    @abstractmethod
    def build_request(
        self, query: SearchQuery, number: int, access: Access
    ) -> ProviderRequest | None:
        """Return the request for page `number`; None where the provider has no such page.

        Raises `QueryRefused` for a query that the provider does not support.
        """

    @abstractmethod
    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Parse a successful reply. Raises `ProviderProblem`."""

    def parse_problem(self, reply: ProviderReply) -> ProviderProblem | None:  # noqa: ARG002
        """Return the problem that a reply reports; None leaves it to its status and body."""
        return None

    def parse_interval_s(self, reply: ProviderReply) -> float | None:  # noqa: ARG002
        """Return the seconds between two requests, where the reply states a rate limit."""
        return None


def with_parameters(url: str, **parameters: str | int | None) -> str:
    """Add query parameters to a URL, except those that are None."""
    parts = urlsplit(url)
    added = urlencode({name: value for name, value in parameters.items() if value is not None})
    query = "&".join(text for text in (parts.query, added) if text)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def json_request(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> ProviderRequest:
    """Return a POST request with a JSON body, without the values that are None."""
    content = {name: value for name, value in body.items() if value is not None}
    headers = {**headers, "Content-Type": "application/json"}
    return ProviderRequest(url, "POST", headers, orjson.dumps(content))


def api_key(access: Access) -> str:
    """Return the key, empty where none is set."""
    return access.key or ""


def parse_json(reply: ProviderReply) -> Any:
    """Parse a JSON reply. Raises `ProviderProblem` for any other content."""
    try:
        return decode_json(reply.body, content_type=reply.headers.get("content-type"))
    except MalformedJson:
        kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        if "html" in kind or reply.body.lstrip()[:1] == b"<":
            problem = ReportedError("a web page came instead of JSON", status="blocked")
            raise problem from None
        raise ReportedError("the answer is no valid JSON") from None


def parse_results(items: Any, *, url: str, snippet: str) -> tuple[SearchResult, ...]:
    """Convert a list of objects into results, by the names of their members for URL and snippet.

    Objects without a URL are skipped. Raises `ProviderProblem` if `items` is no list.
    """
    if not isinstance(items, list):
        raise unexpected_shape()
    return tuple(
        SearchResult(item[url], plain_text(item.get("title")), plain_text(item.get(snippet)))
        for item in items
        if isinstance(item, dict) and isinstance(item.get(url), str) and item[url]
    )


def unexpected_shape() -> ProviderProblem:
    """Return the problem of a JSON reply with an undocumented structure."""
    return ReportedError("the answer has not the documented shape")


def plain_text(value: Any) -> str:
    """Return text on one line, without HTML tags and character references."""
    if not isinstance(value, str):
        return ""
    if "<" in value:
        value = _TAGS.sub("", value)
    if "&" in value:
        value = html.unescape(value)
    return " ".join(value.split())


# The meaning of HTTP statuses where a provider documents no other.
PROBLEM_STATUSES: Final[Mapping[int, AttemptStatus]] = MappingProxyType(
    {
        202: "rate_limited",
        401: "auth",
        402: "rate_limited",
        403: "blocked",
        407: "auth",
        408: "timeout",
        429: "rate_limited",
        504: "timeout",
    }
)

# An API rejects this one request. A wrong key has other statuses; `SearchApi.parse_problem`
# recognizes exceptions.
_QUERY_REFUSED_STATUSES: Final = frozenset({400, 413, 414, 422, 431})
_STATUSES_BY_KIND: Final[Mapping[ErrorKind, AttemptStatus]] = MappingProxyType(
    {
        "auth": "auth",
        "quota": "rate_limited",
        "rate_limited": "rate_limited",
        "transient": "error",
    }
)
_MEANINGS: Final[Mapping[int, str]] = MappingProxyType(
    {
        202: RATE_LIMITED,
        401: KEY_REFUSED,
        402: PLAN_USED_UP,
        404: "there is no search at its address",
        407: "the proxy asks for a password",
        408: "it took too long",
        429: RATE_LIMITED,
        503: "it is overloaded",
        504: "it took too long",
    }
)
_REFUSES_QUERY: Final = "it does not take this query"
_BLOCKS: Final = "it refuses requests from here"


def reply_problem(
    reply: ProviderReply, error: ErrorReply, *, needs_key: bool, retry_after_s: float | None
) -> ProviderProblem | None:
    """Return the problem of a reply by the error in its body, else by its HTTP status.

    None means a reply that reports no problem.
    """
    if error.known is not None:
        meaning = error.explain(error.known.meaning)
        status = _STATUSES_BY_KIND.get(error.known.kind)
        if status is None:
            return QueryRefused(meaning)
        return ProviderProblem(status, meaning, retry_after_s=retry_after_s)
    code = reply.status
    if code == HTTPStatus.OK:
        code = error.status or code
    if code == HTTPStatus.OK:
        return None
    if code in _QUERY_REFUSED_STATUSES:
        return QueryRefused(error.explain(_REFUSES_QUERY))
    status = PROBLEM_STATUSES.get(code, "error")
    meaning = _MEANINGS.get(code, f"it failed (status {code})")
    if HTTPStatus.MULTIPLE_CHOICES <= code < HTTPStatus.BAD_REQUEST:
        meaning = "it points to another address, which is not followed"
    if code == HTTPStatus.FORBIDDEN:
        status, meaning = ("auth", KEY_REFUSED) if needs_key else (status, _BLOCKS)
    if code == HTTPStatus.SERVICE_UNAVAILABLE and retry_after_s is not None:
        status = "rate_limited"
    return ProviderProblem(status, error.explain(meaning), retry_after_s=retry_after_s)
