"""Measures the overhead of `search_df` over bare httpx requests to the same provider.

A stub of SearXNG in another process on loopback responds after 5 ms with ten results. httpx calls
it with one connection pool and decodes the JSON. `search_df(..., formats=[])` calls it through the
local service: start, queue, provider chain, ranks, a journal that survives a kill, and a DataFrame
with its receipt. The service is warm and the result cache off.

- One search of ten results, compared with one request: at most 10 times as long.
- A hundred queries in one `search_df` call, compared with a hundred requests at the same
  concurrency (the number of jobs that the service runs in parallel): at most 3 times as long.

Rounds are interleaved with an alternating first contestant. Each figure is that of the best round,
which other programs of the machine disturbed least. With fewer than three free cores the second
ratio is worse, since caller, service and provider are three processes. The processor time of the
caller is shown too; it does not depend on other programs.

Run it from the checkout, with the `test` extra installed::

    python -m benchmarks.discovery
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import httpx
from aiohttp import web

from benchmarks.floors import check
from benchmarks.stub_server import serve, server_process
from webdata_nb import search_df
from webdata_nb.service.settings import SLOTS, unreserved_slots
from webdata_nb.settings import current
from webdata_nb.toolkit import local

ANSWER_S: Final = 0.005
RESULTS: Final = 10
SINGLES: Final = 30
QUERIES: Final = 100
ROUNDS: Final = 5


class Times(NamedTuple):
    """Wall time and processor time of this process, in seconds."""

    wall_s: float
    cpu_s: float


Measure = Callable[[], Times]


def stub() -> None:
    """Serve the results of searches."""

    async def search(request: web.Request) -> web.Response:
        await asyncio.sleep(ANSWER_S)
        query = request.query["q"]
        results = [
            {"url": f"https://x.test/{query}/{n}", "title": f"Title {n}", "content": "Words." * 20}
            for n in range(1, RESULTS + 1)
        ]
        return web.json_response({"query": query, "results": results, "unresponsive_engines": []})

    app = web.Application()
    app.router.add_get("/search", search)
    serve(app)


async def _call(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get("/search", params={"q": query, "format": "json"})
    if len(answer.json()["results"]) != RESULTS:
        raise SystemExit("the stub returned a wrong number of results")


def one_call(url: str) -> Times:
    """Return the times of one httpx request, typical of several in sequence."""

    async def calls() -> Times:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            await _call(client, "warm")
            times, cpu = [], time.process_time()
            for number in range(SINGLES):
                start = time.perf_counter()
                await _call(client, f"{number}")
                times.append(time.perf_counter() - start)
            return Times(statistics.median(times), (time.process_time() - cpu) / SINGLES)

    return asyncio.run(calls())


def one_search() -> Times:
    """Return the times of one `search_df` of ten results, typical of several in sequence."""
    times, cpu = [], time.process_time()
    for number in range(SINGLES):
        start = time.perf_counter()
        frame = search_df(f"one {number}", formats=[], cache=False, progress=False)
        times.append(time.perf_counter() - start)
        if len(frame) != RESULTS:
            raise SystemExit(frame.attrs["webdata"]["line"])
    return Times(statistics.median(times), (time.process_time() - cpu) / SINGLES)


def many_calls(url: str) -> Times:
    """Return the times of a hundred httpx requests."""

    async def calls() -> Times:
        turns = asyncio.Semaphore(unreserved_slots(SLOTS))

        async def call(query: str) -> None:
            async with turns:
                await _call(client, query)

        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            await asyncio.gather(
                *(call(f"warm{number}") for number in range(unreserved_slots(SLOTS)))
            )
            start, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(call(f"{number}") for number in range(QUERIES)))
            return Times(time.perf_counter() - start, time.process_time() - cpu)

    return asyncio.run(calls())


def many_searches() -> Times:
    """Return the times of a hundred queries in one call."""
    queries = [f"many {time.monotonic_ns()} {number}" for number in range(QUERIES)]
    start, cpu = time.perf_counter(), time.process_time()
    frame = search_df(queries, formats=[], cache=False, progress=False)
    times = Times(time.perf_counter() - start, time.process_time() - cpu)
    if len(frame) != QUERIES * RESULTS:
        raise SystemExit(frame.attrs["webdata"]["line"])
    return times


@contextmanager
def own_service(url: str) -> Iterator[None]:
    """Run a local service with its own home and the stub as its only provider."""
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"WEBDATA_HOME": home, "WEBDATA_SEARXNG_URL": url}
        os.environ |= {f"WEBDATA_ENGINE_{name}": "searxng" for name in ("ONE", "TWO", "THREE")}
        try:
            search_df("warm", formats=[], cache=False, progress=False)
            yield
        finally:
            asyncio.run(local.stop(current()))


def main() -> int:
    """Print each round and the ratios; return 1 if one exceeds its limit."""
    with server_process("benchmarks.discovery", "stub") as url, own_service(url):
        contestants: dict[str, Measure] = {
            "one httpx call": lambda: one_call(url),
            "one search_df": one_search,
            f"{QUERIES} httpx calls": lambda: many_calls(url),
            f"search_df of {QUERIES}": many_searches,
        }
        for measure in contestants.values():
            measure()
        rounds: dict[str, list[Times]] = {name: [] for name in contestants}
        order = list(contestants)
        for _ in range(ROUNDS):
            for name in order:
                rounds[name].append(contestants[name]())
            order.append(order.pop(0))
            figures = (f"{name} {rounds[name][-1].wall_s * 1000:.1f} ms" for name in contestants)
            print("   ".join(figures), flush=True)
    one, search, calls, searches = (
        Times(
            min(round_times.wall_s for round_times in times),
            min(round_times.cpu_s for round_times in times),
        )
        for times in rounds.values()
    )
    ratios = search.wall_s / one.wall_s, searches.wall_s / calls.wall_s
    names = ("one search, of one call", "many queries, of the calls")
    met = [check(f"discovery: {name}", each) for name, each in zip(names, ratios, strict=True)]
    shares = search.cpu_s / one.cpu_s, searches.cpu_s / calls.cpu_s
    print(f"the caller's processor time: {shares[0]:.2f} and {shares[1]:.2f} times the calls'")
    return 0 if all(met) else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["stub"]:
        stub()
    else:
        sys.exit(main())
