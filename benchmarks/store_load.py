"""Loads a store of one checkout: the process of one side of ``benchmarks.stores``.

It reads requests from standard input, one JSON object per line, and prints a figure for each. It
uses only what earlier releases have as well, so that it can run with their code.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.store.records import (
    CommitBatch,
    JournalEntry,
    Lease,
    NewJob,
    UrlOutcome,
)
from webdata_nb.service.store.sql.store import Store

JOBS: Final = 16
WORKERS: Final = 4
"""Pages of one job that are fetched at the same time."""
PAGES: Final = 400
ROW_BYTES: Final = 20_000
ENDED_JOBS: Final = 2000
SMALL_JOB, LARGE_JOB = 100, 50_000
DEPTH_COMMITS: Final = 60
LEASE_S: Final = 3600.0


def sample_rows() -> list[bytes]:
    """Return rows of about ROW_BYTES with passages of this project's guides."""
    folder = Path(__file__).resolve().parents[1] / "docs"
    text = "".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.md")))
    chance = random.Random(1)
    rows = []
    for number in range(50):
        start = chance.randrange(len(text) - ROW_BYTES)
        row = {
            "url": f"https://site.test/{number}",
            "title": "A page",
            "markdown": text[start : start + ROW_BYTES],
        }
        rows.append(json.dumps(row, ensure_ascii=False).encode())
    return rows


def open_store(folder: Path, url: str | None) -> Store:
    """Return the store in a folder, or at a URL."""
    if url is None:
        from webdata_nb.service.store.sqlite.database import SqliteStore  # noqa: PLC0415

        return SqliteStore(folder / "jobs.sqlite")
    from webdata_nb.service.encryption import FixedKeys, SecretCipher, new_key  # noqa: PLC0415
    from webdata_nb.service.store.postgres.database import PostgresDatabase  # noqa: PLC0415
    from webdata_nb.service.store.sql.store import Store  # noqa: PLC0415

    return Store(PostgresDatabase(url), SecretCipher(FixedKeys((new_key(),))))


async def start_jobs(store: Store, count: int, accounts: int) -> None:
    """Start jobs of several accounts."""
    now = time.time()
    for number in range(accounts):
        await store.accounts.ensure(f"account-{number}", f"Account {number}", now=now)
    for number in range(count):
        job = NewJob(str(uuid.uuid4()), f"account-{number % accounts}", "crawl", "http://x/", {})
        await store.accept(job, now=now)


async def claim_all(store: Store) -> list[Lease]:
    """Claim every pending job."""
    claimed = await store.claim("w", max_jobs=1000, lease_s=LEASE_S, now=time.time())
    return [lease for _, lease in claimed]


def page_batch(number: int, row: bytes) -> CommitBatch:
    """Return what a crawl commits for one page: its row, published, and two outcomes."""
    url = f"https://site.test/{number}"
    return CommitBatch(
        entries=(JournalEntry(number, url, True, b'{"links":[]}', page=row),),  # noqa: FBT003
        published=((number, number),),
        url_outcomes=(UrlOutcome(url, "fetched"), UrlOutcome(f"{url}#2", "duplicate")),
        total=1000,
        completed=number,
    )


async def pages_per_s(store: Store, rows: list[bytes]) -> float:
    """Commit pages of several jobs at once; return their number per second."""
    await start_jobs(store, JOBS, JOBS)
    leases = await claim_all(store)

    async def crawl(lease: Lease) -> None:
        numbers = iter(range(PAGES))

        async def work() -> None:
            for number in numbers:
                await store.commit(lease, page_batch(number, rows[number % len(rows)]))

        await asyncio.gather(*(work() for _ in range(WORKERS)))

    begin = time.perf_counter()
    await asyncio.gather(*map(crawl, leases))
    return JOBS * PAGES / (time.perf_counter() - begin)


async def jobs_per_s(store: Store, rows: list[bytes]) -> float:  # noqa: ARG001 - as the others
    """Claim and end jobs as a service does that runs 16 at once; return their number per second."""
    await start_jobs(store, ENDED_JOBS, JOBS)
    running: set[asyncio.Task[Any]] = set()
    ended = 0
    begin = time.perf_counter()
    while ended < ENDED_JOBS:
        free = JOBS - len(running)
        claimed = await store.claim("w", max_jobs=free, lease_s=LEASE_S, now=time.time(),
                                    held_jobs=[task.get_name() for task in running])  # fmt: skip
        for job, lease in claimed:
            finish = store.finish(lease, JobStatus.COMPLETED, error=None, now=time.time())
            running.add(asyncio.create_task(finish, name=job.id))
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        ended += len(done)
        for task in done:
            task.result()
    return ENDED_JOBS / (time.perf_counter() - begin)


async def fill(store: Store, lease: Lease, count: int) -> None:
    """Store small rows below position `count`."""
    for start in range(0, count, 1000):
        numbers = range(start, min(start + 1000, count))
        entries = tuple(
            JournalEntry(n, f"https://site.test/{n}", True, b"{}", page=b"{}", position=n)  # noqa: FBT003
            for n in numbers
        )
        outcomes = tuple(UrlOutcome(each.url, "fetched") for each in entries)
        await store.commit(lease, CommitBatch(entries=entries, url_outcomes=outcomes))


async def depth_ratio(small: Store, large: Store, rows: list[bytes]) -> float:
    """Return the time of a commit in a job of 50,000 rows, relative to one in a job of 100."""
    jobs: list[tuple[Store, Lease, int]] = []
    for store, count in ((small, SMALL_JOB), (large, LARGE_JOB)):
        await start_jobs(store, 1, 1)
        [lease] = await claim_all(store)
        await fill(store, lease, count)
        jobs.append((store, lease, count))
    seconds: list[list[float]] = [[], []]
    for turn in range(DEPTH_COMMITS):
        for side in (0, 1) if turn % 2 else (1, 0):
            store, lease, count = jobs[side]
            batch = page_batch(count + turn, rows[turn % len(rows)])
            begin = time.perf_counter()
            await store.commit(lease, batch)
            seconds[side].append(time.perf_counter() - begin)
    medians = [statistics.median(each) for each in seconds]
    return medians[1] / medians[0]


MEASURES: Final[dict[str, Callable[..., Any]]] = {
    "pages": pages_per_s,
    "jobs": jobs_per_s,
    "depth": depth_ratio,
}


async def measure(request: dict[str, Any], rows: list[bytes]) -> float:
    """Open the new stores of a request, and return its figure."""
    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(open_store(Path(folder), url))
            for folder, url in request["stores"]
        ]
        figure: float = await MEASURES[request["measure"]](*stores, rows)
    return figure


def main() -> None:
    """Answer the requests on standard input."""
    rows = sample_rows()
    for line in sys.stdin:
        print(asyncio.run(measure(json.loads(line), rows)), flush=True)


if __name__ == "__main__":
    main()
