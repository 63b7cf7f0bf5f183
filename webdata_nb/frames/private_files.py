"""Creates folders and files of the cache that only their owner can access."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def make_folder(path: Path, root: Path) -> None:
    """Make a folder and its missing parents up to `root`.

    An existing root keeps its mode, since it may be shared.

    Raises
    ------
    OSError
        A folder cannot be made.
    """
    missing = [path, *path.parents]
    for folder in reversed(missing[: missing.index(root) + 1]):
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def restrict_to_owner(folder: Path) -> None:
    """Remove the access of other users to a folder of an older release and its contents."""
    with suppress(OSError):
        if os.name != "posix" or not _is_accessible_to_others(folder):
            return
        for parent, folders, files in os.walk(folder):
            for name in folders:
                _restrict(Path(parent, name), FOLDER_MODE)
            for name in files:
                _restrict(Path(parent, name), FILE_MODE)
        # Last, since the mode of the folder shows that its contents are done.
        _restrict(folder, FOLDER_MODE)


def _restrict(path: Path, mode: int) -> None:
    with suppress(OSError):  # owned by another user, or removed meanwhile
        if not path.is_symlink() and _is_accessible_to_others(path):
            path.chmod(mode)


def _is_accessible_to_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
