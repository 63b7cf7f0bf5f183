"""Crawls of a Dask cluster, whose workers, nannies and scheduler are killed and started again.

Two replicas of the service keep a claim loop in each of four Dask workers. All are processes on one
PostgreSQL server.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from tests.dask_processes import SchedulerProcess, WorkerProcess, scratch, wait_until
from tests.postgres import PostgresServer
from tests.replica_process import ReplicaProcess
from tests.wire.replica_kills import RESTART_S, AnyKill, CrawlLoad, Kill, ReplicaTeam, create_store

WORKERS: Final = 4
REPLICAS: Final = ("first", "second")
# A scheduler is killed while at least this share of the pages is missing.
_EARLY_SHARE: Final = 0.5
# How often an early kill is one of the scheduler, as long as there are some.
_SCHEDULER_CHANCE: Final = 0.7
_BUSY_WORKERS: Final = """
SELECT DISTINCT name FROM job JOIN replica_log ON replica_log.id = worker
WHERE state = 'running' AND name LIKE 'dask-%' ORDER BY name
"""


@dataclass(slots=True)
class DaskTeam(ReplicaTeam):
    """Two replicas and the workers of a Dask cluster.

    Attributes
    ----------
    workers
        The processes of the workers with their nannies, by the names among the replicas.
    pages
        The pages of all crawls.
    started_at
        Since when each worker is to run, by the same names.
    """

    scheduler: SchedulerProcess = field(kw_only=True)
    workers: dict[str, WorkerProcess] = field(kw_only=True)
    pages: int = field(kw_only=True)
    started_at: dict[str, float] = field(default_factory=dict, kw_only=True)
    _losing_scheduler: set[str] = field(default_factory=set, kw_only=True)

    def start_times(self) -> dict[str, float]:
        return ReplicaTeam.start_times(self) | self.started_at

    def take_kill(self, kills: list[AnyKill]) -> AnyKill | None:
        """Take a kill that meets running jobs: a scheduler's early, a worker's if it has jobs."""
        [row] = self.query("SELECT COALESCE(SUM(published), 0) AS pages FROM job")
        is_early = row.pages < (1 - _EARLY_SHARE) * self.pages
        possible: set[AnyKill] = {"all"}
        if self._busy_workers():
            possible |= {"worker", "worker and nanny"}
        is_chosen = set(kills) == {"scheduler"} or self.chance.random() < _SCHEDULER_CHANCE
        if is_early and "scheduler" in kills and is_chosen:
            possible = {"scheduler"}
        for number in reversed(range(len(kills))):
            if kills[number] in possible:
                return kills.pop(number)
        return None

    def kill(self, kind: AnyKill) -> None:
        """Kill a worker, a worker with its nanny, the scheduler, or everything.

        What was killed starts again at once or later, as if by a supervisor. A nanny starts its
        worker.
        """
        if kind == "scheduler":
            self._kill_scheduler()
        elif kind == "all":
            self._kill_all()
        else:
            self._kill_worker(kind)

    def restart_ended(self, *, except_for: str | None = None) -> None:
        """Start replicas and workers again; a worker ends when it has lost its scheduler."""
        ReplicaTeam.restart_ended(self, except_for=except_for)
        for name, worker in self.workers.items():
            if worker.process.poll() is None:
                continue
            if name not in self._losing_scheduler:
                self.exits.append(name)
            self._losing_scheduler.discard(name)
            worker.start()

    def wait_until_ready(self) -> None:
        """Wait until the replicas leave all jobs to the workers."""
        for replica in self.replicas.values():
            replica.wait_ready()
            wait_until(partial(self._is_idle, replica.url), "not all workers run jobs")

    def _is_idle(self, url: str) -> bool:
        reply = httpx.get(f"{url}/readyz", timeout=60).json()
        return bool(reply.get("dask", {}).get("workers") == len(self.workers))

    def _busy_workers(self) -> list[str]:
        return [row.name for row in self.query(_BUSY_WORKERS)]

    def _pause(self) -> None:
        time.sleep(self.chance.choice([0.0, self.chance.uniform(*RESTART_S)]))

    def _note(self, kind: AnyKill, names: Sequence[str]) -> None:
        now = time.time()
        self.kills.append(Kill(kind, frozenset(names), now))
        self.started_at.update({name: now for name in names if name in self.workers})

    def _kill_worker(self, kind: AnyKill) -> None:
        name = self.chance.choice(self._busy_workers() or list(self.workers))
        worker = self.workers[name]
        if kind == "worker":
            worker.kill_worker()
            self._note(kind, [name])
            return
        worker.kill()
        self._note(kind, [name])
        self._pause()
        worker.start()

    def _kill_scheduler(self) -> None:
        self.scheduler.kill()
        self._losing_scheduler.update(self.workers)
        self._note("scheduler", list(self.workers))
        self._pause()
        self.scheduler.start()

    def _kill_all(self) -> None:
        """Kill all at once as in a power failure, the database as well."""
        self.server.stop("immediate")
        kills: list[Callable[[], None]] = [
            self.scheduler.kill,
            *(worker.kill for worker in self.workers.values()),
            *(replica.kill for replica in self.replicas.values()),
        ]
        self.chance.shuffle(kills)
        for kill in kills:
            kill()
        self._note("all", [*self.workers, *self.replicas])
        self.server.start()
        self.scheduler.start()
        for worker in self.workers.values():
            worker.start()
        for replica in self.replicas.values():
            replica.launch()

    def kills_until_return(self) -> list[Kill]:
        """Return the kills; those of everything with the time when a process is back."""
        return [self._until_return(kill) if kill.kind == "all" else kill for kill in self.kills]

    def _until_return(self, kill: Kill) -> Kill:
        [row] = self.query(f"SELECT MIN(at) AS at FROM replica_log WHERE at > {kill.at}")
        return replace(kill, at=row.at)


@contextmanager
def dask_team(
    server: PostgresServer, home: Path, load: CrawlLoad, chance: random.Random
) -> Iterator[DaskTeam]:
    """Run a scheduler, two replicas that use it, and four workers with nannies."""
    home.mkdir()
    store_url = server.new_schema()
    key = create_store(store_url)
    scheduler = SchedulerProcess(home)
    # The replicas alone can run all crawls: they do when the scheduler is lost.
    options = ["--slots", str(load.slots(len(REPLICAS))), "--webhook-loopback"]
    options += ["--dask", scheduler.address]
    variables: dict[str, Any] = {"WEBDATA_STORE": store_url, "WEBDATA_SECRET_KEY": key}
    replicas = {
        name: ReplicaProcess(
            home / name, store_url, key, *options, "--replica", name, **scratch(home)
        )
        for name in REPLICAS
    }
    workers = {
        f"dask-{name}": WorkerProcess(home, name, scheduler.address, nanny=True, **variables)
        for name in (f"worker{number}" for number in range(WORKERS))
    }
    team = DaskTeam(
        server,
        store_url,
        key,
        replicas,
        chance,
        scheduler=scheduler,
        workers=workers,
        pages=load.crawls * load.pages,
        started_at=dict.fromkeys(workers, 0.0),
    )
    with ExitStack() as stack:
        scheduler.start()
        stack.callback(scheduler.kill)
        for worker in workers.values():
            worker.start()
            stack.callback(worker.kill)
        wait_until(lambda: b"Scheduler at" in scheduler.log.read_bytes(), "no scheduler")
        for replica in replicas.values():
            replica.launch()
            stack.callback(replica.kill)
        team.wait_until_ready()
        yield team
