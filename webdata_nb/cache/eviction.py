"""Keeps the cache within its size: the oldest results go first, the one in use never."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from webdata_nb.cache import receipt_files, snapshots


@dataclass(frozen=True, slots=True)
class Kept:
    """A cached result: its file, when it was taken, and its bytes on disk."""

    file: Path
    at: datetime
    size: int


def excess(kept: Sequence[Kept], cap: int, in_use: Path | None = None) -> list[Kept]:
    """Return what has to go, oldest first, so that the rest takes at most `cap` bytes."""
    total = sum(each.size for each in kept)
    going: list[Kept] = []
    for each in sorted(kept, key=lambda one: (one.at, one.file)):
        if total <= cap:
            break
        if each.file != in_use:
            going.append(each)
            total -= each.size
    return going


def shrink(root: Path, cap: int, in_use: Path | None = None) -> int:
    """Remove results until the cache takes at most `cap` bytes; return how many went."""
    kept = []
    for file, at in snapshots.everything(root):
        with suppress(OSError):
            kept.append(Kept(file, at, file.stat().st_size + _beside(file)))
    return sum(remove(each.file) for each in excess(kept, cap, in_use))


def remove(file: Path) -> bool:
    """Remove a result and what lies beside it; False where it is gone or held open."""
    try:
        file.unlink()
    except OSError:  # already gone, or open in another program on Windows
        return False
    with suppress(OSError):
        receipt_files.beside(file).unlink(missing_ok=True)
    with suppress(OSError):
        file.parent.rmdir()  # stays while it holds another snapshot
    return True


def _beside(file: Path) -> int:
    try:
        return receipt_files.beside(file).stat().st_size
    except OSError:
        return 0
