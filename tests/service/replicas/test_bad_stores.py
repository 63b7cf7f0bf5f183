"""A wrong store ends a command before any work, with one sentence and without the password."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PostgresServer
from webdata_nb.service.encryption import new_key
from webdata_nb.service.settings import InvalidSetting, replica_name, team_store_url

pytestmark = pytest.mark.slow

PASSWORD = "hunter2-of-the-test"


def run(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the package; it ends by itself if its store is wrong."""
    variables = {name: text for name, text in os.environ.items() if not name.startswith("WEBDATA_")}
    return subprocess.run(
        [sys.executable, "-m", "webdata_nb", *arguments, "--data-dir", str(tmp_path / "data")],
        env=variables | {"WEBDATA_HOME": str(tmp_path)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


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
        ("jobs.db", ("--store", "sqlite", "postgresql://")),
    ],
)
def test_unknown_stores_are_refused(store: str, words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSetting) as raised:
        team_store_url(store)
    assert all(word in str(raised.value) for word in words)
    assert PASSWORD not in str(raised.value)


def test_the_store_of_the_environment_is_for_teams(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://host/db"
    monkeypatch.setenv("WEBDATA_STORE", url)
    assert team_store_url(None) == url
    assert team_store_url("sqlite") is None
    assert team_store_url(None, "local") is None
    with pytest.raises(InvalidSetting, match="--mode team"):
        team_store_url(url, "local")


URL = "postgresql://host/db"


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
    checks = ("visible rows", "receipts", "ledger sums", "credits of jobs", "holds")
    checked = run(tmp_path, "store", "check", "--store", url)
    assert checked.stdout.splitlines() == [f"{name}: ok" for name in checks]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE account SET topup_left = 7")
    checked = run(tmp_path, "store", "check", "--store", url)
    assert checked.returncode == 1
    assert "account alice: balance" in checked.stdout
    check_refusal(run(tmp_path, "store", "backup", "copy", "--store", url), "pg_dump")
    check_refusal(run(tmp_path, "secrets", "rotate", "--store", url), "WEBDATA_SECRET_KEY")
    rotated = run(
        tmp_path, "secrets", "rotate", "--store", url, WEBDATA_SECRET_KEY=f"{new_key()},{key}"
    )
    assert "encrypted the secrets of 0 jobs" in rotated.stderr
