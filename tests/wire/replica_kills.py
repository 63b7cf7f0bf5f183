"""Crawls of two replicas on one PostgreSQL server, which are killed and started again.

Triggers of the database record each claim of a job and each start of a replica, so that the log
shows who held which job when.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import httpx
import orjson
import psycopg
from psycopg.rows import namedtuple_row

from tests import pgbouncer, postgres
from tests.postgres import PostgresServer
from tests.replica_process import ReplicaProcess, add_account, headers_of
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.service.encryption import FixedKeys, SecretCipher, new_key
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.sql.store import Store

KillKind = Literal["replica", "database", "both"]
DaskKillKind = Literal["worker", "worker and nanny", "scheduler", "all"]
AnyKill = KillKind | DaskKillKind

ACCOUNTS: Final = ("alice", "bob", "carol", "dave")
# Another machine does not have the spool: it fetches these pages of a job again too.
SPOOLED_PAGES: Final = 32
_DEADLINE_S: Final = 600.0
_GAP_S: Final = (0.5, 8.0)
_PROMOTED_S: Final = (0.0, 3.0)
# As docs/guide/several-machines.md says: 16 connections for each process, and no long waits for a
# server that is away.
POOLER: Final = {"default_pool_size": 48, "server_login_retry": 1, "query_wait_timeout": 5}
RESTART_S: Final = (2.0, 18.0)
_LOGS: Final = """
CREATE TABLE claim_log (job_id text, worker text, at float8);
CREATE TABLE replica_log (id text, name text, at float8);
CREATE FUNCTION log_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO claim_log VALUES (NEW.id, NEW.worker, EXTRACT(EPOCH FROM clock_timestamp()));
  RETURN NULL;
END $$;
CREATE FUNCTION log_replica() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO replica_log VALUES (NEW.id, NEW.name, EXTRACT(EPOCH FROM clock_timestamp()));
  RETURN NULL;
END $$;
CREATE TRIGGER log_claim AFTER UPDATE OF attempt ON job
  FOR EACH ROW EXECUTE FUNCTION log_claim();
CREATE TRIGGER log_replica AFTER INSERT ON replica
  FOR EACH ROW EXECUTE FUNCTION log_replica();
"""
_CLAIMS: Final = """
SELECT job_id, (SELECT name FROM replica_log WHERE id = worker LIMIT 1) AS replica, at
FROM claim_log ORDER BY at
"""


@dataclass(frozen=True, slots=True)
class CrawlLoad:
    """Crawls of `pages` pages each, of several accounts."""

    crawls: int
    pages: int
    concurrency: int = 4

    def slots(self, processes: int = 1) -> int:
        """Return the slots with which some processes run all crawls.

        A third of them is reserved for accounts without a running job.
        """
        return -(-self.crawls * 3 // (2 * processes)) + 1

    def serve(self, site: Site) -> list[tuple[str, ...]]:
        """Let a site serve a tree for each crawl; return the paths of each, breadth first."""
        trees = []
        for number in range(self.crawls):
            paths = link_tree(site, depth=3, fanout=6, root=f"/crawl{number}")
            trees.append(paths[: self.pages])
        return trees


@dataclass(frozen=True, slots=True)
class Kill:
    """What was killed when.

    `replicas` are the processes that lost their jobs by it, by their names among the replicas.
    """

    kind: AnyKill
    replicas: frozenset[str]
    at: float


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a job by a replica."""

    job_id: str
    replica: str
    at: float


@dataclass(frozen=True, slots=True)
class Takeover:
    """A claim of a job that another process held before.

    Attributes
    ----------
    seconds
        The time from the last kill before the claim; None if the earlier process was alive.
    is_same_replica
        Whether the earlier process had the same data directory.
    kind
        The kind of that kill.
    """

    job_id: str
    seconds: float | None
    is_same_replica: bool
    kind: AnyKill | None = None


def find_takeovers(
    claims: Iterable[Claim], kills: Sequence[Kill], with_directory: Collection[str]
) -> list[Takeover]:
    """Return all claims of jobs that were claimed before.

    The processes named in `with_directory` start again with their data directory.
    """
    claims_of: dict[str, list[Claim]] = defaultdict(list)
    for claim in sorted(claims, key=lambda each: each.at):
        claims_of[claim.job_id].append(claim)
    takeovers = []
    for job_id, claims_of_job in claims_of.items():
        for previous, claim in pairwise(claims_of_job):
            since = [kill for kill in kills if previous.at < kill.at < claim.at]
            has_died = any(previous.replica in kill.replicas for kill in since)
            seconds, kind = (claim.at - since[-1].at, since[-1].kind) if has_died else (None, None)
            is_same = claim.replica == previous.replica and claim.replica in with_directory
            takeovers.append(Takeover(job_id, seconds, is_same, kind))
    return takeovers


@dataclass(slots=True)
class CrawlRun:
    """What came of the crawls of one run.

    Attributes
    ----------
    rows
        The rows of each crawl, without what differs between two runs.
    usage, ledgers
        The credits of each account, and the lines of its ledger without times and ids.
    receipts
        The entries of the receipt of each crawl.
    store_problems
        What `webdata store check` found.
    event_ids
        The ids of the webhooks of each crawl, one per delivery.
    refetched
        By crawl, the requests for pages that had been requested before.
    exits
        Replicas that ended by themselves although they had joined the others.
    """

    seconds: float
    rows: list[list[dict[str, Any]]]
    states: list[str]
    usage: dict[str, tuple[float, float, int]]
    ledgers: dict[str, list[tuple[Any, ...]]]
    receipts: list[list[dict[str, Any]]]
    store_problems: list[str]
    event_ids: list[list[str]]
    refetched: list[int]
    kills: list[Kill]
    takeovers: list[list[Takeover]]
    exits: list[str]

    def refetch_limit(self, crawl: int, concurrency: int) -> int:
        """Return how many pages of a crawl may have been fetched twice."""
        return sum(
            concurrency if takeover.is_same_replica else concurrency + SPOOLED_PAGES
            for takeover in self.takeovers[crawl]
        )

    def errors(self, expected: CrawlRun, concurrency: int, held_s: float | None) -> list[str]:
        """Return what differs from an undisturbed run, or exceeds a limit; `held_s` has one."""
        errors = [f"{name} ended by itself" for name in self.exits] + self.store_problems
        for number, (rows, expected_rows) in enumerate(zip(self.rows, expected.rows, strict=True)):
            if self.states[number] != "completed":
                errors.append(f"crawl {number} is {self.states[number]}")
            elif rows != expected_rows:
                errors.append(f"the rows of crawl {number} differ")
            elif self.receipts[number] != expected.receipts[number]:
                errors.append(f"the receipt of crawl {number} differs")
            limit = self.refetch_limit(number, concurrency)
            if self.refetched[number] > limit:
                errors.append(f"crawl {number}: {self.refetched[number]} pages fetched again")
            if len(set(self.event_ids[number])) != 1:
                errors.append(f"crawl {number}: event ids {self.event_ids[number]}")
            slowest = max((each.seconds or 0.0 for each in self.takeovers[number]), default=0.0)
            if held_s is not None and slowest > held_s:
                errors.append(f"crawl {number} was held after {slowest:.1f} s")
        if self.usage != expected.usage or self.ledgers != expected.ledgers:
            errors.append(f"the credits differ: {self.usage}, not {expected.usage}")
        return errors


@dataclass(slots=True)
class ReplicaTeam:
    """Two replicas on a store of their own; `expected_running` are those that were not stopped."""

    server: PostgresServer
    store_url: str = field(repr=False)
    key: str = field(repr=False)
    replicas: dict[str, ReplicaProcess]
    chance: random.Random
    kills: list[Kill] = field(default_factory=list)
    exits: list[str] = field(default_factory=list)

    def query(self, statement: str) -> list[Any]:
        """Return the rows of a statement."""
        with psycopg.connect(self.store_url, row_factory=namedtuple_row) as connection:
            return connection.execute(statement.encode()).fetchall()

    def kills_until_return(self) -> list[Kill]:
        """Return the kills, each with the time from which on its jobs can be claimed."""
        return self.kills

    def count(self, condition: str) -> int:
        """Count rows: `condition` is a table with its WHERE."""
        [row] = self.query(f"SELECT COUNT(*) AS n FROM {condition}")
        return int(row.n)

    def take_kill(self, kills: list[AnyKill]) -> AnyKill | None:
        """Take the next kill from the end of `kills`; None if none is possible now."""
        return kills.pop()

    def kill(self, kind: AnyKill) -> None:
        """Kill a replica, the database or both, and start again what was killed."""
        name = self.chance.choice(list(self.replicas)) if kind != "database" else None
        is_database_first = self.chance.random() < 0.5
        if kind != "replica" and is_database_first:
            self.stop_database()
        if name is not None:
            self.replicas[name].kill()
        if kind != "replica" and not is_database_first:
            self.stop_database()
        self.kills.append(Kill(kind, frozenset({name} if name else ()), time.time()))
        if kind != "replica":
            self.start_database()
            self.restart_ended(except_for=name)
        if name is not None:
            # At once, or so late that the other replica may have taken the jobs.
            time.sleep(self.chance.choice([0.0, self.chance.uniform(*RESTART_S)]))
            self.replicas[name].launch()

    def stop_database(self) -> None:
        """Stop the database as in a crash."""
        self.server.stop("immediate")

    def start_database(self) -> None:
        """Let the database take writes again."""
        self.server.start()

    def restart_ended(self, *, except_for: str | None = None) -> None:
        """Start replicas again that ended by themselves, as a supervisor does.

        One that is started while the database is away ends; one that runs does not.
        """
        for name, replica in self.replicas.items():
            if name == except_for or replica.process.poll() is None:
                continue
            launched_at = replica.launched_at
            if self.count(f"replica_log WHERE name = '{name}' AND at > {launched_at}"):
                self.exits.append(name)
            replica.launch()

    def start_times(self) -> dict[str, float]:
        """Return since when each process is to run, by its name among the replicas."""
        return {name: replica.launched_at for name, replica in self.replicas.items()}

    def wait_until_joined(self, name: str) -> None:
        """Wait until a process looks for jobs."""
        deadline = time.monotonic() + _DEADLINE_S
        while not self.count(
            f"replica_log WHERE name = '{name}' AND at > {self.start_times()[name]}"
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} does not start")
            self.restart_ended()
            time.sleep(0.1)

    def wait_until_settled(self) -> None:
        """Wait until all processes run, and have stored something of each job."""
        for name in self.start_times():
            self.wait_until_joined(name)
        lives = " OR ".join(
            f"(name = '{name}' AND at > {start})" for name, start in self.start_times().items()
        )
        self.wait_until_empty(
            "job WHERE state = 'pending' OR state = 'running' AND (attempts_since_progress > 0"
            f" OR worker IS NULL OR worker NOT IN (SELECT id FROM replica_log WHERE {lives}))"
        )

    def wait_until_empty(self, condition: str) -> None:
        """Wait until a table has no rows of a condition."""
        deadline = time.monotonic() + _DEADLINE_S
        while left := self.count(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} rows of {condition} are left")
            self.restart_ended()
            time.sleep(0.3)

    def store_problems(self) -> list[str]:
        """Return what `webdata store check` says about the store unless it is correct."""
        command = [sys.executable, "-m", "webdata_nb", "store", "check", self.store_url]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_DEADLINE_S
        )
        return [done.stdout + done.stderr] if done.returncode else []

    def read(self, path: str, account: str) -> Any:
        """Read from any replica."""
        replica = self.chance.choice(list(self.replicas.values()))
        replica.wait_ready()
        response = httpx.get(replica.url + path, headers=headers_of(account), timeout=60)
        return response.raise_for_status().json()


@dataclass(slots=True)
class StandbyTeam(ReplicaTeam):
    """Two replicas on a primary with a standby, which becomes the primary when that one is lost."""

    standby: PostgresServer = field(kw_only=True)

    def stop_database(self) -> None:
        """Lose the machine of the primary."""
        self.server.kill()

    def start_database(self) -> None:
        """Promote the standby, and let the former primary follow it."""
        time.sleep(self.chance.uniform(*_PROMOTED_S))
        self.standby.promote()
        self.server, self.standby = self.standby, self.server
        self.standby.follow(self.server)


OpenTeam = Callable[
    [PostgresServer, Path, CrawlLoad, random.Random], AbstractContextManager[ReplicaTeam]
]


def create_store(store_url: str) -> str:
    """Create a store that logs the claims of jobs; return its key."""
    key = new_key()
    add_accounts(store_url, key)
    with psycopg.connect(store_url, autocommit=True) as connection:
        connection.execute(_LOGS.encode())
    return key


@contextmanager
def replica_team(
    server: PostgresServer, home: Path, load: CrawlLoad, chance: random.Random
) -> Iterator[ReplicaTeam]:
    """Run two replicas, and log the claims of jobs."""
    store_url = server.new_schema()
    key = create_store(store_url)
    with _running_replicas(home, store_url, key, load) as replicas:
        yield ReplicaTeam(server, store_url, key, replicas, chance)


@contextmanager
def standby_team(
    server: PostgresServer, home: Path, load: CrawlLoad, chance: random.Random
) -> Iterator[StandbyTeam]:
    """Run two replicas whose URL names a server and its standby; in the end, the roles are these.

    The standby confirms all commits.
    """
    with postgres.running_standby(server) as standby:
        store_url = postgres.url_of_both(server, standby, server.new_schema())
        key = create_store(store_url)
        with _running_replicas(home, store_url, key, load) as replicas:
            team = StandbyTeam(server, store_url, key, replicas, chance, standby=standby)
            yield team
        if team.server is not server:
            team.stop_database()
            team.start_database()


@contextmanager
def pooled_team(
    server: PostgresServer, home: Path, load: CrawlLoad, chance: random.Random
) -> Iterator[ReplicaTeam]:
    """Run two replicas whose connections go through PgBouncer in session mode."""
    database = f"pooled_{uuid.uuid4().hex}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    # It has no startup option for a schema.
    store_url = f"{server.url.removesuffix('postgres')}{database}"
    key = create_store(store_url)
    with (
        pgbouncer.pooler(server, "session", **POOLER) as base,
        _running_replicas(home, f"{base}{database}", key, load) as replicas,
    ):
        yield ReplicaTeam(server, store_url, key, replicas, chance)


@contextmanager
def _running_replicas(
    home: Path, store_url: str, key: str, load: CrawlLoad
) -> Iterator[dict[str, ReplicaProcess]]:
    home.mkdir()
    options = ("--slots", str(load.slots()), "--webhook-loopback")
    replicas = {
        name: ReplicaProcess(home / name, store_url, key, *options, "--replica", name)
        for name in ("first", "second")
    }
    with ExitStack() as stack:
        for replica in replicas.values():
            replica.launch()
            stack.callback(replica.kill)
        for replica in replicas.values():
            replica.wait_ready()
        yield replicas


def run_crawls(
    server: PostgresServer,
    home: Path,
    site: Site,
    load: CrawlLoad,
    kills: list[AnyKill],
    *,
    seed: int = 0,
    is_rapid: bool = False,
    open_team: OpenTeam = replica_team,
) -> CrawlRun:
    """Run all crawls, kill during them, and return what came of them.

    Kills are taken from the end of `kills`; those that are left when the crawls end remain there.
    Each happens at a random moment after the jobs that the last one interrupted continue; rapid
    ones do not wait for that.
    """
    chance = random.Random(seed)
    with Site() as receiver, open_team(server, home, load, chance) as team:
        receiver.under("/", "", status=204)
        site.forget()
        started_at = time.monotonic()
        replicas = [*team.replicas.values()]
        job_ids = start_crawls(replicas, site.url, load, webhook_url=receiver.at("/hook"))
        unfinished = "job WHERE state IN ('pending', 'running')"
        while kills:
            if not is_rapid:
                team.wait_until_settled()
            time.sleep(chance.uniform(*_GAP_S))
            team.restart_ended()
            if not team.count(unfinished):
                break
            if (kind := team.take_kill(kills)) is not None:
                team.kill(kind)
        team.wait_until_empty(unfinished)
        seconds = time.monotonic() - started_at
        team.wait_until_empty("delivery WHERE state = 'pending'")
        return _result(team, site, receiver, job_ids, seconds)


def start_crawls(
    replicas: Sequence[ReplicaProcess], site_url: str, load: CrawlLoad, **options: str
) -> list[str]:
    """Start the crawls of all accounts in turn, at all replicas in turn; return their ids."""
    job_ids = []
    for number in range(load.crawls):
        body = {
            "url": f"{site_url}crawl{number}",
            "max_pages": load.pages,
            "concurrency": load.concurrency,
            **options,
        }
        reply = httpx.post(
            f"{replicas[number % len(replicas)].url}/v1/crawl",
            json=body,
            headers=headers_of(account_of(number)),
            timeout=60,
        )
        job_ids.append(reply.raise_for_status().json()["job_id"])
    return job_ids


def add_accounts(store_url: str, key: str) -> None:
    """Add all accounts to a new store."""
    for account in ACCOUNTS:
        asyncio.run(add_account(store_url, key, account=account))


def account_of(crawl: int) -> str:
    """Return the account of a crawl."""
    return ACCOUNTS[crawl % len(ACCOUNTS)]


def _result(
    team: ReplicaTeam, site: Site, receiver: Site, job_ids: list[str], seconds: float
) -> CrawlRun:
    replies = [
        team.read(f"/v1/crawl/{job_id}?per_page=1000", account_of(number))
        for number, job_id in enumerate(job_ids)
    ]
    claims = [Claim(row.job_id, row.replica, row.at) for row in team.query(_CLAIMS)]
    takeovers = find_takeovers(claims, team.kills_until_return(), team.replicas)
    event_ids: dict[str, list[str]] = defaultdict(list)
    for hit in receiver.requests:
        event_ids[orjson.loads(hit.body)["job_id"]].append(hit.headers["X-Webhook-Id"])
    refetched = _refetched(site)
    return CrawlRun(
        seconds=seconds,
        rows=[[_comparable(row) for row in reply["data"]] for reply in replies],
        states=[reply["status"] for reply in replies],
        usage={account: _usage(team.read("/v1/usage", account)) for account in ACCOUNTS},
        ledgers=asyncio.run(_ledgers(team)),
        receipts=[
            team.read(f"/v1/crawl/{job_id}/receipt?per_page=1000", account_of(number))["data"]
            for number, job_id in enumerate(job_ids)
        ],
        store_problems=team.store_problems(),
        event_ids=[event_ids[job_id] for job_id in job_ids],
        refetched=[refetched[f"crawl{number}"] for number in range(len(job_ids))],
        kills=team.kills,
        takeovers=[[each for each in takeovers if each.job_id == job_id] for job_id in job_ids],
        exits=team.exits,
    )


def _refetched(site: Site) -> Counter[str]:
    """Return, by the first part of the path, the requests beyond the first of each page."""
    counts = Counter(site.paths)
    refetched: Counter[str] = Counter()
    for path, count in counts.items():
        refetched[path.split("/")[1]] += count - 1
    return refetched


def _comparable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without the times of its fetch."""
    times = ("fetched_at", "time_taken")
    metadata = {key: value for key, value in row["metadata"].items() if key not in times}
    return {key: value for key, value in row.items() if key not in times} | {"metadata": metadata}


def _usage(reply: Mapping[str, Any]) -> tuple[float, float, int]:
    return reply["used"], reply["reserved"], reply["active"]


async def _ledgers(team: ReplicaTeam) -> dict[str, list[tuple[Any, ...]]]:
    cipher = SecretCipher(FixedKeys((team.key,)))
    async with Store(PostgresDatabase(team.store_url), cipher) as store:
        return {
            account: sorted(
                (
                    line.kind,
                    line.monthly,
                    line.topup,
                    line.operation or "",
                    line.units,
                    line.credits,
                )
                for line in await store.accounts.ledger(account)
            )
            for account in ACCOUNTS
        }
