"""Drives a plan over a site that is a table: what the engine does, without network and store."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from webdata_nb.service.crawl.facets import Facets
from webdata_nb.service.crawl.frontier import BreadthFirst, Frontier
from webdata_nb.service.crawl.plan import Limits, Plan, Result, Settled, Target
from webdata_nb.service.crawl.scope import Scope, site_of
from webdata_nb.service.web.urls import canonical_key

LOST: Final = Result("failed", "", reason="http_404")


@dataclass
class Driven:
    """What a simulated crawl left behind; `details` are those of the receipt."""

    rows: list[str] = field(default_factory=list)
    receipt: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    scores: list[float | None] = field(default_factory=list)

    def take(self, settled: list[Settled]) -> None:
        """Note what became final."""
        for each in settled:
            if each.position is not None:
                assert each.position == len(self.rows)
                self.rows.append(each.target.url)
                self.scores.append(each.target.score)
            for one in each.seen:
                assert one.url not in self.receipt, one
                self.receipt[one.url], self.details[one.url] = one.outcome, one.detail


def drive(
    site: Mapping[str, Result] | Callable[[str], Result],
    start: str,
    *,
    frontier: Callable[[], Frontier] = BreadthFirst,
    limits: Limits | None = None,
    concurrency: int = 1,
    seed: int = 0,
    obey_nofollow: bool = False,
    facets: Facets | None = None,
    stored: Mapping[int, tuple[str, Result]] | None = None,
) -> Driven:
    """Crawl a table (or a function) of results; they come back in an order drawn from `seed`.

    `stored` is what an earlier attempt wrote down, by ordinal: it is not fetched again.
    """
    chance = random.Random(seed)
    read = site if callable(site) else lambda url: site.get(url, LOST)
    plan = Plan(
        start, limits or Limits(100, 10), Scope(frozenset({site_of(start)})), frontier(),
        canonical_key, obey_nofollow=obey_nofollow, facets=facets,
    )  # fmt: skip
    done, flying = Driven(), list[Target]()
    while not plan.over:
        while len(flying) < concurrency and (target := plan.next()) is not None:
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
    done.take([Settled(Target(-1, "", 0), None, tuple(plan.leftovers()))])
    return done
