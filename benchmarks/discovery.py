"""What `search_df` adds to the provider's own answer: discovery against bare httpx calls.

A stub of SearXNG, a process of its own on loopback, answers in 5 ms with ten results. Bare httpx
asks it with one kept connection pool and decodes the JSON; `search_df(..., formats=[])` asks it
through the local service: start, queue, chain, ranks, a journal that survives a kill, and a
DataFrame with its receipt. The service is warm and the result cache off.

- One search of ten results, against one call: at most 10 times as long.
- A hundred queries in one `search_df` call, against a hundred calls at the same concurrency (as
  many as the service runs jobs at once): at most 3 times as long.

Rounds are interleaved, and the one that goes first changes; each figure is that of its best round,
the one that other programs of the machine disturbed least. With fewer than three free cores the
second ratio is worse: calling, serving and answering are three processes.

Run it from the checkout, with the `test` extra installed::

    python -m benchmarks.discovery
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import httpx
from aiohttp import web

from webdata_nb import local, search_df
from webdata_nb.service.work.runner import SLOTS
from webdata_nb.settings import current

ANSWER_S: Final = 0.005
RESULTS: Final = 10
SINGLES: Final = 30
QUERIES: Final = 100
ROUNDS: Final = 5
ONE_FLOOR: Final = 10.0
MANY_FLOOR: Final = 3.0

Measure = Callable[[], float]


def stub() -> None:
    """Serve until the pipe to the parent closes; print the port first."""

    async def search(request: web.Request) -> web.Response:
        await asyncio.sleep(ANSWER_S)
        query = request.query["q"]
        found = [
            {"url": f"https://x.test/{query}/{n}", "title": f"Title {n}", "content": "Words." * 20}
            for n in range(1, RESULTS + 1)
        ]
        return web.json_response({"query": query, "results": found, "unresponsive_engines": []})

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/search", search)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()

    asyncio.run(serve())


@contextmanager
def stub_process() -> Iterator[str]:
    """Run the stub; give its address."""
    command = [sys.executable, "-m", "benchmarks.discovery", "stub"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def _call(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get("/search", params={"q": query, "format": "json"})
    if len(answer.json()["results"]) != RESULTS:
        raise SystemExit("the stub answers wrongly")


def one_call(url: str) -> float:
    """Return the median seconds of one bare call."""

    async def calls() -> list[float]:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            await _call(client, "warm")
            times = []
            for number in range(SINGLES):
                start = time.perf_counter()
                await _call(client, f"{number}")
                times.append(time.perf_counter() - start)
            return times

    return statistics.median(asyncio.run(calls()))


def one_search() -> float:
    """Return the median seconds of one `search_df` of ten results."""
    times = []
    for number in range(SINGLES):
        start = time.perf_counter()
        frame = search_df(f"one {number}", formats=[], cache=False, progress=False)
        times.append(time.perf_counter() - start)
        if len(frame) != RESULTS:
            raise SystemExit(frame.attrs["webdata"]["line"])
    return statistics.median(times)


def many_calls(url: str) -> float:
    """Return the seconds of a hundred bare calls."""

    async def calls() -> float:
        turns = asyncio.Semaphore(SLOTS)

        async def one(query: str) -> None:
            async with turns:
                await _call(client, query)

        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            await asyncio.gather(*(one(f"warm{number}") for number in range(SLOTS)))
            start = time.perf_counter()
            await asyncio.gather(*(one(f"{number}") for number in range(QUERIES)))
            return time.perf_counter() - start

    return asyncio.run(calls())


def many_searches() -> float:
    """Return the seconds of a hundred queries in one call."""
    queries = [f"many {time.monotonic_ns()} {number}" for number in range(QUERIES)]
    start = time.perf_counter()
    frame = search_df(queries, formats=[], cache=False, progress=False)
    elapsed = time.perf_counter() - start
    if len(frame) != QUERIES * RESULTS:
        raise SystemExit(frame.attrs["webdata"]["line"])
    return elapsed


@contextmanager
def own_service(url: str) -> Iterator[None]:
    """Run a local service with a home of its own that knows the stub alone."""
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"WEBDATA_HOME": home, "WEBDATA_SEARXNG_URL": url}
        os.environ |= {f"WEBDATA_ENGINE_{name}": "searxng" for name in ("ONE", "TWO", "THREE")}
        try:
            search_df("warm", formats=[], cache=False, progress=False)
            yield
        finally:
            asyncio.run(local.stop(current()))


def main() -> int:
    """Print each round and the ratios; return 1 where one is above its floor."""
    with stub_process() as url, own_service(url):
        contestants: dict[str, Measure] = {
            "one httpx call": lambda: one_call(url),
            "one search_df": one_search,
            f"{QUERIES} httpx calls": lambda: many_calls(url),
            f"search_df of {QUERIES}": many_searches,
        }
        for measure in contestants.values():
            measure()
        rounds: dict[str, list[float]] = {name: [] for name in contestants}
        order = list(contestants)
        for _ in range(ROUNDS):
            for name in order:
                rounds[name].append(contestants[name]())
            order.append(order.pop(0))
            shown = (f"{name} {rounds[name][-1] * 1000:.1f} ms" for name in contestants)
            print("   ".join(shown), flush=True)
    call, search, calls, searches = (min(times) for times in rounds.values())
    print(f"one search of {RESULTS} results: {search / call:.1f} calls (floor {ONE_FLOOR:g})")
    print(f"{QUERIES} queries: {searches / calls:.2f} times the calls (floor {MANY_FLOOR:g})")
    return int(search / call > ONE_FLOOR or searches / calls > MANY_FLOOR)


if __name__ == "__main__":
    if sys.argv[1:] == ["stub"]:
        stub()
    else:
        sys.exit(main())
