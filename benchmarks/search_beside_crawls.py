"""Compares a search beside sixteen crawls of another account with the same search alone.

A team's service runs in a process of its own. Its search engine, and the page that the engine
returns, respond after 300 ms. A search requests one result with its Markdown. The benchmark
measures the median time on the idle service, then while sixteen crawls of another account run,
whose pages respond after 100 ms and never end. This program serves the site and the engine, on the
same processors as the service.

Run it from the checkout, with the `test` extra::

    python -m benchmarks.search_beside_crawls

The exit code is 1 if the ratio is above 2, or a crawl ended early.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import httpx

from tests.openapi.service_process import ServiceProcess, team
from tests.service.routes.endless_site import endless
from tests.service.search.stubs import Result, Stub, stubs
from tests.shell import Shell
from tests.site.server import Site
from webdata_nb.service.settings import SLOTS, unreserved_slots

MAX_RATIO: Final = 2.0
CRAWLS: Final = unreserved_slots(SLOTS)
ENGINE_S: Final = 0.3
_SEARCH: Final = {"query": "colour", "num_results": 1, "formats": ["markdown"]}
_TIMEOUT_S: Final = 120.0


async def searched(http: httpx.AsyncClient) -> float:
    """Search once; return the seconds until the row arrived."""
    began = time.perf_counter()
    started = await http.post("/v1/search?wait=30", json=_SEARCH)
    reply: Any = started.raise_for_status().json()["result"]
    took_s = time.perf_counter() - began
    if reply["status"] != "completed" or not reply["data"][0]["scraped"]:
        raise RuntimeError(f"the search did not succeed: {reply}")
    return took_s


async def median_s(http: httpx.AsyncClient, rounds: int) -> float:
    """Return the median duration of this number of sequential searches."""
    return statistics.median([await searched(http) for _ in range(rounds)])


async def start_crawls(http: httpx.AsyncClient, site: Site) -> list[str]:
    """Start the crawls, and wait until all of them run and have pages."""
    ids = []
    for number in range(CRAWLS):
        body = {"url": site.at(f"/endless/{number}/"), "max_pages": 1000}
        started = await http.post("/v1/crawl", json=body)
        ids.append(started.raise_for_status().json()["job_id"])
    async with asyncio.timeout(_TIMEOUT_S):
        while not all([await _has_pages(http, job_id) for job_id in ids]):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return ids


async def _has_pages(http: httpx.AsyncClient, job_id: str) -> bool:
    return bool((await _status(http, job_id))["completed_pages"])


async def _status(http: httpx.AsyncClient, job_id: str) -> Any:
    reply = await http.get(f"/v1/crawl/{job_id}?include_data=false")
    return reply.raise_for_status().json()


async def measure(served: ServiceProcess, bob: str, site: Site, rounds: int) -> int:
    """Print the two medians and their ratio; return the exit code."""
    alone = {"base_url": served.url, "trust_env": False, "timeout": _TIMEOUT_S}
    async with (
        httpx.AsyncClient(headers=served.headers, **alone) as alice,  # type: ignore[arg-type]
        httpx.AsyncClient(
            headers={"Authorization": f"Bearer {bob}"},
            **alone,  # type: ignore[arg-type]
        ) as http,
    ):
        await median_s(http, 3)  # page workers start, and connections open
        idle_s = await median_s(http, rounds)
        crawls = await start_crawls(alice, site)
        beside_s = await median_s(http, rounds)
        states = [(await _status(alice, job_id))["status"] for job_id in crawls]
        for job_id in crawls:
            await alice.post(f"/v1/jobs/{job_id}/cancel")
    ratio = beside_s / idle_s
    running = states.count("running")
    print(
        f"alone {idle_s:.3f} s, beside {CRAWLS} crawls {beside_s:.3f} s:"
        f" {ratio:.2f} of {MAX_RATIO:g}"
    )
    print(f"crawls that ran all the while: {running} of {CRAWLS}")
    return int(ratio > MAX_RATIO or running < CRAWLS)


def slow_engine(site: Site) -> Stub:
    """Serve an engine and the page of its result, each after 300 ms."""
    stub = stubs()["searxng"]
    stub.on(site)
    stub.served = [Result(site.at("/result"), "Found", "It is red.")]
    answer = stub._handle  # noqa: SLF001 - the same answer, later

    async def later(request: Any) -> Any:
        await asyncio.sleep(ENGINE_S)
        return await answer(request)

    site.under(stub.path, later)
    page = "<title>Found</title><h1>Found</h1><p>It is red.</p>"
    site.page("/result", page, delay=ENGINE_S)
    site.under("/endless", endless)
    return stub


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="searches for each median")
    rounds = parser.parse_args().rounds
    with Site() as site, tempfile.TemporaryDirectory() as home:
        stub = slow_engine(site)
        engines = dict.fromkeys(("ONE", "TWO", "THREE"), "searxng")
        environ = {f"WEBDATA_ENGINE_{name}": value for name, value in engines.items()}
        environ["WEBDATA_SEARXNG_URL"] = site.at(stub.path)
        with team(Path(home), "--allow-network", "127.0.0.0/8", **environ) as served:
            bob = Shell(Path(home)).run("keys", "create", "--name", "bob").stdout.strip()
            return asyncio.run(measure(served, bob, site, rounds))


if __name__ == "__main__":
    sys.exit(main())
