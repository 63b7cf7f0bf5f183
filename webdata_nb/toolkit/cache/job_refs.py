"""Finds the job of a request again: locks, references and the calls that wait for their jobs.

One call at a time asks for a request: a file lock serializes the others across threads and
processes. A reference is a small JSON file beside the cached results. With it, a job that outlived
its kernel returns the frame that the starting call would have returned; it holds no secrets: of the
request it keeps what a receipt shows, and a digest of the rest. A claim is a small file beside the
cached results, from before the start of a job until its call has the result, so that the next call
joins a job whose caller has died. It is locked while its call lives; the operating system releases
the lock of a killed process.

A cancel token tells an executor's workers, in any process or machine, that their call was
cancelled. It is a file that exists while the call wants its inputs: a file is the only channel into
a process that somebody else started.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import platform
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import filelock
import msgspec
import orjson

from webdata_nb.contract.states import JobKind
from webdata_nb.errors import (
    BadAnswer,
    ConnectionFailed,
    JobTimeout,
    LocalServiceError,
    RateLimited,
    ServiceFault,
    WebdataError,
)
from webdata_nb.pacing.retry_policies import FILE_LOCK
from webdata_nb.toolkit.cache.snapshots import CacheKey, prepare, remove_older
from webdata_nb.toolkit.frames import schemas, storage
from webdata_nb.toolkit.frames.schemas import TableName

_LOCKS: Final = Path("v1", "locks")
_LOCK_EXPIRES_S: Final = 86_400.0


@asynccontextmanager
async def single_flight(root: Path, key: CacheKey) -> AsyncIterator[None]:
    """Hold the lock of `key` inside the block.

    The operating system releases the lock when its holder dies. Where the cache is not writable or
    its file system has no locks, the block runs without one.
    """
    try:
        file_lock = _file_lock(lock_path(root, f"{key.op}-{key.digest}"))
        await _acquire(file_lock)
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        file_lock.release()


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
_TOKEN_EXPIRES_S: Final = 30 * 86_400.0


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
_REF_EXPIRES_S: Final = 30 * 86_400.0

log = logging.getLogger("webdata_nb")


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


def write(root: Path, service: str, identity: str, job_ref: JobRef) -> None:
    """Write a reference; does nothing where the cache is not writable."""
    path = _ref_path(root, service, identity, job_ref.job_id)
    with suppress(OSError):
        if not path.parent.is_dir():
            prepare(root)
            storage.make_folder(path.parent, root)
        data = msgspec.json.encode(job_ref)
        storage.write_atomically(path, data, durable=False, owner_only=True)


def read(root: Path, service: str, identity: str, job_id: str) -> JobRef | None:
    """Return the reference to a job started here; None where it is missing or invalid."""
    path = _ref_path(root, service, identity, job_id)
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


_LAYOUT: Final = "v1"
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


@asynccontextmanager
async def claim(
    root: Path, key: CacheKey, since: Mapping[str, Any] | None, *, refresh: bool
) -> AsyncIterator[JobClaim | None]:
    """Hold the claim to a job inside the block, an abandoned one where there is one.

    A plain request takes over any crawl of its key, as it would take its rows from the cache. With
    `refresh`, abandoned claims are removed. Yields None where the cache cannot be written or
    locked.
    """
    taken: tuple[JobClaim, filelock.BaseFileLock] | None = None
    with suppress(OSError, NotImplementedError):
        wanted = None if since is None else dict(since)
        taken = await asyncio.to_thread(_take, root, key, wanted, refresh=refresh)
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


def sweep(root: Path) -> None:
    """Remove unused locks, the tokens of killed calls, and references that no service knows."""
    remove_older((root / _LOCKS).glob("*.lock"), _LOCK_EXPIRES_S)
    remove_older((root / _TOKENS).glob("*"), _TOKEN_EXPIRES_S)
    remove_older((root / _REFS).glob("*.json"), _REF_EXPIRES_S)
