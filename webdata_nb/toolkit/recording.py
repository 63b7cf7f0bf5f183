"""Records the calls of a notebook into files and replays them without a service.

A recording is a folder of Parquet files, one per result, named by the request. The n-th call with
the same request gets the n-th result. The key of a request holds neither the service nor the
account, so that a recording replays on any machine; headers and cookies enter the digest only.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import pyarrow as pa

from webdata_nb.contract.events import Progress
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.errors import InvalidArgument, NotRecorded
from webdata_nb.settings import options
from webdata_nb.toolkit.cache import result_cache
from webdata_nb.toolkit.cache.result_cache import CacheKey, JobRef
from webdata_nb.toolkit.frames import rows, schemas, storage
from webdata_nb.toolkit.frames.rows import CallResult
from webdata_nb.toolkit.frames.schemas import TableName
from webdata_nb.toolkit.frames.storage import ParquetDocument
from webdata_nb.toolkit.requests.arguments import absolute_path

if TYPE_CHECKING:
    from webdata_nb.contract.outcomes import JobKind
    from webdata_nb.toolkit.requests.inputs import JobSpec

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


def write_result(
    folder: Path,
    key: CacheKey,
    subject: str,
    result: CallResult,
) -> Path:
    """Record a result, and the receipt file beside the cached one.

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
            result_cache.receipt_path(earlier_file).unlink(missing_ok=True)
    slug = re.sub(r"[^A-Za-z0-9]+", "-", subject).strip("-")[:_SLUG_LENGTH].lower()
    path = folder / f"{key.op}-{slug}-{key.digest[:16]}-{number:03d}.parquet"
    attrs = {**result.attrs, "file": None}
    data = storage.encode(result.table, own={"digest": key.digest}, attrs=attrs)
    storage.write_atomically(path, data)
    cached = result.cache_file
    if cached is not None and result_cache.receipt_path(cached).is_file():
        storage.write_atomically(
            result_cache.receipt_path(path), result_cache.receipt_path(cached).read_bytes()
        )
    return path


def get(folder: Path, key: CacheKey, subject: str, columns: Sequence[str]) -> CallResult:
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
        attrs = {**document.attrs, "cache": "replay", "file": str(path)}
        return CallResult(document.read(columns), attrs)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise NotRecorded(f"the recorded result {path} cannot be read: {error}") from None


def _receipt_of(folder: Path, key: CacheKey) -> dict[str, Any] | None:
    """Return the receipt of the first result of a request, with its columns as `columns`."""
    for path in _files(folder, key):
        with suppress(OSError, ValueError, KeyError, pa.ArrowException):
            document = ParquetDocument(path.read_bytes())
            return {**document.attrs, "columns": document.schema.names}
    return None


def _files(folder: Path, key: CacheKey) -> list[Path]:
    return sorted(folder.glob(f"{key.op}-*{key.digest[:16]}-[0-9][0-9][0-9].parquet"))


def _call_key(spec: JobSpec) -> CacheKey:
    return recording_key(spec.op, spec.params(local=True))


def _start_key(spec: JobSpec) -> CacheKey:
    return recording_key(spec.op, {"started": spec.params(local=True)})


def _job_key(kind: JobKind, job_id: str) -> CacheKey:
    return recording_key(kind, {"job_id": job_id})


async def record_call(folder: Path, spec: JobSpec, result: CallResult) -> None:
    """Record the result of a call."""
    await asyncio.to_thread(write_result, folder, _call_key(spec), spec.subject, result)


async def replay_call(folder: Path, spec: JobSpec) -> CallResult:
    """Return the recorded result of a call; raises `NotRecorded`."""
    key = _call_key(spec)
    return await asyncio.to_thread(get, folder, key, spec.subject, spec.columns)


async def record_job_start(folder: Path, spec: JobSpec, job_id: str) -> None:
    """Record the start of a job."""
    start = replace(rows.concat(spec.op, ()), attrs={"job_id": job_id})
    await asyncio.to_thread(write_result, folder, _start_key(spec), spec.subject, start)


async def replay_job_start(folder: Path, spec: JobSpec) -> str:
    """Return the id of the job that was started while recording; raises `NotRecorded`."""
    start = await asyncio.to_thread(get, folder, _start_key(spec), spec.subject, ())
    return str(start.attrs["job_id"])


async def record_job_result(folder: Path, job_ref: JobRef, result: CallResult) -> None:
    """Record the rows of a job."""
    key = _job_key(job_ref.kind, job_ref.job_id)
    result = replace(result, attrs={**result.attrs, "subject": job_ref.subject})
    await asyncio.to_thread(write_result, folder, key, job_ref.job_id, result)


async def replay_job_result(folder: Path, job_ref: JobRef) -> CallResult:
    """Return the recorded rows of a job; raises `NotRecorded`."""
    key = _job_key(job_ref.kind, job_ref.job_id)
    return await asyncio.to_thread(get, folder, key, job_ref.job_id, job_ref.columns)


async def replay_job_progress(folder: Path, job_ref: JobRef) -> Progress:
    """Return a job's progress: every recorded job has ended."""
    result = await replay_job_result(folder, job_ref)
    counts = result.attrs["counts"]
    return Progress(
        job_id=job_ref.job_id,
        type=job_ref.kind,
        status=JobStatus(result.attrs["status"]),
        completed=counts["rows"],
        total=counts["total"],
        elapsed=result.attrs["timings"]["job_s"] or 0.0,
    )


async def find_job(folder: Path, job_id: str, service: str) -> JobRef:
    """Return the reference to a job whose rows were recorded.

    Raises
    ------
    NotRecorded
        The recording has no such job.
    """
    kinds: tuple[JobKind, ...] = ("crawl", "search")
    for kind in kinds:
        attrs = await asyncio.to_thread(_receipt_of, folder, _job_key(kind, job_id))
        if attrs is not None:
            digest = JobRef.for_foreign_job(job_id, kind, service).digest
            columns = schemas.in_order(kind, attrs["columns"])
            return JobRef(job_id, kind, str(attrs["subject"]), digest, columns)
    raise NotRecorded(f"job {job_id} is not in the recording {folder}: record the notebook again")


RecordingMode = Literal["record", "replay"]
_OPPOSITE: Final[dict[RecordingMode, RecordingMode]] = {"record": "replay", "replay": "record"}


class Recording:
    """An active recording or replay; `stop` or the end of a `with` block ends it."""

    def __init__(self, mode: RecordingMode, folder: Path) -> None:
        self._mode: RecordingMode = mode
        self._folder = folder
        self._previous: Path | str | None = getattr(options, mode)
        POSITIONS.rewind(folder)
        setattr(options, mode, folder)

    def stop(self) -> None:
        """End it and restore the previous setting."""
        setattr(options, self._mode, self._previous)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"{self._mode}({str(self._folder)!r})"


def record(folder: str | Path) -> Recording:
    """Record the result of every later call in a folder, for `replay`.

    Applies to all threads of this process until the end of a `with` block or until `stop()`;
    `options.record` and WEBDATA_RECORD do the same. It records the frames of all functions,
    including listings such as `jobs_df`, streams that were read to their end, and jobs with the
    rows that were collected. Cached results are recorded as well. A call whose job failed or was
    cancelled is not recorded.

    Parameters
    ----------
    folder
        Created where it is missing. A repeated request replaces its earlier recording.

    Returns
    -------
    Recording
        Use it in a `with` statement, or call its `stop()`.

    Raises
    ------
    InvalidArgument
        The folder is not a valid path, or a replay is active.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with record(folder):
    ...         first = search_df("aurora forecast", formats=[])
    ...     with replay(folder):
    ...         search_df("aurora forecast", formats=[]).equals(first)
    True
    """
    return _start("record", _path(folder))


def replay(folder: str | Path) -> Recording:
    """Answer every later call from a recording, without a service or a key.

    Applies as `record` does; `options.replay` and WEBDATA_REPLAY do the same. The n-th call with
    the same arguments gets the n-th recorded result. A call that was not recorded raises
    NotRecorded, and so do actions on a job (`cancel`, `retry`, `events` and the service's own
    exports). No request is sent.

    Parameters
    ----------
    folder
        The folder that was given to `record`.

    Returns
    -------
    Recording
        Use it in a `with` statement, or call its `stop()`.

    Raises
    ------
    InvalidArgument
        The folder does not exist, or a recording is active.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, replay(folder):
    ...     search_df("never asked")
    Traceback (most recent call last):
    ...
    webdata_nb.errors.NotRecorded: ...
    """
    path = _path(folder)
    if not path.is_dir():
        raise InvalidArgument(
            f"folder must be a directory that record() has filled; {path} is none"
        )
    return _start("replay", path)


def _start(mode: RecordingMode, folder: Path) -> Recording:
    if getattr(options, _OPPOSITE[mode]) is not None:
        raise InvalidArgument(f"{mode} cannot start while a {_OPPOSITE[mode]} is active")
    return Recording(mode, folder)


def _path(folder: object) -> Path:
    path = absolute_path("folder", folder)
    if path.is_file():
        raise InvalidArgument(f"folder must be a directory; {path} is a file")
    return path
