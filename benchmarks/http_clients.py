"""Compares httpx with httpx2 and niquests behind the client's HTTP transport.

A server in another process on loopback gives what a service does: the status of a job (1 kB of
JSON), a reply with rows (5 MB of JSON) and a stream of 2,000 events. Each client is measured in a
process of its own:

- httpx and httpx2 with `HttpConnection` of `webdata_nb/toolkit/client/transport.py`, unchanged:
  httpx2 takes the place of the module httpx.
- niquests with an adapter of the same two methods, `json` and `pieces`.

Polls are one after the other, and 16 at a time. Rounds are interleaved with an alternating first
contestant; each figure is that of the best round, in wall time and in the processor time of the
client. The import is timed in new interpreters, with what the first request needs. Then the
distributions that each client installs are listed, those that the package needs anyway in brackets.

Run it from the checkout, in the environment of the tests. The peers are installed into a separate
folder, which `--peers` keeps for the next run::

    python -m benchmarks.http_clients
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiohttp import web

from benchmarks.stub_server import serve, server_process

CLIENTS: Final = ("httpx", "httpx2", "niquests")
PEERS: Final = ("httpx2", "niquests")
POLLS: Final = 400
AT_ONCE: Final = 16
REPLIES: Final = 8
EVENTS: Final = 2000
ROUNDS: Final = 5
STATUS: Final = {"job_id": "j" * 32, "status": "running", "completed": 10, "notes": ["n" * 90] * 10}
ROWS: Final = {
    "data": [
        {"url": f"https://site.test/{n}", "title": f"Page {n}", "markdown": "A sentence. " * 400}
        for n in range(1000)
    ]
}
EVENT: Final = b'event: progress\ndata: {"completed": 10, "total": 100, "stage": "fetching"}\n\n'
IMPORT: Final = """
import sys, time
sys.path.append({peers!r})
start, cpu = time.perf_counter(), time.process_time()
import ssl
import {name}
{first_use}
print(time.perf_counter() - start, time.process_time() - cpu)
"""
FIRST_USE: Final = {
    "httpx": "httpx.AsyncClient(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False)",
    "httpx2": "httpx2.AsyncClient(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False)",
    "niquests": "niquests.AsyncSession()",
}


class Times(NamedTuple):
    """Wall time and processor time of this process, in seconds, of one operation."""

    wall_s: float
    cpu_s: float


class Client(NamedTuple):
    """What a client is measured by."""

    poll: Callable[[], Awaitable[Any]]
    rows: Callable[[], Awaitable[Any]]
    events: Callable[[], AsyncIterator[bytes]]
    close: Callable[[], Awaitable[None]]


def stub() -> None:
    """Serve a status, many rows and a stream of events."""
    status, rows = json.dumps(STATUS).encode(), json.dumps(ROWS).encode()

    async def reply(request: web.Request) -> web.Response:
        body = rows if request.path == "/rows" else status
        return web.Response(body=body, content_type="application/json")

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(EVENTS):
            await response.write(EVENT)
        return response

    app = web.Application()
    app.router.add_get("/status", reply)
    app.router.add_get("/rows", reply)
    app.router.add_get("/events", stream)
    serve(app)


def transport_client(url: str) -> Client:
    """Return the package's connection, on the module that stands in for httpx."""
    from webdata_nb.toolkit.client import transport  # noqa: PLC0415 - after the module is chosen

    connection = transport.HttpConnection(url, "key", {}, {})

    async def reply(path: str) -> Any:
        result = await connection.json(transport.ApiRequest("GET", path))
        if not isinstance(result, transport.HttpReply):
            raise SystemExit(result.text)
        return result.decoded

    async def events() -> AsyncIterator[bytes]:
        opened: list[Any] = []
        await connection.send(transport.ApiRequest("GET", "/events"), opened)
        async for piece in transport.pieces(opened[0]):
            yield piece
        await opened[0].aclose()

    return Client(lambda: reply("/status"), lambda: reply("/rows"), events, connection.aclose)


def niquests_client(url: str) -> Client:
    """Return a session of niquests, used as the transport uses httpx."""
    from webdata_nb.foreign_json import decode_json  # noqa: PLC0415 - as in the other contestants

    niquests: Any = importlib.import_module("niquests")
    session = niquests.AsyncSession(disable_http2=True, disable_http3=True)
    session.headers.update({"authorization": "Bearer key", "accept": "application/json"})
    session.trust_env = False

    async def pieces(path: str) -> AsyncIterator[bytes]:
        async with asyncio.timeout(300):
            response = await session.get(url + path, stream=True, timeout=(10.0, 30.0))
            async for piece in await response.iter_content(-1):
                yield piece

    async def reply(path: str) -> Any:
        body = bytearray()
        async for piece in pieces(path):
            body += piece
        return decode_json(bytes(body))

    return Client(
        lambda: reply("/status"), lambda: reply("/rows"), lambda: pieces("/events"), session.close
    )


async def measure(client: Client) -> dict[str, Times]:
    """Return the times of each kind of request."""

    async def polls_at_once() -> None:
        await asyncio.gather(*(client.poll() for _ in range(AT_ONCE)))

    async def stream() -> None:
        size = 0
        async for piece in client.events():
            size += len(piece)
        if size != EVENTS * len(EVENT):
            raise SystemExit(f"the stream had {size} bytes")

    if await client.poll() != STATUS or await client.rows() != ROWS:
        raise SystemExit("a reply is not the one that was sent")
    await polls_at_once()
    times = {
        "status": await timed(client.poll, POLLS),
        f"status, {AT_ONCE} at a time": await timed(polls_at_once, POLLS // AT_ONCE, AT_ONCE),
        "5 MB": await timed(client.rows, REPLIES),
        f"{EVENTS} events": await timed(stream, REPLIES),
    }
    await client.close()
    return times


async def timed(call: Callable[[], Awaitable[Any]], count: int, requests: int = 1) -> Times:
    """Return the mean times of a request."""
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        await call()
    total = count * requests
    return Times((time.perf_counter() - start) / total, (time.process_time() - cpu) / total)


def run_client(name: str, url: str, peers: str) -> None:
    """Print the times of one client."""
    sys.path.append(peers)
    if name == "httpx2":
        sys.modules["httpx"] = importlib.import_module("httpx2")
    client = niquests_client if name == "niquests" else transport_client

    async def run() -> dict[str, Times]:
        return await measure(client(url))

    print(json.dumps(asyncio.run(run())))


def output_of(*words: str) -> str:
    """Run this interpreter; return what it printed."""
    done = subprocess.run([sys.executable, *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def one_round(name: str, url: str, peers: str) -> dict[str, Times]:
    """Measure a client in a new process, and its import in another."""
    program = IMPORT.format(name=name, peers=peers, first_use=FIRST_USE[name])
    wall, cpu = output_of("-c", program).split()
    measured = json.loads(output_of("-m", "benchmarks.http_clients", "client", name, url, peers))
    return {"import": Times(float(wall), float(cpu))} | {
        kind: Times(*times) for kind, times in measured.items()
    }


def name_of(requirement: str) -> str:
    """Return the normalized name of a distribution, or of a requirement without an extra."""
    start = re.match(r"[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", start[0]).lower() if start else ""


def needs(roots: set[str], installed: dict[str, Distribution]) -> set[str]:
    """Return distributions and all that they need, extras left out."""
    found: set[str] = set()
    left = set(roots)
    while left:
        name = left.pop()
        if name in found or name not in installed:
            continue
        found.add(name)
        lines = installed[name].requires or []
        left |= {name_of(line) for line in lines if "extra ==" not in line}
    return found


def print_distributions(peers: str) -> None:
    """Print what each client installs, with sizes, and which of it the package needs anyway."""
    sys.path.append(peers)
    installed = {name_of(each.metadata["Name"]): each for each in distributions()}
    package = {
        name_of(line) for line in installed["webdata-nb"].requires or [] if "extra" not in line
    }
    anyway = needs(package - {"httpx"}, installed)
    for client in CLIENTS:
        parts = []
        for name in sorted(needs({client}, installed)):
            files = installed[name].files or []
            size = sum(each.size or 0 for each in files)
            text = f"{name} {installed[name].version} {size / 1e6:.2f} MB"
            parts.append(f"({text})" if name in anyway else text)
        print(f"{client}: {', '.join(parts)}")


def main() -> int:
    """Print the best round of each client, and what it installs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="a folder for the peers; it is kept")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    results: dict[str, list[dict[str, Times]]] = {name: [] for name in CLIENTS}
    with (
        tempfile.TemporaryDirectory() as folder,
        server_process("benchmarks.http_clients", "stub") as url,
    ):
        peers = chosen.peers or folder
        if not Path(peers, PEERS[0]).exists():
            output_of("-m", "pip", "install", "-q", "--target", peers, *PEERS)
        order = list(CLIENTS)
        for _ in range(chosen.rounds):
            for name in order:
                results[name].append(one_round(name, url, peers))
            order.append(order.pop(0))
        for kind in results["httpx"][0]:
            for name, rounds in results.items():
                wall_s = min(each[kind].wall_s for each in rounds)
                cpu_s = min(each[kind].cpu_s for each in rounds)
                print(f"{kind}: {name} {wall_s * 1e3:.2f} ms, processor {cpu_s * 1e3:.2f} ms")
        print_distributions(peers)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["stub"]:
        stub()
    elif sys.argv[1:2] == ["client"]:
        run_client(*sys.argv[2:])
    else:
        sys.exit(main())
