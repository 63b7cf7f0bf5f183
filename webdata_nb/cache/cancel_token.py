"""Whether anybody still waits for what an executor's workers do, in whichever process they are.

A file stands for as long as the call that spread its inputs wants them. Its end is what tells the
workers to stop: there is no other way into a process or a machine that somebody else started.
"""

from __future__ import annotations

import platform
import secrets
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from webdata_nb.cache.snapshots import prepare
from webdata_nb.frames import private_files

_FOLDER: Final = Path("v1", "demands")
_KEPT_S: Final = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Demand:
    """One call's file; it pickles."""

    path: Path
    node: str

    @classmethod
    def raised(cls, root: Path) -> Self:
        """Begin: in the cache, which workers elsewhere may share, or in a temporary place."""
        name = secrets.token_hex(16)
        try:
            prepare(root)
            path = root / _FOLDER / name
            private_files.make_folder(path.parent, root)
            path.touch(mode=private_files.FILE)
        except OSError:
            path = Path(tempfile.gettempdir(), f"webdata-{name}")
            path.touch(mode=private_files.FILE)
        return cls(path, platform.node())

    def met(self) -> None:
        """End: nobody waits any more."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    @property
    def stands(self) -> bool:
        """Whether somebody waits, as far as can be seen from here."""
        return self.path.exists()

    @property
    def in_sight(self) -> bool:
        """Whether this machine sees the file, or would."""
        return self.stands or platform.node() == self.node


def sweep(root: Path) -> None:
    """Remove the files of calls that were killed."""
    for path in (root / _FOLDER).glob("*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT_S:
                path.unlink()
