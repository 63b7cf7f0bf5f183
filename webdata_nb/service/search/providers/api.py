"""What a provider's HTTP API is, as values: requests out, replies in. No I/O."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, Protocol
from urllib.parse import urlencode, urlsplit, urlunsplit

import orjson

from webdata_nb.contract.local import Access
from webdata_nb.pacing.rate_limit import RateLimitPolicy
from webdata_nb.service.search.providers.base import (
    AttemptStatus,
    ProviderProblem,
    QueryRefused,
    ResultPage,
    SearchQuery,
    SearchResult,
)

_TAGS: Final = re.compile(r"<[^<>]{0,500}>")


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request to a provider.

    `by_query` says that the query chose the host, as a wiki's language does: then a host that does
    not exist or has no such page is the query's fault.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    by_query: bool = False


@dataclass(frozen=True, slots=True)
class ApiReply:
    """One answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class SearchApi(Protocol):
    """One provider: how its requests are written and its replies read. Pure.

    `url` is its address, empty where the user has to name one.
    """

    name: str
    url: str
    needs_key: bool
    rate_limit: RateLimitPolicy

    def exchange(self, query: SearchQuery, number: int, access: Access) -> ApiRequest | None:
        """Return the request for page `number`; None where the provider has no such page.

        Raises `QueryRefused` for a query that it does not take.
        """

    def page(self, query: SearchQuery, number: int, reply: ApiReply) -> ResultPage:
        """Read a good reply. Raises `ProviderProblem`, or what `parse_json` raises."""

    def problem(self, reply: ApiReply) -> ProviderProblem | None:
        """Return what an error reply means; None leaves it to the table of statuses."""

    def interval_s(self, reply: ApiReply) -> float | None:
        """Return the seconds between two requests, where the reply says how many are allowed."""


class SearchApiDefaults:
    """What most providers share."""

    needs_key = False
    rate_limit = RateLimitPolicy()

    def problem(self, reply: ApiReply) -> ProviderProblem | None:
        """See `SearchApi.problem`."""
        _ = reply
        return None

    def interval_s(self, reply: ApiReply) -> float | None:
        """See `SearchApi.interval_s`."""
        _ = reply
        return None


def with_parameters(url: str, **parameters: str | int | None) -> str:
    """Return `url` with these query parameters behind its own; None leaves one out."""
    parts = urlsplit(url)
    given = urlencode({name: value for name, value in parameters.items() if value is not None})
    query = "&".join(plain_text for plain_text in (parts.query, given) if plain_text)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def json_request(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> ApiRequest:
    """Return a POST of a JSON body; None values are left out."""
    given = {name: value for name, value in body.items() if value is not None}
    typed = {**headers, "Content-Type": "application/json"}
    return ApiRequest(url, "POST", typed, orjson.dumps(given))


def api_key(access: Access) -> str:
    """Return the key; empty where none is set."""
    return access.key or ""


def parse_json(reply: ApiReply) -> Any:
    """Return a reply's JSON. Raises `ProviderProblem` for anything else."""
    try:
        return orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        if "html" in kind or reply.body.lstrip()[:1] == b"<":
            raise ProviderProblem("blocked", "a web page came instead of JSON") from None
        raise ProviderProblem("error", "the answer is no valid JSON") from None


def parse_results(found: Any, *, url: str, title: str, snippet: str) -> tuple[SearchResult, ...]:
    """Return the results of a list of objects, by the names of their fields.

    A row without an address is left out. Raises `ProviderProblem` where there is no list.
    """
    if not isinstance(found, list):
        raise unexpected_shape()
    return tuple(
        SearchResult(str(row[url]), plain_text(row.get(title)), plain_text(row.get(snippet)))
        for row in found
        if isinstance(row, dict) and isinstance(row.get(url), str) and row[url]
    )


def member(value: Any, *names: str) -> Any:
    """Return a nested member of a JSON object; None where a step is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def unexpected_shape() -> ProviderProblem:
    """Return the problem of a reply that is JSON of another shape."""
    return ProviderProblem("error", "the answer has not the documented shape")


def plain_text(value: Any) -> str:
    """Return plain text on one line: marks of HTML and escapes undone."""
    if not isinstance(value, str):
        return ""
    if "<" in value:
        value = _TAGS.sub("", value)
    if "&" in value:
        value = html.unescape(value)
    return " ".join(value.split())


# What the statuses of HTTP mean where a provider says nothing else of them.
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

# How an API says that it does not take this one request. A wrong key has statuses of its own; the
# providers that answer it in another way say so in `SearchApi.problem`.
_QUERY_STATUSES: Final = frozenset({400, 413, 414, 422, 431})


def status_problem(reply: ApiReply, *, keyed: bool, wait_s: float | None) -> ProviderProblem | None:
    """Return what a status means; None for a good one."""
    if reply.status == HTTPStatus.OK:
        return None
    if reply.status in _QUERY_STATUSES:
        return QueryRefused(f"HTTP {reply.status}: it does not take this query")
    status: AttemptStatus = PROBLEM_STATUSES.get(reply.status, "error")
    if reply.status == HTTPStatus.FORBIDDEN and keyed:
        status = "auth"
    if reply.status == HTTPStatus.SERVICE_UNAVAILABLE and wait_s is not None:
        status = "rate_limited"
    return ProviderProblem(status, f"HTTP {reply.status}", wait_s=wait_s)
