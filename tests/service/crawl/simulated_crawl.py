"""Simulates crawls of a table of results: the work of the engine without network and store."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from tests.steps import run_to_completion
from webdata_nb.contract.url_keys import site_of
from webdata_nb.service.crawl.facets import FacetDetector
from webdata_nb.service.crawl.frontier import BreadthFirst, Frontier
from webdata_nb.service.crawl.journal import (
    CrawlResult,
    CrawlTarget,
    StateReader,
    decode_entry,
    encode_entry,
)
from webdata_nb.service.crawl.plan import CrawlLimits, CrawlPlan, PlanEffects
from webdata_nb.service.crawl.scope import CrawlScope

NOT_FOUND: Final = CrawlResult("failed", "", reason="http_404")


def journaled(ordinal: int, url: str, result: CrawlResult) -> CrawlResult:
    """Return the result of a URL as the journal gives it back."""
    entry = encode_entry(CrawlTarget(url, 0, ordinal=ordinal), result)
    return decode_entry(entry.journal, entry.visit)


@dataclass
class SimulatedCrawl:
    """Rows, receipt and fetched URLs of a simulated crawl."""

    rows: list[str] = field(default_factory=list)
    receipt: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    low_confidence: dict[str, int] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    scores: list[float | None] = field(default_factory=list)
    states: list[bytes] = field(default_factory=list)

    def record(self, effects: PlanEffects) -> None:
        """Record what took effect."""
        for target, position in effects.rows:
            assert position == len(self.rows)
            self.rows.append(target.url)
            self.scores.append(target.score)
        for one in effects.outcomes:
            assert one.url not in self.receipt, one
            self.receipt[one.url], self.details[one.url] = one.outcome, one.detail


def simulate_crawl(
    site: Mapping[str, CrawlResult] | Callable[[str], CrawlResult],
    start: str,
    *,
    frontier: Callable[[], Frontier] = BreadthFirst,
    limits: CrawlLimits | None = None,
    concurrency: int = 1,
    seed: int = 0,
    obey_nofollow: bool = False,
    facets: FacetDetector | None = None,
    stored: Mapping[int, CrawlResult] | None = None,
    scope: CrawlScope | None = None,
    seeds: Sequence[str] = (),
    checkpoint_rows: int | None = None,
    restart: float | None = None,
) -> SimulatedCrawl:
    """Crawl a table (or a function) of results, which are received in a random order.

    `stored` has the results of an earlier attempt by ordinal: they are not fetched again. With
    `checkpoint_rows`, a checkpoint follows so many rows: then comes a new plan, which continues
    from the state of the one before, or only with the probability `restart`.
    """
    rng = random.Random(seed)
    read = site if callable(site) else lambda url: site.get(url, NOT_FOUND)

    def new_plan(facets: FacetDetector | None) -> CrawlPlan:
        return CrawlPlan(
            start, limits or CrawlLimits(100, 10),
            scope or CrawlScope(frozenset({site_of(start)})), frontier(),
            obey_nofollow=obey_nofollow, facets=facets,
        )  # fmt: skip

    plan = new_plan(facets)
    plan.set_seeds(seeds)
    done, in_flight = SimulatedCrawl(), list[CrawlTarget]()
    if checkpoint_rows is not None:
        plan.set_checkpoint(checkpoint_rows)

    while not plan.is_over or plan.is_at_checkpoint:
        if checkpoint_rows is not None and plan.is_at_checkpoint:
            done.states.append(bytes(run_to_completion(plan.encode_state())))
            if restart is None or rng.random() < restart:
                plan = new_plan(None if facets is None else FacetDetector())
                run_to_completion(plan.restore(StateReader(done.states[-1])))
            plan.set_checkpoint(plan.rows + checkpoint_rows)
        while len(in_flight) < concurrency and (target := plan.next_target()) is not None:
            in_flight.append(target)
        target = in_flight.pop(rng.randrange(len(in_flight)))
        known = (stored or {}).get(target.ordinal, NOT_FOUND)
        if known.url == target.url:
            done.record(run_to_completion(plan.commit_in_steps(target.ordinal, known)))
            continue
        done.fetched.append(target.url)
        result = read(target.url)
        result = result if result.final_url else replace(result, final_url=target.url)
        done.record(run_to_completion(plan.commit_in_steps(target.ordinal, result)))
    done.record(PlanEffects(outcomes=list(plan.leftovers())))
    done.low_confidence = dict(plan.low_confidence)
    return done
