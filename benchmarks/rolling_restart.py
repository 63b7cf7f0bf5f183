"""Restarts both replicas of a service, one after the other, while users start searches.

Two replicas run on one PostgreSQL database, behind nginx with the configuration of `deploy/`. A
client starts 15 searches without page visits per second, each with an idempotency key as the
toolkit sends it, and reads the event stream of each job until its `done`. A stream that ends
before is opened again behind its last event. The client repeats nothing else. In the middle of the
run, each replica in turn receives SIGTERM and is started again once it has ended.

Expected: no 5xx, no time-out and no refused request; as many jobs as starts, all completed and
charged once; a `done` for each stream; exit code 0 of both replicas within 10 s.

Database, replicas, proxy and client share the processors of one machine.

Run it from the checkout, with the `test` extra, nginx and PostgreSQL; with 10 minutes it starts
9,000 searches::

    python -m benchmarks.rolling_restart
    python -m benchmarks.rolling_restart --minutes 1
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg

from tests import postgres
from tests.deploy.replicas import ProxiedService, proxied_service, stop
from webdata_nb.contract import paths
from webdata_nb.contract.events import Done
from webdata_nb.toolkit.client import transport

MINUTES: Final = 10.0
STARTS_PER_S: Final = 15
STOP_S: Final = 10.0
REQUEST_S: Final = 60.0
# Far above what runs at a time, so that no start has to wait: one account and one address stand for
# many.
CONCURRENCY: Final = 5000
_OPTIONS: Final = (
    *("--requests-per-account", str(CONCURRENCY)),
    *("--connections-per-address", str(CONCURRENCY)),
)
_SEARCH: Final = {"query": "colour", "formats": []}
_OK, _SERVER_ERROR = 200, 500


@dataclass(slots=True)
class RestartFigures:
    """What the client and the replicas did."""

    starts: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    timeouts: int = 0
    broken: int = 0
    done: Counter[str] = field(default_factory=Counter)
    reopened: int = 0
    start_s: list[float] = field(default_factory=list)
    done_s: list[float] = field(default_factory=list)
    exits: list[tuple[int, float]] = field(default_factory=list)
    jobs: Counter[str] = field(default_factory=Counter)
    credits: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def expect(self, label: str, value: object, expected: object) -> None:
        """Print a figure, and record it if it differs from the expected one."""
        fine = value == expected
        print(f"  {label}: {value}{'' if fine else f', not {expected}'}", flush=True)
        if not fine:
            self.wrong.append(label)


async def one_search(http: httpx.AsyncClient, figures: RestartFigures) -> None:
    """Start a search and follow it to its end."""
    began = time.perf_counter()
    headers = {paths.IDEMPOTENCY_KEY: uuid.uuid4().hex}
    figures.starts += 1
    try:
        reply = await http.post(paths.SEARCH, json=_SEARCH, headers=headers)
        figures.statuses[f"start {reply.status_code}"] += 1
        if reply.status_code != _OK:
            return
        figures.start_s.append(time.perf_counter() - began)
        async with asyncio.timeout(2 * REQUEST_S):
            figures.done[await _end_of(http, reply.json()["job_id"], figures)] += 1
        figures.done_s.append(time.perf_counter() - began)
    except (httpx.TimeoutException, TimeoutError):
        figures.timeouts += 1
    except httpx.TransportError:
        figures.broken += 1


async def _end_of(http: httpx.AsyncClient, job_id: str, figures: RestartFigures) -> str:
    """Read a job's events, in several streams if need be; return the status of its `done`."""
    path = paths.SEARCH_EVENTS.format(job_id=job_id)
    decoder = transport.Decoder()
    while True:
        async for status in _statuses(http, path, decoder, figures):
            return status
        figures.reopened += 1
        decoder = transport.Decoder(decoder.last_event_id)


async def _statuses(
    http: httpx.AsyncClient, path: str, decoder: transport.Decoder, figures: RestartFigures
) -> AsyncIterator[str]:
    """Yield the status of the `done` of one stream, if it has one."""
    last = decoder.last_event_id
    headers = {} if last is None else {"Last-Event-ID": last}
    async with http.stream("GET", path, headers=headers) as stream:
        figures.statuses[f"stream {stream.status_code}"] += 1
        try:
            async for piece in stream.aiter_bytes():
                for message in decoder.feed(piece):
                    event = transport.event_of(message)
                    if isinstance(event, Done):
                        yield event.status
                        return
        except (httpx.RemoteProtocolError, httpx.ReadError):  # the replica has ended
            return


async def searches(
    service: ProxiedService, figures: RestartFigures, seconds: float, starts_per_s: float
) -> None:
    """Start searches at a constant rate, and wait for their ends."""
    # One connection per request: nginx may close an idle one while it is reused.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with (
        httpx.AsyncClient(
            base_url=service.url,
            headers=service.headers,
            limits=limits,
            trust_env=False,
            timeout=REQUEST_S,
        ) as http,
        asyncio.TaskGroup() as group,
    ):
        began = time.monotonic()
        for number in range(round(seconds * starts_per_s)):
            await asyncio.sleep(began + number / starts_per_s - time.monotonic())
            group.create_task(one_search(http, figures))


def restart_each(service: ProxiedService, figures: RestartFigures) -> None:
    """Stop each replica and start it again, one after the other."""
    for replica in service.replicas:
        figures.exits.append(stop(replica))
        replica.start()


async def load_with_restart(
    service: ProxiedService, figures: RestartFigures, minutes: float, starts_per_s: float
) -> None:
    """Run the searches, and restart the replicas in the middle."""
    seconds = 60 * minutes
    load = asyncio.create_task(searches(service, figures, seconds, starts_per_s))
    await asyncio.sleep(seconds / 2)
    await asyncio.to_thread(restart_each, service, figures)
    await load
    async with httpx.AsyncClient(
        base_url=service.url, headers=service.headers, trust_env=False, timeout=REQUEST_S
    ) as http:
        usage: Any = (await http.get(paths.USAGE)).raise_for_status().json()
    figures.credits = usage["used"]
    with psycopg.connect(service.store_url) as connection:
        rows = connection.execute("SELECT state, COUNT(*) FROM job GROUP BY state").fetchall()
    figures.jobs.update(dict(rows))


def check(figures: RestartFigures, errors: str, stop_s: float) -> list[str]:
    """Print the figures; return the failed expectations."""
    starts = figures.starts
    print(f"{starts} starts, both replicas restarted in the middle")
    print(f"  replies: {dict(figures.statuses)}; streams opened again: {figures.reopened}")
    for name, values in (("start", figures.start_s), ("`done`", figures.done_s)):
        print(f"  until the {name}: {_quantiles(values)}")
    print(f"  shutdowns: {', '.join(f'{seconds:.1f} s' for _, seconds in figures.exits)}")
    server_errors = sum(
        count for name, count in figures.statuses.items() if int(name[-3:]) >= _SERVER_ERROR
    )
    figures.expect("5xx", server_errors, 0)
    figures.expect("time-outs", figures.timeouts, 0)
    figures.expect("broken connections", figures.broken, 0)
    figures.expect("accepted starts", figures.statuses[f"start {_OK}"], starts)
    figures.expect(
        "streams by the status of their `done`", dict(figures.done), {"completed": starts}
    )
    figures.expect("jobs in the database", dict(figures.jobs), {"completed": starts})
    figures.expect("credits", figures.credits, float(starts))
    orderly = [code == 0 and seconds <= stop_s for code, seconds in figures.exits]
    figures.expect("replicas that stopped with exit code 0 in time", orderly, [True, True])
    if figures.wrong and errors:
        print(f"  nginx: {errors[-2000:]}")
    return figures.wrong


def _quantiles(values: Sequence[float]) -> str:
    if len(values) < 2:
        return "no figures"
    cuts = statistics.quantiles(values, n=100)
    parts = {"median": cuts[49], "95 %": cuts[94], "most": max(values)}
    return ", ".join(f"{name} {seconds:.3f} s" for name, seconds in parts.items())


def run(
    server: postgres.PostgresServer,
    home: Path,
    minutes: float,
    *,
    starts_per_s: float = STARTS_PER_S,
    stop_s: float = STOP_S,
) -> list[str]:
    """Run the benchmark on a server; return the failed expectations."""
    figures = RestartFigures()
    with proxied_service(server, home, *_OPTIONS, concurrency=CONCURRENCY) as service:
        asyncio.run(load_with_restart(service, figures, minutes, starts_per_s))
        return check(figures, service.proxy.errors, stop_s)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help="duration of the load")
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as folder, postgres.running() as server:
        wrong = run(server, Path(folder), minutes)
    print("exact" if not wrong else f"WRONG: {', '.join(wrong)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
