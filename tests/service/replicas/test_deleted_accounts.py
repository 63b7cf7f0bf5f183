"""A deleted account leaves no word: not in a table, not in a byte of a file, whatever is killed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sqlite3
import subprocess
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from tests.planted_secrets import PlantedSecrets, cells, unpacked
from tests.postgres import PostgresServer
from tests.preloaded import PACKAGE, run_command, start_command
from tests.service.conftest import Api, open_service
from tests.service.webhooks.endpoint import Endpoint
from tests.site.server import Site
from webdata_nb.contract import paths
from webdata_nb.contract.limits import SCRAPE_TIMEOUT_MS
from webdata_nb.service.compression import zstd
from webdata_nb.service.creatives.sample import advertiser_ids
from webdata_nb.service.encryption import FixedKeys, KeyFile, SecretCipher, key_hash, new_key
from webdata_nb.service.ledger import Terms
from webdata_nb.service.segments import mover
from webdata_nb.service.store.backends import open_store
from webdata_nb.service.store.sql.store import Store

pytestmark = pytest.mark.slow

DEADLINE_S: Final = 120.0
# The answers of the command at which it is killed.
LINES: Final = ("keys of", "its jobs", "local search", "its files", "any more")
KILLED_DELETION: Final = """
import os, signal
from webdata_nb.__main__ import main
from webdata_nb.service.store.sql.accounts import AccountStore

clear = AccountStore.clear

async def clear_and_die(*arguments, **options):
    await clear(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)

AccountStore.clear = clear_and_die
main()
"""
KINDS: Final = (
    *("name", "key", "path", "title", "text", "raw", "query", "selector", "header", "cookie"),
    *("hook", "signature", "idempotency", "host", "robots", "running", "waiting", "private"),
)
# Sealed, hashed or never written: they must not show before the deletion either.
HIDDEN: Final = ("header", "cookie", "hook", "signature", "idempotency")

# What changes while webhooks are sent.
ATTEMPT: Final = (
    "attempts",
    "last_used_at",
    "due_at",
    "ended_at",
    "error",
    "lease",
    "lease_until",
    "state",
    "status",
)


@dataclass(frozen=True, slots=True)
class Deployment:
    """The processes of a service, and where they store what."""

    root: Path
    url: str | None
    key: str
    blobs: str | None
    names: tuple[str, ...]

    def folder(self, name: str) -> Path:
        return self.root / name

    def store(self) -> Store:
        folder = self.folder(self.names[0])
        keys = KeyFile(folder / "secret.key") if self.url is None else FixedKeys((self.key,))
        return open_store(folder, SecretCipher(keys), self.url)

    @asynccontextmanager
    async def services(self) -> AsyncIterator[list[Api]]:
        keys = () if self.url is None else (self.key,)
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(
                    open_service(
                        self.folder(name),
                        "team",
                        allow_networks=("127.0.0.0/8",),
                        webhook_loopback=True,
                        store=self.url,
                        secret_keys=keys,
                        replica=None if self.url is None else name,
                        blobs=self.blobs,
                        slots=6,
                    )
                )
                for name in self.names
            ]

    def command(self, *words: str) -> list[str]:
        place = ["--data-dir", str(self.folder(self.names[0]))]
        place += [] if self.url is None else ["--store", self.url]
        return ["accounts", *words, *place]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_command(*self.command(*words), env=self.environ())

    def run_without_blobs(self, *words: str) -> subprocess.CompletedProcess[str]:
        environ = {**self.environ(), "WEBDATA_BLOBS": ""}
        return run_command(*self.command(*words), env=environ)

    def check(self) -> subprocess.CompletedProcess[str]:
        """Run `webdata store check`."""
        place = ["--data-dir", str(self.folder(self.names[0]))]
        place += [] if self.url is None else [self.url]
        return run_command("store", "check", *place, env=self.environ())

    def environ(self) -> dict[str, str]:
        blobs = {} if self.blobs is None else {"WEBDATA_BLOBS": self.blobs}
        return {**os.environ, "WEBDATA_HOME": str(self.root / "home"), **blobs}

    def kill_at(self, line: str, *words: str) -> str:
        """Run a command, and kill it when it has printed a line."""
        seen = ""
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        command = self.command(*words)
        with start_command(*command, env=self.environ(), text=True, **streams) as process:
            for each in process.stdout or ():
                seen += each
                if line in each:
                    process.kill()
                    break
            process.wait(DEADLINE_S)
        return seen

    def kill_when_the_name_is_free(self, *words: str) -> None:
        """Run a deletion, and kill it before it erases the name."""
        ended = PACKAGE.run(KILLED_DELETION, *self.command(*words), env=self.environ())
        # An earlier kill may have come as late.
        assert ended.returncode == -signal.SIGKILL or "no account named" in ended.stderr

    def written(self) -> dict[str, bytes]:
        """Return what is stored anywhere: files, cells and rows, with what they compress."""
        found: dict[str, bytes] = {}
        # By another process: whoever closes a file of SQLite gives up all locks of its process.
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cp", "-r", f"{self.root}/.", folder], check=True)
            for path in sorted(each for each in Path(folder).rglob("*") if each.is_file()):
                name, data = str(path.relative_to(folder)), path.read_bytes()
                found[f"{name} "] = name.encode()
                found[name] = readable(data)
                if data.startswith(b"SQLite format 3\0"):
                    found[f"{name}, by cell"] = readable(cells(self.root / name))
        if self.url is not None:
            for table, table_rows in self.tables().items():
                values = (value for row in table_rows for value in row.values())
                found[f"table {table}"] = readable(b"\n".join(map(as_bytes, values)))
        return found

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return every row of every table by its table, from the catalog."""
        if self.url is None:
            found: dict[str, list[dict[str, Any]]] = {}
            for file in ("jobs.sqlite", "index.sqlite"):
                path = self.folder(self.names[0]) / file
                with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                    database.row_factory = sqlite3.Row
                    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                    for (name,) in names.fetchall():
                        if name.startswith("page_text"):
                            continue  # its bytes are looked at
                        rows = database.execute(f'SELECT * FROM "{name}"').fetchall()
                        found[name] = [dict(row) for row in rows]
            return found
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
            ).fetchall()
            return {
                row["tablename"]: connection.execute(
                    sql.SQL("SELECT * FROM {}").format(sql.Identifier(row["tablename"]))
                ).fetchall()
                for row in tables
            }


def as_bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()


def readable(data: bytes) -> bytes:
    """Return bytes with all that they compress, wherever it begins."""
    return b"\n".join((data, unpacked(data), *streams(data)))


def streams(data: bytes) -> Iterator[bytes]:
    for magic in (b"\x28\xb5\x2f\xfd", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"):
        start = data.find(magic)
        while start >= 0:
            with suppress(zstd.ZstdError, zlib.error):
                part = data[start : start + (1 << 22)]
                if magic[0] == 0x78:
                    yield zlib.decompressobj().decompress(part)
                else:
                    yield zstd.ZstdDecompressor().decompress(part)
            start = data.find(magic, start + 1)


class Tenant:
    """An account with a word of its own in each place."""

    def __init__(self, site: Site, endpoint: Endpoint, account_id: str) -> None:
        self.site, self.endpoint, self.id = site, endpoint, account_id
        self.words = PlantedSecrets(*KINDS)
        self.headers = {"Authorization": f"Bearer wdk_{account_id}"}
        self.ended: list[tuple[str, str]] = []
        word = self.words.plain
        self.folder = f"/{word('path')}"
        text = f"{word('text')} and {account_id} speak of walruses. " * 40
        links = "".join(f'<a href="{self.folder}/{number}">{number}</a>' for number in range(8))
        for number in range(8):
            site.page(
                f"{self.folder}/{number}",
                f"<html><head><title>{word('title')} {number}</title></head><body>"
                f"<!-- {word('raw')} --><p>{number} {text}</p>{links}"
                "</body></html>",
            )
        site.page(f"{self.folder}/{word('private')}", f"<title>Private</title><p>{text}</p>")
        for name in ("running", "waiting"):
            site.page(f"/{word(name)}", f"<p>{word(name)}</p>")

    @property
    def name(self) -> str:
        return self.words.plain("name")

    async def add(self, store: Store) -> None:
        now, word = store.now(), self.words.plain
        await store.accounts.add(self.id, self.name, Terms("team", 50_000, 50), now=now)
        await store.accounts.add_key(
            f"key_{self.id}", self.id, word("key"), key_hash(f"wdk_{self.id}"), now=now
        )

    async def work(self, apis: Sequence[Api]) -> None:
        """Run jobs of each kind to their end, on either process."""
        word = self.words.plain
        bodies: list[tuple[str, dict[str, Any]]] = [
            (
                "crawl",
                {
                    "url": self.site.at(f"{self.folder}/0"),
                    "max_pages": 8,
                    "scrape_options": {
                        "formats": ["markdown", "html", "raw_html", "links", "headings"],
                        "extract": {
                            "schema": {
                                "type": "object",
                                "properties": {"title": {"type": "string"}},
                                "description": word("selector"),
                            }
                        },
                    },
                    "webhook_url": f"{self.endpoint.url}&{word('hook')}=1",
                    "webhook_secret": self.words["signature"],
                },
            ),
            (
                "crawl",
                {
                    "url": self.site.at(f"{self.folder}/{word('private')}"),
                    "max_pages": 1,
                    "scrape_options": {
                        "headers": {"X-Key": word("header")},
                        "cookies": {"sid": word("cookie")},
                    },
                },
            ),
            ("crawl", {"url": f"http://{word('host')}.invalid/", "max_pages": 1}),
            ("search", {"query": f"walruses {word('query')}", "formats": ["markdown"]}),
            ("search", {"query": "walruses", "formats": ["markdown", "raw_html"]}),
        ]
        for number, (kind, body) in enumerate(bodies):
            api = apis[number % len(apis)]
            headers = {**self.headers, "Idempotency-Key": f"{word('idempotency')}-{number}"}
            job_id = await api.start_job(kind, body, headers=headers)
            await api.wait_for_end(kind, job_id, headers=self.headers)
            self.ended.append((kind, job_id))
        deleted = await apis[0].start_job(
            "crawl", {"url": self.site.at(f"{self.folder}/7"), "max_pages": 1}, headers=self.headers
        )
        await apis[0].wait_for_end("crawl", deleted, headers=self.headers)
        reply = await apis[0].http.delete(f"/v1/jobs/{deleted}", headers=self.headers)
        assert reply.status_code == 200
        for api in apis:
            body = {
                "advertiser_id": advertiser_ids()[0],
                "limit": 1,
                "should_download_assets": True,
            }
            await api.post(paths.CREATIVES, body, headers=self.headers)

    async def begin(self, api: Api) -> tuple[str, str]:
        """Start a job that runs, and one that waits behind its host."""
        word = self.words.plain
        running, waiting = [
            await api.start_job(
                "crawl",
                {
                    "url": self.site.at(f"/{word(name)}"),
                    "max_pages": 1,
                    # The site holds the page until the commands are done, on a loaded machine too.
                    "scrape_options": {"timeout": SCRAPE_TIMEOUT_MS[1]},
                },
                headers=self.headers,
            )
            for name in ("running", "waiting")
        ]
        return running, waiting

    async def replies(self, api: Api) -> dict[str, bytes]:
        """Return what its requests find."""
        found = {}
        for kind, job_id in self.ended:
            for path in ("", "/export?format=json", "/events"):
                reply = await api.http.get(f"/v1/{kind}/{job_id}{path}", headers=self.headers)
                found[f"{job_id}{path}"] = str(reply.status_code).encode() + reply.content
        return found


def of_account(deployment: Deployment, account_id: str, job_ids: set[str]) -> dict[str, list[str]]:
    """Return an account's balance and ledger, and its rows and contents of some ended jobs."""
    tables = deployment.tables()
    contents = {as_bytes(row["content_id"]) for row in tables["entry"] if row["job_id"] in job_ids}

    def is_kept(table: str, row: Mapping[str, Any]) -> bool:
        match table:
            case "account":
                return bool(row["id"] == account_id)
            case "api_key" | "ledger" | "hold" | "unreachable_site":
                return bool(row["account_id"] == account_id)
            case "content":
                return as_bytes(row["id"]) in contents
            case "job":
                return row["id"] in job_ids
        return row.get("job_id") in job_ids

    return {
        table: sorted(
            str(sorted((name, value) for name, value in row.items() if name not in ATTEMPT))
            for row in rows
            if is_kept(table, row)
        )
        for table, rows in tables.items()
    }


def account_files(deployment: Deployment, account_id: str) -> dict[str, bytes]:
    """Return the files of creatives and of stored pages of an account."""
    folder = hashlib.sha256(account_id.encode()).hexdigest()[:32]
    return {
        str(path.relative_to(deployment.root)): path.read_bytes()
        for path in deployment.root.rglob("*")
        if path.is_file() and folder in path.parts
    }


async def wait_until_files_are_gone(deployment: Deployment, account_id: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if not account_files(deployment, account_id):
                return
            await asyncio.sleep(0.05)


@pytest.fixture
def move_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "MOVE_DELAY_S", 0.0)


async def wait_until_moved(store: Store) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if not await store.segments.jobs_to_move(limit=1):
                return
            await asyncio.sleep(0.05)


def traces(words: PlantedSecrets, written: Mapping[str, bytes]) -> set[str]:
    return {each.rpartition(": ")[2].partition(" ")[0] for each in words.traces(written)}


CASES: Final = [
    pytest.param(store, blobs, killed, id=f"{store}-{'blobs' if blobs else 'database'}-{number}")
    for store in ("sqlite", "postgres")
    for blobs in (False, True)
    for number, killed in enumerate(((), LINES))
]


@pytest.mark.usefixtures("move_at_once")
@pytest.mark.parametrize(("kind", "has_blobs", "killed"), CASES)
async def test_a_deleted_account_leaves_no_word(
    kind: str,
    has_blobs: bool,
    killed: tuple[str, ...],
    tmp_path: Path,
    site: Site,
    request: pytest.FixtureRequest,
) -> None:
    url = None
    if kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.new_schema()
    blobs = (tmp_path / "files").as_uri() if has_blobs else None
    names = ("first",) if url is None else ("first", "second")
    deployment = Deployment(tmp_path, url, new_key(), blobs, names)
    async with Endpoint(answers=[500] * 1000) as endpoint, deployment.services() as apis:
        alice, bob = Tenant(site, endpoint, "a1"), Tenant(site, endpoint, "b2")
        async with deployment.store() as store:
            for tenant in (alice, bob):
                await tenant.add(store)
                await tenant.work(apis)
            if has_blobs:
                await wait_until_moved(store)
        gates = [
            site.hold(f"/{tenant.words.plain(name)}")
            for tenant in (alice, bob)
            for name in ("running", "waiting")
        ]
        for tenant in (alice, bob):
            await tenant.begin(apis[-1])
        await asyncio.to_thread(site.wait_for, f"/{bob.words.plain('running')}", 1)
        before = await asyncio.to_thread(deployment.written)
        for tenant in (alice, bob):
            assert traces(tenant.words, before) == {*KINDS} - {*HIDDEN, "robots"}
        ended = {job_id for _, job_id in bob.ended}
        rows = await asyncio.to_thread(of_account, deployment, bob.id, ended)
        for table in ("account", "ledger", "content", "entry", "receipt_count", "indexed_page"):
            assert rows[table], table
        replies = await bob.replies(apis[0])
        files = account_files(deployment, bob.id)
        assert files
        assert account_files(deployment, alice.id)

        unconfirmed = await asyncio.to_thread(deployment.run, "delete", alice.name)
        assert unconfirmed.returncode == 2
        facts = dict(line.rsplit(maxsplit=1) for line in unconfirmed.stdout.splitlines())
        assert (facts["jobs"], facts["pending or running"], facts["keys"]) == ("7", "2", "1")
        assert (int(facts["files of pages"]) > 0) == has_blobs
        if has_blobs:
            refused = await asyncio.to_thread(
                deployment.run_without_blobs, "delete", alice.name, "--yes"
            )
            assert (refused.returncode, "with --blobs" in refused.stderr) == (1, True)
        await apis[0].get("/v1/jobs", headers=alice.headers)
        for line in killed:
            await asyncio.to_thread(deployment.kill_at, line, "delete", alice.name, "--yes")
        if killed:
            words = ("delete", alice.name, "--yes")
            await asyncio.to_thread(deployment.kill_when_the_name_is_free, *words)
        result = await asyncio.to_thread(deployment.run, "delete", alice.name, "--yes")
        # The last kill may come too late.
        assert result.returncode == 0 or (killed and "no account named" in result.stderr)
        for api in apis:
            reply = await api.http.get("/v1/jobs", headers=alice.headers)
            assert reply.status_code in {401, 403}
        assert await bob.replies(apis[0]) == replies
        assert await asyncio.to_thread(of_account, deployment, bob.id, ended) == rows
        assert account_files(deployment, bob.id) == files
        if has_blobs or url is None:  # else the other process has files of its own
            assert account_files(deployment, alice.id) == {}
        for gate in gates:
            gate.release()
        listed = await apis[0].get("/v1/jobs", headers=bob.headers)
        for job in listed["jobs"]:
            await apis[0].wait_for_end(job["type"], job["job_id"], headers=bob.headers)
        after = await asyncio.to_thread(deployment.written)
        assert alice.words.traces(after) == []
        # A full-text index leaves out what a word has in common with the one before it.
        endings = [alice.words.plain(kind)[6:-2].encode() for kind in KINDS]
        assert not [place for place, data in after.items() for each in endings if each in data]
        assert traces(bob.words, after) >= traces(bob.words, before)
        async with deployment.store() as store:
            ledger = await store.accounts.ledger(alice.id)
            [left] = [
                each for each in await store.accounts.all(now=store.now()) if each.id == alice.id
            ]
            assert (left.name, left.state) == (f"deleted {alice.id}", "deleted")
            assert sum(line.monthly for line in ledger) == left.balance.monthly_left
            assert sum(line.credits for line in ledger) > 0
    async with deployment.services():
        await wait_until_files_are_gone(deployment, alice.id)
    assert alice.name not in deployment.run("list").stdout
    assert left.name in deployment.run("list", "--all").stdout
    assert deployment.run("create", alice.name).returncode == 0
    check = deployment.check()
    assert check.returncode == 0, check.stdout
