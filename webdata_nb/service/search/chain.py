"""Searches with a chain of providers: those of the requested engine, then those of the others."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.replies import Attempt
from webdata_nb.service.observability.logs import event
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.search.breaker import ProviderBreakers
from webdata_nb.service.search.providers.api import (
    AttemptStatus,
    ProviderProblem,
    SearchProvider,
    SearchQuery,
    SearchResult,
)
from webdata_nb.service.search.providers.ddgs import BACKENDS
from webdata_nb.service.search.rank import Ranking

# Bounds the pages of a provider that never reports its last page.
MAX_PAGES: Final = 50
# A page that only repeats results may be followed by new ones; after so many in a row, none are.
MAX_REPEATED_PAGES: Final = 3
# For one page of results, including the wait in the provider's queue.
PAGE_TIMEOUT_S: Final = 300.0

LOCAL: Final = "local"
"""The provider that searches the account's own pages, and says nothing about the web."""

# The index that a provider shows, where several providers show the same one.
INDEXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "serper": "google",
        "brave": "brave",
        "mojeek": "mojeek",
        **{f"ddgs.{backend}": index for backend, index in BACKENDS.items()},
    }
)
# After these, other providers of the same index are skipped: using them would evade the refusal.
# A wrong key, a timeout or an error concerns one provider only.
REFUSALS: Final[frozenset[AttemptStatus]] = frozenset({"rate_limited", "blocked"})

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A provider of the chain, and the engine in whose list it stands first."""

    engine: str
    provider: str


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The outcome of a search; `accepted` is None when no provider had a result.

    `failure` is set when no provider could search the web: none was usable, or all attempts had an
    error, except that at the local index, which has only the account's own pages.
    """

    attempts: tuple[Attempt, ...]
    accepted: ChainLink | None = None
    fallback_used: bool = False
    results: tuple[SearchResult, ...] = ()
    failure: str | None = None


def provider_chain(requested: str, engines: Mapping[str, Sequence[str]]) -> list[ChainLink]:
    """Return the order of the providers, each of them once.

    The local index is one of them only if the requested engine asks it first, or if there is no
    other: it never answers instead of a provider of the web.
    """
    order = [requested, *(engine for engine in ENGINES if engine != requested)]
    engine_of: dict[str, str] = {}
    for engine in order:
        for provider in engines.get(engine, ()):
            engine_of.setdefault(provider, engine)
    if next(iter(engines.get(requested, ())), None) != LOCAL and len(engine_of) > 1:
        engine_of.pop(LOCAL, None)
    return [ChainLink(engine, provider) for provider, engine in engine_of.items()]


async def search_providers(
    links: Sequence[ChainLink],
    providers: Mapping[str, SearchProvider],
    query: SearchQuery,
    breakers: ProviderBreakers,
    clock: Clock = time.monotonic,
) -> SearchOutcome:
    """Request results along the chain until one provider has some; accept those alone.

    A provider with an open circuit is skipped, and so is one that shows the index of a provider
    that has just refused. The attempts list skipped providers with the reason.
    """
    attempts: list[Attempt] = []
    refusal_by_index: dict[str, Attempt] = {}
    for number, link in enumerate(links):
        index = INDEXES.get(link.provider, link.provider)
        if (refusal := refusal_by_index.get(index)) is not None:
            detail = (
                f"skipped: {refusal.provider}, which shows the same index, was {refusal.status}"
            )
            attempts.append(Attempt(provider=link.provider, status=refusal.status, detail=detail))
            continue
        attempt, ranking, blamed = await _attempt(providers[link.provider], query, breakers, clock)
        attempts.append(attempt)
        if ranking.results:
            return SearchOutcome(tuple(attempts), link, number > 0, tuple(ranking.results))
        if blamed and attempt.status in REFUSALS:
            refusal_by_index[index] = attempt
    web_attempts = [attempt for attempt in attempts if attempt.provider != LOCAL]
    failed = all(attempt.status != "empty" for attempt in web_attempts or attempts)
    if not failed:
        return SearchOutcome(tuple(attempts))
    attempt_list = ", ".join(
        f"{attempt.provider}: {attempt.status}" + (f" ({attempt.detail})" if attempt.detail else "")
        for attempt in attempts
    )
    failure = (
        f"no search provider could answer ({attempt_list}); `webdata doctor` shows what is usable"
        if attempts
        else "no search provider is usable; `webdata doctor` says what each one is missing"
    )
    return SearchOutcome(tuple(attempts), failure=failure)


async def _attempt(
    provider: SearchProvider, query: SearchQuery, breakers: ProviderBreakers, clock: Clock
) -> tuple[Attempt, Ranking, bool]:
    """Use one provider; the flag is True if the outcome depends on the provider."""
    ranking = Ranking(query.num_results)
    before = breakers.state(provider.identity, query.account_id, clock())
    if (open_s := before.circuit.remaining_s(clock())) > 0:
        detail = f"skipped: it rests for {math.ceil(open_s)} s more"
        return _new_attempt(provider, before.status, ranking, 0.0, detail), ranking, True
    started_at = clock()
    problem = await _collect_pages(provider, query, ranking)
    status: AttemptStatus = "ok" if ranking.results else "empty"
    blamed = problem is None or problem.blames_provider
    if blamed:
        breakers.record(
            provider.identity,
            status if problem is None else problem.status,
            clock(),
            None if problem is None else problem.retry_after_s,
            account_id=query.account_id,
        )
        after = breakers.state(provider.identity, query.account_id, clock())
        now = clock()
        if after.circuit.openings > before.circuit.openings:
            event(
                "provider_resting",
                logging.WARNING,
                provider=provider.name,
                account=query.account_id,
                status=after.status,
                failures=after.circuit.failures,
                rest_s=after.circuit.remaining_s(now),
            )
        elif before.circuit.openings and not after.circuit.openings:
            event(
                "provider_recovered",
                provider=provider.name,
                account=query.account_id,
                after=before.status,
            )
    if problem is not None and not ranking.results:
        # A problem on a later page does not invalidate the ranks of the earlier pages.
        status = problem.status
    detail = "" if problem is None else str(problem)
    elapsed_s = clock() - started_at
    return _new_attempt(provider, status, ranking, elapsed_s, detail), ranking, blamed


async def _collect_pages(
    provider: SearchProvider, query: SearchQuery, ranking: Ranking
) -> ProviderProblem | None:
    """Request pages until there are enough results; return the problem that ended it, if any."""
    repeated = 0
    try:
        for number in range(1, MAX_PAGES + 1):
            with waiting_for(f"the search provider {provider.name}", PAGE_TIMEOUT_S):
                page = await provider.fetch_page(query, number)
            added = ranking.add(page.results)
            repeated = 0 if added else repeated + 1
            is_last = not page.results or not page.has_more
            if ranking.is_full or is_last or repeated >= MAX_REPEATED_PAGES:
                break
    except ProviderProblem as problem:
        return problem
    return None


def _new_attempt(
    provider: SearchProvider, status: AttemptStatus, ranking: Ranking, elapsed_s: float, detail: str
) -> Attempt:
    return Attempt(
        provider=provider.name,
        status=status,
        results_count=len(ranking.results),
        elapsed_ms=round(elapsed_s * 1000, 3),
        detail=detail or None,
    )
