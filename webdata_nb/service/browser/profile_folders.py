"""Temporary folders of browsers, and those that a killed service left behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "webdata-browser-"
# In our folder: where the browser that belongs to it has its profile.
_PROFILE: Final = "profile-path"
_PLAYWRIGHT: Final = "playwright_chromiumdev_profile-"


def make() -> Path:
    """Make a folder of this process's; its name tells whose it is."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def note_profile(folder: Path, profile: Path) -> None:
    """Write down the profile that goes when the folder goes."""
    with suppress(OSError):
        (folder / _PROFILE).write_text(str(profile), "utf-8")


def remove_stale() -> int:
    """Remove the folders and profiles of processes that are no more; return how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError, ValueError):
            if folder.is_symlink() or not _is_ours(folder) or _lives(_owner(folder)):
                continue
            _remove_profile(folder)
            shutil.rmtree(folder)
            removed += 1
    return removed


def _owner(folder: Path) -> int:
    return int(folder.name.removeprefix(PREFIX).partition("-")[0])


def _is_ours(folder: Path) -> bool:
    return not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()


def _lives(pid: int) -> bool:
    if os.name != "posix":
        return True  # a signal of 0 would end it there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove_profile(folder: Path) -> None:
    with suppress(OSError):
        profile = Path((folder / _PROFILE).read_text("utf-8"))
        # Nothing else is removed, whatever is written there.
        if profile.name.startswith(_PLAYWRIGHT) and profile.parent == folder.parent:
            shutil.rmtree(profile, ignore_errors=True)
