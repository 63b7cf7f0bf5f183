"""A crawl whose client, service and page workers are killed at random moments until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pandas as pd
import psutil

from tests.site.server import Site
from tests.wire.kills import connected, rows_after
from tests.wire.waiting import services_on
from webdata_nb.settings import Settings

VICTIMS: Final = ("page worker", "client", "service")
# A generous end for a machine under load; a run takes some seconds and a few for each kill.
DEADLINE_S: Final = 600.0
_POLL_S: Final = 0.01
# Crawls as an analyst's script does, and runs again where it was killed or its service was.
_CLIENT: Final = """
import sys
from webdata_nb import crawl_df
url, pages, concurrency, out = sys.argv[1:]
crawl_df(url, max_pages=int(pages), concurrency=int(concurrency), out=out, progress=False)
"""


@dataclass(slots=True)
class Outcome:
    """What a crawl under kills came to: its frame, the rows of every job, and who was killed."""

    frame: pd.DataFrame
    jobs: list[list[str]]
    starts: int
    seconds: float
    killed: Counter[str] = field(default_factory=Counter)
    requested: Counter[str] = field(default_factory=Counter)

    def check(self, expected: list[str]) -> None:
        """Raise AssertionError unless there is exactly one good row for each page, in order."""
        assert self.frame["url"].tolist() == expected
        failed = self.frame.loc[~self.frame["success"], ["url", "error"]]
        assert failed.empty, failed.to_string()
        counts = self.frame.attrs["webdata"]["receipt"]["counts"]
        assert counts["fetched"] == len(expected)
        assert not [outcome for outcome in counts if outcome.startswith("failed")]
        # A script that was killed starts a job of its own; the earlier one ends without it.
        assert 1 <= len(self.jobs) <= 1 + self.killed["client"]
        assert all(urls == expected for urls in self.jobs), "a job has lost rows"

    @property
    def refetched(self) -> int:
        """Return the requests for pages that had been requested before."""
        return sum(self.requested.values()) - len(self.requested)


async def crawl_under_kills(
    home: Path, site: Site, paths: Sequence[str], *, kills: int, concurrency: int, seed: int
) -> Outcome:
    """Crawl in a process of its own; kill a random process each time the crawl got further.

    `paths` are the pages in the order of the crawl. The site holds some of the last ones: each kill
    releases one, for which a page worker is needed, and the crawl does not end before the last
    kill.
    """
    chance = random.Random(seed)
    gates = [site.hold(path) for path in paths[-kills - 1 :]]
    moments = sorted(chance.sample(range(5, len(paths) - len(gates) - concurrency), kills))
    # Every kind occurs, in a random order.
    victims = [VICTIMS[number % len(VICTIMS)] for number in range(kills)]
    chance.shuffle(victims)
    settings = Settings(data_dir=home / "data", cache_dir=home / "cache", log_dir=home / "logs")
    run = _Run(home, settings, site.at(paths[0]), len(paths), concurrency)
    start_s, killed = time.monotonic(), Counter[str]()
    async with asyncio.timeout(DEADLINE_S):
        try:
            for moment, victim, gate in zip(moments, victims, gates[:-1], strict=True):
                while len(_pages(site)) < moment:
                    await run.keep_going()
                    await asyncio.sleep(_POLL_S)
                gate.release()
                await run.kill(victim, chance)
                killed[victim] += 1
            gates[-1].release()
            await run.finished()
        finally:
            for gate in gates:
                gate.release()
            await run.end()
    async with connected(settings) as (client, _):
        started = [job.job_id for job in (await client.jobs()).jobs]
        ended = [await rows_after(client, job_id, 10**6) for job_id in started]
    seconds = time.monotonic() - start_s
    frame = pd.read_parquet(run.out)
    jobs = [[row["url"] for row in each.data] for each in ended]
    return Outcome(frame, jobs, run.starts, seconds, killed, Counter(_pages(site)))


def _pages(site: Site) -> list[str]:
    """Return the paths of pages that were requested."""
    return [hit.path for hit in site.requests if hit.path != "/robots.txt"]


class _Run:
    """The client's process, started again whenever it ended without its result."""

    def __init__(
        self, home: Path, settings: Settings, url: str, pages: int, concurrency: int
    ) -> None:
        self.out, self.starts = home / "rows.parquet", 0
        self._settings, self._log = settings, home / "client.log"
        self._command = (sys.executable, "-c", _CLIENT, url, str(pages), str(concurrency))
        self._environment = os.environ | {"WEBDATA_HOME": str(home)}
        self._client: asyncio.subprocess.Process | None = None

    async def keep_going(self) -> None:
        """Start the client where none runs and the result is not there."""
        if self.out.exists() or (self._client and self._client.returncode is None):
            return
        self.starts += 1
        with self._log.open("ab") as log:
            self._client = await asyncio.create_subprocess_exec(
                *self._command, str(self.out), env=self._environment, stdout=log, stderr=log
            )

    async def finished(self) -> None:
        """Wait for the result."""
        while not self.out.exists():
            await self.keep_going()
            await asyncio.sleep(_POLL_S)

    async def kill(self, victim: str, chance: random.Random) -> None:
        """Wait until there is such a process, and kill one as the kernel would."""
        while True:
            await self.keep_going()
            if found := self._processes(victim):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(found), signal.SIGKILL)
                    break
            await asyncio.sleep(_POLL_S)
        if victim == "client":
            await self.end()

    def _processes(self, victim: str) -> list[int]:
        if victim == "client":
            assert self._client is not None
            return [self._client.pid] if self._client.returncode is None else []
        service = services_on(self._settings.data_dir)
        if victim == "service":
            return [each.pid for each in service]
        return [each.pid for one in service for each in _page_workers(one)]

    async def end(self) -> None:
        """End the client, if it still runs."""
        if self._client is not None and self._client.returncode is None:
            self._client.kill()
        if self._client is not None:
            await self._client.wait()


def _page_workers(service: psutil.Process) -> list[psutil.Process]:
    """Return the processes that the service reads pages in."""
    with contextlib.suppress(psutil.Error):
        return [
            child
            for child in service.children(recursive=True)
            if not any("resource_tracker" in part for part in child.cmdline())
        ]
    return []
