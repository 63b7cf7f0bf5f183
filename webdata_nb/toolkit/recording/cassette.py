"""Stores the results of calls in a recording folder and plays them back in order.

A recording is a folder of Parquet files, one per result, named by the request. The n-th call with
the same request gets the n-th result. The key of a request holds neither the service nor the
account, so that a recording replays on any machine; headers and cookies enter the digest only.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from webdata_nb.errors import NotRecorded
from webdata_nb.toolkit.cache import snapshots
from webdata_nb.toolkit.cache.snapshots import CacheKey
from webdata_nb.toolkit.frames import parquet
from webdata_nb.toolkit.frames.parquet import ParquetDocument
from webdata_nb.toolkit.frames.schemas import TableName

_SLUG_LENGTH: Final = 40


class PlaybackPositions:
    """Counts the calls of each request by folder, within this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[Path, str]] = Counter()

    def next(self, folder: Path, digest: str) -> int:
        """Return the position of this call among those with the same request, from 1."""
        with self._lock:
            self._counts[folder, digest] += 1
            return self._counts[folder, digest]

    def rewind(self, folder: Path) -> None:
        """Restart the count of a folder."""
        with self._lock:
            for key in [key for key in self._counts if key[0] == folder]:
                del self._counts[key]


POSITIONS: Final = PlaybackPositions()


def recording_key(op: TableName, params: Mapping[str, Any]) -> CacheKey:
    """Return the key of a request, which is the same for every service and account."""
    return CacheKey.of(op, base_url="", identity="", params=params)


def put(
    folder: Path,
    key: CacheKey,
    subject: str,
    table: pa.Table,
    attrs: Mapping[str, Any],
    *,
    cached: Path | None = None,
) -> Path:
    """Record a result, and the receipt file beside the `cached` one.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    number = POSITIONS.next(folder, key.digest)
    if number == 1:
        for earlier_file in _files(folder, key):
            earlier_file.unlink(missing_ok=True)
            snapshots.receipt_path(earlier_file).unlink(missing_ok=True)
    slug = re.sub(r"[^A-Za-z0-9]+", "-", subject).strip("-")[:_SLUG_LENGTH].lower()
    path = folder / f"{key.op}-{slug}-{key.digest[:16]}-{number:03d}.parquet"
    file_metadata = {"digest": key.digest}
    data = parquet.encode(table, own=file_metadata, attrs={**attrs, "file": None})
    parquet.write_atomically(path, data)
    if cached is not None and snapshots.receipt_path(cached).is_file():
        parquet.write_atomically(
            snapshots.receipt_path(path), snapshots.receipt_path(cached).read_bytes()
        )
    return path


def get(
    folder: Path, key: CacheKey, subject: str, columns: Sequence[str]
) -> tuple[Path, pa.Table, dict[str, Any]]:
    """Return the next recorded result; after the last one, the last one again.

    Raises
    ------
    NotRecorded
        The recording has no result for this request.
    """
    files = _files(folder, key)
    if not files:
        raise NotRecorded(
            f"{key.op} {subject!r} is not in the recording {folder}: record the notebook again"
        )
    path = files[min(POSITIONS.next(folder, key.digest), len(files)) - 1]
    try:
        document = ParquetDocument(path.read_bytes())
        return path, document.read(columns), document.attrs
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise NotRecorded(f"the recorded result {path} cannot be read: {error}") from None


def attrs(folder: Path, key: CacheKey) -> dict[str, Any] | None:
    """Return the receipt of the first result of a request, with its columns as `columns`."""
    for path in _files(folder, key):
        with suppress(OSError, ValueError, KeyError, pa.ArrowException):
            document = ParquetDocument(path.read_bytes())
            return {**document.attrs, "columns": document.schema.names}
    return None


def _files(folder: Path, key: CacheKey) -> list[Path]:
    return sorted(folder.glob(f"{key.op}-*{key.digest[:16]}-[0-9][0-9][0-9].parquet"))
