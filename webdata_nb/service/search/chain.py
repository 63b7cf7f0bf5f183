"""The fallback chain: ask the requested engine's providers, then those of the others, in order."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webdata_nb.contract.fields import ENGINES
from webdata_nb.contract.replies import Attempt
from webdata_nb.service.errors import JobFailed
from webdata_nb.service.search.providers.base import (
    AttemptStatus,
    Found,
    Provider,
    ProviderProblem,
    Query,
)
from webdata_nb.service.search.rank import Ranking

# A provider that repeats itself is not asked for more pages than could ever be needed.
MAX_PAGES: Final = 50


@dataclass(frozen=True, slots=True)
class Link:
    """One entry of a chain: a provider, and the engine that owns it here."""

    engine: str
    provider: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the chain came to; `accepted` is None when no provider had a result."""

    attempts: tuple[Attempt, ...]
    accepted: Link | None
    fallback_used: bool
    found: tuple[Found, ...]


def chain(requested: str, engines: Mapping[str, Sequence[str]]) -> list[Link]:
    """Return the order in which providers are asked: no provider twice."""
    order = [requested, *(engine for engine in ENGINES if engine != requested)]
    owners: dict[str, str] = {}
    for engine in order:
        for provider in engines.get(engine, ()):
            owners.setdefault(provider, engine)
    return [Link(engine, provider) for provider, engine in owners.items()]


async def ask(links: Sequence[Link], providers: Mapping[str, Provider], query: Query) -> Outcome:
    """Ask along the chain until one provider has results; accept that provider's alone."""
    attempts: list[Attempt] = []
    for number, link in enumerate(links):
        attempt, ranking = await _attempt(providers[link.provider], query)
        attempts.append(attempt)
        if ranking.found:
            return Outcome(tuple(attempts), link, number > 0, tuple(ranking.found))
    if attempts and all(attempt.status != "empty" for attempt in attempts):
        tried = ", ".join(f"{attempt.provider}: {attempt.status}" for attempt in attempts)
        raise JobFailed(f"no search provider could answer ({tried})")
    return Outcome(tuple(attempts), None, fallback_used=False, found=())


async def _attempt(provider: Provider, query: Query) -> tuple[Attempt, Ranking]:
    ranking = Ranking(query.num_results)
    began = time.monotonic()
    status: AttemptStatus = "empty"
    try:
        for number in range(1, MAX_PAGES + 1):
            if ranking.full or not ranking.add(await provider.page(query, number)):
                break
        status = "ok" if ranking.found else "empty"
    except ProviderProblem as problem:
        # Results of earlier pages stand: ranks that were collected are good ranks.
        status = "ok" if ranking.found else problem.status
    elapsed_ms = round((time.monotonic() - began) * 1000, 3)
    return (
        Attempt(
            provider=provider.name,
            status=status,
            results_count=len(ranking.found),
            elapsed_ms=elapsed_ms,
        ),
        ranking,
    )
