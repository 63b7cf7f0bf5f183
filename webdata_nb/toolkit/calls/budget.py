"""Estimates the maximum cost of a call from the service's catalog, and enforces its budget."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webdata_nb.contract import limits
from webdata_nb.contract.requests import CrawlRequest, CreativesRequest, SearchRequest
from webdata_nb.errors import InvalidArgument, OverBudget
from webdata_nb.toolkit.cache.result_cache import ResultCache
from webdata_nb.toolkit.display import bars
from webdata_nb.toolkit.jobs.listings import fetch_listing
from webdata_nb.toolkit.requests.arguments import CallOptions
from webdata_nb.toolkit.requests.inputs import JobSpec

# Files that the service downloads of one creative at most, in addition to its preview.
MAX_FILES_PER_CREATIVE: Final = limits.CREATIVE_FILES

Units = dict[tuple[str, str], int]
Weights = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True, repr=False)
class Estimate:
    """The maximum cost of a call.

    Attributes
    ----------
    credits : float or None
        Credits, if every page succeeds; None where the request has no upper bound.
    parts : dict
        Credits by operation, such as `{"crawl/page": 100.0}`.
    inputs, cached : int
        Requests, and how many of them are cached and cost nothing.
    """

    credits: float | None
    parts: dict[str, float]
    inputs: int
    cached: int

    def __str__(self) -> str:
        if self.credits is None:
            return "without a bound: limit= sets one"
        parts = ", ".join(f"{name} {cost:g}" for name, cost in self.parts.items())
        cached = f"; {self.cached} of {self.inputs} from the cache" if self.cached else ""
        return f"at most {self.credits:g} credits ({parts or 'nothing to ask for'}{cached})"

    def __repr__(self) -> str:
        return f"Estimate({self})"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        _ = include, exclude
        return bars.object_bundle(repr(self), str(self))


def units(spec: JobSpec, *, local: bool) -> Units | None:
    """Return the maximum units of each operation of a request; None without an upper bound.

    They count as the service charges. Of a listing of creatives, each call processes all rows that
    it lists, and returns at least one; the last one may list more than are wanted.
    """
    match spec.request:
        case SearchRequest() as search:
            pages = search.num_results if search.formats else 0
            return {
                ("search", "discovery"): 1,
                ("search", "scrape"): pages,
                ("search", "extract"): pages if search.extract is not None else 0,
            }
        case CrawlRequest() as crawl:
            # The contract leaves the default to the service, and bounds it.
            is_known = local or not {"max_pages", "urls"}.isdisjoint(crawl.model_fields_set)
            pages = crawl.row_limit if is_known else limits.MAX_PAGES[1]
            options = crawl.scrape_options
            return {
                ("crawl", "page"): pages,
                ("crawl", "extract"): pages if options.extract is not None else 0,
                ("crawl", "render"): pages if options.may_render else 0,
            }
        case CreativesRequest() as listing if spec.max_rows is not None:
            rows = spec.max_rows
            listed = max(0, rows - 1) + min(rows, listing.limit)
            assets, previews = listing.should_download_assets, listing.should_download_previews
            # The details name the assets, so they are fetched even where `skip_details` is set.
            details = not listing.skip_details or assets
            counts = {
                "creatives": rows,
                "details": listed * details,
                "assets": listed * (MAX_FILES_PER_CREATIVE * assets + previews),
                "ocr": listed * listing.ocr,
            }
            return {("partner_ads_transparency", name): count for name, count in counts.items()}
    return None


def price(
    specs: Sequence[JobSpec], weights: Weights, *, cached: int = 0, local: bool = False
) -> Estimate:
    """Return the maximum cost of these requests together; unknown operations cost nothing."""
    units_of_specs = [units(spec, local=local) for spec in specs]
    parts: dict[str, float] = {}
    for spec_units in units_of_specs:
        for operation, count in (spec_units or {}).items():
            cost = count * weights.get(operation, 0.0)
            if cost:
                name = "/".join(operation)
                parts[name] = parts.get(name, 0.0) + cost
    is_bounded = None not in units_of_specs
    return Estimate(sum(parts.values()) if is_bounded else None, parts, len(specs) + cached, cached)


async def check(specs: Sequence[JobSpec], options: CallOptions, budget: float | None) -> None:
    """Stop a call that may cost more than `budget` credits.

    Raises
    ------
    OverBudget
        The call may cost more; nothing was started.
    InvalidArgument
        The request has no upper bound.
    """
    if budget is None or options.settings.replay is not None:  # a replay costs nothing
        return
    estimate = await estimate_cost(specs, options)
    if estimate.credits is None:
        raise InvalidArgument(
            f"budget={budget:g} needs a bound on the number of rows: set limit as well"
        )
    if estimate.credits > budget:
        raise OverBudget(
            f"this call may cost {estimate}, and budget={budget:g}: nothing was started; "
            "lower the limits, or raise the budget",
            estimate=estimate.credits,
            budget=budget,
        )


async def estimate_cost(specs: Sequence[JobSpec], options: CallOptions) -> Estimate:
    """Return the maximum cost of a call; cached requests are free and need no catalog."""
    uncached = await asyncio.to_thread(_uncached_specs, specs, options)
    if not uncached:
        return price([], {}, cached=len(specs))
    catalog, _ = await fetch_listing("weights", {}, options, lambda client: client.weights())
    names = ("platform", "operation", "weight")
    rows = zip(*(catalog[name].to_pylist() for name in names), strict=True)
    weights = {(platform, operation): weight for platform, operation, weight in rows}
    local = options.connection.scope(options.settings).local
    return price(uncached, weights, cached=len(specs) - len(uncached), local=local)


def _uncached_specs(specs: Sequence[JobSpec], options: CallOptions) -> list[JobSpec]:
    """Return the requests that the cache does not answer, without repetitions."""
    uncached: dict[str, JobSpec] = {}
    for spec in specs:
        cache = ResultCache.of_spec(spec, options)
        if not cache.has_fresh_result():
            name = cache.key.digest if options.cache else str(len(uncached))
            uncached.setdefault(name, spec)
    return list(uncached.values())
