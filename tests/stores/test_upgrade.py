"""Databases of earlier releases, with data in them, opened by this one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path

import orjson
import psycopg
import pytest

from tests.postgres import PostgresServer
from tests.stores.jobs import account_of
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.encryption import KEY_FILE, FixedKeys, KeyFile, SecretCipher, new_key
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.postgres.dialect import postgres_migrations
from webdata_nb.service.store.sql.named_statements import migrations, schema_version
from webdata_nb.service.store.sql.store import SqlStore
from webdata_nb.service.store.sqlite.store import SqliteStore

DATA = """
INSERT INTO account VALUES ('a1', 'alice', 1.0);
INSERT INTO api_key VALUES ('k1', 'a1', 'laptop', 'the hash', 1.0, NULL);
INSERT INTO job VALUES ('j1', 'a1', 'crawl', 'completed', 'https://x.test/',
  '{"url": "https://x.test/", "scrape_options": {"headers": {"X-Key": "plain"}}}', '{}',
  2.0, 3.0, 4.0, NULL, NULL, 1, 1, 1, 1, NULL, '{}');
INSERT INTO job VALUES ('j2', 'a1', 'search', 'running', 'q', '{"query": "q"}', '{}',
  5.0, 6.0, NULL, 'a dead worker', 7.0, 1, 0, 0, 0, NULL, '{}');
INSERT INTO entry VALUES ('j1', 0, 0, 'https://x.test/', TRUE, '{"url": "https://x.test/"}', '{}');
INSERT INTO receipt (job_id, url, outcome) VALUES ('j1', 'https://x.test/', 'fetched');
"""


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Write the file as the first release did."""
    path = tmp_path / "jobs.sqlite"
    number, script = next(iter(migrations()))
    assert number == 1
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"{script}; {DATA}; PRAGMA user_version = 1;")
    return path


async def test_database_of_the_first_release_opens_with_all_data(first: Path) -> None:
    async with SqliteStore(first) as store:
        assert await account_of(store, "the hash", now=10.0) == "a1"
        crawl = await store.job("a1", "j1")
        assert (crawl.state, crawl.published) == (JobStatus.COMPLETED, 1)
        assert crawl.request["scrape_options"] == {"headers": {"X-Key": "plain"}}
        rows = await store.rows("a1", "j1", start=0, count=10)
        assert [orjson.loads(row) for row in rows] == [{"url": "https://x.test/"}]
        assert (await store.receipt("j1", examples=1)).counts == {"fetched": 1}
        [(claimed, _)] = await store.claim("a worker", lease_s=15.0, now=10.0)
        assert claimed.id == "j2"
    with closing(sqlite3.connect(first)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (schema_version(),)
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []


def before_webhook_urls_were_sealed(path: Path) -> SecretCipher:
    """Write a database of the release before, with jobs of four kinds."""
    cipher = SecretCipher(KeyFile(path.with_name(KEY_FILE)))
    lost = SecretCipher(FixedKeys((new_key(),)))
    url = '"webhook_url": "https://hooks.test/secret-path"'
    request = f'{{"url": "https://x.test/", {url}}}'
    sealed = {
        "with": (request, cipher.encrypt({"request": {"webhook_secret": "s"}})),
        "alone": (request, ""),
        "without": ('{"url": "https://x.test/"}', ""),
        "lost": (
            request.replace("secret-path", "lost-path"),
            lost.encrypt({"context": {"a": "b"}}),
        ),
    }
    with closing(sqlite3.connect(path)) as database:
        for number, script in migrations():
            if number < 14:
                database.executescript(f"{script}; PRAGMA user_version = {number};")
        database.execute("INSERT INTO account (id, name, created_at) VALUES ('a1', 'alice', 1.0)")
        for job_id, (text, box) in sealed.items():
            database.execute(
                "INSERT INTO job (id, account_id, kind, state, subject, request, context,"
                " created_at, sealed) VALUES (?, 'a1', 'crawl', 'completed', 's', ?, '{}', 2.0, ?)",
                (job_id, text, box),
            )
        database.commit()
    return cipher


async def test_webhook_urls_of_older_jobs_are_encrypted(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    before_webhook_urls_were_sealed(path)
    expected = {"url": "https://x.test/", "webhook_url": "https://hooks.test/secret-path"}
    for _ in range(2):
        async with SqliteStore(path) as store:
            jobs = {job.id: job for job in await store.jobs("a1", limit=9)}
            assert jobs["with"].request == {**expected, "webhook_secret": "s"}
            assert jobs["alone"].request == expected
            assert jobs["without"].request == {"url": "https://x.test/"}
            # What cannot be sealed with the rest stays where it is.
            assert jobs["lost"].locked
            assert jobs["lost"].request["webhook_url"].endswith("lost-path")
        assert b"secret-path" not in path.read_bytes()
        assert b"lost-path" in path.read_bytes()


def data_of(path: Path, released: int) -> None:
    """Write a file as an earlier release did, with data of the first one."""
    with closing(sqlite3.connect(path)) as database:
        for number, script in migrations():
            if number <= released:
                data = DATA if number == 1 else ""
                database.executescript(f"{script}; {data}; PRAGMA user_version = {number};")


def tables_of(url: str, released: int) -> None:
    """Write a PostgreSQL database as an earlier release did, with data of the first one."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
        for number, script in postgres_migrations():
            if number <= released:
                connection.execute(script + (DATA if number == 1 else ""))
                connection.execute("INSERT INTO schema_version VALUES (%s)", [number])


async def check_data(stores: Sequence[SqlStore]) -> None:
    """Check that the data of the first release can be read, and its running job continued."""
    for store in stores:
        assert await account_of(store, "the hash", now=10.0) == "a1"
        assert (await store.job("a1", "j1")).state == JobStatus.COMPLETED
        rows = await store.rows("a1", "j1", start=0, count=10)
        assert [orjson.loads(row) for row in rows] == [{"url": "https://x.test/"}]
        assert (await store.receipt("j1", examples=1)).counts == {"fetched": 1}
    claims = [store.claim(f"worker {n}", lease_s=15.0, now=10.0) for n, store in enumerate(stores)]
    claimed = [job.id for jobs in await asyncio.gather(*claims) for job, _ in jobs]
    assert claimed == ["j2"]


RELEASED = [number for number, _ in migrations()][:-1]


@pytest.mark.parametrize("released", RELEASED)
async def test_a_file_of_any_release_opens_with_all_data(tmp_path: Path, released: int) -> None:
    data_of(tmp_path / "jobs.sqlite", released)
    async with SqliteStore(tmp_path / "jobs.sqlite") as store:
        await check_data([store])


@pytest.mark.parametrize(
    "released", [pytest.param(number, marks=pytest.mark.slow) for number in RELEASED]
)
async def test_five_replicas_upgrade_a_database_of_any_release_together(
    postgres_server: PostgresServer, released: int
) -> None:
    url, key = postgres_server.new_schema(), new_key()
    tables_of(url, released)
    async with AsyncExitStack() as stack:
        stores = [
            SqlStore(PostgresDatabase(url), SecretCipher(FixedKeys((key,)))) for _ in range(5)
        ]
        await asyncio.gather(*map(stack.enter_async_context, stores))
        await check_data(stores)
    with psycopg.connect(url) as connection:
        versions = connection.execute("SELECT version FROM schema_version ORDER BY 1").fetchall()
    assert [row[0] for row in versions] == [number for number, _ in postgres_migrations()]
