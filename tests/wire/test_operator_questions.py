"""The questions of an operator, answered by the commands of the guide while jobs run.

On SQLite, and on PostgreSQL with two replicas and Dask workers, of which one is killed: sums equal
the ledger to the credit, whatever process ended a job.
"""

from __future__ import annotations

import asyncio
import csv
import io
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.dask_processes import scratch
from tests.ports import free_port
from tests.postgres import PostgresServer
from tests.replica_process import ReplicaProcess, add_account_to, headers_of
from tests.shell import CHECKOUT, TIMEOUT_S, Shell
from tests.site.server import Site
from webdata_nb.contract.operator_views import VIEWS
from webdata_nb.service.encryption import (
    KEY_FILE,
    FixedKeys,
    KeyFile,
    SecretCipher,
    key_hash,
    new_key,
)
from webdata_nb.service.ledger import PLANS
from webdata_nb.service.store.backends import open_store
from webdata_nb.service.store.sql.store import Store

pytestmark = pytest.mark.slow

ACCOUNTS: Final = ("alice", "bob")
JOBS: Final = 16
GUIDE: Final = CHECKOUT / "docs" / "guide" / "operations.md"
TERMINAL: Final = {"completed", "failed", "cancelled"}


def questions() -> list[tuple[str, str, str]]:
    """Return the questions of the guide with their commands and the views of the page."""
    section = GUIDE.read_text("utf-8").partition("## Questions and answers")[2]
    row = re.compile(r"^\| (.+?) \| `(webdata .+?)` \| (.+?) \|$", re.MULTILINE)
    names = {view.title: view.name for view in VIEWS.values()}
    found = row.findall(section.partition("\n## ")[0])
    return [(question, command, names[title]) for question, command, title in found]


@dataclass
class Service:
    """A running service, and the place of its database."""

    shell: Shell
    folder: Path
    urls: list[str]
    environ: dict[str, str]
    cipher: SecretCipher
    store_url: str | None
    kill: Any

    def run(self, command: str) -> str:
        """Run a command of the guide; return its output."""
        words = shlex.split(command)[1:]
        if self.store_url is None:
            words += ["--data-dir", str(self.folder)]
        result = self.shell.run(*words, **self.environ)
        assert result.returncode == 0, (command, result.stderr)
        return result.stdout

    def rows(self, command: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.run(f"{command} --format csv"))))

    def store(self) -> Store:
        return open_store(self.folder, self.cipher, self.store_url)

    def get(self, account: str, path: str) -> httpx.Response:
        """Answer by the first process that lives."""
        for _ in range(60):
            for url in self.urls:
                try:
                    reply = httpx.get(
                        f"{url}{path}", headers=headers_of(account), timeout=TIMEOUT_S
                    )
                except httpx.TransportError:
                    continue
                if reply.status_code == 200:
                    return reply
            time.sleep(1)
        raise AssertionError(f"no process answers {path}")

    def page(self, view: str) -> str:
        """Return a view of the operator's page."""
        return self.get("operator", f"/operator/{view}").text


@pytest.fixture(params=["sqlite", "postgres"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    shell = Shell(tmp_path / "home")
    if request.param == "sqlite":
        yield from on_sqlite(shell, tmp_path / "data")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        yield from on_postgres(shell, tmp_path, server.new_schema())


def on_sqlite(shell: Shell, folder: Path) -> Iterator[Service]:
    folder.mkdir(parents=True)
    cipher = SecretCipher(KeyFile(folder / KEY_FILE))
    asyncio.run(add_accounts(open_store(folder, cipher)))
    port = free_port()
    words = ("serve", "--mode", "team", "--port", str(port), "--data-dir", str(folder))
    processes = []

    def start() -> None:
        process = shell.start(*words, "--allow-network", "127.0.0.0/8")
        processes.append(process)
        assert process.stderr is not None
        next(line for line in process.stderr if "serves http://" in line)

    def kill() -> None:
        processes[-1].kill()
        processes[-1].communicate()
        start()

    start()
    try:
        url = f"http://127.0.0.1:{port}"
        yield Service(shell, folder, [url], {}, cipher, None, kill)
    finally:
        processes[-1].terminate()
        processes[-1].communicate(timeout=TIMEOUT_S)


def on_postgres(shell: Shell, folder: Path, url: str) -> Iterator[Service]:
    key = new_key()
    cipher = SecretCipher(FixedKeys((key,)))
    asyncio.run(add_accounts(open_store(folder, cipher, url)))
    replicas = [
        ReplicaProcess(folder / name, url, key, "--replica", name, *options, **scratch(folder))
        for name, options in (("one", ("--dask", "local:2")), ("two", ()))
    ]
    environ = {"WEBDATA_STORE": url, "WEBDATA_SECRET_KEY": key}
    with ExitStack() as stack:
        for replica in replicas:
            replica.start()
            stack.callback(replica.terminate)
        yield Service(
            shell, folder, [each.url for each in replicas], environ, cipher, url, replicas[1].kill
        )


async def add_accounts(store: Store) -> None:
    async with store:
        for account in ACCOUNTS:
            await add_account_to(store, account)
        now, key_hash_ = store.now(), key_hash("wdk_operator")
        await store.accounts.add("operator", "operator", PLANS["trial"], now=now)
        await store.accounts.add_key(
            "key_operator", "operator", "pc", key_hash_, now=now, scopes=("admin",)
        )


def start_jobs(service: Service, site: Site) -> dict[str, str]:
    """Start crawls that end well, badly or not yet; return the account of each."""
    owners = {}
    for number in range(JOBS):
        account = ACCOUNTS[number % 2]
        target = site.at(f"/start/{number}")
        if number % 5 == 4:
            target = "http://127.0.0.1:1024/nothing?word=hidden"
        body = {"url": target, "max_pages": 6, "respect_robots_txt": False}
        url = service.urls[number % len(service.urls)]
        reply = httpx.post(
            f"{url}/v1/crawl", json=body, headers=headers_of(account), timeout=TIMEOUT_S
        )
        owners[str(reply.raise_for_status().json()["job_id"])] = account
    return owners


def wait_for_ends(service: Service, owners: dict[str, str]) -> Counter[tuple[str, str]]:
    """Wait for all jobs; return how many of each account ended how."""
    ends: Counter[tuple[str, str]] = Counter()
    deadline = time.monotonic() + 180
    for job_id, account in owners.items():
        while (
            state := service.get(account, f"/v1/crawl/{job_id}").json()["status"]
        ) not in TERMINAL:
            assert time.monotonic() < deadline, (job_id, state)
            time.sleep(0.2)
        ends[account, state] += 1
    return ends


async def ledger_sums(service: Service) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    async with service.store() as store:
        for account in ACCOUNTS:
            for line in await store.accounts.ledger(account):
                if line.kind == "charge":
                    sums[account, f"{line.platform}/{line.operation}"] += line.credits
    return sums


def test_every_question_is_answered_while_jobs_run_and_a_process_is_killed(
    service: Service, site: Site
) -> None:
    for number in range(JOBS):
        links = "".join(f'<a href="/page/{number}/{n}">{n}</a>' for n in range(5))
        site.page(f"/start/{number}", f"<title>{number}</title>{links}", delay=0.2)
        for n in range(5):
            site.page(f"/page/{number}/{n}", f"<title>{n}</title><p>Text {n}.</p>", delay=0.2)
    owners = start_jobs(service, site)
    asked = questions()
    assert len(asked) == 12
    job_id = next(iter(owners))
    service.kill()
    for question, command, view in asked:
        assert f"<h1>{VIEWS[view].title}" in service.page(view), question
        if "JOB_ID" in command:
            assert job_id in service.run(command.replace("JOB_ID", job_id))
        elif not re.search(r"rotate|suspend|check", command):
            assert service.run(command), question
    ends = wait_for_ends(service, owners)
    assert sum(ends.values()) == JOBS
    for account in ACCOUNTS:
        assert ends[account, "failed"] > 0
        [row] = service.rows(f"webdata accounts usage {account} --by account")
        assert int(row["jobs"]) == sum(n for (name, _), n in ends.items() if name == account)
        assert int(row["failed"]) == ends[account, "failed"]
        table = service.rows(f"webdata store jobs --account {account}")
        assert {each["job"] for each in table} == {
            job for job, owner in owners.items() if owner == account
        }
    used = service.rows("webdata accounts usage --by account,operation")
    credited = Counter({(row["account"], row["operation"]): int(row["credits"]) for row in used})
    assert +credited == +asyncio.run(ledger_sums(service))
    for account in ACCOUNTS:
        assert account in service.page(f"usage?account={account}&by=account")
    assert all(job in service.page("jobs") for job in owners)
    assert sum(credited.values()) > 0
    if service.store_url is None:
        service.run("webdata store check")
        kinds = Counter({("serve", "live"): 1})
    else:
        service.run(f"webdata store check {service.store_url}")
        kinds = Counter({("serve", "live"): 1, ("serve", "silent"): 1, ("dask", "live"): 2})
    found = service.rows("webdata store replicas")
    assert Counter((row["kind"], row["state"]) for row in found) == kinds
    [failures] = service.rows("webdata store failures")
    assert int(failures["jobs"]) == sum(n for (_, end), n in ends.items() if end == "failed")
    assert "hidden" not in failures["reason"]
    service.run(f"webdata keys rotate key_{ACCOUNTS[0]}")
    service.run(f"webdata accounts suspend {ACCOUNTS[1]}")
