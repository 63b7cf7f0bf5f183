"""What a search provider is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

AttemptStatus = Literal["ok", "empty", "rate_limited", "blocked", "auth", "timeout", "error"]


@dataclass(frozen=True, slots=True)
class Query:
    """A search, in the contract's terms."""

    text: str
    num_results: int
    language: str
    country: str | None
    safe_search: bool
    account_id: str


@dataclass(frozen=True, slots=True)
class Found:
    """One organic result; `url` is absolute and as the provider gave it."""

    url: str
    title: str
    snippet: str


class ProviderProblem(Exception):
    """A provider could not answer; `status` is its entry in the fallback chain."""

    def __init__(self, status: AttemptStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Provider(Protocol):
    """A source of ranked results."""

    name: str

    async def page(self, query: Query, number: int) -> list[Found]:
        """Return page `number` (from 1) in organic order; empty past the last.

        Raises `ProviderProblem`.
        """
