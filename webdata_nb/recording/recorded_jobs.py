"""Jobs in a recording: how each was started, and what it gave in the end."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from webdata_nb.cache.job_refs import Ticket
from webdata_nb.cache.result import Result
from webdata_nb.contract.events import Progress
from webdata_nb.contract.states import JobStatus
from webdata_nb.errors import NotRecorded
from webdata_nb.frames import rows
from webdata_nb.recording import cassette

if TYPE_CHECKING:
    from webdata_nb.cache.snapshots import Question
    from webdata_nb.contract.states import JobKind
    from webdata_nb.requests.job_spec import JobSpec


def _start_of(spec: JobSpec) -> Question:
    return cassette.question(spec.op, {"started": spec.params(local=True)})


def _end_of(op: JobKind, job_id: str) -> Question:
    return cassette.question(op, {"job_id": job_id})


async def note_start(folder: Path, spec: JobSpec, job_id: str) -> None:
    """Record that a job was started."""
    told = {"job_id": job_id}
    nothing = rows.joined(spec.op, ()).table
    await asyncio.to_thread(cassette.put, folder, _start_of(spec), spec.subject, nothing, told)


async def started(folder: Path, spec: JobSpec) -> str:
    """Return the id of the job that was started while recording; raises `NotRecorded`."""
    asked = _start_of(spec)
    _, _, told = await asyncio.to_thread(cassette.get, folder, asked, spec.subject, ())
    return str(told["job_id"])


async def note_end(folder: Path, ticket: Ticket, result: Result) -> None:
    """Record what a job gave."""
    asked = _end_of(_kind(ticket), ticket.job_id)
    told = {**result.attrs, "subject": ticket.subject}
    keep = partial(cassette.put, cached=result.receipt_of)
    await asyncio.to_thread(keep, folder, asked, ticket.job_id, result.table, told)


async def ended(folder: Path, ticket: Ticket) -> Result:
    """Return what a job gave while recording; raises `NotRecorded`."""
    asked = _end_of(_kind(ticket), ticket.job_id)
    played = await asyncio.to_thread(cassette.get, folder, asked, ticket.job_id, ticket.shown)
    return Result.played(*played)


async def progress(folder: Path, ticket: Ticket) -> Progress:
    """Return a job's progress: in a recording every job has ended."""
    result = await ended(folder, ticket)
    counts = result.attrs["counts"]
    return Progress(
        job_id=ticket.job_id,
        type=_kind(ticket),
        status=JobStatus(result.attrs["status"]),
        completed=counts["rows"],
        total=counts["total"],
        elapsed=result.attrs["timings"]["job_s"] or 0.0,
    )


async def found(folder: Path, job_id: str, service: str) -> Ticket:
    """Return the ticket of a job that was collected while recording.

    Raises
    ------
    NotRecorded
        There is none of this id.
    """
    kinds: tuple[JobKind, ...] = ("crawl", "search")
    for kind in kinds:
        told = await asyncio.to_thread(cassette.attrs, folder, _end_of(kind, job_id))
        if told is not None:
            ticket = Ticket.foreign(job_id, kind, service)
            shown = tuple(told["shown"])
            return Ticket(job_id, kind, str(told["subject"]), ticket.digest, shown)
    raise NotRecorded(f"job {job_id} is not in the recording {folder}: record the notebook again")


def _kind(ticket: Ticket) -> JobKind:
    return "search" if ticket.op == "search" else "crawl"
