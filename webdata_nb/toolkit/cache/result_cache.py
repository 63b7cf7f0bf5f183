"""The cache of one request, and the result of a call: its rows, receipt and delivery as a frame.

A cache looks results up, stores them, evicts the oldest ones beyond its size, and finds the
request most similar to one without a result.

Results are immutable Parquet files, addressed by a digest of the request:
`{root}/v1/{op}/{digest}/{UTC timestamp}-{checksum}.parquet`. A file is never overwritten, so
readers need no lock. Its name ends with a checksum of its bytes: a truncated, altered or
misplaced file counts as a miss. Beside it are the full receipt of a crawl, and the pages of an
unfinished listing of creatives, from which the next call resumes.

Pages that were read as a list share one file,
`{root}/v1/lists/{UTC timestamp}-{checksum}.parquet`, since the set-up of a Parquet file takes
longer than the rows of a page. In the place of a file of its own, each of them has an entry:
`{stem of the shared file}.{row}.{rows}.{checksum}.page`, a JSON file with the digest and the
receipt. The last entry that is removed takes the shared file with it.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import heapq
import itertools
import logging
import os
import platform
import re
import secrets
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import unquote

import filelock
import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from webdata_nb import caller
from webdata_nb.contract.outcomes import JobKind, JobStatus
from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.errors import (
    BadAnswer,
    ConnectionFailed,
    IncompleteResult,
    JobCancelled,
    JobError,
    JobTimeout,
    LocalServiceError,
    OfflineError,
    RateLimited,
    ServiceFault,
    WebdataError,
)
from webdata_nb.pacing.retry_policies import FILE_LOCK
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.bridge import set_partial_result
from webdata_nb.toolkit.frames import exports, frame, receipt, rows, schemas, storage
from webdata_nb.toolkit.frames.rows import CallResult, JobOutcome
from webdata_nb.toolkit.frames.schemas import TableName
from webdata_nb.toolkit.requests.arguments import CallOptions, within
from webdata_nb.toolkit.requests.inputs import SUBJECT_FIELDS

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.contract.replies import CrawlStatus, SearchStatus
    from webdata_nb.toolkit.requests.inputs import JobSpec
    from webdata_nb.toolkit.session import ResultScope


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

log: Final = logging.getLogger("webdata_nb")


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

    @property
    def call(self) -> tuple[str | None, datetime]:
        """The id and the time that it shares with the other inputs of its call, if it had any."""
        name = self.attrs.get("snapshot")
        at = timestamp_of(Path(f"{name}.parquet")) if isinstance(name, str) else None
        return (None, self.at) if at is None else (str(name), at)

    @property
    def creative_ids(self) -> set[object]:
        """The creatives of a listing."""
        return set(self.table["creative_id"].to_pylist())

    def result(self, state: str = "hit") -> CallResult:
        """Return its rows as the result of a call."""
        return CallResult(self.table, {**self.attrs, "cache": state, "file": str(self.path)})


def snapshot_id(at: datetime) -> str:
    """Return a new id for the results of one call; ids sort by time."""
    return f"{at.astimezone(UTC).strftime(_TIMESTAMP)}-{secrets.token_hex(_CHECKSUM_DIGITS // 2)}"


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
    return path, footer.num_rows, storage.receipt_of(footer.metadata)


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
    present = document.schema.names
    table = document.read([name for name in columns if name in present])
    for each in (schemas.SCHEMAS[op].field(name) for name in columns if name not in present):
        table = table.append_column(each, pa.nulls(table.num_rows, each.type))
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


def sweep(root: Path) -> int:
    """Remove temporary files of killed writers; return how many there were."""
    return remove_older((root / _LAYOUT).glob(f"*/*/.*{storage.TEMPORARY}"), _ORPHAN_S)


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
        try:
            storage.make_folder(self.path.parent, self.root)
            self.path.touch(mode=storage.FILE_MODE)
            with self.path.open("ab") as file:
                file.write(orjson.dumps(page, option=orjson.OPT_APPEND_NEWLINE))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            log.info("an unfinished listing cannot be stored: %s", error)

    def delete(self) -> None:
        """Delete the pages: the listing is complete."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


# Finds the job of a request again: locks, references and the calls that wait for their jobs.
#
# One call at a time asks for a request: a file lock serializes the others across threads and
# processes. A reference is a small JSON file beside the cached results. With it, a job that
# outlived its kernel returns the frame that the starting call would have returned; it holds no
# secrets: of the request it keeps what a receipt shows, and a digest of the rest. A claim is a
# small file beside the cached results, from before the start of a job until its call has the
# result, so that the next call joins a job whose caller has died. It is locked while its call
# lives; the operating system releases the lock of a killed process.
#
# A cancel token tells an executor's workers, in any process or machine, that their call was
# cancelled. It is a file that exists while the call wants its inputs: a file is the only channel
# into a process that somebody else started.


_LOCKS: Final = Path("v1", "locks")
_LOCK_EXPIRES_S: Final = 86_400.0


@asynccontextmanager
async def lock_file(path: Path, *, wait: bool) -> AsyncIterator[None]:
    """Hold the lock of a file inside the block.

    Raises
    ------
    filelock.Timeout
        Another call holds it, and `wait` is off.
    OSError
        The file cannot be written.
    """
    file_lock = _file_lock(path)
    if wait:
        await _acquire(file_lock)
    else:
        file_lock.acquire(timeout=0)
    try:
        yield
    finally:
        file_lock.release()


def try_lock(path: Path) -> filelock.BaseFileLock | None:
    """Return the lock of a file, to be released; None where a living call holds it.

    Raises
    ------
    OSError, NotImplementedError
        The file cannot be written, or its file system has no locks.
    """
    file_lock = _file_lock(path)
    try:
        file_lock.acquire(timeout=0)
    except filelock.Timeout:
        return None
    return file_lock


def lock_path(root: Path, name: str) -> Path:
    """Return the path of a lock file in a cache; its folder exists afterwards."""
    folder = root / _LOCKS
    if not folder.is_dir():
        prepare(root)
        storage.make_folder(folder, root)
    return folder / f"{name}.lock"


def _file_lock(path: Path) -> filelock.BaseFileLock:
    # Not bound to a thread: a task may end on another thread than it began on.
    return filelock.FileLock(path, mode=storage.FILE_MODE, thread_local=False)


async def _acquire(file_lock: filelock.BaseFileLock) -> None:
    for attempt in itertools.count(1):
        with suppress(filelock.Timeout):
            file_lock.acquire(timeout=0)
            return
        await asyncio.sleep(FILE_LOCK.delay_s(attempt))


_TOKENS: Final = Path("v1", "demands")
_JOB_FILE_EXPIRES_S: Final = 30 * 86_400.0


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
            path = root / _TOKENS / name
            storage.make_folder(path.parent, root)
            path.touch(mode=storage.FILE_MODE)
        except OSError:
            path = Path(tempfile.gettempdir(), f"webdata-{name}")
            path.touch(mode=storage.FILE_MODE)
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


_REFS: Final = Path("v1", "jobs")


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job: its request, the columns of its frame, and the cache file once it was collected."""

    job_id: str
    op: TableName
    subject: str
    digest: str
    columns: tuple[str, ...]
    request: dict[str, Any] = field(default_factory=dict)
    file: str | None = None

    @property
    def kind(self) -> JobKind:
        """The kind of the job."""
        return "search" if self.op == "search" else "crawl"

    @property
    def cache_key(self) -> CacheKey:
        """The key of its rows in the cache."""
        return CacheKey(self.op, self.digest)

    @classmethod
    def for_foreign_job(cls, job_id: str, op: TableName, service: str) -> JobRef:
        """Return a reference to a job that was started elsewhere; its frame has all columns."""
        key = CacheKey.of(op, base_url=service, identity="", params={"job_id": job_id})
        names = schemas.SCHEMAS[op].names
        # The columns of an audit are no data of the job.
        columns = tuple(name for name in names if name not in schemas.AUDIT_COLUMNS)
        return cls(job_id, op, "", key.digest, columns)


def write_job_ref(root: Path, service: str, identity: str, job_ref: JobRef) -> None:
    """Write a reference; does nothing where the cache is not writable."""
    path = _ref_path(root, service, identity, job_ref.job_id)
    with suppress(OSError):
        if not path.parent.is_dir():
            prepare(root)
            storage.make_folder(path.parent, root)
        data = msgspec.json.encode(job_ref)
        storage.write_atomically(path, data, durable=False, owner_only=True)


def find_job_ref(job_id: str, options: CallOptions) -> JobRef | None:
    """Return the reference to a job of this account; None where it is missing or invalid."""
    scope = options.connection.scope(options.settings)
    path = _ref_path(options.settings.cache_dir, scope.service, scope.identity, job_id)
    try:
        job_ref = msgspec.json.decode(path.read_bytes(), type=JobRef)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("ignored a damaged job reference, %s: %s", path, error)
        return None
    ordered = schemas.in_order(job_ref.op, job_ref.columns)
    is_whole = job_ref.job_id == job_id and len(ordered) == len(job_ref.columns)
    return replace(job_ref, columns=ordered) if is_whole else None


def _ref_path(root: Path, service: str, identity: str, job_id: str) -> Path:
    name = hashlib.sha256(orjson.dumps([service, identity, job_id])).hexdigest()[:32]
    return root / _REFS / f"{name}.json"


_SUFFIX: Final = ".claim"
_LOCK_SUFFIX: Final = ".lock"
# After these errors, the job may have started, and may run on.
_MAY_RUN_ON: Final = (
    BadAnswer,
    ConnectionFailed,
    JobTimeout,
    LocalServiceError,
    RateLimited,
    ServiceFault,
)


@dataclass(slots=True)
class JobClaim:
    """The claim of one call to the job of its request.

    Attributes
    ----------
    path
        Its file.
    run_id
        Random; the idempotency key of the start derives from it.
    started_at
        When the call began, in seconds since the epoch.
    since
        What the request of an incremental crawl adds to that of a plain one; None for a plain one.
    job_id
        The job; None until the service has answered the start.
    abandoned
        Whether it was another call's, which has died or has left the job running.
    joined
        Whether the call follows the job of an abandoned claim.
    is_running
        Whether the job runs on after the call, which came to its timeout.
    """

    path: Path
    run_id: str
    started_at: float
    since: dict[str, Any] | None = None
    job_id: str | None = None
    abandoned: bool = False
    joined: bool = False
    is_running: bool = False

    @classmethod
    def create(cls, path: Path, since: dict[str, Any] | None) -> Self:
        """Write the claim of a new call."""
        created = cls(path, secrets.token_hex(16), time.time(), since)
        created._write()
        return created

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return the claim of an earlier call; None where it is gone or damaged."""
        try:
            return cls(path, **orjson.loads(path.read_bytes()), abandoned=True)
        except (OSError, ValueError, TypeError):
            return None

    def start(self, job_id: str) -> None:
        """Store the id of the job, once the service has answered."""
        if job_id != self.job_id:
            self.job_id = job_id
            with suppress(OSError):
                self._write()

    def renew(self, since: Mapping[str, Any] | None) -> None:
        """Give up the abandoned job, before another one is started."""
        self.run_id, self.started_at = secrets.token_hex(16), time.time()
        self.since = None if since is None else dict(since)
        self.job_id, self.abandoned = None, False
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        names = ("run_id", "started_at", "since", "job_id")
        data = orjson.dumps({name: getattr(self, name) for name in names})
        storage.write_atomically(self.path, data, durable=False, owner_only=True)


def _take(
    root: Path, key: CacheKey, since: dict[str, Any] | None, *, refresh: bool
) -> tuple[JobClaim, filelock.BaseFileLock] | None:
    """Return the newest abandoned claim, or a new one, and its lock."""
    folder = key.folder(root)
    for path in sorted(folder.glob(f"*{_SUFFIX}"), key=_age_s):
        lock = try_lock(_lock_file(path))
        if lock is None:
            continue
        found = JobClaim.read(path)
        if refresh or found is None:
            _remove_claim(path, lock)
        elif since in (None, found.since):
            return found, lock
        else:
            lock.release()
    prepare(root)
    storage.make_folder(folder, root)
    path = folder / f"{secrets.token_hex(8)}{_SUFFIX}"
    lock = try_lock(_lock_file(path))
    return None if lock is None else (JobClaim.create(path, since), lock)


def _remove_claim(path: Path, lock: filelock.BaseFileLock) -> None:
    """Remove a claim, and then its lock: who still gets that finds no claim."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    lock.release()
    with suppress(OSError):
        _lock_file(path).unlink(missing_ok=True)


def remove_abandoned_claims(root: Path, op: str | None, *, older_than_s: float) -> None:
    """Remove the abandoned claims of an operation, or of all, that are older."""
    for path in (root / _LAYOUT).glob(f"{op or '*'}/*/*{_SUFFIX}"):
        with suppress(OSError, NotImplementedError):
            if _age_s(path) >= older_than_s and (lock := try_lock(_lock_file(path))):
                _remove_claim(path, lock)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0


def _lock_file(path: Path) -> Path:
    return path.with_suffix(_LOCK_SUFFIX)


def sweep_locks(root: Path) -> None:
    """Remove unused locks, the tokens of killed calls, and references that no service knows."""
    remove_older((root / _LOCKS).glob("*.lock"), _LOCK_EXPIRES_S)
    remove_older((root / _TOKENS).glob("*"), _JOB_FILE_EXPIRES_S)
    remove_older((root / _REFS).glob("*.json"), _JOB_FILE_EXPIRES_S)


async def deliver(result: CallResult, options: CallOptions) -> pd.DataFrame:
    """Return the frame of a result, after writing it to `out` where the call names a file.

    Raises
    ------
    JobFailed, JobCancelled, JobTimeout, IncompleteResult
        Rows are missing; what arrived is on the error.
    """
    built = await asyncio.to_thread(_build_frame, result, options)
    if result.outcome is None:
        warn_of_shortcoming(result.attrs)
    elif result.outcome.interrupted:
        set_partial_result(built)
    else:
        try:
            raise_or_warn(result.outcome, result.attrs, options)
        except JobError as error:
            error.partial = built if len(built) else None
            raise
        except IncompleteResult as error:
            error.frame = built
            raise
    if options.out is not None:
        try:
            await asyncio.to_thread(exports.write, options.out, result.table, result.attrs)
        except OSError as error:
            error.add_note(f"the rows themselves are safe in {result.attrs['file']}")
            raise
    return built


def _build_frame(result: CallResult, options: CallOptions) -> pd.DataFrame:
    built = frame.build(
        result.table,
        attrs=result.attrs,
        dtype_backend=options.dtype_backend,
        objects=result.objects,
    )
    if result.outcome is not None:
        rows.trim_memory(result.table)
    return built


def raise_or_warn(outcome: JobOutcome, attrs: Mapping[str, Any], options: CallOptions) -> None:
    """Raise or warn where a job did not succeed; `attrs` are the receipt of its rows."""
    error = outcome.error()
    if (wanted := error_to_raise(error, options)) is not None:
        raise wanted
    if error is None and outcome.rows == 0:
        caller.warn(receipt.empty_result_reason(outcome))
    elif error is None:
        warn_of_shortcoming(attrs)


def error_to_raise(error: WebdataError | None, options: CallOptions) -> WebdataError | None:
    """Return the error of a job unless `on_cancel` or `on_incomplete` accept the rows without it.

    Warns where the call wants a warning instead.
    """
    if isinstance(error, JobCancelled) and options.on_cancel == "partial":
        return None
    if isinstance(error, IncompleteResult) and options.on_incomplete != "raise":
        if options.on_incomplete == "warn":
            caller.warn(f"incomplete result: {error}")
        return None
    return error


def warn_of_shortcoming(attrs: Mapping[str, Any]) -> None:
    """Warn where a receipt says that the rows may not be the wanted ones."""
    if attrs.get("warning"):
        caller.warn(f"{attrs['kind']} {attrs['subject']}: {attrs['warning']}")


_MAX_FILES: Final = 500
_MAX_DIFFERENCES: Final = 3
_SIMILARITY: Final = 0.6


@dataclass(frozen=True, slots=True)
class CachedRequest:
    """A request with a cached result, without secrets, and the time of the result."""

    op: str
    subject: str
    request: Mapping[str, Any]
    at: datetime

    def similarity(self, other: CachedRequest) -> float:
        """Return the similarity of the subjects from 0 to 1, less a little for each difference."""
        ratio = difflib.SequenceMatcher(None, self.subject, other.subject).ratio()
        return ratio - 0.01 * len(self.differences(other))

    def differences(self, other: CachedRequest) -> list[str]:
        """Return the options that differ, as `name=value (not value)`."""
        own, options = _options(self.request), _options(other.request)
        return [
            f"{name}={_format_option(own, name)} (not {_format_option(options, name)})"
            for name in {**own, **options}
            if own.get(name) != options.get(name)
        ]

    def describe(self, wanted: CachedRequest) -> str:
        """Return a clause that says what was cached and how it differs from `wanted`."""
        text = f"{self.op} {receipt.shorten(self.subject)} of {self.at:%Y-%m-%d %H:%M} UTC"
        differences = self.differences(wanted)
        if differences:
            more = len(differences) - _MAX_DIFFERENCES
            listed = ", ".join(differences[:_MAX_DIFFERENCES])
            return f"{text} with {listed}{f' and {more} more' if more > 0 else ''}"
        return text if self.subject != wanted.subject else f"{text}, with another key or headers"


def closest_request(root: Path, wanted: CachedRequest, service: str) -> CachedRequest | None:
    """Return the most similar request to `service` with a cached result; None if none is similar.

    Only the newest results are compared.
    """
    files = heapq.nlargest(
        _MAX_FILES,
        (file for file in all_files(root) if _op_of_path(file[0]) == wanted.op),
        key=lambda file: file[1],
    )
    best = max(_requests(files, service), key=wanted.similarity, default=None)
    if best is None or wanted.similarity(best) < _SIMILARITY:
        return None
    return best


def _requests(files: list[tuple[Path, datetime]], service: str) -> Iterator[CachedRequest]:
    for path, at in files:
        with suppress(OSError, ValueError, pa.ArrowException):
            _, _, attrs = stored(path)
            if attrs.get("service") == service:
                subject, request = attrs.get("subject") or "", attrs.get("request") or {}
                yield CachedRequest(_op_of_path(path), subject, request, at)


def _op_of_path(path: Path) -> str:
    return path.parent.parent.name


def _options(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a request without its subject, those of pages by their own name."""
    options: dict[str, Any] = {}
    for name, value in request.items():
        if name == "scrape_options" and isinstance(value, Mapping):
            options |= _options(value)
        elif name not in SUBJECT_FIELDS:
            options[name] = value
    return options


def _format_option(options: Mapping[str, Any], name: str) -> str:
    return format_value(options[name]) if name in options else "the default"


@dataclass(frozen=True, slots=True)
class CacheFile:
    """A cached result: its path, the time it was taken, and its bytes on disk."""

    path: Path
    at: datetime
    size: int

    @property
    def op(self) -> str:
        """Its operation."""
        return _op_of_path(self.path)


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
    return remove(root, [file.path for file in evicted]) if evicted else 0


def cache_files(root: Path) -> Iterator[CacheFile]:
    """Yield each cached result, with the size of its receipt added to its own."""
    for path, at in all_files(root):
        with suppress(OSError):
            yield CacheFile(path, at, size_of(path))


# The provider that searches the local index, and the marker that a crawl of the index leaves.
_LOCAL_INDEX: Final = "local"
_CRAWL_MARKER: Final = "crawled"
# Seconds for which the rows of an ended job that a dead call left are the present state of a site,
# which an incremental crawl asks for.
_PRESENT_S: Final = 3600.0


_unwritable_roots: Final[set[Path]] = set()


@dataclass(frozen=True, slots=True)
class ResultCache:
    """The cached results of one request, within the options of one call."""

    root: Path
    key: CacheKey
    scope: ResultScope
    options: CallOptions
    spec: JobSpec | None = None

    @classmethod
    def of(cls, key: CacheKey, options: CallOptions) -> ResultCache:
        """Return the cache of a known key."""
        scope = options.connection.scope(options.settings)
        return cls(options.settings.cache_dir, key, scope, options)

    @classmethod
    def of_spec(cls, spec: JobSpec, options: CallOptions) -> ResultCache:
        """Return the cache of a request; its key covers secret parameters."""
        scope = options.connection.scope(options.settings)
        key = CacheKey.of(
            spec.op,
            base_url=scope.service,
            identity=scope.identity,
            params=spec.params(local=scope.local),
        )
        return cls(options.settings.cache_dir, key, scope, options, spec)

    # ----------------------------------------------------------------------------------- look-up

    def look_up(
        self, columns: Sequence[str], *, since: datetime | None = None
    ) -> CallResult | None:
        """Return the cached result that answers this call, with these columns.

        A result taken after `since` always does: an identical request finished meanwhile.

        Raises
        ------
        OfflineError
            There is none, and offline mode is on.
        """
        snapshot = self._fresh_snapshot(columns, since)
        if snapshot is None and self.options.settings.offline:
            raise OfflineError(self._offline_message())
        return None if snapshot is None else snapshot.result()

    def has_fresh_result(self) -> bool:
        """Whether the cache answers this call; reads no rows."""
        return self._fresh_snapshot((), None) is not None

    def _fresh_snapshot(self, columns: Sequence[str], since: datetime | None) -> Snapshot | None:
        now = datetime.now(UTC)
        ages = [(now - since).total_seconds()] if since is not None else []
        if not self.options.refresh:
            ttl_s = self.options.ttl_s(self.key.op)
            ages.append(inf if ttl_s is None else ttl_s)
        if not self.options.cache or not ages:
            return None
        snapshot = newest(self.root, self.key, now=now, ttl_s=max(ages), columns=columns)
        if snapshot is None or self._is_outdated(snapshot.attrs.get("provider_used"), snapshot.at):
            return None
        return snapshot

    def _is_outdated(self, provider: object, at: datetime) -> bool:
        """Whether a later crawl added pages to the local index that answered a search."""
        if self.options.settings.offline or not self.scope.local or provider != _LOCAL_INDEX:
            return False
        crawled_at = marker_time(self.root, _CRAWL_MARKER)
        return crawled_at is not None and crawled_at >= at

    def _offline_message(self) -> str:
        mode = "offline mode is on (offline=, WEBDATA_OFFLINE)"
        if not self.options.cache or self.options.refresh:
            return f"{mode}, and cache=False or refresh=True rule the cache out"
        spec = self.spec
        if spec is None:
            return f"{mode}, and the cache has no result of this call: run it online once"
        call = f"this {spec.op} of {receipt.shorten(spec.subject)}"
        message = f"{mode}, and the cache has no result of {call}: run it online once"
        wanted = CachedRequest(spec.op, spec.subject, spec.public_request, datetime.now(UTC))
        closest = closest_request(self.root, wanted, self.scope.service)
        if closest is None:
            return f"{message}. cache.ls() lists what it has"
        return f"{message}. The closest cached request is {closest.describe(wanted)}"

    def newest_snapshot(self, columns: Sequence[str]) -> Snapshot | None:
        """Return the newest snapshot of any age, for comparison; None where the cache is off.

        Raises
        ------
        OfflineError
            Offline mode is on, and `only_new` needs the service.
        """
        if self.options.settings.offline:
            raise OfflineError("offline mode is on, and only_new asks the service anew")
        if not self.options.cache:
            return None
        return newest(self.root, self.key, now=datetime.now(UTC), columns=columns)

    def last_job_id(self, before: datetime | None) -> str | None:
        """Return the job of the newest snapshot, or of the newest one that is not after a time."""
        now = datetime.now(UTC)
        snapshot = newest(self.root, self.key, now=now, until=before, columns=())
        job_id = None if snapshot is None else snapshot.attrs.get("job_id")
        return job_id if isinstance(job_id, str) else None

    def stale_snapshot(self, columns: Sequence[str]) -> Snapshot | None:
        """Return the snapshot that may replace an error, by `stale_if_error`."""
        age_s = self.options.stale_if_error
        if not self.options.cache or age_s is None:
            return None
        now = datetime.now(UTC)
        return newest(self.root, self.key, now=now, ttl_s=age_s, columns=columns)

    @asynccontextmanager
    async def single_flight(self) -> AsyncIterator[None]:
        """Hold the lock of this request inside the block.

        The operating system releases the lock when its holder dies.

        Raises
        ------
        ConnectionFailed
            An identical request held it for longer than the call's timeout.
        """
        if not self.options.cache:
            yield
            return
        async with AsyncExitStack() as stack:
            # Where the cache is not writable, or has no locks, the block runs without one.
            with suppress(OSError, NotImplementedError):
                path = lock_path(self.root, f"{self.key.op}-{self.key.digest}")
                acquired = stack.enter_async_context(lock_file(path, wait=True))
                await within(self.options.timeout_s, acquired)
            yield

    # ------------------------------------------------------------------------------ claims of jobs

    @asynccontextmanager
    async def claim_job(self, spec: JobSpec) -> AsyncIterator[JobClaim | None]:
        """Hold the claim to the job of this request inside the block, an abandoned one if there is.

        A plain request takes over any crawl of its key, as it would take its rows from the cache.
        With `refresh`, abandoned claims are removed. Yields None where the cache is off, or cannot
        be written or locked, and for creatives, which have no jobs.
        """
        if not self.options.cache or spec.op == "creatives":
            yield None
            return
        taken: tuple[JobClaim, filelock.BaseFileLock] | None = None
        with suppress(OSError, NotImplementedError):
            since = None if spec.since is None else spec.since.fields
            refresh = self.options.refresh
            taken = await asyncio.to_thread(_take, self.root, self.key, since, refresh=refresh)
        if taken is None:
            yield None
            return
        held, lock = taken
        is_over = False
        try:
            yield held
            is_over = not held.is_running
        except (asyncio.CancelledError, GeneratorExit):
            is_over = True  # the call has cancelled the job
            raise
        except WebdataError as error:
            is_over = not isinstance(error, _MAY_RUN_ON)
            raise
        finally:
            if is_over:
                _remove_claim(held.path, lock)
            else:
                lock.release()

    def may_join(self, claim: JobClaim, status: SearchStatus | CrawlStatus) -> bool:
        """Whether the job of an abandoned claim answers this call: it runs, or its rows are fresh.

        A job that failed or was cancelled does not, nor one whose rows the service has deleted.
        """
        if not status.status.terminal:
            return True
        is_expired = getattr(status, "result_expired", None)
        if status.status != JobStatus.COMPLETED or is_expired:
            return False
        ended_at = datetime.fromtimestamp(claim.started_at + (status.time_taken or 0.0), UTC)
        is_incremental = self.spec is not None and self.spec.since is not None
        ttl_s = _PRESENT_S if is_incremental else self.options.ttl_s(self.key.op)
        if ttl_s is not None and (datetime.now(UTC) - ended_at).total_seconds() > ttl_s:
            return False
        return not self._is_outdated(getattr(status, "provider_used", None), ended_at)

    # ------------------------------------------------------------------------------------- store

    def store(
        self,
        result: CallResult,
        *,
        columns: Sequence[str],
        request: Mapping[str, Any],
        started_at: datetime,
    ) -> CallResult:
        """Add the receipt to a fetched result, cache it if it is good, and select its columns."""
        outcome, finished_at = result.outcome, datetime.now(UTC)
        if outcome is None:
            return result
        attrs = self._receipt(outcome, request, started_at, finished_at)
        table = result.table.select(list(columns))
        if self.key.op == "crawl":
            self._mark_crawl()
        path = None
        if self.options.cache and outcome.cacheable:
            path = self._write(lambda: put(self.root, self.key, table, attrs, now=finished_at).path)
        if path is not None:
            if result.receipt_entries is not None:
                try:
                    write_receipt(path, result.receipt_entries)
                except OSError as error:  # the rows are valid without it
                    log.warning("the receipt beside %s cannot be written: %s", path, error)
            job_ref = None if outcome.job_id is None else find_job_ref(outcome.job_id, self.options)
            if job_ref is not None:
                self.write_job_ref(replace(job_ref, file=str(path)))
        return replace(
            result, table=table, attrs={**attrs, **self._state(path)}, receipt_entries=None
        )

    def store_pages(
        self, pages: Sequence[tuple[CacheKey, JobSpec, CallResult]], *, started_at: datetime
    ) -> list[CallResult]:
        """Do for each page of a list, which has a key of its own, what `store` does for a result.

        The pages share a file, and `self` is the cache of any of them.
        """
        self._mark_crawl()
        finished_at = datetime.now(UTC)
        results, good = list[CallResult](), list[tuple[CacheKey, dict[str, Any], pa.Table]]()
        for key, spec, page in pages:
            if page.outcome is None:
                raise TypeError("a page of a job has its outcome")
            attrs = self._receipt(page.outcome, spec.public_request, started_at, finished_at)
            table = page.table.select(list(spec.columns))
            results.append(replace(page, table=table, attrs=attrs))
            if self.options.cache and page.outcome.cacheable:
                good.append((key, attrs, table))
        path = None
        if good:
            rows_of_all = pa.concat_tables([table for _, _, table in good])
            entries = [(key, attrs) for key, attrs, _ in good]
            path = self._write(lambda: put_list(self.root, entries, rows_of_all, now=finished_at))
        stored = {key for key, _, _ in good}
        return [
            replace(page, attrs={**page.attrs, **self._state(path if key in stored else None)})
            for (key, _, _), page in zip(pages, results, strict=True)
        ]

    def _receipt(
        self,
        outcome: JobOutcome,
        request: Mapping[str, Any],
        started_at: datetime,
        finished_at: datetime,
    ) -> dict[str, Any]:
        built = receipt.build(
            outcome,
            request=request,
            service=self.scope.service,
            started_at=started_at,
            finished_at=finished_at,
        )
        snapshot = self.options.snapshot
        return built if snapshot is None else {**built, "snapshot": snapshot}

    def _state(self, path: Path | None) -> dict[str, Any]:
        """Return what a receipt says of the cache."""
        return {"cache": "miss" if self.options.cache else "off", "file": path and str(path)}

    def _write(self, write: Callable[[], Path]) -> Path | None:
        """Write a file; where the cache is not writable, warn once and continue."""
        try:
            path = write()
            shrink(self.root, self.options.settings.cache_bytes, in_use=path)
        except OSError as error:
            if self.root not in _unwritable_roots:
                _unwritable_roots.add(self.root)
                caller.warn(
                    f"the cache at {self.root} cannot be written ({error}): results are not "
                    "kept; WEBDATA_CACHE names another place, cache=False does without"
                )
            return None
        return path

    def _mark_crawl(self) -> None:
        """Mark that the local index has changed; an unused cache needs no marker."""
        if self.scope.local and self.root.is_dir():
            with suppress(OSError):  # then nothing new is cached either
                touch_marker(self.root, _CRAWL_MARKER)

    # ---------------------------------------------------------------------------- job references

    def job_ref_of(self, spec: JobSpec, job_id: str) -> JobRef:
        """Return the reference to a job of this request."""
        return JobRef(
            job_id, spec.op, spec.subject, self.key.digest, spec.columns, spec.public_request
        )

    def write_job_ref(self, job_ref: JobRef) -> None:
        """Store the reference to a job, so that `job()` finds it."""
        write_job_ref(self.root, self.scope.service, self.scope.identity, job_ref)
