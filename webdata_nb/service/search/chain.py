"""The fallback chain: ask the requested engine's providers, then those of the others, in order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.replies import Attempt
from webdata_nb.service.observability.logs import event
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.search.breaker import ProviderBreakers, ProviderState
from webdata_nb.service.search.index_groups import LOCAL, REFUSALS, index_of
from webdata_nb.service.search.providers.base import (
    AttemptStatus,
    ProviderProblem,
    SearchProvider,
    SearchQuery,
    SearchResult,
)
from webdata_nb.service.search.rank import Ranking

# A provider that repeats itself is not asked for more pages than could ever be needed.
MAX_PAGES: Final = 50
# What a page of results may take: its request, and its place in the line at the provider.
PAGE_TIMEOUT_S: Final = 300.0

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One entry of a chain: a provider, and the engine that owns it here."""

    engine: str
    provider: str


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What the chain came to; `accepted` is None when no provider had a result.

    `failure` says why nobody could answer for the web: nobody could be asked, or every attempt was
    in error but that at the local index, which knows no more than the account's own pages.
    """

    attempts: tuple[Attempt, ...]
    accepted: ChainLink | None = None
    fallback_used: bool = False
    found: tuple[SearchResult, ...] = ()
    failure: str | None = None


def provider_chain(requested: str, engines: Mapping[str, Sequence[str]]) -> list[ChainLink]:
    """Return the order in which providers are asked: no provider twice."""
    order = [requested, *(engine for engine in ENGINES if engine != requested)]
    owners: dict[str, str] = {}
    for engine in order:
        for provider in engines.get(engine, ()):
            owners.setdefault(provider, engine)
    return [ChainLink(engine, provider) for provider, engine in owners.items()]


async def search_providers(
    links: Sequence[ChainLink],
    providers: Mapping[str, SearchProvider],
    query: SearchQuery,
    breakers: ProviderBreakers,
    clock: Clock = time.monotonic,
) -> SearchOutcome:
    """Ask along the chain until one provider has results; accept that provider's alone.

    `links` are the usable entries. One that rests after a failure is not asked; its entry in the
    chain repeats why. Nor is one that shows the index of another that has just refused: whoever
    was told to wait does not try the next door of the same house.
    """
    attempts: list[Attempt] = []
    refused: dict[str, Attempt] = {}
    for number, link in enumerate(links):
        index = index_of(link.provider)
        if (relative := refused.get(index)) is not None:
            attempts.append(_spared(link, relative))
            continue
        attempt, ranking, blamed = await _attempt(providers[link.provider], query, breakers, clock)
        attempts.append(attempt)
        if ranking.found:
            return SearchOutcome(tuple(attempts), link, number > 0, tuple(ranking.found))
        if blamed and attempt.status in REFUSALS:
            refused[index] = attempt
    of_web = [attempt for attempt in attempts if attempt.provider != LOCAL]
    failed = all(attempt.status != "empty" for attempt in of_web or attempts)
    return SearchOutcome(tuple(attempts), failure=_why(attempts) if failed else None)


def _spared(link: ChainLink, relative: Attempt) -> Attempt:
    """Return the entry of a provider that is not asked, for the sake of a relative's refusal."""
    detail = f"not asked: {relative.provider}, which shows the same index, was {relative.status}"
    return Attempt(provider=link.provider, status=relative.status, detail=detail)


def _why(attempts: Sequence[Attempt]) -> str:
    """Say who was asked and what came of it, and where to look."""
    if not attempts:
        return "no search provider is usable; `webdata doctor` says what each one is missing"
    tried = ", ".join(
        f"{attempt.provider}: {attempt.status}" + (f" ({attempt.detail})" if attempt.detail else "")
        for attempt in attempts
    )
    return f"no search provider could answer ({tried}); `webdata doctor` shows what is usable"


async def _attempt(
    provider: SearchProvider, query: SearchQuery, breakers: ProviderBreakers, clock: Clock
) -> tuple[Attempt, Ranking, bool]:
    """Ask one provider; tell also whether the outcome says something about the provider."""
    ranking = Ranking(query.num_results)
    before = breakers.state(provider.identity, query.account_id, clock())
    if (open_s := before.circuit.remaining_s(clock())) > 0:
        detail = f"not asked: it rests for {open_s:.0f} s more"
        return _entry(provider, before.status, ranking, 0.0, detail), ranking, True
    began = clock()
    problem = await _collect(provider, query, ranking)
    status: AttemptStatus = "ok" if ranking.found else "empty"
    blamed = problem is None or problem.blames_provider
    if blamed:
        met = status if problem is None else problem.status
        wait_s = None if problem is None else problem.wait_s
        breakers.record(provider.identity, met, clock(), wait_s, account_id=query.account_id)
        after = breakers.state(provider.identity, query.account_id, clock())
        _log_change(provider, query.account_id, before, after, clock())
    if problem is not None and not ranking.found:
        # Results of earlier pages stand: ranks that were collected are good ranks.
        status = problem.status
    detail = "" if problem is None else str(problem)
    return _entry(provider, status, ranking, clock() - began, detail), ranking, blamed


def _log_change(
    provider: SearchProvider,
    account_id: str,
    before: ProviderState,
    after: ProviderState,
    now: float,
) -> None:
    """Log that a provider's circuit has opened or closed."""
    if after.circuit.openings > before.circuit.openings:
        event(
            "provider_resting",
            logging.WARNING,
            provider=provider.name,
            account=account_id,
            status=after.status,
            failures=after.circuit.failures,
            rest_s=after.circuit.remaining_s(now),
        )
    elif before.circuit.openings and not after.circuit.openings:
        event(
            "provider_recovered",
            provider=provider.name,
            account=account_id,
            after=before.status,
        )


async def _collect(
    provider: SearchProvider, query: SearchQuery, ranking: Ranking
) -> ProviderProblem | None:
    """Page within one provider until there is enough; return what stopped it, if anything did."""
    try:
        for number in range(1, MAX_PAGES + 1):
            with waiting_for(f"the search provider {provider.name}", PAGE_TIMEOUT_S):
                page = await provider.page(query, number)
            new = ranking.add(page.found)
            if ranking.full or not new or not page.more:
                break
    except ProviderProblem as problem:
        return problem
    return None


def _entry(
    provider: SearchProvider, status: AttemptStatus, ranking: Ranking, elapsed_s: float, detail: str
) -> Attempt:
    return Attempt(
        provider=provider.name,
        status=status,
        results_count=len(ranking.found),
        elapsed_ms=round(elapsed_s * 1000, 3),
        detail=detail or None,
    )
