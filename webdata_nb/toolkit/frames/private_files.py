"""Creates folders and files of the cache that only their owner can access."""

from __future__ import annotations

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
