"""Measures how soon an event reaches a stream at another replica than the one that runs the job.

Two replicas run on one PostgreSQL database, and 50 crawls of a slow site run on them. Each crawl
has one event stream, at the replica that does not run it. The latency of a row is the time from its
commit, which PostgreSQL records (`track_commit_timestamp`), to the arrival of its `page` event. All
clocks are those of one machine. Rows that were committed before their stream was open are not
counted.

Expected: all rows in all streams, and a latency of at most 500 ms for 95 % of the events.

Run it from the checkout, with the `test` extra and PostgreSQL; it takes about half a minute::

    python -m benchmarks.event_latency
    python -m benchmarks.event_latency --streams 100
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import psycopg

from tests import postgres
from tests.replica_process import HEADERS, ReplicaProcess, add_account
from tests.site.server import Site
from webdata_nb.contract import paths
from webdata_nb.contract.events import Done, PageDone
from webdata_nb.service.encryption import new_key
from webdata_nb.toolkit.client import transport

STREAMS, PAGES = 50, 20
LIMIT_S: Final = 0.5
# The site answers each page after this time: all crawls together write some 50 rows per second.
DELAY_S: Final = 1.0
_TIMEOUT_S: Final = 120.0
_COMMITS: Final = """
SELECT job_id, position, EXTRACT(EPOCH FROM pg_xact_commit_timestamp(xmin))::float
FROM entry WHERE position IS NOT NULL
"""


@dataclass(slots=True)
class StreamRecord:
    """What one stream received: when it was open, and the arrival of each row by its position."""

    opened_at: float = 0.0
    arrivals: dict[int, float] = field(default_factory=dict)
    status: str = ""


def serve_pages(site: Site, crawls: int, pages: int) -> None:
    """Let the site serve front pages that link to slow pages."""
    for crawl in range(crawls):
        names = [f"/{crawl}/{page}" for page in range(1, pages)]
        links = "".join(f'<a href="{name}">{name}</a>' for name in names)
        site.page(f"/{crawl}", f"<title>Crawl {crawl}</title><p>{links}</p>", delay=DELAY_S)
        for name in names:
            text = f"<title>Page {name}</title><p>This is the page {name} of the site.</p>"
            site.page(name, text, delay=DELAY_S)


async def runner_of(store_url: str, job_id: str) -> str:
    """Wait until a replica runs a job; return the replica's name."""
    query = "SELECT name FROM job JOIN replica ON replica.id = worker WHERE job.id = %s"
    async with asyncio.timeout(_TIMEOUT_S):
        async with await psycopg.AsyncConnection.connect(store_url, autocommit=True) as connection:
            while True:
                row = await (await connection.execute(query, [job_id])).fetchone()
                if row is not None:
                    return str(row[0])
                await asyncio.sleep(0.05)


async def follow(http: httpx.AsyncClient, url: str) -> StreamRecord:
    """Read a stream to its end."""
    record, decoder = StreamRecord(), transport.Decoder()
    async with asyncio.timeout(_TIMEOUT_S), http.stream("GET", url) as stream:
        stream.raise_for_status()
        async for piece in stream.aiter_bytes():
            now = time.time()
            record.opened_at = record.opened_at or now
            for message in decoder.feed(piece):
                event = transport.event_of(message)
                if isinstance(event, PageDone):
                    record.arrivals[event.position] = now
                elif isinstance(event, Done):
                    record.status = event.status.value
    return record


async def follow_crawls(
    store_url: str, replicas: dict[str, ReplicaProcess], site: Site, streams: int, pages: int
) -> dict[str, StreamRecord]:
    """Run the crawls, and follow each at the replica that does not run it."""
    names = list(replicas)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        headers=HEADERS, limits=limits, timeout=_TIMEOUT_S, trust_env=False
    ) as http:

        async def one_crawl(number: int) -> tuple[str, StreamRecord]:
            url = replicas[names[number % 2]].url
            body = {"url": site.at(f"/{number}"), "max_pages": pages, "concurrency": 1}
            reply = await http.post(url + paths.CRAWL, json=body)
            job_id = str(reply.raise_for_status().json()["job_id"])
            [other] = set(names) - {await runner_of(store_url, job_id)}
            path = paths.CRAWL_EVENTS.format(job_id=job_id)
            return job_id, await follow(http, replicas[other].url + path)

        return dict(await asyncio.gather(*map(one_crawl, range(streams))))


def latencies(store_url: str, records: dict[str, StreamRecord]) -> list[float]:
    """Return the seconds from the commit of each row to its event."""
    with psycopg.connect(store_url) as connection:
        commits = connection.execute(_COMMITS).fetchall()
    return [
        records[job_id].arrivals[position] - committed_at
        for job_id, position, committed_at in commits
        if position in records[job_id].arrivals and committed_at > records[job_id].opened_at
    ]


def report(
    store_url: str, records: dict[str, StreamRecord], pages: int, limit_s: float
) -> list[str]:
    """Print the figures; return the failed expectations."""
    wrong = []
    exact = [sorted(record.arrivals) == list(range(pages)) for record in records.values()]
    ended = [record.status == "completed" for record in records.values()]
    print(f"{len(records)} streams, each at the replica that does not run its crawl")
    print(f"  with each row once: {sum(exact)}; with `done`: {sum(ended)}")
    if not all(exact) or not all(ended):
        wrong.append("streams")
    seconds = latencies(store_url, records)
    print(f"  events of rows that were committed while their stream was open: {len(seconds)}")
    if len(seconds) < len(records) * pages // 2:
        return [*wrong, "too few events"]
    cuts = statistics.quantiles(seconds, n=100)
    parts = {"median": cuts[49], "95 %": cuts[94], "most": max(seconds)}
    figures = ", ".join(f"{name} {1000 * value:.0f} ms" for name, value in parts.items())
    print(f"  from commit to event: {figures} (95 % at most {1000 * limit_s:.0f} ms)")
    return [*wrong, "latency"] if cuts[94] > limit_s else wrong


def run(
    server: postgres.PostgresServer,
    home: Path,
    *,
    streams: int = STREAMS,
    pages: int = PAGES,
    limit_s: float = LIMIT_S,
) -> list[str]:
    """Run the benchmark on a server; return the failed expectations."""
    store_url, key = server.new_schema(), new_key()
    asyncio.run(add_account(store_url, key, concurrency=streams))
    options = ("--slots", str(streams))
    with Site() as site, ExitStack() as stack:
        serve_pages(site, streams, pages)
        replicas = {
            name: ReplicaProcess(home / name, store_url, key, *options, "--replica", name)
            for name in ("first", "second")
        }
        for replica in replicas.values():
            replica.launch()
            stack.callback(replica.kill)
        for replica in replicas.values():
            replica.wait_ready()
        records = asyncio.run(follow_crawls(store_url, replicas, site, streams, pages))
        return report(store_url, records, pages, limit_s)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--pages", type=int, default=PAGES, help="pages of each crawl")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, postgres.running() as server:
        wrong = run(server, Path(folder), streams=options.streams, pages=options.pages)
    print("as expected" if not wrong else f"WRONG: {', '.join(wrong)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
