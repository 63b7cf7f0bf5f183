"""The tables of a new database, and databases that another version wrote."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PostgresServer
from webdata_nb.service.errors import OtherSchema
from webdata_nb.service.store.postgres.database import open_schema
from webdata_nb.service.store.sql.connection import SCHEMA_VERSION
from webdata_nb.service.store.sqlite.database import SqliteStore

UNRELEASED = SCHEMA_VERSION - 1
# A process that opens a store, and ends at once where it runs a statement with the last argument.
OPEN_SQLITE = """
import asyncio, os, sqlite3, sys
from pathlib import Path
from webdata_nb.service.store.sqlite.database import SqliteDatabase

class Connection(sqlite3.Connection):
    def execute(self, statement, *values):
        if sys.argv[2] and sys.argv[2] in statement:
            os._exit(9)
        return super().execute(statement, *values)

async def main():
    SqliteDatabase.connection_type = Connection
    async with SqliteDatabase(Path(sys.argv[1])):
        pass

asyncio.run(main())
"""
OPEN_POSTGRES = """
import os, sys
import psycopg
from webdata_nb.service.store.postgres.database import open_schema

class Connection(psycopg.Connection):
    def execute(self, statement, *values, **options):
        if sys.argv[2] in str(statement):
            os._exit(9)
        return super().execute(statement, *values, **options)

with Connection.connect(sys.argv[1]) as connection:
    open_schema(connection)
"""


def run(program: str, *arguments: str) -> int:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, timeout=120, check=False).returncode


def sqlite_tables(path: Path) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite%' ORDER BY name"
    with closing(sqlite3.connect(path)) as database:
        return [row[0] for row in database.execute(query)]


def sqlite_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("PRAGMA user_version").fetchone()[0])


def tables(connection: psycopg.Connection) -> list[str]:
    query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
    return [row[0] for row in connection.execute(query)]


def versions(connection: psycopg.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT version FROM schema_version")]


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize(
    ("version", "words"),
    [
        (UNRELEASED, "a version before the first release.*to start anew, use another data dir"),
        (SCHEMA_VERSION + 1, "use the newer release"),
    ],
)
async def test_a_file_of_another_version_is_refused_and_stays_as_it_is(
    tmp_path: Path, version: int, words: str, mode: str
) -> None:
    path = tmp_path / "jobs.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA journal_mode = {mode}")
        database.executescript(f"CREATE TABLE job (id TEXT); PRAGMA user_version = {version};")
    before = path.read_bytes()
    with pytest.raises(OtherSchema, match=words) as refusal:
        await SqliteStore(path).__aenter__()
    assert str(path) in str(refusal.value)
    assert path.read_bytes() == before


async def test_a_file_without_tables_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    path.touch()
    async with SqliteStore(path):
        pass
    assert sqlite_version(path) == SCHEMA_VERSION


def test_processes_that_start_together_create_one_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    command = [sys.executable, "-c", OPEN_SQLITE, str(path), ""]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(timeout=120) for process in processes] == [0] * 4
    assert sqlite_version(path) == SCHEMA_VERSION


def test_a_process_killed_while_it_creates_a_file_leaves_no_half_of_it(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.sqlite", tmp_path / "jobs.sqlite"
    assert run(OPEN_SQLITE, str(whole), "") == 0
    for statement in ("CREATE TABLE entry", "CREATE INDEX delivery_job", "PRAGMA user_version ="):
        assert run(OPEN_SQLITE, str(path), statement) == 9
        assert (sqlite_version(path), sqlite_tables(path)) == (0, [])
    assert run(OPEN_SQLITE, str(path), "") == 0
    assert sqlite_version(path) == SCHEMA_VERSION
    assert sqlite_tables(path) == sqlite_tables(whole)


@pytest.mark.slow
def test_a_process_killed_while_it_creates_tables_leaves_none(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.new_schema()
    for statement in ("CREATE TABLE account", "INSERT INTO schema_version"):
        assert run(OPEN_POSTGRES, url, statement) == 9
        with psycopg.connect(url) as connection:
            assert tables(connection) == []
    with psycopg.connect(url, autocommit=True) as connection:
        open_schema(connection)
        assert versions(connection) == [SCHEMA_VERSION]
        open_schema(connection)
        assert versions(connection) == [SCHEMA_VERSION]


@pytest.mark.slow
def test_tables_of_an_unreleased_version_are_refused_and_stay_as_they_are(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.new_schema()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
        connection.execute("INSERT INTO schema_version VALUES (1), (%s)", [UNRELEASED])
        with pytest.raises(OtherSchema, match=r"use an empty PostgreSQL database$"):
            open_schema(connection)
        assert tables(connection) == ["schema_version"]
        assert versions(connection) == [1, UNRELEASED]
