"""From a claimed job to the engine that runs it, with the tools that its session chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.contract.requests import CrawlRequest, SearchRequest
from webdata_nb.service.crawl import run as crawl
from webdata_nb.service.errors import JobFailed
from webdata_nb.service.search import run as search
from webdata_nb.service.search.providers.base import Provider
from webdata_nb.service.store.base import JobContext
from webdata_nb.service.store.records import Batch
from webdata_nb.service.work.ways import Ways

DEFAULT_ENGINES: Final[dict[str, tuple[str, ...]]] = {
    "engine_one": ("local",),
    "engine_two": ("local",),
    "engine_three": ("local",),
}


@dataclass(frozen=True, slots=True)
class Engines:
    """Runs any job: the crawl engine or the search engine, going out the job's way."""

    ways: Ways
    providers: Mapping[str, Provider]

    async def run(self, context: JobContext) -> Batch:
        """Run a job to its end; raises what its engine raises."""
        job = context.job
        way = await self.ways.of(job.context)
        if job.kind == "crawl":
            tools = crawl.Tools(way.visitor, way.fetcher, way.robots, way.user_agent)
            return await crawl.run(context, CrawlRequest.model_validate(job.request), tools)
        engines = engines_of(job.context)
        request = SearchRequest.model_validate(job.request)
        return await search.run(
            context, request, search.Tools(way.visitor, self.providers, engines)
        )


def engines_of(context: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return each engine's providers: the session's lists, else the defaults."""
    chosen = context.get("engines") or {}
    unknown = sorted(set(chosen) - set(DEFAULT_ENGINES))
    if unknown:
        raise JobFailed(f"unknown engine {unknown[0]!r}; known: {', '.join(DEFAULT_ENGINES)}")
    return {**DEFAULT_ENGINES, **{name: tuple(names) for name, names in chosen.items() if names}}
