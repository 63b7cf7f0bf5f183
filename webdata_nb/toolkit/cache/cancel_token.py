"""Tells an executor's workers, in any process or machine, that their call was cancelled.

The token is a file that exists while the call wants its inputs. Workers stop once it is removed:
a file is the only channel into a process that somebody else started.
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

from webdata_nb.toolkit.cache.snapshots import prepare
from webdata_nb.toolkit.frames import private_files

_FOLDER: Final = Path("v1", "demands")
_EXPIRES_S: Final = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class CancelToken:
    """The token file of one call, and the machine that created it; it pickles."""

    path: Path
    node: str

    @classmethod
    def create(cls, root: Path) -> Self:
        """Create the file in the cache, which workers may share, or in the temporary folder."""
        name = secrets.token_hex(16)
        try:
            prepare(root)
            path = root / _FOLDER / name
            private_files.make_folder(path.parent, root)
            path.touch(mode=private_files.FILE_MODE)
        except OSError:
            path = Path(tempfile.gettempdir(), f"webdata-{name}")
            path.touch(mode=private_files.FILE_MODE)
        return cls(path, platform.node())

    def cancel(self) -> None:
        """Remove the file, which stops every worker."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    @property
    def cancelled(self) -> bool:
        """Whether the file is gone, as seen from this machine."""
        return not self.path.exists()

    @property
    def visible(self) -> bool:
        """Whether this machine can see the file while it exists."""
        return self.path.exists() or platform.node() == self.node


def sweep(root: Path) -> None:
    """Remove the tokens of killed calls."""
    for path in (root / _FOLDER).glob("*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _EXPIRES_S:
                path.unlink()
