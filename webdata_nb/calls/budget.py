"""What calls may cost at most, from the service's catalog of weights: before anything is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from webdata_nb.cache.result_cache import ResultCache
from webdata_nb.contract import limits
from webdata_nb.contract.requests import (
    CrawlRequest,
    CreativesRequest,
    SearchRequest,
)
from webdata_nb.errors import InvalidArgument, OverBudget
from webdata_nb.jobs.listings import recorded
from webdata_nb.requests.call_options import CallOptions
from webdata_nb.requests.job_spec import JobSpec

# Files that the service downloads of one creative at most, beside its preview.
FILES_EACH: Final = limits.CREATIVE_FILES

Units = dict[tuple[str, str], int]
Weights = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a call may cost at most.

    Attributes
    ----------
    credits : float or None
        Credits, where every page succeeds; None where the request sets no bound.
    parts : dict
        Credits by operation, such as `{"crawl/page": 100.0}`.
    inputs, cached : int
        Requests, and how many of them the cache answers for nothing.
    """

    credits: float | None
    parts: dict[str, float]
    inputs: int
    cached: int

    def __str__(self) -> str:
        if self.credits is None:
            return "without a bound: max_rows= sets one"
        parts = ", ".join(f"{name} {cost:g}" for name, cost in self.parts.items())
        cached = f"; {self.cached} of {self.inputs} from the cache" if self.cached else ""
        return f"at most {self.credits:g} credits ({parts or 'nothing to ask for'}{cached})"


def units(spec: JobSpec, *, local: bool) -> Units | None:
    """Return how many units of each operation a request may use; None without a bound."""
    request = spec.request
    if isinstance(request, SearchRequest):
        return _of_search(request)
    if isinstance(request, CrawlRequest):
        return _of_crawl(request, local=local)
    if isinstance(request, CreativesRequest) and spec.max_rows is not None:
        return _of_creatives(request, spec.max_rows)
    return None


def _of_search(request: SearchRequest) -> Units:
    pages = request.num_results if request.formats else 0
    return {
        ("search", "discovery"): 1,
        ("search", "scrape"): pages,
        ("search", "extract"): pages if request.extract is not None else 0,
    }


def _of_crawl(request: CrawlRequest, *, local: bool) -> Units:
    # The contract leaves the default to the service, and names the most there can be.
    known = local or "max_pages" in request.model_fields_set
    pages = request.max_pages if known else limits.MAX_PAGES[1]
    options = request.scrape_options
    return {
        ("crawl", "page"): pages,
        ("crawl", "extract"): pages if options.extract is not None else 0,
        ("crawl", "render"): pages if options.may_render else 0,
    }


def _of_creatives(request: CreativesRequest, rows: int) -> Units:
    """Count as the service charges: a unit a listing call, the rest by creative and by file.

    Every call works on all the rows that it lists, and the last one may list more than are
    wanted; each brings one row at least.
    """
    listed = max(0, rows - 1) + request.limit if rows else 0
    files = FILES_EACH * request.should_download_assets + request.should_download_previews
    # Assets are named by the details, which are then fetched whatever was said of them.
    details = not request.skip_details or request.should_download_assets
    units = {
        "creatives": rows,
        "details": listed * details,
        "assets": listed * files,
        "ocr": listed * request.ocr,
    }
    return {("partner_ads_transparency", name): count for name, count in units.items()}


def priced(
    specs: Sequence[JobSpec], weights: Weights, *, cached: int = 0, local: bool = False
) -> Estimate:
    """Return what the given requests may cost together; an unknown operation costs nothing."""
    used = [units(spec, local=local) for spec in specs]
    parts: dict[str, float] = {}
    for each in used:
        for operation, count in (each or {}).items():
            cost = count * weights.get(operation, 0.0)
            if cost:
                name = "/".join(operation)
                parts[name] = parts.get(name, 0.0) + cost
    bounded = all(each is not None for each in used)
    return Estimate(sum(parts.values()) if bounded else None, parts, len(specs) + cached, cached)


async def check(specs: Sequence[JobSpec], call: CallOptions, budget: float | None) -> None:
    """Stop a call that may cost more than `budget` credits.

    Raises
    ------
    OverBudget
        It may; nothing was started.
    InvalidArgument
        The request sets no bound of its own.
    """
    if budget is None or call.settings.replay is not None:  # what is replayed costs nothing
        return
    estimate = await estimated(specs, call)
    if estimate.credits is None:
        raise InvalidArgument("budget needs a bound: give max_rows as well")
    if estimate.credits > budget:
        raise OverBudget(
            f"this call may cost {estimate}, and budget={budget:g}: nothing was started",
            estimate=estimate.credits,
            budget=budget,
        )


async def estimated(specs: Sequence[JobSpec], call: CallOptions) -> Estimate:
    """Return what a call may cost; what the cache answers is free, and then nobody is asked."""
    asked = await asyncio.to_thread(_unanswered, specs, call)
    if not asked:
        return priced([], {}, cached=len(specs))
    catalog, _ = await recorded("weights", {}, call, lambda client: client.weights())
    names = ("platform", "operation", "weight")
    told = zip(*(catalog[name].to_pylist() for name in names), strict=True)
    weights = {(platform, operation): weight for platform, operation, weight in told}
    local = call.connection.scope(call.settings).local
    return priced(asked, weights, cached=len(specs) - len(asked), local=local)


def _unanswered(specs: Sequence[JobSpec], call: CallOptions) -> list[JobSpec]:
    """Return the requests that the service would have to answer, each question once."""
    left: dict[str, JobSpec] = {}
    for spec in specs:
        memory = ResultCache.of_spec(spec, call)
        if not memory.has_answer():
            left.setdefault(memory.key.digest if call.cache else str(len(left)), spec)
    return list(left.values())
