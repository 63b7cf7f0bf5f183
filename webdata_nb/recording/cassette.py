"""A notebook's calls, recorded as files and replayed without a service.

A recording is a folder of Parquet files, one for each answer, named by what was asked. The n-th
time a question is asked, its n-th answer is given. Who asked and where is no part of the question,
so that a recording replays on any machine; headers and cookies enter the digest only.
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

from webdata_nb.cache import receipt_files
from webdata_nb.cache.snapshots import Question
from webdata_nb.errors import NotRecorded
from webdata_nb.frames import parquet
from webdata_nb.frames.parquet import Document
from webdata_nb.frames.schemas import TableName

_SLUG: Final = 40


class Heads:
    """How often each question was asked, by folder; one place of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: Counter[tuple[Path, str]] = Counter()

    def next(self, folder: Path, digest: str) -> int:
        """Return which time this is, from 1."""
        with self._lock:
            self._asked[folder, digest] += 1
            return self._asked[folder, digest]

    def rewind(self, folder: Path) -> None:
        """Begin anew with a folder."""
        with self._lock:
            for key in [key for key in self._asked if key[0] == folder]:
                del self._asked[key]


HEADS: Final = Heads()


def question(op: TableName, params: Mapping[str, Any]) -> Question:
    """Return what is asked, wherever it is asked."""
    return Question.of(op, base_url="", identity="", params=params)


def put(
    folder: Path,
    asked: Question,
    subject: str,
    table: pa.Table,
    attrs: Mapping[str, Any],
    *,
    cached: Path | None = None,
) -> Path:
    """Record an answer, and the whole receipt that lies beside the `cached` one.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    number = HEADS.next(folder, asked.digest)
    if number == 1:
        for old in _files(folder, asked):
            old.unlink(missing_ok=True)
            receipt_files.beside(old).unlink(missing_ok=True)
    slug = re.sub(r"[^A-Za-z0-9]+", "-", subject).strip("-")[:_SLUG].lower()
    path = folder / f"{asked.op}-{slug}-{asked.digest[:16]}-{number:03d}.parquet"
    own = {"digest": asked.digest}
    told = {**attrs, "file": None}
    parquet.write_atomically(path, parquet.encode(table, own=own, attrs=told))
    if cached is not None and receipt_files.beside(cached).is_file():
        parquet.write_atomically(
            receipt_files.beside(path), receipt_files.beside(cached).read_bytes()
        )
    return path


def get(
    folder: Path, asked: Question, subject: str, columns: Sequence[str]
) -> tuple[Path, pa.Table, dict[str, Any]]:
    """Return the next recorded answer; after the last one, the last one again.

    Raises
    ------
    NotRecorded
        There is none.
    """
    files = _files(folder, asked)
    if not files:
        raise NotRecorded(
            f"{asked.op} {subject!r} is not in the recording {folder}: record the notebook again"
        )
    path = files[min(HEADS.next(folder, asked.digest), len(files)) - 1]
    try:
        document = Document(path.read_bytes())
        return path, document.read(columns), document.attrs
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise NotRecorded(f"the recorded answer {path} cannot be read: {error}") from None


def attrs(folder: Path, asked: Question) -> dict[str, Any] | None:
    """Return what the first answer to a question tells of itself, with `shown`, its columns."""
    for path in _files(folder, asked):
        with suppress(OSError, ValueError, KeyError, pa.ArrowException):
            document = Document(path.read_bytes())
            return {**document.attrs, "shown": document.schema.names}
    return None


def _files(folder: Path, asked: Question) -> list[Path]:
    return sorted(folder.glob(f"{asked.op}-*{asked.digest[:16]}-[0-9][0-9][0-9].parquet"))
