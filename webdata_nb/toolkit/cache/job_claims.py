"""Claims of calls to their jobs, so that the next call joins a job whose caller has died.

A claim is a small file beside the cached results of its request, from before the start of the job
until its call has the result. It is locked while its call lives; the operating system releases the
lock of a killed process.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import filelock
import orjson

from webdata_nb.errors import (
    BadAnswer,
    ConnectionFailed,
    JobTimeout,
    LocalServiceError,
    RateLimited,
    ServiceFault,
    WebdataError,
)
from webdata_nb.toolkit.cache import single_flight
from webdata_nb.toolkit.cache.snapshots import CacheKey, prepare
from webdata_nb.toolkit.frames import parquet, private_files

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
        parquet.write_atomically(self.path, data, durable=False, owner_only=True)


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
            _remove(held.path, lock)
        else:
            lock.release()


def _take(
    root: Path, key: CacheKey, since: dict[str, Any] | None, *, refresh: bool
) -> tuple[JobClaim, filelock.BaseFileLock] | None:
    """Return the newest abandoned claim, or a new one, and its lock."""
    folder = key.folder(root)
    for path in sorted(folder.glob(f"*{_SUFFIX}"), key=_age_s):
        lock = single_flight.try_lock(_lock_file(path))
        if lock is None:
            continue
        found = JobClaim.read(path)
        if refresh or found is None:
            _remove(path, lock)
        elif since in (None, found.since):
            return found, lock
        else:
            lock.release()
    prepare(root)
    private_files.make_folder(folder, root)
    path = folder / f"{secrets.token_hex(8)}{_SUFFIX}"
    lock = single_flight.try_lock(_lock_file(path))
    return None if lock is None else (JobClaim.create(path, since), lock)


def _remove(path: Path, lock: filelock.BaseFileLock) -> None:
    """Remove a claim, and then its lock: who still gets that finds no claim."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    lock.release()
    with suppress(OSError):
        _lock_file(path).unlink(missing_ok=True)


def remove_abandoned(root: Path, op: str | None, *, older_than_s: float) -> None:
    """Remove the abandoned claims of an operation, or of all, that are older."""
    for path in (root / _LAYOUT).glob(f"{op or '*'}/*/*{_SUFFIX}"):
        with suppress(OSError, NotImplementedError):
            if _age_s(path) >= older_than_s and (lock := single_flight.try_lock(_lock_file(path))):
                _remove(path, lock)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0


def _lock_file(path: Path) -> Path:
    return path.with_suffix(_LOCK_SUFFIX)
