"""Compares the rate of status requests for a crawl of 1 MB with a bare Starlette route.

The bare route returns the same bytes from memory, without key, job or database. One process serves
both with the service's own settings. One client alternates between them in blocks, over one
connection each. The time of a contestant is the minimum of its blocks, since other processes can
only add time.

The status is requested in three ways. ``again``: a repeated request; the service caches such
replies of ended jobs. ``changed``: the same, with a write to the database before each request, so
that the job's record is read again. ``first``: a request that was never made before, whose rows are
read from the database.

Run it from the checkout, in the environment of the tests::

    python -m benchmarks.status_reply
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import multiprocessing
import os
import sqlite3
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import orjson
import psutil
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.floors import check
from webdata_nb import malloc
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.app import service
from webdata_nb.service.http.connections import ConnectionLimiter
from webdata_nb.service.local_lifetime import LocalLifetime
from webdata_nb.service.server import Server, listen
from webdata_nb.service.settings import LOCAL_ACCOUNT, ServiceSettings
from webdata_nb.service.store.records import CommitBatch, JournalEntry, NewJob, UrlOutcome
from webdata_nb.service.store.sqlite.database import SqliteStore

ROWS: Final = 100
ROW_BYTES: Final = 10_000
REQUESTS: Final = 10


def page(number: int) -> bytes:
    """Return a row as a crawl stores it."""
    text = "lorem ipsum dolor sit amet " * (ROW_BYTES // 27)
    return orjson.dumps(
        {
            "url": f"https://site.test/{number}",
            "title": f"Page {number}",
            "status": "completed",
            "status_code": 200,
            "success": True,
            "error": None,
            "depth": 1,
            "time_taken": 0.1,
            "markdown": text,
            "metadata": {"language": "en"},
        }
    )


async def store_crawl(data_dir: Path) -> str:
    """Store a completed crawl of 1 MB with a receipt of 1000 URLs; return its id."""
    now = time.time()
    async with SqliteStore(data_dir / "jobs.sqlite") as store:
        async with service(
            ServiceSettings(data_dir=data_dir), 1, _lifetime(data_dir), lambda: None
        ):  # makes the account
            pass
        job_id = str(uuid.uuid4())
        await store.accept(
            NewJob(job_id, LOCAL_ACCOUNT, "crawl", "https://site.test/", {}), now=now
        )
        [(_, lease)] = await store.claim("w", lease_s=60, now=now)
        entries = tuple(
            JournalEntry(n, f"https://site.test/{n}", True, b"{}", page=page(n), position=n)  # noqa: FBT003
            for n in range(ROWS)
        )
        outcomes = tuple(UrlOutcome(f"https://site.test/{n}", "fetched") for n in range(1000))
        await store.commit(lease, CommitBatch(entries=entries, url_outcomes=outcomes))
        await store.finish(lease, JobStatus.COMPLETED, error=None, now=now)
    return job_id


def _lifetime(data_dir: Path) -> LocalLifetime:
    return LocalLifetime(data_dir, version="0", schema=1, managed=False)


async def serve(data_dir: Path, pipe: Connection) -> None:
    """Run the service and the bare route in one process; report their addresses."""
    lifetime = _lifetime(data_dir)
    reply: dict[str, bytes] = {}

    async def bare(_request: Request) -> Response:
        return Response(reply["body"], media_type="application/json")

    malloc.tune()
    async with service(ServiceSettings(data_dir=data_dir), 1, lifetime, lambda: None) as running:
        apps: list[Any] = [running.app, Starlette(routes=[Route("/bare", bare)])]
        sockets = [listen("127.0.0.1", 0) for _ in apps]
        servers = [Server(app, ConnectionLimiter()) for app in apps]
        pipe.send([[sock.getsockname()[1] for sock in sockets], lifetime.token, os.getpid()])
        tasks = [
            asyncio.create_task(server.serve(sockets=[sock]))
            for server, sock in zip(servers, sockets, strict=True)
        ]
        reply["body"] = await asyncio.to_thread(pipe.recv_bytes)
        pipe.send("ready")
        await asyncio.to_thread(pipe.recv)
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*tasks)


def _child(data_dir: Path, pipe: Connection) -> None:
    asyncio.run(serve(data_dir, pipe))


def _nothing() -> None:
    """Do nothing before a request."""


class Peer:
    """A path of a server, over one connection, with an action `before` each request."""

    def __init__(
        self,
        port: int,
        path: str,
        token: str,
        *,
        unique: bool = False,
        before: Callable[[], object] = _nothing,
    ) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._path, self._headers = path, {"Authorization": f"Bearer {token}"}
        self._unique, self._before, self._request_count = unique, before, 0
        self.least_s, self.cpu_s = float("inf"), 0.0

    def get(self) -> bytes:
        """Send one request."""
        self._request_count += 1
        path = f"{self._path}&{_spelled(self._request_count)}=true" if self._unique else self._path
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"HTTP {answer.status}: {body[:200]!r}")
        return body

    def block(self, server: psutil.Process) -> None:
        """Send many requests; keep the minimum time, and the server's total processor time."""
        seconds, cpu = 0.0, _cpu_s(server)
        for _ in range(REQUESTS):
            self._before()
            began = time.perf_counter()
            self.get()
            seconds += time.perf_counter() - began
        self.least_s = min(self.least_s, seconds)
        self.cpu_s += _cpu_s(server) - cpu

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _spelled(number: int) -> str:
    """Return `include_data` with some letters escaped: same parameter, different query string."""
    letters = enumerate("include_data")
    return "".join(f"%{ord(x):02X}" if number >> bit & 1 else x for bit, x in letters)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


class Elsewhere:
    """A second database connection, whose writes look like those of another process."""

    def __init__(self, data_dir: Path) -> None:
        self._connection = sqlite3.connect(data_dir / "jobs.sqlite", isolation_level=None)

    def write(self) -> None:
        """Commit a change that affects no status."""
        self._connection.execute("UPDATE account SET name = name || '.'")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def main() -> int:
    """Print the figures; return 1 below a floor."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--blocks", type=int, default=100)
    blocks = parser.parse_args().blocks
    with tempfile.TemporaryDirectory(prefix="webdata-benchmark-") as name:
        data_dir = Path(name)
        job_id = asyncio.run(store_crawl(data_dir))
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        child = context.Process(target=_child, args=(data_dir, theirs))
        child.start()
        ports, token, pid = ours.recv()
        path = f"/v1/crawl/{job_id}?per_page=1000"
        with closing(Elsewhere(data_dir)) as elsewhere, ExitStack() as stack:
            peers = {
                "bare": Peer(ports[1], "/bare", token),
                "again": Peer(ports[0], path, token),
                "changed": Peer(ports[0], path, token, before=elsewhere.write),
                "first": Peer(ports[0], path, token, unique=True),
            }
            for peer in peers.values():
                stack.enter_context(closing(peer))
            body = peers["first"].get()
            ours.send_bytes(body)
            ours.recv()
            if any(peer.get() != body for peer in peers.values() for _ in range(3)):
                raise RuntimeError("the replies differ")
            for _ in range(blocks):
                for peer in peers.values():
                    peer.block(psutil.Process(pid))
        ours.send("stop")
        child.join()
    return _check_floor(peers, len(body))


def _check_floor(peers: Mapping[str, Peer], size: int) -> int:
    bare_peer = peers["bare"]
    print(f"replies of {size:,} bytes; shares are of the bare route's")
    for label, peer in peers.items():
        rate, share = REQUESTS / peer.least_s, bare_peer.least_s / peer.least_s
        cpu = peer.cpu_s / bare_peer.cpu_s
        print(f"{label:8} {rate:6.0f} requests/s, rate {share:.2f}, processor time {cpu:.2f}")
    met = [
        check(f"status_reply: {label}, of a bare route", bare_peer.least_s / peers[label].least_s)
        for label in ("again", "changed", "first")
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
