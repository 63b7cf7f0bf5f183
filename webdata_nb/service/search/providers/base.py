"""Defines what search providers receive and return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

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

    def __init__(self, message: str) -> None:
        super().__init__("rate_limited", message)


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
