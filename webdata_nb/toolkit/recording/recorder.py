"""Records and replays the results of calls, the starts of jobs and the rows of jobs."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from webdata_nb.contract.events import Progress
from webdata_nb.contract.states import JobStatus
from webdata_nb.errors import NotRecorded
from webdata_nb.toolkit.cache.job_refs import JobRef
from webdata_nb.toolkit.cache.result_cache import CallResult
from webdata_nb.toolkit.frames import rows, schemas
from webdata_nb.toolkit.recording import cassette

if TYPE_CHECKING:
    from webdata_nb.contract.states import JobKind
    from webdata_nb.toolkit.cache.snapshots import CacheKey
    from webdata_nb.toolkit.requests.job_spec import JobSpec


def _call_key(spec: JobSpec) -> CacheKey:
    return cassette.recording_key(spec.op, spec.params(local=True))


def _start_key(spec: JobSpec) -> CacheKey:
    return cassette.recording_key(spec.op, {"started": spec.params(local=True)})


def _job_key(kind: JobKind, job_id: str) -> CacheKey:
    return cassette.recording_key(kind, {"job_id": job_id})


async def record_call(folder: Path, spec: JobSpec, result: CallResult) -> None:
    """Record the result of a call."""
    put = partial(cassette.put, cached=result.cache_file)
    key = _call_key(spec)
    await asyncio.to_thread(put, folder, key, spec.subject, result.table, result.attrs)


async def replay_call(folder: Path, spec: JobSpec) -> CallResult:
    """Return the recorded result of a call; raises `NotRecorded`."""
    key = _call_key(spec)
    entry = await asyncio.to_thread(cassette.get, folder, key, spec.subject, spec.columns)
    return CallResult.from_recording(*entry)


async def record_job_start(folder: Path, spec: JobSpec, job_id: str) -> None:
    """Record the start of a job."""
    key, no_rows = _start_key(spec), rows.concat(spec.op, ()).table
    await asyncio.to_thread(cassette.put, folder, key, spec.subject, no_rows, {"job_id": job_id})


async def replay_job_start(folder: Path, spec: JobSpec) -> str:
    """Return the id of the job that was started while recording; raises `NotRecorded`."""
    _, _, attrs = await asyncio.to_thread(cassette.get, folder, _start_key(spec), spec.subject, ())
    return str(attrs["job_id"])


async def record_job_result(folder: Path, job_ref: JobRef, result: CallResult) -> None:
    """Record the rows of a job."""
    key = _job_key(job_ref.kind, job_ref.job_id)
    attrs = {**result.attrs, "subject": job_ref.subject}
    put = partial(cassette.put, cached=result.cache_file)
    await asyncio.to_thread(put, folder, key, job_ref.job_id, result.table, attrs)


async def replay_job_result(folder: Path, job_ref: JobRef) -> CallResult:
    """Return the recorded rows of a job; raises `NotRecorded`."""
    key = _job_key(job_ref.kind, job_ref.job_id)
    entry = await asyncio.to_thread(cassette.get, folder, key, job_ref.job_id, job_ref.columns)
    return CallResult.from_recording(*entry)


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
        attrs = await asyncio.to_thread(cassette.attrs, folder, _job_key(kind, job_id))
        if attrs is not None:
            digest = JobRef.for_foreign_job(job_id, kind, service).digest
            columns = schemas.in_order(kind, attrs["columns"])
            return JobRef(job_id, kind, str(attrs["subject"]), digest, columns)
    raise NotRecorded(f"job {job_id} is not in the recording {folder}: record the notebook again")
