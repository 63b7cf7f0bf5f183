"""`webdata store check`, `webdata store backup`, and a service whose files are damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.site.server import Site
from tests.test_cli import Shell, three_pages

CHECKS = [
    "file: ok",
    "foreign keys: ok",
    "visible rows: ok",
    "receipts: ok",
    "ledger sums: ok",
    "credits of jobs: ok",
    "holds: ok",
]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the data directory of a service that crawled three pages and has stopped."""
    shell = Shell(tmp_path_factory.mktemp("crawled"))
    with Site() as site:
        done = shell.run("crawl", three_pages(site), "--no-cache")
        assert done.returncode == 0, done.stderr
    assert shell.run("stop").returncode == 0
    with closing(sqlite3.connect(shell.home / "data" / "jobs.sqlite")) as database:
        assert database.execute("SELECT published FROM job").fetchall() == [(3,)]
    return shell.home / "data"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def data(shell: Shell, crawled: Path) -> Iterator[Path]:
    """Give a copy of that directory, where the shell's own local service has it."""
    shutil.copytree(crawled, shell.home / "data")
    yield shell.home / "data"
    shell.run("stop")


def check(shell: Shell, data: Path) -> tuple[int, list[str]]:
    done = shell.run("store", "check", "--data-dir", str(data))
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
def test_a_sound_database_passes_every_check_also_while_it_is_served(
    shell: Shell, data: Path
) -> None:
    assert check(shell, data) == (0, CHECKS)
    with shell.serving("--data-dir", str(data)):
        assert check(shell, data) == (0, CHECKS)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("UPDATE job SET published = 4", "visible rows: 1 wrong"),
        ("UPDATE entry SET position = 7 WHERE position = 2", "visible rows: 1 wrong"),
        ("UPDATE receipt_count SET n = n + 1", "receipts: 1 wrong"),
        ("UPDATE account SET topup_left = 5", "ledger sums: 1 wrong"),
        ("UPDATE account SET lines = 9", "ledger sums: 1 wrong"),
        ("UPDATE job SET credits = 77", "credits of jobs: 1 wrong"),
        ("UPDATE job SET state = 'running'", "holds: 1 wrong"),
        ("UPDATE receipt SET job_id = 'nowhere'", "foreign keys: 3 wrong"),
    ],
)
def test_contradictions_are_found(shell: Shell, data: Path, change: str, found: str) -> None:
    with closing(sqlite3.connect(data / "jobs.sqlite", isolation_level=None)) as database:
        database.execute(change)
    code, said = check(shell, data)
    assert code == 1
    assert found in said


def test_a_backup_is_the_whole_database_for_its_owner_alone(
    shell: Shell, data: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copies" / "jobs.sqlite"
    target.parent.mkdir()
    with shell.serving("--data-dir", str(data)):
        done = shell.run("store", "backup", str(target), "--data-dir", str(data))
    assert done.returncode == 0, done.stderr
    assert str(target.stat().st_size) in done.stderr
    assert "secret.key" in done.stderr
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["jobs.sqlite"]
    assert check(shell, target.parent) == (0, CHECKS)
    with closing(sqlite3.connect(target)) as copy:
        assert copy.execute("SELECT COUNT(*) FROM entry").fetchone() == (3,)


@pytest.mark.parametrize("taken", ["file", "directory", "broken link"])
def test_a_backup_replaces_nothing(shell: Shell, data: Path, tmp_path: Path, taken: str) -> None:
    target = tmp_path / "there"
    if taken == "file":
        target.write_text("mine")
    elif taken == "directory":
        target.mkdir()
    else:
        target.symlink_to(tmp_path / "nowhere")
    done = shell.run("store", "backup", str(target), "--data-dir", str(data))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"webdata: {target} exists already; give another name"]
    assert target.is_symlink() == (taken == "broken link")
    assert not target.is_file() or target.read_text() == "mine"


def test_a_backup_that_cannot_be_written_leaves_nothing(
    shell: Shell, data: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "nowhere" / "copy.sqlite"
    done = shell.run("store", "backup", str(gone), "--data-dir", str(data))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert not gone.parent.exists()


def damage(path: Path, how: str) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        if how == "no database":
            file.write(b"this is not a database" * 10)
        elif how == "truncated":
            file.truncate(size // 3)
        else:
            file.seek(16_384)
            file.write(os.urandom(size - 16_384))


DAMAGE = ["no database", "truncated", "scrambled"]


@pytest.mark.slow
@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_database_is_one_sentence(shell: Shell, data: Path, how: str) -> None:
    damage(data / "jobs.sqlite", how)
    before = (data / "jobs.sqlite").read_bytes()
    done = shell.run("serve", "--data-dir", str(data), "--port", "0")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert f"the database {data / 'jobs.sqlite'} is damaged" in line
    assert "webdata store backup" in line
    assert (data / "jobs.sqlite").read_bytes() == before
    code, said = check(shell, data)
    assert code == 1
    assert said[0].startswith("file: ")
    listed = shell.run("accounts", "list", "--data-dir", str(data))
    assert listed.returncode == 1
    assert "is damaged" in listed.stderr
    copy = data.with_name("copy.sqlite")
    refused = shell.run("store", "backup", str(copy), "--data-dir", str(data))
    assert refused.returncode == 1
    assert "is damaged" in refused.stderr
    assert [path.name for path in copy.parent.iterdir() if "copy" in path.name] == []


@pytest.mark.slow
@pytest.mark.parametrize("how", [*DAMAGE, "empty"])
def test_a_damaged_text_index_is_built_anew(shell: Shell, data: Path, how: str) -> None:
    index = data / "index.sqlite"
    if how == "empty":
        index.write_bytes(b"")
    else:
        damage(index, how)
    done = shell.run("search", "Two", "--formats", "", "--no-cache")
    assert done.returncode == 0, done.stderr
    assert "Two" in done.stdout
    assert shell.run("stop").returncode == 0
    with closing(sqlite3.connect(index)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("SELECT COUNT(*) FROM document").fetchone() == (3,)
