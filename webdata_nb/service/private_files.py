"""Writes files with secrets atomically and durably; only their owner can read them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def create_private_file(path: Path, content: bytes) -> None:
    """Create a file; raises `FileExistsError` if there is one."""
    with _draft_beside(path, content) as draft:
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # without hard links, the last of two writers wins
            if path.exists():
                raise FileExistsError(str(path)) from None
            draft.replace(path)


def replace_private_file(path: Path, content: bytes) -> None:
    """Replace a file, or create it; of a symbolic link, the file that it names."""
    path = path.resolve()
    with _draft_beside(path, content) as draft:
        draft.replace(path)


@contextmanager
def _draft_beside(path: Path, content: bytes) -> Iterator[Path]:
    """Write a file under a temporary name that only its owner can read."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
