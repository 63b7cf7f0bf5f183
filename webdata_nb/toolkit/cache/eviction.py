"""Evicts the oldest cached results once the cache exceeds its size limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from webdata_nb.toolkit.cache import receipt_files, snapshots


@dataclass(frozen=True, slots=True)
class CacheFile:
    """A cached result: its path, the time it was taken, and its bytes on disk."""

    path: Path
    at: datetime
    size: int


def files_to_evict(
    files: Sequence[CacheFile], max_bytes: int, in_use: Path | None = None
) -> list[CacheFile]:
    """Return the oldest files whose removal brings the cache down to `max_bytes`."""
    total = sum(file.size for file in files)
    evicted: list[CacheFile] = []
    for file in sorted(files, key=lambda file: (file.at, file.path)):
        if total <= max_bytes:
            break
        if file.path != in_use:
            evicted.append(file)
            total -= file.size
    return evicted


def shrink(root: Path, max_bytes: int, in_use: Path | None = None) -> int:
    """Remove results until the cache takes at most `max_bytes`; return how many were removed."""
    evicted = files_to_evict(list(cache_files(root)), max_bytes, in_use)
    return sum(remove(file.path) for file in evicted)


def cache_files(root: Path) -> Iterator[CacheFile]:
    """Yield each cached result, with the size of its receipt added to its own."""
    for path, at in snapshots.all_files(root):
        with suppress(OSError):
            yield CacheFile(path, at, path.stat().st_size + _receipt_size(path))


def remove(path: Path) -> bool:
    """Remove a result and its receipt; False where the file is gone or held open."""
    try:
        path.unlink()
    except OSError:  # already gone, or open in another program on Windows
        return False
    with suppress(OSError):
        receipt_files.receipt_path(path).unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.rmdir()  # fails while it holds another snapshot
    return True


def _receipt_size(path: Path) -> int:
    try:
        return receipt_files.receipt_path(path).stat().st_size
    except OSError:
        return 0
