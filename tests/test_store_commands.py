"""The commands `store check` and `store backup`, and damaged database files."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.shell import Shell
from tests.site.server import Site
from tests.test_cli import three_pages

CHECKS = [
    "file: ok",
    "foreign keys: ok",
    "visible rows: ok",
    "receipts: ok",
    "ledger sums: ok",
    "credits of jobs: ok",
    "counted usage: ok",
    "holds: ok",
    "contents: ok",
]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data directory of a service that crawled three pages and has stopped."""
    shell = Shell(tmp_path_factory.mktemp("crawled"))
    with Site() as site:
        result = shell.run("crawl", three_pages(site), "--no-cache")
        assert result.returncode == 0, result.stderr
    assert shell.run("stop").returncode == 0
    with closing(sqlite3.connect(shell.home / "data" / "jobs.sqlite")) as database:
        assert database.execute("SELECT published FROM job").fetchall() == [(3,)]
    return shell.home / "data"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def data(shell: Shell, crawled: Path) -> Iterator[Path]:
    """Return a copy of that directory as the data of the shell's local service."""
    shutil.copytree(crawled, shell.home / "data")
    yield shell.home / "data"
    shell.call("stop")


def check(shell: Shell, data: Path) -> tuple[int, list[str]]:
    result = shell.call("store", "check", "--data-dir", str(data))
    assert "Traceback" not in result.stderr
    return result.returncode, result.stdout.splitlines()


@pytest.mark.slow
def test_check_passes_also_while_service_runs(shell: Shell, data: Path) -> None:
    assert check(shell, data) == (0, CHECKS)
    with shell.serving("--data-dir", str(data)):
        assert check(shell, data) == (0, CHECKS)


@pytest.mark.parametrize(
    ("change", "expected_line"),
    [
        ("UPDATE job SET published = 4", "visible rows: 1 wrong"),
        ("UPDATE entry SET position = 7 WHERE position = 2", "visible rows: 1 wrong"),
        ("UPDATE receipt_count SET n = n + 1", "receipts: 1 wrong"),
        ("UPDATE account SET topup_left = 5", "ledger sums: 1 wrong"),
        ("UPDATE account SET lines = 9", "ledger sums: 1 wrong"),
        ("UPDATE job SET credits = 77", "credits of jobs: 1 wrong"),
        ("UPDATE job SET state = 'running'", "holds: 1 wrong"),
        ("UPDATE receipt SET job_id = 'nowhere'", "foreign keys: 3 wrong"),
        ("UPDATE content SET body = zeroblob(size)", "contents: 3 wrong"),
        ("UPDATE content SET size = size - 1", "contents: 3 wrong"),
        ("UPDATE content SET body = NULL WHERE rowid = 1", "contents: 1 wrong"),
        ("UPDATE entry SET content_id = NULL WHERE ordinal = 1", "contents: 1 wrong"),
        ("DELETE FROM content WHERE rowid = 1", "contents: 1 wrong"),
    ],
)
@pytest.mark.slow
def test_check_finds_contradictions(
    shell: Shell, data: Path, change: str, expected_line: str
) -> None:
    with closing(sqlite3.connect(data / "jobs.sqlite", isolation_level=None)) as database:
        database.execute(change)
    exit_code, lines = check(shell, data)
    assert exit_code == 1
    assert expected_line in lines


@pytest.mark.slow
def test_backup_is_complete_and_private(shell: Shell, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "jobs.sqlite"
    target.parent.mkdir()
    with shell.serving("--data-dir", str(data)):
        result = shell.run("store", "backup", str(target), "--data-dir", str(data))
    assert result.returncode == 0, result.stderr
    assert str(target.stat().st_size) in result.stderr
    assert "secret.key" in result.stderr
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["jobs.sqlite"]
    assert check(shell, target.parent) == (0, CHECKS)
    with closing(sqlite3.connect(target)) as copy:
        assert copy.execute("SELECT COUNT(*) FROM entry").fetchone() == (3,)


@pytest.mark.parametrize("existing", ["file", "directory", "broken link"])
def test_backup_never_replaces_a_file(
    shell: Shell, data: Path, tmp_path: Path, existing: str
) -> None:
    target = tmp_path / "there"
    if existing == "file":
        target.write_text("mine")
    elif existing == "directory":
        target.mkdir()
    else:
        target.symlink_to(tmp_path / "nowhere")
    result = shell.call("store", "backup", str(target), "--data-dir", str(data))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [f"webdata: {target} exists already; give another name"]
    assert target.is_symlink() == (existing == "broken link")
    assert not target.is_file() or target.read_text() == "mine"


def test_failed_backup_leaves_no_file(shell: Shell, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "copy.sqlite"
    result = shell.call("store", "backup", str(target), "--data-dir", str(data))
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert not target.parent.exists()


def damage(path: Path, kind: str) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        if kind == "no database":
            file.write(b"this is not a database" * 10)
        elif kind == "truncated":
            file.truncate(size // 3)
        else:
            file.seek(16_384)
            file.write(os.urandom(size - 16_384))


DAMAGE_KINDS = ["no database", "truncated", "scrambled"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGE_KINDS)
def test_damaged_database_is_reported_in_one_line(shell: Shell, data: Path, kind: str) -> None:
    damage(data / "jobs.sqlite", kind)
    before = (data / "jobs.sqlite").read_bytes()
    result = shell.run("serve", "--data-dir", str(data), "--port", "0")
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert f"the database {data / 'jobs.sqlite'} is damaged" in line
    assert "webdata store backup" in line
    assert (data / "jobs.sqlite").read_bytes() == before
    exit_code, lines = check(shell, data)
    assert exit_code == 1
    assert lines[0].startswith("file: ")
    listed = shell.call("accounts", "list", "--data-dir", str(data))
    assert listed.returncode == 1
    assert "is damaged" in listed.stderr
    copy = data.with_name("copy.sqlite")
    refused = shell.call("store", "backup", str(copy), "--data-dir", str(data))
    assert refused.returncode == 1
    assert "is damaged" in refused.stderr
    assert [path.name for path in copy.parent.iterdir() if "copy" in path.name] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*DAMAGE_KINDS, "empty"])
def test_damaged_text_index_is_rebuilt(shell: Shell, data: Path, kind: str) -> None:
    index = data / "index.sqlite"
    if kind == "empty":
        index.write_bytes(b"")
    else:
        damage(index, kind)
    result = shell.run("search", "Two", "--formats", "", "--no-cache")
    assert result.returncode == 0, result.stderr
    assert "Two" in result.stdout
    assert shell.run("stop").returncode == 0
    with closing(sqlite3.connect(index)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("SELECT COUNT(*) FROM indexed_page").fetchone() == (3,)
