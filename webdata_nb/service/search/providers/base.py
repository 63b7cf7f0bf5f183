"""What a search provider is asked, and what it answers."""

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
    def tongue(self) -> str:
        """The language without its region or script, in lower case: `pt` of `pt-BR`."""
        return self.language.partition("-")[0].lower()

    @property
    def locale(self) -> str:
        """Language and country as one tag, such as `en-US`; a region in the language stays."""
        if self.country is None or "-" in self.language:
            return self.language
        return f"{self.language}-{self.country.upper()}"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result; `url` is as the provider gave it."""

    url: str
    title: str
    snippet: str


@dataclass(frozen=True, slots=True)
class ResultPage:
    """One page of results in organic order; without `more` there is no use in asking on."""

    found: tuple[SearchResult, ...]
    more: bool = True


class ProviderProblem(Exception):
    """A provider could not answer; `status` is its entry in the fallback chain.

    `wait_s` is how long the provider asked to be left alone, where it said so. The message never
    repeats what the provider sent, which may hold the key. `blames_provider` tells whether the
    breaker counts it: a problem of one query, or of our own queue, says nothing of the provider.
    """

    blames_provider = True

    def __init__(self, status: AttemptStatus, message: str, *, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.wait_s = wait_s


class QueryRefused(ProviderProblem):
    """The provider does not take this query; another query may be answered."""

    blames_provider = False

    def __init__(self, message: str) -> None:
        super().__init__("error", message)


class QueueFull(ProviderProblem):
    """Too many of our own searches wait for this provider; it has not been asked."""

    blames_provider = False

    def __init__(self, message: str) -> None:
        super().__init__("rate_limited", message)


class SearchProvider(Protocol):
    """A source of ranked results."""

    @property
    def name(self) -> str:
        """The name by which settings list it."""

    @property
    def identity(self) -> str:
        """Name, address and key in one hashed word: what rests together after a failure."""

    async def page(self, query: SearchQuery, number: int) -> ResultPage:
        """Return page `number` (from 1). Raises `ProviderProblem`."""
