"""Folders of browsers whose service was killed go at the next start; those of others stay."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from webdata_nb.service.browser.profile_folders import PREFIX, make, note_profile, remove_stale

pytestmark = pytest.mark.skipif(os.name != "posix", reason="asks for processes by signal 0")


@pytest.fixture(autouse=True)
def _in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def of_the_dead(root: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    folder = root / f"{PREFIX}{int(done.stdout)}-abc"
    folder.mkdir()
    return folder


def test_what_a_dead_process_left_goes_with_its_profile(tmp_path: Path) -> None:
    folder, profile = of_the_dead(tmp_path), tmp_path / "playwright_chromiumdev_profile-x"
    (profile / "Default").mkdir(parents=True)
    note_profile(folder, profile)
    assert remove_stale() == 1
    assert list(tmp_path.iterdir()) == []


def test_what_lives_or_is_no_folder_of_ours_stays(tmp_path: Path) -> None:
    own, other = make(), tmp_path / f"{PREFIX}notes-1"
    other.mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / f"{PREFIX}1-link").symlink_to(target)
    assert remove_stale() == 0
    assert own.is_dir()
    assert other.is_dir()
    assert target.is_dir()


def test_nothing_but_a_profile_is_removed_with_it(tmp_path: Path) -> None:
    folder, victim = of_the_dead(tmp_path), tmp_path / "documents"
    victim.mkdir()
    note_profile(folder, victim)
    assert remove_stale() == 1
    assert victim.is_dir()
