"""Cached results on disk: immutable Parquet files, found by what was asked.

A file is `{root}/v1/{op}/{digest}/{UTC stamp}-{check}.parquet`. It is never overwritten, so
readers need no lock, and its name ends with a checksum of its bytes: a file that is cut, altered or
misplaced is a miss like any other doubt.
"""

from __future__ import annotations

import hashlib
import logging
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from webdata_nb.frames import parquet, private_files, schemas
from webdata_nb.frames.schemas import TableName

_LAYOUT: Final = "v1"
_STAMP: Final = "%Y%m%dT%H%M%S%fZ"
_CHECK_DIGITS: Final = 6
# A clock that another machine set may be a little ahead of ours; more than that is a doubt.
_CLOCK_SKEW: Final = timedelta(minutes=1)
_ORPHAN_S: Final = 3600.0
_TAG: Final = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This directory is a cache of webdata_nb and can be deleted at any time.\n"
    "# See https://bford.info/cachedir/\n"
)

log = logging.getLogger("webdata_nb")


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked: `parts` decide the digest and stay out of every file."""

    op: TableName
    digest: str

    @classmethod
    def of(
        cls, op: TableName, *, base_url: str, identity: str, params: Mapping[str, Any]
    ) -> Question:
        """Return the question that these parts make.

        Parameters
        ----------
        op
            The table asked for.
        base_url
            The service asked.
        identity
            A hash of whose results these are; never a key itself.
        params
            The request, headers and cookies included: all of it enters the hash only.
        """
        parts = [_LAYOUT, schemas.schema_id(op), base_url.rstrip("/"), identity, dict(params)]
        canonical = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
        return cls(op, hashlib.sha256(canonical).hexdigest()[:32])

    def folder(self, root: Path) -> Path:
        """Return the directory of this question's snapshots."""
        return root / _LAYOUT / self.op / self.digest


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One cached result: its file, when it was taken, its rows and its receipt."""

    path: Path
    at: datetime
    table: pa.Table
    attrs: dict[str, Any]


def put(
    root: Path, question: Question, table: pa.Table, attrs: Mapping[str, Any], *, now: datetime
) -> Snapshot:
    """Store a result.

    Raises
    ------
    OSError
        The cache directory cannot be written.
    """
    prepare(root)
    own = {"schema": schemas.schema_id(question.op), "digest": question.digest}
    data = parquet.encode(table, own=own, attrs=attrs)
    folder = question.folder(root)
    private_files.make_folder(folder, root)
    path = folder / f"{now.astimezone(UTC).strftime(_STAMP)}-{_check(data)}.parquet"
    parquet.write_atomically(path, data, owner_only=True)
    return Snapshot(path, now, table, dict(attrs))


def newest(
    root: Path,
    question: Question,
    *,
    now: datetime,
    ttl_s: float | None = None,
    columns: Sequence[str] | None = None,
) -> Snapshot | None:
    """Return the newest sound snapshot that is at most `ttl_s` seconds old (None: any age).

    Only `columns` are read of it, all of them when None.
    """
    for path, at in sorted(_files(question.folder(root)), reverse=True):
        age = now - at
        if ttl_s is not None and age.total_seconds() > ttl_s:
            return None
        if age >= -_CLOCK_SKEW and (found := _read(path, at, question, columns)) is not None:
            return found
    return None


def history(
    root: Path, question: Question, *, columns: Sequence[str] | None = None
) -> list[Snapshot]:
    """Return every sound snapshot of a question, oldest first."""
    found = [
        _read(path, at, question, columns) for path, at in sorted(_files(question.folder(root)))
    ]
    return [each for each in found if each is not None]


def at_path(
    path: Path, question: Question, columns: Sequence[str] | None = None
) -> Snapshot | None:
    """Return the snapshot in one file, if it is there, sound, and answers `question`."""
    at = stamp_of(path)
    return None if at is None else _read(path, at, question, columns)


def stamp_of(path: Path) -> datetime | None:
    """Return when the snapshot in a file of this name was taken; None for any other name."""
    stamp, dash, _ = path.name.partition("-")
    if not dash or path.suffix != ".parquet":
        return None
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def mark(root: Path, name: str) -> None:
    """Note that something happened now which makes older results doubtful."""
    prepare(root)
    (root / _LAYOUT / name).touch(mode=private_files.FILE)


def marked(root: Path, name: str) -> datetime | None:
    """Return when `mark` was last called with `name`; None if never."""
    try:
        return datetime.fromtimestamp((root / _LAYOUT / name).stat().st_mtime, UTC)
    except OSError:
        return None


def everything(root: Path) -> Iterator[tuple[Path, datetime]]:
    """Yield each snapshot file below `root`, of every question."""
    for folder in sorted((root / _LAYOUT).glob("*/*/")):
        yield from sorted(_files(folder))


def _files(folder: Path) -> Iterator[tuple[Path, datetime]]:
    with suppress(OSError):
        for path in folder.iterdir():
            if (at := stamp_of(path)) is not None:
                yield path, at


def _read(
    path: Path, at: datetime, question: Question, columns: Sequence[str] | None = None
) -> Snapshot | None:
    """Read through one open file; whatever is wrong with it makes it a miss."""
    try:
        document = parquet.Document(_sound_bytes(path))
        _expect(document, question)
        table = document.read(columns)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        log.warning("ignored a damaged cache file, %s: %s", path, error)
        return None
    return Snapshot(path, at, table, document.attrs)


def _sound_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    if _check(data) != path.stem.rpartition("-")[2]:
        raise ValueError("its bytes are not those that were written")
    return data


def _expect(document: parquet.Document, question: Question) -> None:
    if document.own.get("digest") != question.digest:
        raise ValueError("it answers another question")
    if not document.schema.equals(schemas.SCHEMAS[question.op], check_metadata=True):
        raise ValueError("its columns are those of another version")


def _check(data: pa.Buffer | bytes) -> str:
    # Against damage, not against malice: a cryptographic hash would cost a tenth of a read.
    return f"{zlib.crc32(data):08x}"[-_CHECK_DIGITS:]


def prepare(root: Path) -> None:
    """Mark a new cache for backup programs and git; drop what a killed writer left behind.

    What an older release made for everybody's eyes is taken from all but its owner.
    """
    # Below our own folder: a user may point the cache at a directory with other things in it.
    ours = root / _LAYOUT
    if not (ours / "CACHEDIR.TAG").exists():
        private_files.make_folder(ours, root)
        parquet.write_atomically(ours / ".gitignore", b"*\n", owner_only=True)
        parquet.write_atomically(ours / "CACHEDIR.TAG", _TAG.encode(), owner_only=True)
    if root not in _swept:
        _swept.add(root)
        private_files.tighten(ours)
        sweep(root)


def sweep(root: Path, *, older_than_s: float = _ORPHAN_S) -> int:
    """Remove temporary files that nobody will finish; return how many there were."""
    removed = 0
    for path in (root / _LAYOUT).glob(f"*/*/.*{parquet.TEMPORARY}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > older_than_s:
                path.unlink()
                removed += 1
    return removed


_swept: Final[set[Path]] = set()
