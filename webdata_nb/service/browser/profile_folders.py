"""Temporary folders of browsers, and the removal of those that a killed service left behind."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final

PREFIX: Final = "webdata-browser-"
# The file in a folder that contains the path of its browser's profile.
_PROFILE_FILE: Final = "profile-path"
# A browser has started by then, or has been given up.
_START_S: Final = 120.0
_PLAYWRIGHT_PREFIX: Final = "playwright_chromiumdev_profile-"
# A new service may have the process id of a killed one: in a container it is always 1.
_PROCESS_TOKEN: Final = secrets.token_hex(8)


def create_folder() -> Path:
    """Create a folder whose name contains this process's id and token."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{_PROCESS_TOKEN}-"))


def record_profile(folder: Path, profile: Path) -> None:
    """Write down the profile that is to be removed with a folder."""
    with suppress(OSError):
        (folder / _PROFILE_FILE).write_text(str(profile), "utf-8")


def remove_stale_folders() -> int:
    """Remove folders and profiles of processes that have ended; return the number of folders."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError, ValueError):
            if folder.is_symlink() or not _is_owned_by_user(folder) or not _is_stale(folder):
                continue
            for profile in _profiles_of(folder):
                shutil.rmtree(profile, ignore_errors=True)
            shutil.rmtree(folder)
            removed += 1
    return removed


def unused_profiles(created_after: float, created_before: float = inf) -> list[Path]:
    """Return profiles that no process uses; none where `/proc` does not list processes."""
    profiles = [
        path
        for path in Path(tempfile.gettempdir()).glob(f"{_PLAYWRIGHT_PREFIX}*")
        if _is_of_time(path, created_after, created_before)
    ]
    if not profiles or not Path("/proc/self/cmdline").exists():
        return []
    commands = b"\n".join(map(_command_line, Path("/proc").glob("[0-9]*")))
    return [path for path in profiles if bytes(path) not in commands]


def _is_of_time(profile: Path, created_after: float, created_before: float) -> bool:
    with suppress(OSError):
        is_own = not profile.is_symlink() and _is_owned_by_user(profile)
        return is_own and created_after <= profile.stat().st_mtime <= created_before
    return False


def _command_line(process: Path) -> bytes:
    with suppress(OSError):
        return (process / "cmdline").read_bytes()
    return b""


def _is_stale(folder: Path) -> bool:
    process_id, _, suffix = folder.name.removeprefix(PREFIX).partition("-")
    if int(process_id) == os.getpid():
        return not suffix.startswith(f"{_PROCESS_TOKEN}-")
    return not _is_running(int(process_id))


def _is_owned_by_user(folder: Path) -> bool:
    return not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()


def _is_running(process_id: int) -> bool:
    if os.name != "posix":
        return True  # a signal of 0 would end the process there
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _profiles_of(folder: Path) -> list[Path]:
    """Return the profiles that are to be removed with a folder.

    A browser that was killed while it started has not written down its profile: then it is one of
    that time which nobody uses.
    """
    try:
        profile = Path((folder / _PROFILE_FILE).read_text("utf-8"))
    except OSError:
        created_at = folder.stat().st_mtime
        return unused_profiles(created_at, created_at + _START_S)
    # The file may contain any path; only a profile of a browser is removed.
    is_profile = profile.name.startswith(_PLAYWRIGHT_PREFIX) and profile.parent == folder.parent
    return [profile] if is_profile else []
