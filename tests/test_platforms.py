"""What can be shown on Linux about Windows and macOS; docs/guide/platforms.md says what cannot."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from webdata_nb.service.store.sqlite import database

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="imitates other platforms")

CHECKOUT: Final = Path(__file__).resolve().parent.parent
PLATFORMS: Final = ("win32", "darwin")
# What the calls of `tests.other_platform` return there. None of the limits is set on Windows; on
# macOS only that of processor time.
OUTCOMES: Final[dict[str, dict[str, object]]] = {
    "creation flags": {"win32": 0x8000200, "darwin": 0},
    "boot": {"win32": "", "darwin": ""},
    "folder is private": {"win32": True, "darwin": False},
    "folder of a user": {"win32": "webdata-someone", "darwin": f"webdata-{os.getuid()}"},
    "memory": dict.fromkeys(PLATFORMS),
    "processor time": dict.fromkeys(PLATFORMS),
    "processors": dict.fromkeys(PLATFORMS, os.cpu_count()),
    "allocator": dict.fromkeys(PLATFORMS),
    "trim": dict.fromkeys(PLATFORMS),
    "standard error": dict.fromkeys(PLATFORMS),
    "descendants": {"win32": [], "darwin": []},
    "process": dict.fromkeys(PLATFORMS, True),
    "owner": dict.fromkeys(PLATFORMS, True),
    "limits": {"win32": [], "darwin": ["RLIMIT_CPU"]},
}


@pytest.fixture(
    scope="module", params=["win32", pytest.param("darwin", marks=pytest.mark.slow)], ids=str
)
def report(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any]]:
    """Import the package as on a platform, and return the platform and what happened."""
    folder = tmp_path_factory.mktemp(request.param)
    result = subprocess.run(
        [sys.executable, "-m", "tests.other_platform", request.param, str(folder)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    parsed: dict[str, Any] = json.loads(result.stdout)
    return request.param, parsed


def test_every_module_imports_without_what_the_platform_lacks(
    report: tuple[str, dict[str, Any]],
) -> None:
    _, parsed = report
    assert parsed["before"] == []
    assert parsed["imports"] == []


@pytest.mark.parametrize("call", OUTCOMES)
def test_code_for_the_platform_runs(report: tuple[str, dict[str, Any]], call: str) -> None:
    platform, parsed = report
    assert parsed["outcomes"][call] == OUTCOMES[call][platform]


def test_all_calls_have_an_expected_outcome(report: tuple[str, dict[str, Any]]) -> None:
    assert set(report[1]["outcomes"]) == set(OUTCOMES)


class WindowsFiles:
    """`os` with Windows' rules: directories cannot be opened, `fsync` needs the right to write."""

    name = "nt"

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        if path.is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return os.open(path, flags, mode)

    def fsync(self, number: int) -> None:
        import fcntl  # noqa: PLC0415 - the rest of the module is for any platform

        if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        os.fsync(number)


@pytest.mark.parametrize("files", [os, WindowsFiles()], ids=["POSIX", "Windows"])
def test_backup_is_synchronized_by_the_rules_of_the_platform(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "jobs.sqlite", tmp_path / "copy.sqlite"
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("CREATE TABLE entry (name TEXT)")
        connection.execute("INSERT INTO entry VALUES ('one')")
        connection.commit()
    monkeypatch.setattr(database, "os", files)
    database.back_up(source, target)
    with closing(sqlite3.connect(target)) as copy:
        assert copy.execute("SELECT * FROM entry").fetchall() == [("one",)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.sqlite", "jobs.sqlite"]
