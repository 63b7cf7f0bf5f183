"""A wrong store ends a command before any work, with one sentence and without the password."""

from __future__ import annotations

import os
import re
import socket
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from tests import postgres
from tests.pgbouncer import PoolMode, pooler
from tests.ports import free_port
from tests.postgres import PostgresServer
from tests.preloaded import run_command
from webdata_nb.service.encryption import FixedKeys, SecretCipher, new_key
from webdata_nb.service.settings import OPTIONS, InvalidSetting, Mode, team_store_url
from webdata_nb.service.store.postgres.database import open_schema
from webdata_nb.service.store.sql.connection import SCHEMA_VERSION
from webdata_nb.service.store.sql.job_rows import new_canary

pytestmark = pytest.mark.slow

PASSWORD = "hunter2-of-the-test"


def run(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the package; it ends by itself if its store is wrong."""
    variables = {name: text for name, text in os.environ.items() if not name.startswith("WEBDATA_")}
    variables |= {"WEBDATA_HOME": str(tmp_path)} | environment
    place = ("--data-dir", str(tmp_path / "data"))
    return run_command(*arguments, *place, env=variables)


def check_refusal(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 1
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line]
    assert len(lines) == 1, result.stderr
    assert all(word in lines[0] for word in words), lines[0]
    assert PASSWORD not in result.stderr


@pytest.mark.parametrize(
    ("store", "words"),
    [
        (f"mysql://root:{PASSWORD}@host/db", ("--store", "sqlite", "postgresql://")),
        (f"postgresql://u:a@{PASSWORD}@host/db", ("percent-encoded", "%40")),
        (f"postgresql://u:a/{PASSWORD}@host/db", ("percent-encoded", "%2F")),
        (f"postgresql://u:a#{PASSWORD}@host/db", ("percent-encoded", "%23")),
        (f"postgresql://u:a%{PASSWORD}@host/db", ("percent-encoded", "%25")),
        (f"postgresql://u:{PASSWORD}/db", ("port", "percent-encoded")),
        ("postgresql://u@host:99999/db", ("port", "65535")),
        ("jobs.db", ("--store", "sqlite", "postgresql://")),
    ],
)
def test_unknown_stores_are_refused(store: str, words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSetting) as raised:
        team_store_url(store)
    assert all(word in str(raised.value) for word in words)
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize(
    "store",
    [
        "postgresql://u:p%40ss:word@host:5432/db?options=-csearch_path%3Dx",
        "postgresql://a:1,[::1]:2,b/db?target_session_attrs=primary",
        "postgres:///db?host=/run/postgresql",
    ],
)
def test_urls_of_libpq_are_accepted(store: str) -> None:
    assert team_store_url(store) == store


def test_the_store_of_the_environment_is_for_teams(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://host/db"
    monkeypatch.setenv("WEBDATA_STORE", url)
    assert team_store_url(None) == url
    assert team_store_url("sqlite") is None
    assert OPTIONS["store"].read(None, {"mode": "local"}) is None
    with pytest.raises(InvalidSetting, match="--mode team"):
        OPTIONS["store"].read(url, {"mode": "local"})


URL = "postgresql://host/db"


def replica_name(text: str | None, mode: Mode, store: str | None) -> str | None:
    name: str | None = OPTIONS["replica"].read(text, {"mode": mode, "store": store})
    return name


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "é", "a" * 65, "a\nb"])
def test_bad_names_of_replicas_are_refused(name: str) -> None:
    with pytest.raises(
        InvalidSetting, match=r"--replica \(WEBDATA_REPLICA\) takes 1 to 64 letters"
    ):
        replica_name(name, "team", URL)


def test_names_of_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    default = replica_name(None, "team", URL)
    assert default is not None
    assert default.endswith(f"-{os.getpid()}")
    assert replica_name(default, "team", URL) == default  # is valid itself
    monkeypatch.setenv("WEBDATA_REPLICA", "west.1")
    assert replica_name(None, "team", URL) == "west.1"
    assert replica_name("east", "team", URL) == "east"
    with pytest.raises(InvalidSetting, match="--store postgresql://"):
        replica_name(None, "team", None)
    assert replica_name(None, "local", None) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mode", "team", "--replica", "east"), ("--replica", "--store postgresql://")),
        (("--replica", "east"), ("--replica", "--mode team")),
        (("--slots", "0"), ("--slots", "1 to 256", "not 0")),
        (("--slots", "257"), ("--slots", "1 to 256", "not 257")),
    ],
)
def test_bad_replicas_and_slots_end_the_command(
    tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    check_refusal(run(tmp_path, "serve", *options), *words)
    assert not (tmp_path / "data").exists()


@pytest.mark.smoke
def test_serve_needs_a_secret_key(tmp_path: Path, postgres_server: PostgresServer) -> None:
    arguments = ("serve", "--mode", "team", "--store", postgres_server.url)
    check_refusal(run(tmp_path, *arguments), "WEBDATA_SECRET_KEY", "webdata secrets new-key")


@pytest.mark.parametrize("command", [("serve", "--mode", "team"), ("accounts", "list")])
def test_wrong_password_missing_database_and_closed_port(
    tmp_path: Path, postgres_server: PostgresServer, command: tuple[str, ...]
) -> None:
    right = postgres_server.url
    for url, word in (
        (right.replace(postgres_server.password, PASSWORD), "password authentication failed"),
        (right.replace("/postgres", "/nowhere"), '"nowhere" does not exist'),
        (right.replace(f":{postgres_server.port}/", ":1/"), "connection"),
    ):
        result = run(tmp_path, *command, WEBDATA_STORE=url, WEBDATA_SECRET_KEY=new_key())
        check_refusal(result, word)
        assert postgres_server.password not in result.stderr


def test_role_without_rights_and_newer_schema(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url = postgres_server.new_schema()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    reader = url.replace(f"webdata:{postgres_server.password}", f"reader:{PASSWORD}")
    key = new_key()
    result = run(tmp_path, "accounts", "list", WEBDATA_STORE=reader, WEBDATA_SECRET_KEY=key)
    check_refusal(result, "reader", "rights")
    assert run(tmp_path, "accounts", "list", WEBDATA_STORE=url).returncode == 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO schema_version VALUES (9999)")
    check_refusal(run(tmp_path, "accounts", "list", WEBDATA_STORE=url), "9999", "newer release")


def test_store_commands_work_on_a_database(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url, key = postgres_server.new_schema(), new_key()
    result = run(tmp_path, "keys", "create", "--name", "alice", "--store", url)
    assert result.returncode == 0, result.stderr
    checks = (
        "visible rows",
        "receipts",
        "ledger sums",
        "credits of jobs",
        "counted usage",
        "holds",
        "contents",
    )
    checked = run(tmp_path, "store", "check", url)
    server, *others = checked.stdout.splitlines()
    assert server.startswith("server: ok, PostgreSQL ")
    schema = f"schema: ok, version {SCHEMA_VERSION}"
    expected = ["settings: ok", "signals: ok", "rights: ok", schema]
    assert others == [*expected, *(f"{name}: ok" for name in checks)]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE account SET topup_left = 7")
    checked = run(tmp_path, "store", "check", url)
    assert checked.returncode == 1
    assert "account alice: balance" in checked.stdout
    check_refusal(run(tmp_path, "store", "backup", "copy", "--store", url), "pg_dump")
    check_refusal(run(tmp_path, "secrets", "rotate", "--store", url), "WEBDATA_SECRET_KEY")
    rotated = run(
        tmp_path, "secrets", "rotate", "--store", url, WEBDATA_SECRET_KEY=f"{new_key()},{key}"
    )
    assert "encrypted the secrets of 0 jobs" in rotated.stderr


def test_another_secret_key(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.new_schema()
    with psycopg.connect(url, autocommit=True) as connection:
        open_schema(connection)
        canary = new_canary(SecretCipher(FixedKeys((new_key(),))))
        connection.execute("INSERT INTO setting VALUES ('canary', %s)", [canary])
    serve = ("serve", "--mode", "team", "--port", "0", "--store", url)
    result = run(tmp_path, *serve, WEBDATA_SECRET_KEY=new_key())
    check_refusal(result, "another key", "WEBDATA_SECRET_KEY")
    result = run(tmp_path, *serve, WEBDATA_SECRET_KEY="no key")
    check_refusal(result, "WEBDATA_SECRET_KEY", "webdata secrets new-key")


def test_a_newer_schema_is_not_served(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.new_schema()
    with psycopg.connect(url, autocommit=True) as connection:
        open_schema(connection)
        connection.execute("INSERT INTO schema_version VALUES (9999)")
    serve = ("serve", "--mode", "team", "--port", "0", "--store", url)
    check_refusal(run(tmp_path, *serve, WEBDATA_SECRET_KEY=new_key()), "9999", "newer release")
    checked = run(tmp_path, "store", "check", url)
    assert checked.returncode == 1
    assert checked.stdout.splitlines()[-2] == "schema: 1 wrong"


def test_a_replica_on_sqlite(tmp_path: Path) -> None:
    result = run(tmp_path, "serve", "--mode", "team", "--replica", "a", "--port", "0")
    check_refusal(result, "--replica", "--store postgresql://")


def test_without_the_driver(tmp_path: Path) -> None:
    (tmp_path / "psycopg").mkdir()
    (tmp_path / "psycopg" / "__init__.py").write_text("raise ImportError")
    url = f"postgresql://u:{PASSWORD}@127.0.0.1:1/db"
    for command in (("serve", "--mode", "team", "--port", "0"), ("accounts", "list")):
        result = subprocess.run(
            [sys.executable, "-m", "webdata_nb", *command],
            env=os.environ
            | {
                "WEBDATA_HOME": str(tmp_path),
                "WEBDATA_STORE": url,
                "WEBDATA_SECRET_KEY": new_key(),
                "PYTHONPATH": str(tmp_path),
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        check_refusal(result, 'pip install "webdata_nb[postgres]"')


class OldVersionRelay(socketserver.BaseRequestHandler):
    """Passes bytes on, and makes an old one of the server's version."""

    server: OldServer

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.upstream_port)) as upstream:
            answers = Thread(target=self._pass_answers, args=[upstream])
            answers.start()
            with suppress(OSError):
                while data := self.request.recv(65536):
                    upstream.sendall(data)
            with suppress(OSError):
                upstream.shutdown(socket.SHUT_RDWR)
            answers.join()

    def _pass_answers(self, upstream: socket.socket) -> None:
        with suppress(OSError):
            while data := upstream.recv(65536):
                self.request.sendall(re.sub(rb"(server_version\0)\d\d", rb"\g<1>14", data))


class OldServer(socketserver.ThreadingTCPServer):
    """A relay to a server that says it is PostgreSQL 14."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        super().__init__(("127.0.0.1", 0), OldVersionRelay)


@contextmanager
def old_server(server: PostgresServer) -> Iterator[str]:
    """Run an `OldServer`; yield its URL."""
    with OldServer(server.port) as relay:
        thread = Thread(target=relay.serve_forever)
        thread.start()
        try:
            yield server.url.replace(f":{server.port}/", f":{relay.server_address[1]}/")
        finally:
            relay.shutdown()
            thread.join()


def test_an_old_server(tmp_path: Path, postgres_server: PostgresServer) -> None:
    with old_server(postgres_server) as url:
        result = run(tmp_path, "accounts", "list", WEBDATA_STORE=url)
        check_refusal(result, "PostgreSQL 14", "version 15 or newer")
        checked = run(tmp_path, "store", "check", url)
    assert checked.stdout.startswith("server: 1 wrong, PostgreSQL 14")


@pytest.mark.parametrize("mode", ["transaction", "statement", "session"])
def test_a_pooler_that_drops_signals(
    tmp_path: Path, postgres_server: PostgresServer, mode: PoolMode
) -> None:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE pooled_{mode}")
    with pooler(postgres_server, mode) as base:
        url = f"{base}pooled_{mode}"
        result = run(tmp_path, "accounts", "list", WEBDATA_STORE=url)
        serve = ("serve", "--mode", "team", "--port", str(free_port()))
        secret = {"WEBDATA_STORE": url, "WEBDATA_SECRET_KEY": new_key()}
        served = None if mode == "session" else run(tmp_path, *serve, **secret)
        checked = run(tmp_path, "store", "check", url)
    if served is None:
        assert result.returncode == checked.returncode == 0, result.stderr + checked.stdout
        assert "signals: ok, through a pooler in session mode" in checked.stdout
        return
    for refused in (result, served):
        check_refusal(refused, "pooler", "LISTEN", "pool_mode = session")
    assert checked.returncode == 1
    assert "signals: 1 wrong" in checked.stdout
    assert "pool_mode = session" in checked.stdout


def test_check_creates_nothing(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.new_schema()
    checked = run(tmp_path, "store", "check", url)
    assert checked.returncode == 0
    last = checked.stdout.splitlines()[-1]
    assert last == "schema: ok, no tables yet; the first start creates them"
    query = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema()"
    with psycopg.connect(url) as connection:
        assert connection.execute(query).fetchall() == []
        connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
        connection.execute("INSERT INTO schema_version VALUES (8)")
    checked = run(tmp_path, "store", "check", url)
    assert checked.returncode == 1
    *_, schema, problem = checked.stdout.splitlines()
    assert schema == "schema: 1 wrong"
    assert problem.endswith("to start anew, use an empty PostgreSQL database")


def test_check_names_wrong_settings(tmp_path: Path) -> None:
    wrong = {
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "off",
        "autovacuum": "off",
        "max_connections": "20",
        "idle_session_timeout": "60s",
    }
    with postgres.running() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            for name, value in wrong.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            connection.execute("CREATE DATABASE old ENCODING 'SQL_ASCII' TEMPLATE template0")
            connection.execute("ALTER DATABASE old SET default_transaction_read_only = on")
        server.stop()
        # The settings of the tests are at the end of the file, before these.
        server.start()
        url = server.url.replace("/postgres", "/old")
        checked = run(tmp_path, "store", "check", url)
    assert checked.returncode == 1
    lines = checked.stdout.splitlines()
    for word in (*wrong, "encoding SQL_ASCII", "read-only"):
        assert any(line.startswith("  ") and word in line for line in lines), checked.stdout
    assert "settings: 8 wrong" in lines


def test_check_names_missing_rights(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.new_schema()
    with psycopg.connect(url, autocommit=True) as connection:
        open_schema(connection)
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
        row = connection.execute("SELECT current_schema()").fetchone()
        assert row is not None
        connection.execute(f"GRANT USAGE, CREATE ON SCHEMA {row[0]} TO guest")
    guest = url.replace(f"webdata:{postgres_server.password}", f"guest:{PASSWORD}")
    checked = run(tmp_path, "store", "check", guest)
    assert checked.returncode == 1
    assert "may not read and write the table account" in checked.stdout
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP OWNED BY guest")
        connection.execute("DROP ROLE guest")


def test_five_replicas_start_together(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.new_schema()
    variables = os.environ | {
        "WEBDATA_HOME": str(tmp_path),
        "WEBDATA_STORE": url,
        "WEBDATA_SECRET_KEY": new_key(),
    }
    words = [sys.executable, "-m", "webdata_nb", "serve", "--mode", "team", "--port", "0"]
    processes = [
        subprocess.Popen(
            [*words, "--data-dir", str(tmp_path / str(number))],
            env=variables,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(5)
    ]
    try:
        for process in processes:
            assert process.stderr is not None
            assert any("serves http://" in line for line in process.stderr)
    finally:
        for process in processes:
            process.terminate()
            process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0] * 5
    with psycopg.connect(url) as connection:
        versions = connection.execute("SELECT version FROM schema_version").fetchall()
    assert versions == [(SCHEMA_VERSION,)]
