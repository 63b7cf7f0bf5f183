"""Checks limits of a team's service under load, and the effect of slow clients on others.

A service runs in a process of its own; clients connect to it over sockets. Three parts:

``starts``: 200 simultaneous starts by an account with credit for ten, in 20 rounds. Each time ten
are accepted, 190 return 429, and the ledger ends at zero.

``cap``: 50 clients start 20 searches each, for an account that may have eight active jobs. No reply
reports more than eight, all 1,000 are accepted in the end, and no reply is a 5xx.

``slow``: 800 connections send one byte of a header at long intervals. All are closed within 15 s.
The median time of a normal request is printed, against that without slow clients. Clients and
service share the processors, which dominates this figure.

Run it from the checkout, with the `test` extra; it takes about two minutes::

    python -m benchmarks.team_load
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from tests.openapi.service_process import ServiceProcess, team
from tests.shell import Shell
from webdata_nb.contract import paths

AT_ONCE, CREDITS, ROUNDS = 200, 10, 20
CLIENTS, STARTS, CAP = 50, 20, 8
SLOW, CLOSED_S, DRIP_S = 800, 15.0, 0.5
DISCOVERY: Final = {"query": "q", "formats": []}
_TIMEOUT_S: Final = 120.0
_OK, _OVER, _BROKEN = 200, 429, 500


@dataclass(slots=True)
class Verdict:
    """The figures and the failed expectations."""

    wrong: list[str] = field(default_factory=list)

    def expect(self, label: str, value: object, expected: object) -> None:
        """Print a figure, and record it if it differs from the expected one."""
        fine = value == expected
        print(f"  {label}: {value}{'' if fine else f', not {expected}'}", flush=True)
        if not fine:
            self.wrong.append(label)


@dataclass(frozen=True, slots=True)
class Account:
    """An account of a running service, and a client of it."""

    http: httpx.AsyncClient
    shell: Shell
    name: str

    async def usage(self) -> Any:
        """Wait until no job is active; return the credits used."""
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                usage = (await self.http.get(paths.USAGE)).raise_for_status().json()
                if not usage["active"]:
                    return usage
                await asyncio.sleep(0.05)

    async def top_up(self, credits_: int) -> None:
        """Buy credits, as an operator would."""
        words = ("keys", "topup", "--account", self.name, str(credits_))
        await asyncio.to_thread(self.shell.run, *words)


def account(served: ServiceProcess, home: Path, name: str, *terms: str) -> Account:
    """Create an account with a key."""
    shell = Shell(home)
    key = shell.run("keys", "create", "--name", name, *terms).stdout.strip()
    # One connection per request: the server may close an idle one while it is reused.
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=0)
    http = httpx.AsyncClient(
        base_url=served.url,
        headers={"Authorization": f"Bearer {key}"},
        limits=limits,
        trust_env=False,
        timeout=_TIMEOUT_S,
    )
    return Account(http, shell, name)


async def starts(served: ServiceProcess, home: Path, verdict: Verdict) -> None:
    """Start jobs concurrently with credit for some of them."""
    print(f"{AT_ONCE} starts at once with credit for {CREDITS}, {ROUNDS} rounds")
    racing = account(served, home, "racing", "--monthly", "0", "--concurrency", "1000")
    rounds: Counter[tuple[int, int]] = Counter()
    async with racing.http:
        for _ in range(ROUNDS):
            await racing.top_up(CREDITS)
            answers = await asyncio.gather(
                *[racing.http.post(paths.SEARCH, json=DISCOVERY) for _ in range(AT_ONCE)]
            )
            statuses = Counter(answer.status_code for answer in answers)
            rounds[statuses[_OK], statuses[_OVER]] += 1
            without_retry_after = sum(
                "Retry-After" not in answer.headers for answer in answers if answer.is_error
            )
            if without_retry_after:
                verdict.wrong.append("a 429 without Retry-After")
            usage = await racing.usage()
    verdict.expect("rounds by (accepted, refused)", dict(rounds), {(CREDITS, 190): ROUNDS})
    balance = (usage["topup"], usage["reserved"], usage["used"])
    verdict.expect("left, held, used", balance, (0.0, 0.0, float(CREDITS * ROUNDS)))


async def cap(served: ServiceProcess, home: Path, verdict: Verdict) -> None:
    """Start jobs concurrently with a limit on active jobs."""
    print(f"{CLIENTS} clients with {STARTS} starts each against a cap of {CAP}")
    capped = account(served, home, "capped", "--plan", "unlimited", "--concurrency", str(CAP))
    statuses: Counter[int] = Counter()
    max_active = 0

    async def client() -> None:
        nonlocal max_active
        started = 0
        while started < STARTS:
            answer = await capped.http.post(paths.SEARCH, json=DISCOVERY)
            statuses[answer.status_code] += 1
            started += answer.status_code == _OK
            if answer.status_code != _OK:
                max_active = max(max_active, int(answer.headers["X-Concurrency-Active"]))
                await asyncio.sleep(0.05)

    async with capped.http:
        async with asyncio.timeout(10 * _TIMEOUT_S):
            await asyncio.gather(*[client() for _ in range(CLIENTS)])
        usage = await capped.usage()
    print(f"  answers: {dict(statuses)}")
    verdict.expect("most under way", max_active, CAP)
    verdict.expect("accepted", statuses[_OK], CLIENTS * STARTS)
    verdict.expect("5xx", sum(n for status, n in statuses.items() if status >= _BROKEN), 0)
    verdict.expect("used", usage["used"], float(CLIENTS * STARTS))


async def slow(served: ServiceProcess, home: Path, verdict: Verdict) -> None:
    """Send slow headers while a normal client sends requests."""
    print(f"{SLOW} connections with slow headers")
    normal = account(served, home, "normal", "--plan", "unlimited")
    host, port = urlsplit(served.url).hostname, urlsplit(served.url).port
    async with normal.http:
        idle, _ = await paced(normal.http, lambda: asyncio.sleep(CLOSED_S / 2))
        busy_times, ends = await paced(
            normal.http, lambda: asyncio.gather(*[drip(host, port) for _ in range(SLOW)])
        )
    verdict.expect("closed within 15 s", sum(end <= CLOSED_S for end in ends), SLOW)
    verdict.expect("answered well meanwhile", busy_times.count(-1.0), 0)
    ratio = statistics.median(busy_times) / statistics.median(idle)
    print(f"  the last was closed after {max(ends):.1f} s; {len(busy_times)} others were served")
    print(f"  a normal request: {1000 * statistics.median(idle):.1f} ms, meanwhile x {ratio:.2f}")


async def paced(
    http: httpx.AsyncClient, work: Callable[[], Awaitable[Any]]
) -> tuple[list[float], Any]:
    """Send ten requests per second while `work` runs; return the times, -1 for a failure."""
    working = asyncio.ensure_future(work())
    times: list[float] = []
    while not working.done():
        began = time.perf_counter()
        answer = await http.get(paths.USAGE)
        times.append(time.perf_counter() - began if answer.is_success else -1.0)
        await asyncio.wait([working], timeout=0.1)
    return times, working.result()


async def drip(host: str | None, port: int | None) -> float:
    """Send a header that never ends; return the seconds until the connection was closed."""
    reader, writer = await asyncio.open_connection(host, port)
    began = time.monotonic()
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    closed = asyncio.ensure_future(reader.read())
    while not closed.done():
        with suppress(OSError):
            writer.write(b"x")
        await asyncio.wait([closed], timeout=DRIP_S)
    seconds = time.monotonic() - began
    with suppress(OSError):
        closed.exception()
        writer.close()
        await writer.wait_closed()
    return seconds


PARTS: Final = {"starts": starts, "cap": cap, "slow": slow}


def main() -> int:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    chosen_part = parser.parse_args().only
    verdict = Verdict()
    with tempfile.TemporaryDirectory() as folder, team(Path(folder)) as served:
        for name, part in PARTS.items():
            if chosen_part in {None, name}:
                asyncio.run(part(served, Path(folder), verdict))
    print("exact" if not verdict.wrong else f"WRONG: {', '.join(verdict.wrong)}")
    return bool(verdict.wrong)


if __name__ == "__main__":
    sys.exit(main())
