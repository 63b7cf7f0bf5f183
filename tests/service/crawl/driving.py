"""Drives a plan over a site that is a table: what the engine does, without network and store."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from webdata_nb.service.crawl.facets import FacetDetector
from webdata_nb.service.crawl.frontier import BreadthFirst, Frontier
from webdata_nb.service.crawl.journal import CrawlResult, CrawlTarget
from webdata_nb.service.crawl.plan import CrawlLimits, CrawlPlan, SettledTarget
from webdata_nb.service.crawl.scope import CrawlScope, site_of
from webdata_nb.service.web.urls import canonical_key

LOST: Final = CrawlResult("failed", "", reason="http_404")


@dataclass
class Driven:
    """What a simulated crawl left behind; `details` are those of the receipt."""

    rows: list[str] = field(default_factory=list)
    receipt: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    scores: list[float | None] = field(default_factory=list)

    def take(self, settled: list[SettledTarget]) -> None:
        """Note what became final."""
        for each in settled:
            if each.position is not None:
                assert each.position == len(self.rows)
                self.rows.append(each.target.url)
                self.scores.append(each.target.score)
            for one in each.outcomes:
                assert one.url not in self.receipt, one
                self.receipt[one.url], self.details[one.url] = one.outcome, one.detail


def drive(
    site: Mapping[str, CrawlResult] | Callable[[str], CrawlResult],
    start: str,
    *,
    frontier: Callable[[], Frontier] = BreadthFirst,
    limits: CrawlLimits | None = None,
    concurrency: int = 1,
    seed: int = 0,
    obey_nofollow: bool = False,
    facets: FacetDetector | None = None,
    stored: Mapping[int, tuple[str, CrawlResult]] | None = None,
) -> Driven:
    """Crawl a table (or a function) of results; they come back in an order drawn from `seed`.

    `stored` is what an earlier attempt wrote down, by ordinal: it is not fetched again.
    """
    chance = random.Random(seed)
    read = site if callable(site) else lambda url: site.get(url, LOST)
    plan = CrawlPlan(
        start, limits or CrawlLimits(100, 10), CrawlScope(frozenset({site_of(start)})), frontier(),
        canonical_key, obey_nofollow=obey_nofollow, facets=facets,
    )  # fmt: skip
    done, flying = Driven(), list[CrawlTarget]()
    while not plan.is_over:
        while len(flying) < concurrency and (target := plan.next_target()) is not None:
            flying.append(target)
        target = flying.pop(chance.randrange(len(flying)))
        url, known = (stored or {}).get(target.ordinal, ("", LOST))
        if url == target.url:
            done.take(plan.settle(target.ordinal, known))
            continue
        done.fetched.append(target.url)
        result = read(target.url)
        result = result if result.final_url else replace(result, final_url=target.url)
        done.take(plan.settle(target.ordinal, result))
    done.take([SettledTarget(CrawlTarget(-1, "", 0), None, tuple(plan.leftovers()))])
    return done
