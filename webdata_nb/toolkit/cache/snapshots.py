"""Stores cached results on disk as immutable Parquet files, addressed by a digest of the request.

A file is `{root}/v1/{op}/{digest}/{UTC timestamp}-{checksum}.parquet`. It is never overwritten, so
readers need no lock. Its name ends with a checksum of its bytes: a truncated, altered or misplaced
file counts as a miss. Beside it are the full receipt of a crawl, and the pages of an unfinished
listing of creatives, from which the next call resumes.

Pages that were read as a list share one file, `{root}/v1/lists/{UTC timestamp}-{checksum}.parquet`,
since the set-up of a Parquet file takes longer than the rows of a page. In the place of a file of
its own, each of them has an entry: `{stem of the shared file}.{row}.{rows}.{checksum}.page`, a JSON
file with the digest and the receipt. The last entry that is removed takes the shared file with it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.toolkit.frames import schemas, storage
from webdata_nb.toolkit.frames.schemas import TableName

_LAYOUT: Final = "v1"
_LISTS: Final = "lists"
_ENTRY: Final = re.compile(r"(?P<stem>\w+-\w+)\.(?P<row>\d+)\.(?P<rows>\d+)\.(?P<sum>\w+)\.page")
_TIMESTAMP: Final = "%Y%m%dT%H%M%S%fZ"
_CHECKSUM_DIGITS: Final = 6
# Tolerates the clock of another machine that shares the cache; beyond it a file is not trusted.
_CLOCK_SKEW: Final = timedelta(minutes=1)
_ORPHAN_S: Final = 3600.0
_TAG: Final = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This directory is a cache of webdata_nb and can be deleted at any time.\n"
    "# See https://bford.info/cachedir/\n"
)

log = logging.getLogger("webdata_nb")


@dataclass(frozen=True, slots=True)
class CacheKey:
    """The table and the digest of a request; files never hold the parts that enter the digest."""

    op: TableName
    digest: str

    @classmethod
    def of(
        cls, op: TableName, *, base_url: str, identity: str, params: Mapping[str, Any]
    ) -> CacheKey:
        """Return the key of a request.

        Parameters
        ----------
        op
            The table requested.
        base_url
            The service.
        identity
            A hash of the account that owns the results; never an API key itself.
        params
            The request, including headers and cookies; only its hash is kept.
        """
        parts = [_LAYOUT, schemas.schema_id(op), base_url.rstrip("/"), identity, dict(params)]
        canonical = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
        return cls(op, hashlib.sha256(canonical).hexdigest()[:32])

    def folder(self, root: Path) -> Path:
        """Return the directory that holds the snapshots of this key."""
        return root / _LAYOUT / self.op / self.digest


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One cached result: its file, the time it was taken, its rows and its receipt."""

    path: Path
    at: datetime
    table: pa.Table
    attrs: dict[str, Any]


def put(
    root: Path,
    key: CacheKey,
    table: pa.Table,
    attrs: Mapping[str, Any],
    *,
    now: datetime,
) -> Snapshot:
    """Store a result.

    Raises
    ------
    OSError
        The cache directory cannot be written.
    """
    prepare(root)
    file_metadata = {"schema": schemas.schema_id(key.op), "digest": key.digest}
    data = storage.encode(table, own=file_metadata, attrs=attrs)
    folder = key.folder(root)
    storage.make_folder(folder, root)
    path = folder / _name(now, data)
    storage.write_atomically(path, data, owner_only=True)
    return Snapshot(path, now, table, dict(attrs))


def put_list(
    root: Path,
    pages: Sequence[tuple[CacheKey, Mapping[str, Any]]],
    table: pa.Table,
    *,
    now: datetime,
) -> Path:
    """Store the pages of a list, one row each with its key and receipt; return their shared file.

    Raises
    ------
    OSError
        The cache directory cannot be written.
    """
    prepare(root)
    op = pages[0][0].op
    data = storage.encode(table, own={"schema": schemas.schema_id(op)}, attrs={})
    path = root / _LAYOUT / _LISTS / _name(now, data)
    storage.make_folder(path.parent, root)
    storage.write_atomically(path, data, owner_only=True)
    for row, (key, attrs) in enumerate(pages):
        entry = orjson.dumps({"digest": key.digest, "attrs": attrs})
        folder = key.folder(root)
        storage.make_folder(folder, root)
        name = f"{path.stem}.{row}.{len(pages)}.{_checksum(entry)}.page"
        # Like any other defect, the loss of an entry is a miss; a sync of each would take long.
        storage.write_atomically(folder / name, entry, durable=False, owner_only=True)
    return path


def newest(
    root: Path,
    key: CacheKey,
    *,
    now: datetime,
    ttl_s: float | None = None,
    until: datetime | None = None,
    columns: Sequence[str] | None = None,
) -> Snapshot | None:
    """Return the newest valid snapshot that is at most `ttl_s` seconds old (None: any age).

    With `until`, it was not taken after that time. Reads only `columns`, or all of them when None.
    """
    for path, at in sorted(_files(key.folder(root)), reverse=True):
        age = now - at
        if until is not None and at > until:
            continue
        if ttl_s is not None and age.total_seconds() > ttl_s:
            return None
        if age >= -_CLOCK_SKEW and (snapshot := _read(path, at, key, columns)) is not None:
            return snapshot
    return None


def history(root: Path, key: CacheKey, *, columns: Sequence[str] | None = None) -> list[Snapshot]:
    """Return every valid snapshot of a key, oldest first."""
    snapshots = [_read(path, at, key, columns) for path, at in sorted(_files(key.folder(root)))]
    return [snapshot for snapshot in snapshots if snapshot is not None]


def read(path: Path, key: CacheKey, columns: Sequence[str] | None = None) -> Snapshot | None:
    """Return the snapshot in one file; None unless the file exists, is valid and has this key."""
    at = timestamp_of(path)
    return None if at is None else _read(path, at, key, columns)


def timestamp_of(path: Path) -> datetime | None:
    """Return the time in the name of a snapshot file or an entry; None for any other file."""
    timestamp, dash, _ = path.name.partition("-")
    if not dash or path.suffix not in {".parquet", ".page"}:
        return None
    try:
        return datetime.strptime(timestamp, _TIMESTAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def touch_marker(root: Path, name: str) -> None:
    """Set the time of an event that makes older results outdated."""
    prepare(root)
    (root / _LAYOUT / name).touch(mode=storage.FILE_MODE)


def marker_time(root: Path, name: str) -> datetime | None:
    """Return the time of the last `touch_marker` with this name; None if there was none."""
    try:
        return datetime.fromtimestamp((root / _LAYOUT / name).stat().st_mtime, UTC)
    except OSError:
        return None


def all_files(root: Path) -> Iterator[tuple[Path, datetime]]:
    """Yield each snapshot file and entry below `root`, with the time it was taken."""
    for folder in sorted((root / _LAYOUT).glob("*/*/")):
        yield from sorted(_files(folder))


def _files(folder: Path) -> Iterator[tuple[Path, datetime]]:
    with suppress(OSError):
        for path in folder.iterdir():
            if (at := timestamp_of(path)) is not None:
                yield path, at


def _read(
    path: Path, at: datetime, key: CacheKey, columns: Sequence[str] | None = None
) -> Snapshot | None:
    """Read a snapshot file or an entry; any defect is logged and counts as a miss."""
    try:
        if path.suffix == ".page":
            return _read_page(path, at, key, columns)
        document = storage.ParquetDocument(_verified_bytes(path, path.stem.rpartition("-")[2]))
        _check_document(document, key, document.own.get("digest"))
        table = _read_columns(document, key.op, columns)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        log.warning("ignored a damaged cache file, %s: %s", path, error)
        return None
    return Snapshot(path, at, table, document.attrs)


# The shared files that were read inside a block of `lists_read_once`.
_DOCUMENTS: ContextVar[dict[Path, storage.ParquetDocument] | None] = ContextVar(
    "webdata_cached_lists", default=None
)


@contextmanager
def lists_read_once() -> Iterator[None]:
    """Keep the shared files of lists in memory inside the block, for the pages in them."""
    token = _DOCUMENTS.set({})
    try:
        yield
    finally:
        _DOCUMENTS.reset(token)


def _read_page(path: Path, at: datetime, key: CacheKey, columns: Sequence[str] | None) -> Snapshot:
    """Read a page of a list by its entry."""
    parts = _entry_parts(path)
    entry = orjson.loads(_verified_bytes(path, parts["sum"]))
    shared = _shared_file(path)
    documents = _DOCUMENTS.get()
    document = None if documents is None else documents.get(shared)
    if document is None:
        data = _verified_bytes(shared, shared.stem.rpartition("-")[2])
        document = storage.ParquetDocument(data)
        if documents is not None:
            documents[shared] = document
    _check_document(document, key, entry["digest"])
    table = _read_columns(document, key.op, columns).slice(int(parts["row"]), 1)
    return Snapshot(shared, at, table, dict(entry["attrs"]))


def _entry_parts(path: Path) -> dict[str, str]:
    match = _ENTRY.fullmatch(path.name)
    if match is None:
        raise ValueError("its name is not of an entry")
    return match.groupdict()


def _shared_file(path: Path) -> Path:
    """Return the file that has the rows of an entry, which is in `{root}/v1/{op}/{digest}`."""
    return path.parents[2] / _LISTS / f"{_entry_parts(path)['stem']}.parquet"


def stored(path: Path) -> tuple[Path, int, Mapping[str, Any]]:
    """Return the Parquet file, the number of rows and the receipt of a file or an entry.

    Raises
    ------
    OSError, ValueError, pyarrow.ArrowException
        It is gone or damaged.
    """
    if path.suffix == ".page":
        return _shared_file(path), 1, orjson.loads(path.read_bytes())["attrs"]
    footer = pq.read_metadata(path)
    attrs = orjson.loads((footer.metadata or {}).get(b"PANDAS_ATTRS", b"{}"))
    return path, footer.num_rows, attrs.get("webdata", {})


def size_of(path: Path) -> int:
    """Return the bytes of a file with its receipt, or of an entry with its share of the rows.

    Raises
    ------
    OSError
        The file is gone.
    """
    size = path.stat().st_size
    with suppress(OSError, ValueError):
        if path.suffix == ".page":
            return size + _shared_file(path).stat().st_size // int(_entry_parts(path)["rows"])
        size += receipt_path(path).stat().st_size
    return size


def remove(root: Path, paths: Iterable[Path]) -> int:
    """Remove files with their receipts, and entries; return how many there were.

    A shared file goes with its last entry, or an hour after its writer was killed.
    """
    removed, lists = 0, set[Path]()
    for path in paths:
        try:
            path.unlink()
        except OSError:  # already gone, or open in another program on Windows
            continue
        removed += 1
        with suppress(OSError, ValueError):
            if path.suffix == ".page":
                lists.add(_shared_file(path))
            else:
                receipt_path(path).unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()  # fails while it holds another snapshot
    folder = root / _LAYOUT / _LISTS
    if lists or folder.is_dir():
        in_use = {path.name.partition(".")[0] for path, _ in all_files(root)}
        unused = [path for path in folder.glob("*.parquet") if path.stem not in in_use]
        remove_older([path for path in unused if path in lists], 0)
        remove_older([path for path in unused if path not in lists], _ORPHAN_S)
    return removed


def _read_columns(
    document: storage.ParquetDocument, op: TableName, columns: Sequence[str] | None
) -> pa.Table:
    """Return columns of a file, with nulls where it has none."""
    if columns is None:
        return document.read()
    table = document.read([name for name in columns if name in document.schema.names])
    for name in columns:
        if name not in table.column_names:
            field = schemas.SCHEMAS[op].field(name)
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(list(columns))


def _name(now: datetime, data: pa.Buffer) -> str:
    return f"{now.astimezone(UTC).strftime(_TIMESTAMP)}-{_checksum(data)}.parquet"


def _verified_bytes(path: Path, checksum: str) -> bytes:
    data = path.read_bytes()
    if _checksum(data) != checksum:
        raise ValueError("its checksum does not match")
    return data


def _check_document(document: storage.ParquetDocument, key: CacheKey, digest: object) -> None:
    if digest != key.digest:
        raise ValueError("it belongs to another request")
    if not schemas.are_columns_of(key.op, document.schema):
        raise ValueError("its schema is of another version")


def _checksum(data: pa.Buffer | bytes) -> str:
    # Detects damage, not tampering: a cryptographic hash would add a tenth to each read.
    return f"{zlib.crc32(data):08x}"[-_CHECKSUM_DIGITS:]


def prepare(root: Path) -> None:
    """Tag a new cache directory for backup programs and git; remove orphaned temporary files."""
    # The tag goes into our own folder: the cache directory may hold files of other programs.
    folder = root / _LAYOUT
    if not (folder / "CACHEDIR.TAG").exists():
        storage.make_folder(folder, root)
        storage.write_atomically(folder / ".gitignore", b"*\n", owner_only=True)
        storage.write_atomically(folder / "CACHEDIR.TAG", _TAG.encode(), owner_only=True)
    if root not in _swept:
        _swept.add(root)
        sweep(root)


def sweep(root: Path, *, older_than_s: float = _ORPHAN_S) -> int:
    """Remove temporary files of killed writers; return how many there were."""
    return remove_older((root / _LAYOUT).glob(f"*/*/.*{storage.TEMPORARY}"), older_than_s)


def remove_older(paths: Iterable[Path], age_s: float) -> int:
    """Remove files that were last changed more than `age_s` seconds ago; return how many."""
    removed = 0
    for path in paths:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > age_s:
                path.unlink()
                removed += 1
    return removed


_swept: Final[set[Path]] = set()


RECEIPT_SCHEMA: Final = pa.schema([(name, schemas.TEXT) for name in ("url", "outcome", "detail")])
_RECEIPT_VERSION: Final = "receipt/1"
_MAX_VARIANTS: Final = 5
_IGNORED_PARTS: Final = re.compile(r"^https?://(?:www\.)?|:(?:80|443)(?=/|$)|[?&]$")


def receipt_path(path: Path) -> Path:
    """Return the receipt file of a cached crawl; its name differs from those of snapshots."""
    return path.with_name(f"receipt-{path.name}")


def write_receipt(path: Path, entries: Sequence[ReceiptEntry]) -> Path:
    """Write the receipt of the crawl in `path`.

    Raises
    ------
    OSError
        The cache directory cannot be written.
    """
    columns = {
        name: pa.array([getattr(entry, name) for entry in entries], schemas.TEXT)
        for name in RECEIPT_SCHEMA.names
    }
    data = storage.encode(
        pa.table(columns, schema=RECEIPT_SCHEMA), own={"schema": _RECEIPT_VERSION}, attrs={}
    )
    target = receipt_path(path)
    storage.write_atomically(target, data, owner_only=True)
    return target


def read_receipt(path: Path) -> list[ReceiptEntry] | None:
    """Return the receipt of the crawl in `path`; None where it is missing or unreadable."""
    try:
        document = storage.ParquetDocument(receipt_path(path).read_bytes())
        if document.own.get("schema") != _RECEIPT_VERSION:
            return None
        rows = document.read(RECEIPT_SCHEMA.names).to_pylist()
        return [ReceiptEntry(**row) for row in rows]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, pa.ArrowException) as error:
        log.warning("ignored a damaged receipt, %s: %s", receipt_path(path), error)
        return None


def find_receipt_entry(
    entries: Iterable[ReceiptEntry], url: str
) -> tuple[ReceiptEntry | None, tuple[ReceiptEntry, ...]]:
    """Return the entry of `url`, and entries of URLs that are equal once normalized."""
    normalized = normalize_url(url)
    variants = [entry for entry in entries if normalize_url(entry.url) == normalized]
    exact = next((entry for entry in variants if entry.url == url), None)
    return exact, tuple(entry for entry in variants if entry is not exact)[:_MAX_VARIANTS]


def normalize_url(url: str) -> str:
    """Drop what rarely distinguishes pages.

    These are the scheme, `www.`, a default port, letter case, percent-encoding, a trailing slash
    and the fragment.
    """
    stripped = url.strip().partition("#")[0]
    stripped = unquote(_IGNORED_PARTS.sub("", stripped.lower()))
    path, question_mark, query = stripped.partition("?")
    return path.rstrip("/") + question_mark + query


# Cursors expire within a day; older pages would belong to another listing.
PARTIAL_EXPIRES_S: Final = 24 * 3600.0
_PARTIAL_NAME: Final = "unfinished.jsonl"


@dataclass(frozen=True, slots=True)
class PartialListing:
    """The pages of one listing in their order, one JSON line each."""

    path: Path
    root: Path

    @classmethod
    def of(cls, root: Path, key: CacheKey) -> PartialListing:
        """Return the stored pages of a cache key."""
        return cls(key.folder(root) / _PARTIAL_NAME, root)

    def pages(self) -> list[dict[str, Any]]:
        """Return the stored pages up to the first damaged line."""
        pages: list[dict[str, Any]] = []
        with suppress(OSError, orjson.JSONDecodeError):
            if time.time() - self.path.stat().st_mtime > PARTIAL_EXPIRES_S:
                return []
            for line in self.path.read_bytes().splitlines():
                pages.append(orjson.loads(line))  # noqa: PERF401 - keeps those before a bad line
        return pages

    def append(self, page: dict[str, Any]) -> None:
        """Store one more page; the listing continues where that fails."""
        self._write("ab", orjson.dumps(page, option=orjson.OPT_APPEND_NEWLINE))

    def delete(self) -> None:
        """Delete the pages: the listing is complete."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _write(self, mode: str, data: bytes) -> None:
        try:
            storage.make_folder(self.path.parent, self.root)
            self.path.touch(mode=storage.FILE_MODE)
            with self.path.open(mode) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            log.info("an unfinished listing cannot be stored: %s", error)
