"""A service removes the browser folders of killed services, and no others, when it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.service.conftest import open_service
from webdata_nb.service.browser.chromium import (
    PREFIX,
    create_folder,
    record_profile,
    remove_stale_folders,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="asks for processes by signal 0")


@pytest.fixture(autouse=True)
def _in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def create_folder_of_ended_process(root: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    folder = root / f"{PREFIX}{int(done.stdout)}-abc"
    folder.mkdir()
    return folder


def test_folder_of_ended_process_is_removed_with_its_profile(tmp_path: Path) -> None:
    folder, profile = (
        create_folder_of_ended_process(tmp_path),
        tmp_path / "playwright_chromiumdev_profile-x",
    )
    (profile / "Default").mkdir(parents=True)
    record_profile(folder, profile)
    assert remove_stale_folders() == 1
    assert list(tmp_path.iterdir()) == []


def test_folders_of_running_processes_and_other_names_stay(tmp_path: Path) -> None:
    own, other = create_folder(), tmp_path / f"{PREFIX}notes-1"
    other.mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / f"{PREFIX}1-link").symlink_to(target)
    assert remove_stale_folders() == 0
    assert own.is_dir()
    assert other.is_dir()
    assert target.is_dir()


def test_recorded_path_that_is_no_profile_stays(tmp_path: Path) -> None:
    folder, victim = create_folder_of_ended_process(tmp_path), tmp_path / "documents"
    victim.mkdir()
    record_profile(folder, victim)
    assert remove_stale_folders() == 1
    assert victim.is_dir()


def test_folder_of_an_earlier_process_with_the_same_id_is_removed(tmp_path: Path) -> None:
    own = create_folder()
    earlier = tmp_path / f"{PREFIX}{os.getpid()}-0123456789abcdef-x"
    before_tokens = tmp_path / f"{PREFIX}{os.getpid()}-x"
    earlier.mkdir()
    before_tokens.mkdir()
    assert remove_stale_folders() == 2
    assert list(tmp_path.iterdir()) == [own]


async def test_service_removes_stale_folders_when_it_starts(tmp_path: Path) -> None:
    folder = create_folder_of_ended_process(tmp_path)
    async with open_service(tmp_path / "data"):
        assert not folder.exists()


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="asks /proc for users")
def test_a_browser_that_was_killed_at_its_start_leaves_no_profile(tmp_path: Path) -> None:
    """Its folder does not have the path of the profile yet."""
    folder = create_folder_of_ended_process(tmp_path)
    created_at = folder.stat().st_mtime
    profiles = {}
    for name, age_s in {"own": -1, "used": -1, "earlier": 60, "later": -500}.items():
        profiles[name] = tmp_path / f"playwright_chromiumdev_profile-{name}"
        profiles[name].mkdir()
        os.utime(profiles[name], (created_at - age_s, created_at - age_s))
    wait = [sys.executable, "-c", "print(flush=True); input()", str(profiles["used"])]
    with subprocess.Popen(wait, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        # Right after exec, the kernel does not show the command line yet.
        assert user.stdout is not None
        assert user.stdout.readline() == b"\n"
        assert remove_stale_folders() == 1
        user.communicate(b"\n")
    left = [profiles[name] for name in ("earlier", "later", "used")]
    assert sorted(tmp_path.iterdir()) == left
