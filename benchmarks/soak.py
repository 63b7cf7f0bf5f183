"""Runs a mixed load on one service for hours: every job ends, and nothing accumulates.

Crawls with every strategy, searches that fetch their results, rendered pages, cancelled crawls,
disconnecting readers, and missing or hostile pages run in parallel, drawn at random. Meanwhile page
workers and browsers are killed. The service itself is killed in the first tenth of the time, and
half-way its disk is full for a while (on a file system of its own, which needs root). The service
keeps results for three minutes, so that expired ones are deleted under load.

The load pauses after the first tenth (a quarter of a run of two minutes), but not before the
restarted service has run 200 jobs, and at the end. At both times, the benchmark replaces the page
workers and the browser, because their memory depends on their age. It counts memory (proportional
set size, PSS), open files and temporary files of the service and its children, and the size of its
data. A run passes if every job ended with the expected status and all of its rows, requests were
refused only while the disk was full, memory grew by a tenth at most, and no open or temporary files
were left. The data may grow by half after results have begun to expire, which the first tenth of a
run of two hours includes.

Run it from the checkout, with the `test` extra; the default is two hours::

    python -m benchmarks.soak --minutes 120
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self

import httpx
import psutil

from tests.requirements import find
from tests.service.search.stubs import Result, stubs
from tests.site.document import document
from tests.site.graphs import link_tree, redirect_loop
from tests.site.server import Site
from webdata_nb.contract import paths
from webdata_nb.contract.choices import ENGINES
from webdata_nb.errors import ServiceError, WrongState
from webdata_nb.service.work.retention import SWEEP_INTERVAL_S
from webdata_nb.settings import Provider, Settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.session import Connection

GROWTH: Final = 1.1
MIN_WARM_UP_S: Final = 30.0
# The memory of a new service grows until about then. On a busy machine, that takes longer than the
# first part of a short run.
WARM_UP_JOBS: Final = 200
# Tolerance for short-lived files, such as a keep-alive connection of the probe.
SPARE_FILES: Final = 10
SIDE_BY_SIDE: Final = 4
DISK_MB: Final = 1500
FULL_S: Final = 5.0
RETENTION_S: Final = 180.0
DATA_GROWTH: Final = 1.5
# Every job of the load takes seconds; a machine under load may take longer.
JOB_S: Final = 300.0
_SETTLE_S: Final = 3.0
_IDLE_S: Final = 60.0
_STOP_S: Final = 60.0
# How long the service may take to accept jobs again once the disk has room.
_RECOVERY_S: Final = 5.0
# How long it may take to notice that the disk is full: until its next write.
_NOTICE_S: Final = 60.0
_SCRIPTED: Final = (
    "<title>App</title><script>document.write('<main><p>Written.</p></main>')</script>"
)
_HOSTILE: Final = "<title>Deep</title>" + "<div>" * 20_000 + "deep"


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that the idle service holds.

    `memory_mb` is the memory of its processes without that of files, such as libraries: of these
    the share of a process depends on what else runs on the machine.
    """

    memory_mb: float
    files: int
    temporary: tuple[str, ...]
    data_mb: float

    def is_close_to(self, other: Usage) -> bool:
        """Whether two measurements have the same files, and the same memory within a percent."""
        is_same = (self.files, self.temporary) == (other.files, other.temporary)
        return is_same and abs(self.memory_mb - other.memory_mb) < 0.01 * self.memory_mb


@dataclass(slots=True)
class Report:
    """Results of a run: jobs by kind, kills by process, errors, and resources at two times.

    `refused` counts the jobs that were refused because the disk was full. `readiness` is what
    `/readyz` answered then; None where it never was full. `expiry_began` tells whether results had
    begun to expire at the first measurement.
    """

    jobs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    disk_full_until: float = 0.0
    expiry_began: bool = False
    readiness: str | None = None
    wrong: list[str] = field(default_factory=list)
    first: Usage | None = None
    last: Usage | None = None

    def problems(self) -> list[str]:
        """Return the errors of the run."""
        problems = list(self.wrong)
        if self.readiness is not None and "disk full" not in self.readiness:
            problems.append(f"/readyz with a full disk: {self.readiness}")
        if self.first is None or self.last is None:
            return [*problems, "the run did not come to its end"]
        if self.last.memory_mb > GROWTH * self.first.memory_mb:
            problems.append(
                f"memory grew from {self.first.memory_mb:.0f} MB to {self.last.memory_mb:.0f} MB"
            )
        if self.last.files > self.first.files + SPARE_FILES:
            problems.append(f"open files grew from {self.first.files} to {self.last.files}")
        if self.expiry_began and self.last.data_mb > DATA_GROWTH * self.first.data_mb:
            problems.append(
                f"data grew from {self.first.data_mb:.0f} MB to {self.last.data_mb:.0f} MB"
            )
        # A replacement browser uses folders with other names.
        if len(self.last.temporary) > len(self.first.temporary):
            problems.append(f"temporary files were left: {self.last.temporary}")
        return problems


@dataclass(frozen=True, slots=True)
class Web:
    """The sites of the load, and the expected pages of their crawls."""

    site: Site
    tree: tuple[str, ...]
    slow: str
    scripted: str
    faulty: str

    @classmethod
    def made(cls, site: Site) -> Web:
        """Create a site."""
        tree = link_tree(site, depth=2, fanout=6)
        site.page("/slow", document("Slow", links=[f"/slow/{n}" for n in range(50)]))
        site.under("/slow/", _slow_page)
        scripted = site.page("/app", _SCRIPTED)
        site.page("/hostile", _HOSTILE)
        site.page("/gone", "gone", status=410)
        links = ["/missing", "/gone", "/hostile", *redirect_loop(site)]
        faulty = site.page("/faulty", document("Faulty", links=links))
        return cls(site, tree, site.at("/slow"), scripted, faulty)


async def _slow_page(_request: object) -> str:
    await asyncio.sleep(0.5)
    return document("A slow page")


class Load:
    """Starts jobs at random and checks each at its end."""

    def __init__(self, client: Client, web: Web, chance: random.Random, report: Report) -> None:
        self._client, self._web, self._chance, self._report = client, web, chance, report
        self._actions: list[Callable[[], Awaitable[None]]] = [
            self._crawl, self._crawl, self._search, self._search,
            self._cancelled, self._disconnect_from_events, self._faulty,
        ]  # fmt: skip
        if find("chromium"):
            self._actions.append(self._rendered)

    @property
    def base_url(self) -> str:
        """The address of the service."""
        return self._client.base_url

    async def each(self) -> None:
        """Run every kind of job once."""
        for action in dict.fromkeys(self._actions):
            await self._checked(action)

    async def until(self, end: float) -> None:
        """Run jobs in parallel until the monotonic time `end`."""
        await self._run_while(lambda: time.monotonic() < end)

    async def run_jobs(self, number: int) -> None:
        """Run `number` jobs, some in parallel."""
        started = itertools.count(1)
        await self._run_while(lambda: next(started) <= number)

    async def _run_while(self, condition: Callable[[], bool]) -> None:
        async def worker() -> None:
            while condition():
                await self._checked(self._chance.choice(self._actions))

        async with asyncio.TaskGroup() as group:
            for _ in range(SIDE_BY_SIDE):
                group.create_task(worker())

    async def _checked(self, action: Callable[[], Awaitable[None]]) -> None:
        name, began = action.__name__.removeprefix("_"), time.monotonic()
        try:
            async with asyncio.timeout(JOB_S):
                await action()
        except ServiceError as error:
            was_full = began < self._report.disk_full_until
            if error.status == HTTPStatus.SERVICE_UNAVAILABLE and was_full:
                self._report.refused[name] += 1
            else:
                self._report.wrong.append(f"{name}: {error}")
        except TimeoutError:
            self._report.wrong.append(f"{name}: not ended within {JOB_S:g} s")
        except AssertionError as error:
            self._report.wrong.append(f"{name}: {error}")
        else:
            self._report.jobs[name] += 1

    async def _crawl(self) -> None:
        strategy = self._chance.choice(["bfs", "dfs", "bff"])
        body = {"url": self._web.site.at("/tree"), "crawl_strategy": strategy, "concurrency": 5}
        rows = await self._rows(body)
        expected = {self._web.site.at(path) for path in self._web.tree}
        urls = [row["url"] for row in rows]
        assert len(urls) == len(set(urls)), "a row came twice"
        assert set(urls) == expected, f"{len(urls)} of {len(expected)} rows"
        assert all(row["success"] for row in rows), [row["error"] for row in rows][:3]

    async def _faulty(self) -> None:
        rows = await self._rows({"url": self._web.faulty})
        assert {row["success"] for row in rows} == {True, False}, "not as the site is"

    async def _rendered(self) -> None:
        # A killed browser starts again within the time of the page.
        options = {"render": True, "only_main_content": False, "timeout": 200_000}
        [row] = await self._rows(
            {"url": self._web.scripted, "max_pages": 1, "scrape_options": options}
        )
        assert "Written." in (row.get("markdown") or ""), row["error"] or "not rendered"

    async def _rows(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        job_id = (await self._client.start_crawl(body)).job_id
        status = await self._wait_for_end(job_id)
        assert status == "completed", f"crawl {job_id} is {status}"
        return (await self._client.crawl_status(job_id, per_page=1000)).data

    async def _wait_for_end(self, job_id: str) -> str:
        while True:
            status = await self._client.crawl_status(job_id, include_data=False)
            if status.status.terminal:
                return status.status.value
            await asyncio.sleep(0.2)

    async def _search(self) -> None:
        query = f"query {self._chance.randrange(1000)}"
        job_id = (await self._client.start_search({"query": query, "num_results": 5})).job_id
        while not (status := await self._client.search_status(job_id, wait_s=5)).status.terminal:
            pass
        assert status.status == "completed", f"search {job_id}: {status.status} {status.error}"
        assert [row["rank"] for row in status.data] == [1, 2, 3, 4, 5]
        assert all(row["scraped"] for row in status.data), [row["error"] for row in status.data]

    async def _cancelled(self) -> None:
        job_id = (await self._client.start_crawl({"url": self._web.slow})).job_id
        await asyncio.sleep(self._chance.uniform(0, 2))
        expected = "cancelled"
        try:
            await self._client.cancel(job_id)
        except WrongState:  # the crawl was faster
            expected = "completed"
        assert await self._wait_for_end(job_id) == expected

    async def _disconnect_from_events(self) -> None:
        """Read some events of a crawl, and disconnect."""
        job_id = (await self._client.start_crawl({"url": self._web.site.at("/tree")})).job_id
        async with contextlib.aclosing(self._client.events("crawl", job_id)) as events:
            async for _ in events:
                if self._chance.random() < 0.3:
                    break
        status = await self._wait_for_end(job_id)
        assert status == "completed", f"crawl {job_id} is {status}"


class Service:
    """The service under load: started, killed and observed from outside."""

    def __init__(self, settings: Settings, scratch: Path, report: Report) -> None:
        self._settings, self._scratch, self._report = settings, scratch, report
        self._lock = local.resolve_data_directory(settings).start_lock()
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._lock.acquire()  # so that no client starts a service, which would keep results
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.terminate()
            self._child.wait(_STOP_S)
        self._lock.release()

    def _start(self) -> None:
        hours = str(RETENTION_S / 3600)
        options = [f"--{kind}retention-hours={hours}" for kind in ("", "crawl-", "job-")]
        command = [sys.executable, "-m", "webdata_nb", "serve", "--mode", "local", "--data-dir"]
        with (self._scratch.parent / "service.log").open("ab") as output:
            self._child = subprocess.Popen(
                [*command, str(self._settings.data_dir), *options], stdout=output, stderr=output
            )

    def process(self) -> psutil.Process:
        """Return the service's own process."""
        assert self._child is not None
        code = self._child.poll()
        assert code is None, f"the service ended with {code}"
        return psutil.Process(self._child.pid)

    def restart(self) -> None:
        """Kill the service itself and start it again."""
        assert self._child is not None
        self._child.kill()
        self._child.wait()
        self._report.killed["service"] += 1
        self._start()

    def kill_child(self, chance: random.Random) -> None:
        """Kill a page worker or a process of the browser."""
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            children = self.process().children()
            if children:
                victim = chance.choice(children)
                kind = (
                    "browser"
                    if "chrom" in victim.name() or "node" in victim.name()
                    else "page worker"
                )
                os.kill(victim.pid, signal.SIGKILL)
                self._report.killed[kind] += 1

    async def kill_children(self) -> None:
        """Kill all page workers and the browser, which the next jobs start again."""
        children = self.process().children(recursive=True)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, timeout=_STOP_S)
        assert not alive, alive

    async def usage(self) -> Usage:
        """Wait until the resources of the idle service stay the same, and return them."""
        deadline = time.monotonic() + _IDLE_S
        await asyncio.sleep(_SETTLE_S)
        usage = self._measure()
        while time.monotonic() < deadline:
            await asyncio.sleep(_SETTLE_S)
            previous, usage = usage, self._measure()
            if usage.is_close_to(previous):
                break
        return usage

    def _measure(self) -> Usage:
        process, data_dir = self.process(), self._settings.data_dir
        spool = data_dir / "spool"
        temporary_files = [
            path.name
            for folder in (self._scratch, spool)
            if folder.is_dir()
            for path in folder.iterdir()
        ]
        data_mb = sum(path.stat().st_size for path in data_dir.glob("*.sqlite*")) / 1e6
        return Usage(
            _memory_mb(process), process.num_fds(), tuple(sorted(temporary_files)), data_mb
        )


def _memory_mb(service: psutil.Process) -> float:
    """Return the memory of a process and its children that is not of files."""
    processes = [service.pid, *(child.pid for child in service.children(recursive=True))]
    return sum(map(_memory_kb, processes)) / 1000


def _memory_kb(pid: int) -> int:
    try:
        usage = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return 0
    return sum(map(int, re.findall(r"^Pss_(?:Anon|Shmem): +(\d+) kB$", usage, re.MULTILINE)))


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a small file system and yield it, or None if that is not permitted."""
    disk = folder / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
        yield None
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@contextlib.contextmanager
def full_disk(disk: Path) -> Iterator[None]:
    """Fill a file system while the block runs."""
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(65536))
    try:
        yield
    finally:
        filler.unlink()


async def soak(seconds: float, seed: int) -> Report:
    """Run the load for `seconds`, longer if warming up takes half of them; return the report."""
    report, chance = Report(), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder)) as disk, Site() as site:
        home, scratch = disk or Path(folder), Path(folder, "tmp")
        await asyncio.to_thread(scratch.mkdir)
        os.environ["TMPDIR"] = str(scratch)
        settings = _settings(home, site)
        connection = Connection()
        with Service(settings, scratch, report) as service:
            try:
                async with connection.client(settings) as client:
                    load = Load(client, Web.made(site), chance, report)
                    await _phases(
                        load, service, disk, seconds=seconds, chance=chance, report=report
                    )
            finally:
                await connection.aclose()
    return report


async def _phases(
    load: Load,
    service: Service,
    disk: Path | None,
    *,
    seconds: float,
    chance: random.Random,
    report: Report,
) -> None:
    """Warm up and kill the service, measure, run the load with kills and a full disk, measure."""
    began, warm_up_s = time.monotonic(), max(seconds / 10, min(MIN_WARM_UP_S, seconds / 4))
    await load.each()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.until(began + warm_up_s))
        await asyncio.sleep(warm_up_s / 2)
        service.restart()
    await load.run_jobs(WARM_UP_JOBS)
    report.first = await _measure_usage(load, service)
    measured = time.monotonic()
    report.expiry_began = measured - began > RETENTION_S + SWEEP_INTERVAL_S
    # On a busy machine, warming up may take most of a short run.
    end = max(began + seconds, measured + seconds / 2)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.until(end))
        group.create_task(_killing(service, end, chance))
        if disk is not None:
            group.create_task(_disk_full_once(disk, (measured + end) / 2, load.base_url, report))
    report.last = await _measure_usage(load, service)


async def _measure_usage(load: Load, service: Service) -> Usage:
    """Replace the page workers and the browser, and return the resources of the idle service."""
    await service.kill_children()
    await load.each()
    return await service.usage()


async def _killing(service: Service, end: float, chance: random.Random) -> None:
    while (remaining_s := end - time.monotonic()) > 0:
        await asyncio.sleep(min(remaining_s, chance.uniform(2, 15)))
        service.kill_child(chance)


async def _disk_full_once(disk: Path, at: float, base_url: str, report: Report) -> None:
    await asyncio.sleep(max(0.0, at - time.monotonic()))
    report.disk_full_until = math.inf
    try:
        with full_disk(disk):
            await asyncio.sleep(FULL_S)
            async with httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=120) as http:
                report.readiness = await _poll_readiness(http)
    finally:
        report.disk_full_until = time.monotonic() + _RECOVERY_S


async def _poll_readiness(http: httpx.AsyncClient) -> str:
    """Return what `/readyz` answers once the service has noticed that the disk is full."""
    deadline = time.monotonic() + _NOTICE_S
    while True:
        text = (await http.get(paths.READY)).text
        if "disk full" in text or time.monotonic() > deadline:
            return text
        await asyncio.sleep(0.5)


def _settings(home: Path, site: Site) -> Settings:
    stub = stubs()["searxng"]
    stub.served = [Result(site.at(f"/found/{n}"), f"Found {n}", "Text.") for n in range(1, 8)]
    url = stub.on(site)
    site.under("/found/", lambda _: document("Found"))
    settings = Settings(data_dir=home / "data", cache_dir=home / "cache", log_dir=home / "logs")
    return replace(
        settings,
        engines=dict.fromkeys(ENGINES, ("searxng",)),
        providers={"searxng": Provider(url)},
    )


def main() -> int:
    """Print the report; return 1 if there were errors."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=120.0)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    report = asyncio.run(soak(options.minutes * 60, options.seed))
    print(f"jobs ended: {dict(report.jobs)}; refused by the full disk: {dict(report.refused)}")
    print(
        f"killed: {dict(report.killed)}; ready with a full disk: {report.readiness or 'not tried'}"
    )
    for name, usage in (("after warming up", report.first), ("at the end", report.last)):
        if usage is not None:
            print(
                f"{name}: {usage.memory_mb:.0f} MB, {usage.files} open files,"
                f" {len(usage.temporary)} temporary files, {usage.data_mb:.0f} MB of data"
            )
    problems = report.problems()
    print(*(problems or ["every job ended, nothing accumulated"]), sep="\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
