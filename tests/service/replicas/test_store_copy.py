"""`webdata store copy` moves a stopped service's data to PostgreSQL, also when it is killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PostgresServer
from tests.service.conftest import open_service
from tests.service.replicas.every_get import every_reply
from tests.stores.filled_store import ACCOUNTS, SECRET, bearer, fill_store
from webdata_nb.service.blobs.store import open_blob_store
from webdata_nb.service.creatives.enrich import FileStore
from webdata_nb.service.encryption import FixedKeys, SecretCipher, new_key
from webdata_nb.service.errors import UnfinishedCopy
from webdata_nb.service.local_lifetime import LocalLifetime
from webdata_nb.service.store.backends import open_store
from webdata_nb.service.store.sql.named_statements import SCHEMA_VERSION
from webdata_nb.service.store.sqlite.store import SqliteStore

pytestmark = [pytest.mark.slow, pytest.mark.sqlite("copies a SQLite store")]

JOBS, ROWS, ROW_BYTES = 12, 600, 20_000


@dataclass(frozen=True, slots=True)
class StoppedService:
    """A data directory whose service has stopped, its jobs by account, and a new key."""

    directory: Path
    job_ids: dict[str, list[str]]
    key: str
    file: str

    def command(self, url: str, *options: str, key: str | None = None) -> subprocess.Popen[str]:
        """Start a copy."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith("WEBDATA_")}
        variables["WEBDATA_HOME"] = str(self.directory.parent / "home")
        variables["WEBDATA_SECRET_KEY"] = self.key if key is None else key
        words = ["store", "copy", f"sqlite:{self.directory}", url, *options]
        return subprocess.Popen(
            [sys.executable, "-m", "webdata_nb", *words],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def copy(self, url: str, *options: str, key: str | None = None) -> tuple[int, str, str]:
        """Run a copy to its end; return its exit code and output."""
        with self.command(url, *options, key=key) as process:
            out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def check_refusal(self, url: str, *words: str, key: str | None = None) -> None:
        """Run a copy that is refused in one line with these words."""
        code, out, err = self.copy(url, key=key)
        lines = [line for line in err.splitlines() if line]
        assert (code, out, len(lines)) == (1, "", 1), err
        assert all(word in lines[0] for word in words), lines[0]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> StoppedService:
    """Write a data directory once; each test copies it."""
    directory = tmp_path_factory.mktemp("filled") / "data"

    async def fill() -> dict[str, list[str]]:
        async with SqliteStore(directory / "jobs.sqlite") as store:
            return await fill_store(store, job_count=JOBS, row_count=ROWS, row_bytes=ROW_BYTES)

    job_ids = asyncio.run(fill())
    return StoppedService(directory, job_ids, new_key(), asyncio.run(store_file(directory)))


async def store_file(directory: Path) -> str:
    """Store a file of Alice's; return its hash."""
    async with open_blob_store(None, directory) as blobs:
        return str((await FileStore(blobs).put("alice", b"a picture"))["sha256"])


@pytest.fixture
def stopped(filled: StoppedService, tmp_path: Path) -> StoppedService:
    shutil.copytree(filled.directory, tmp_path / "data")
    return StoppedService(tmp_path / "data", filled.job_ids, filled.key, filled.file)


def kill_at(process: subprocess.Popen[str], words: str) -> None:
    """Kill a copy when it reports a line with these words."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            break
    else:
        raise AssertionError(f"the copy never reported {words!r}")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def english_database(server: PostgresServer) -> str:
    """Create a database that orders texts as a dictionary does; return its URL."""
    name = f"copy_{uuid.uuid4().hex}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
        )
    return server.url.replace("/postgres", f"/{name}")


async def test_a_killed_copy_is_continued_and_answers_alike(
    stopped: StoppedService, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = english_database(postgres_server)
    for words in ("rows of account", "rows of job", "rows of entry", "comparing", "comparing"):
        with stopped.command(url) as process:
            kill_at(process, words)
        assert process.returncode == -signal.SIGKILL
    with pytest.raises(UnfinishedCopy, match="run it again"):
        async with open_store(tmp_path, SecretCipher(FixedKeys((stopped.key,))), url):
            pass
    code, out, err = stopped.copy(url)
    assert code == 0, err
    lines = dict(line.split(": ") for line in out.splitlines())
    assert lines["entry"].startswith(f"{ROWS} rows, checksum ")
    assert "1 downloaded files of creatives stay in" in err
    assert "do not start a service" in err
    assert stopped.copy(url)[0] == 0  # nothing to do

    shutil.copytree(stopped.directory / "creatives", tmp_path / "new" / "creatives")
    keys = (stopped.key,)
    async with (
        open_service(stopped.directory, "team") as old,
        open_service(tmp_path / "new", "team", store=url, secret_keys=keys) as new,
    ):
        for account in ACCOUNTS:
            replies = [
                await every_reply(
                    api.http,
                    bearer(account),
                    stopped.job_ids[account],
                    files=(stopped.file,),
                    per_page=20,
                )
                for api in (old, new)
            ]
            assert len(replies[0]) > 100
            assert {url for url in replies[0] if replies[0][url] != replies[1][url]} == set()
            assert replies[0].keys() == replies[1].keys()


@pytest.mark.smoke
async def test_secrets_are_encrypted_with_the_new_key(
    stopped: StoppedService, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = postgres_server.new_schema()
    assert stopped.copy(url)[0] == 0
    with psycopg.connect(url) as connection:
        texts = [row[0] for row in connection.execute("SELECT sealed FROM job")]
    cipher = SecretCipher(FixedKeys((stopped.key,)))
    assert len(texts) == JOBS
    assert all(SECRET in str(cipher.decrypt(text)) for text in texts)
    async with open_store(tmp_path, cipher, url) as store:
        job = (await store.jobs("alice", limit=1))[0]
        assert job.request["scrape_options"] == {"headers": {"X-Key": SECRET}}


def test_a_running_service_is_not_copied(
    stopped: StoppedService, postgres_server: PostgresServer
) -> None:
    url = postgres_server.new_schema()
    lifetime = LocalLifetime(stopped.directory, version="0", schema=1, managed=False)
    lifetime.acquire()
    try:
        stopped.check_refusal(url, "a service runs on", "stop it")
    finally:
        lifetime.close()
    assert tables(url) == []


def tables(url: str) -> list[str]:
    query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute(query)]


def test_a_database_with_other_data_is_refused(
    stopped: StoppedService, postgres_server: PostgresServer
) -> None:
    url = postgres_server.new_schema()
    assert stopped.copy(url)[0] == 0
    with closing(sqlite3.connect(stopped.directory / "jobs.sqlite")) as database:
        database.execute("DELETE FROM setting")  # as if it were another service
        database.commit()
    stopped.check_refusal(url, "a copy of another service")
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM setting WHERE name = 'copy target'")
    stopped.check_refusal(url, "already has rows", "empty")


def test_keys_are_checked_before_anything_is_copied(
    stopped: StoppedService, postgres_server: PostgresServer
) -> None:
    url = postgres_server.new_schema()
    lost = SecretCipher(FixedKeys((new_key(),))).encrypt({"context": {"a": "b"}})
    job_id = stopped.job_ids["alice"][0]
    with closing(sqlite3.connect(stopped.directory / "jobs.sqlite")) as database:
        database.execute("UPDATE job SET sealed = ? WHERE id = ?", [lost, job_id])
        database.commit()
    stopped.check_refusal(url, "the secrets of 1 jobs", "--keep-unreadable")
    with stopped.command(url, "--keep-unreadable") as process:
        kill_at(process, "rows of entry")
    code, _, err = stopped.copy(url, "--keep-unreadable", key=new_key())
    assert code == 1
    assert "encrypted with another key" in err.splitlines()[-1]
    assert stopped.copy(url, "--keep-unreadable")[0] == 0
    with psycopg.connect(url) as connection:
        query = "SELECT sealed FROM job WHERE id = %s"
        assert connection.execute(query, [job_id]).fetchone() == (lost,)


@pytest.mark.parametrize(
    ("version", "words"),
    [(9999, "newer release"), (SCHEMA_VERSION - 1, "before the first release")],
)
def test_another_schema_is_refused(
    stopped: StoppedService, postgres_server: PostgresServer, version: int, words: str
) -> None:
    url = postgres_server.new_schema()
    with closing(sqlite3.connect(stopped.directory / "jobs.sqlite")) as database:
        database.execute(f"PRAGMA user_version = {version}")
    stopped.check_refusal(url, str(version), words)


def test_changes_between_two_runs_are_found(
    stopped: StoppedService, postgres_server: PostgresServer
) -> None:
    url = postgres_server.new_schema()
    with stopped.command(url) as process:
        kill_at(process, "comparing")
    with closing(sqlite3.connect(stopped.directory / "jobs.sqlite")) as database:
        database.execute("UPDATE entry SET url = url || '?' WHERE ordinal = 3")
        database.commit()
    code, _, err = stopped.copy(url)
    assert code == 1
    assert "the copy of the table entry differs" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("jobs.sqlite", "postgresql://h/d"), "the source is sqlite:DIR"),
        (("sqlite:", "postgresql://h/d"), "the source is sqlite:DIR"),
        (("sqlite:/nowhere", "postgresql://h/d"), "no service has its data in /nowhere"),
        (("sqlite:.", "mysql://u:hunter2@h/d"), "takes sqlite"),
    ],
)
def test_wrong_arguments(tmp_path: Path, words: tuple[str, str], expected: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "webdata_nb", "store", "copy", *words],
        env=os.environ | {"WEBDATA_HOME": str(tmp_path), "WEBDATA_SECRET_KEY": new_key()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode in {1, 2}
    [line] = result.stderr.splitlines()
    assert expected in line
    assert "hunter2" not in line
