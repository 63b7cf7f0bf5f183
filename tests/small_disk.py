"""A small file system that a test fills and frees."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount an empty file system at a folder; skip the test where that is not possible."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this machine does not let root mount a file system")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class SmallDisk:
    """A mounted file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, *, but: int = 0) -> None:
        """Leave only `but` bytes free."""
        with self._ballast.open("ab") as file:
            while (room := shutil.disk_usage(self.folder).free - but) > 0:
                try:
                    os.posix_fallocate(file.fileno(), file.tell(), room)
                except OSError as error:
                    if error.errno != errno.ENOSPC:  # others took room in the meantime
                        raise
                else:
                    return

    def free(self) -> None:
        """Free what `fill` took."""
        self._ballast.unlink()
