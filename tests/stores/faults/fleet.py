"""A service without its network: store, runner, webhooks and clients, in simulated time.

What must hold, whatever fails: every job ends, rows once shown stay, a completed job has all its
rows, credits are exact, and whoever listens is told of every end.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import orjson

from tests.stores.faults.injection import Faults, FaultyStore
from tests.stores.jobs import ALICE, entry, new_job
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.service.errors import InvalidJobState, JobFailure, StoreUnavailable
from webdata_nb.service.ledger import Charge, Terms
from webdata_nb.service.store.job_context import JobContext, JobEvents, StoreRetry
from webdata_nb.service.store.page_contents import share_content
from webdata_nb.service.store.records import (
    CommitBatch,
    IdempotencyKey,
    JobRecord,
    JobSnapshot,
    JournalEntry,
    RowRange,
    UrlOutcome,
)
from webdata_nb.service.store.sqlite.database import check_database
from webdata_nb.service.webhooks.delivery import Deliverer
from webdata_nb.service.webhooks.schedule import DeliveryOutcome
from webdata_nb.service.work.runner import MAX_ATTEMPTS, Runner

T = TypeVar("T")
TERMS: Final = Terms("team", 10_000, 50)
PAGE_S: Final = 1.0
AGAIN_S: Final = 1.0
TIMEOUT_S: Final = 900.0
ALL: Final = RowRange(0, 1000)


async def again(operation: Callable[[], Awaitable[T]]) -> T:
    """Do what a client does that is answered with 503: try again, and again."""
    while True:
        try:
            return await operation()
        except StoreUnavailable:
            await asyncio.sleep(AGAIN_S)


def is_good(ordinal: int) -> bool:
    """Whether the page of that number succeeds."""
    return ordinal % 4 != 3


class Endpoint:
    """A receiver of webhooks, in place of the sender."""

    def __init__(self) -> None:
        self.notices: dict[str, Counter[tuple[str, str]]] = {}

    async def post(self, url: str, notice: Any, *, event_id: str, **_rest: Any) -> DeliveryOutcome:
        job_id = url.rpartition("/")[2]
        self.notices.setdefault(job_id, Counter())[notice.event, event_id] += 1
        return DeliveryOutcome(status=200)


@dataclass
class Watch:
    """What a client that listens to a job has been told."""

    seen_rows: list[bytes] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    end: JobStatus | None = None


class Fleet:
    """One store and all that works with it; `jump` moves the wall clock."""

    def __init__(self, root: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self.faults = Faults(self._loop.time)
        self._path = root / "jobs.sqlite"
        self.store = FaultyStore(self._path, self.faults)
        self.accounts = self.store.accounts
        self.hub, self.retry, self.endpoint = JobEvents(), StoreRetry(), Endpoint()
        self.outbox = self.store.outbox
        self.jobs: dict[str, int] = {}
        self.deaths = 0
        self.failing: set[str] = set()
        self.cancelled: set[str] = set()
        self.watches: dict[str, Watch] = {}
        self.ended: Counter[str] = Counter()
        self._offset = time.time()  # as the store does, where nobody tells it the time
        self._watching: list[asyncio.Task[None]] = []

    def clock(self) -> float:
        """Return the wall clock's time."""
        return self._offset + self._loop.time()

    def jump(self, seconds: float) -> None:
        """Set the wall clock, as an administrator or a time server does."""
        self._offset += seconds

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        await self.accounts.add(ALICE, "Alice", TERMS, now=self.clock())
        deliverer = Deliverer(self.outbox, self.store, self.endpoint, self.clock, self.retry)  # type: ignore[arg-type]
        self._delivering = asyncio.create_task(deliverer.run())
        await self._begin()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.faults.clear()
        for task in (*self._watching, self._delivering):
            task.cancel()
        await asyncio.gather(*self._watching, self._delivering, return_exceptions=True)
        await self.runner.close()
        await self.store.__aexit__(None, None, None)

    async def _begin(self) -> None:
        await again(self.store.expire_leases)
        self.runner = Runner(
            self.store,
            self.hub,
            self._engine,
            on_end=self._finished,
            delete_spooled=lambda _job_id: None,
            retry=self.retry,
            clock=self.clock,
        )
        await self.runner.start()
        for number in self.jobs:  # clients connect anew: what ended with the old one they read
            self.hub.changed(number)

    def _finished(self, look: JobSnapshot) -> None:
        self.ended[look.job.id] += 1

    async def kill(self) -> None:
        """End the worker without a word, and start another."""
        self.deaths += 1
        tasks = [self.runner._loop, *self.runner._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._begin()

    async def restart(self) -> None:
        """Stop the worker in good order, and start another."""
        self.deaths += 1  # its jobs cannot be given back while the store takes no writes
        await self.runner.close()
        await self._begin()

    def forget(self, number: str) -> None:
        """Expect nothing more of a job."""
        for known in (self.jobs, self.watches):
            known.pop(number, None)

    # what clients do

    async def start(self, pages: int, kind: str = "crawl", *, fails: bool = False) -> str:
        """Start a job of some pages, and listen to it; `kind` is crawl or search."""
        number = f"job-{len(self.jobs):03}"
        request = {"pages": pages, "fails": fails, "webhook_url": f"https://hook.test/{number}"}
        context = {"webhook": {"profile": "B", "pages": True}}
        wanted = new_job(
            kind=kind,
            request=request,
            context=context,
            max_charges=_max_charges(kind, pages),
        )
        wanted = replace(wanted, id=number)
        key = IdempotencyKey(number, "body")
        self.jobs[number] = pages
        if fails:
            self.failing.add(number)
        job, _ = await again(lambda: self.store.accept(wanted, key=key, now=self.clock()))
        self.runner.wake()
        self.watches[number] = Watch()
        self._watching += [
            asyncio.create_task(self._listen(job)),
            asyncio.create_task(self._look(job)),
        ]
        return number

    async def cancel(self, number: str) -> None:
        """Cancel a job, unless it is over."""
        try:
            await again(lambda: self.store.cancel(ALICE, number, now=self.clock()))
        except InvalidJobState:
            return
        self.cancelled.add(number)
        await self.runner.cancel(number)

    async def _listen(self, job: JobRecord) -> None:
        """Wait for the job's end as an event stream does: woken, never polling."""
        job_id = job.id
        with self.hub.listen(job_id) as listener:
            while True:
                job = await again(lambda: self.store.job(ALICE, job_id))
                if job.state.terminal:
                    self.watches[job_id].end = job.state
                    return
                while not await listener.wait(60.0):
                    pass

    async def _look(self, job: JobRecord) -> None:
        """Read the rows now and then: none disappears or changes."""
        watch, over = self.watches[job.id], False
        while not over:
            look = await again(
                lambda: self.store.job_snapshot(
                    ALICE, job.id, row_range=lambda _job: ALL, examples=2
                )
            )
            rows = list(look.rows)
            if rows[: len(watch.seen_rows)] != watch.seen_rows and job.kind == "crawl":
                watch.broken.append(
                    f"rows shown have changed: {len(watch.seen_rows)} to {len(rows)}"
                )
            if len(rows) < len(watch.seen_rows) or len(rows) != look.job.published:
                watch.broken.append(f"{len(rows)} rows, {look.job.published} counted")
            watch.seen_rows, over = rows, look.job.state.terminal
            await asyncio.sleep(2.0)

    # what the worker does

    async def _engine(self, context: JobContext) -> CommitBatch:
        known = {each.ordinal for each in await context.journal()}
        await context.pinned_files()
        request = context.job.request
        crawling = context.job.kind == "crawl"
        await (_crawl if crawling else _search)(context, known, request)
        return CommitBatch(url_outcomes=(UrlOutcome("http://x/end", "scope"),))

    # what must hold

    async def settle(self) -> None:
        """Wait until every job has ended and everybody knows."""
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.gather(*self._watching)
            while await again(self.outbox.pending):  # noqa: ASYNC110 - in simulated time
                await asyncio.sleep(AGAIN_S)

    async def problems(self) -> list[str]:
        """Return what does not hold at the end."""
        self.faults.clear()
        wrong = [
            f"{finding.check}: {line}"
            for finding in check_database(self._path)
            for line in finding.problems
        ]
        for number in self.jobs:
            job = await self.store.job(ALICE, number)
            wrong += [f"{number}: {line}" for line in await self._wrong(job)]
        return wrong

    async def _wrong(self, job: JobRecord) -> list[str]:
        watch, pages = self.watches[job.id], self.jobs[job.id]
        wrong = list(watch.broken)
        state = self._expected(job.id)
        # Each end of a worker may use up two attempts: one of a claim that nobody heard of.
        given_up = job.error is not None and job.error.startswith("given up")
        if job.state is not state and not (given_up and 2 * self.deaths >= MAX_ATTEMPTS):
            wrong.append(f"{job.state.value} instead of {state.value}: {job.error}")
        if watch.end is not job.state:
            wrong.append(f"its listener was told {watch.end}")
        rows = await self.store.rows(ALICE, job.id, start=0, count=1000)
        if job.state is JobStatus.COMPLETED and rows != [
            orjson.dumps(_row(each)) for each in range(pages)
        ]:
            wrong.append(f"{len(rows)} rows of {pages}")
        ends = [
            event for event in self.endpoint.notices.get(job.id, ()) if event[0] != "crawl.page"
        ]
        events = [
            event for event in self.endpoint.notices.get(job.id, ()) if event[0] == "crawl.page"
        ]
        if len(ends) != 1 - (job.state is JobStatus.CANCELLED and not ends):
            wrong.append(f"webhooks of its end: {ends}")
        if len(events) != (len(rows) if job.kind == "crawl" else 0):
            wrong.append(f"{len(events)} webhooks for {len(rows)} rows")
        good = sum(is_good(each) for each in range(len(rows)))
        if job.kind == "crawl" and job.credits != good:
            wrong.append(f"{job.credits} credits for {good} good rows")
        return wrong

    def _expected(self, number: str) -> JobStatus:
        if number in self.cancelled:
            return JobStatus.CANCELLED
        return JobStatus.FAILED if number in self.failing else JobStatus.COMPLETED


def _max_charges(kind: str, pages: int) -> tuple[Charge, ...]:
    if kind == "crawl":
        return (Charge("crawl", "page", pages),)
    return (Charge("search", "discovery", 1), Charge("search", "scrape", pages))


def _row(ordinal: int, *, done: bool = True) -> dict[str, Any]:
    """Return the row of a page; four pages have the same content, in every job."""
    text = f"text {ordinal // 4} " * 100 if done else ""
    return {"n": ordinal, "done": int(done), "text": text}


async def _entry(context: JobContext, ordinal: int, operation: str) -> JournalEntry:
    page = entry(ordinal, success=is_good(ordinal), charged=(operation,))
    is_crawl = context.job.kind == "crawl"
    return await share_content(
        context.job, page, _row(ordinal), of_visit=["n"], shares_journal=is_crawl
    )


async def _crawl(context: JobContext, known: set[int], request: Mapping[str, Any]) -> None:
    """Fetch three pages at a time, store each at once, publish in order."""
    pages, done, turns, upto = request["pages"], set[int](), asyncio.Semaphore(3), 0

    async def one(ordinal: int) -> None:
        nonlocal upto
        async with turns:
            if ordinal not in known:
                await asyncio.sleep(PAGE_S * (1 + ordinal % 3))
            done.add(ordinal)
            fresh = []
            while upto in done:
                fresh.append((upto, upto))
                upto += 1
            page = await _entry(context, ordinal, "page")
            await context.commit(
                CommitBatch(
                    entries=() if ordinal in known else (page,),
                    published=tuple(fresh),
                    url_outcomes=(
                        UrlOutcome(f"http://x/{ordinal}", "fetched"),
                        *(UrlOutcome(f"http://y/{ordinal}/{n}", "scope") for n in range(3)),
                    ),
                    pinned_files=((f"robots {ordinal}", b"all"),),
                    total=pages,
                    completed=upto,
                )
            )
        if request["fails"] and ordinal == 1:
            raise JobFailure("as it was asked to")

    await _gather([one(ordinal) for ordinal in range(pages)])


async def _search(context: JobContext, known: set[int], request: Mapping[str, Any]) -> None:
    """Show all rows at once, and add their pages as they come."""
    pages, waiting = request["pages"], set(range(request["pages"]))
    if not known:
        found = tuple(
            entry(each, page=orjson.dumps(_row(each, done=False)), position=each)
            for each in range(pages)
        )
        await context.commit(
            CommitBatch(entries=found, total=pages, completed=0, outcome={"used": 1})
        )

    async def one(ordinal: int) -> None:
        await asyncio.sleep(PAGE_S * (1 + ordinal % 3))
        waiting.discard(ordinal)
        page = await _entry(context, ordinal, "scrape")
        await context.commit(CommitBatch(updates=(page,), completed=pages - len(waiting)))

    await _gather([one(ordinal) for ordinal in range(pages)])


async def _gather(tasks: list[Any]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(task)
    except* Exception as failures:  # noqa: BLE001
        raise failures.exceptions[0] from None
