"""Folders and files of the cache that their owner alone may open."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

FOLDER: Final = 0o700
FILE: Final = 0o600


def make_folder(path: Path, root: Path) -> None:
    """Make a folder below `root`, and those between; `root` too, where there is none.

    A root that is there already keeps its mode: it may be anybody's.

    Raises
    ------
    OSError
        One of them cannot be made.
    """
    missing = [path, *path.parents]
    for folder in reversed(missing[: missing.index(root) + 1]):
        folder.mkdir(mode=FOLDER, parents=True, exist_ok=True)


def tighten(folder: Path) -> None:
    """Take a folder that an older release made, with all in it, from everybody but its owner."""
    with suppress(OSError):
        if os.name != "posix" or not _open_to_others(folder):
            return
        for parent, folders, files in os.walk(folder):
            for name in folders:
                _narrow(Path(parent, name), FOLDER)
            for name in files:
                _narrow(Path(parent, name), FILE)
        # Last: its mode tells that all in it was done.
        _narrow(folder, FOLDER)


def _narrow(path: Path, mode: int) -> None:
    with suppress(OSError):  # another's, or gone meanwhile
        if not path.is_symlink() and _open_to_others(path):
            path.chmod(mode)


def _open_to_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
