"""The part of the store that an engine uses: its job, and the spool of its pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from webdata_nb.service.store.records import (
    CommitBatch,
    CrawlState,
    JobRecord,
    LegEnd,
    SpoolLocation,
    StoredEntry,
    StoredVisit,
    WholeEntry,
)


class JobContext(Protocol):
    """A claimed job, as an engine sees it."""

    @property
    def job(self) -> JobRecord:
        """The job as claimed."""

    async def crawl_state(self) -> CrawlState | None:
        """Return the state that the last leg stored; None if none has ended."""

    async def end_leg(self, leg_end: LegEnd) -> bool:
        """End a leg; return whether the job runs on.

        Raises `LeaseLost`, and `CreditsUsedUp` if the account cannot pay for the next leg.
        """

    async def journal(self, *, start: int = 0) -> Sequence[StoredEntry]:
        """Return the entries that earlier attempts stored, from ordinal `start`."""

    async def entries(self, *, start: int, count: int) -> Sequence[StoredEntry]:
        """Return up to `count` stored entries from ordinal `start`, also of this attempt."""

    async def earlier_job(self, job_id: str) -> JobRecord | None:
        """Return another job of the account; None if there is none."""

    async def visits(self, job_id: str) -> Sequence[StoredVisit]:
        """Return the pages of another job of the account that the site may be asked about."""

    async def whole_entry(self, job_id: str, ordinal: int) -> WholeEntry | None:
        """Return a page of another job of the account; None if it is deleted or damaged."""

    async def pinned_files(self) -> dict[str, bytes]:
        """Return the files that earlier attempts pinned."""

    async def commit(self, batch: CommitBatch) -> None:
        """Store a batch durably, then notify listeners; raises `LeaseLost`."""


class PageSpool(Protocol):
    """Fetched records of a job that are not stored yet, by ordinal; they survive a kill.

    A spool may refuse or lose a record: then the page is fetched again.
    """

    async def write(self, ordinal: int, *parts: bytes) -> SpoolLocation | None:
        """Write a new record, given in parts; return None if there is no room for it."""

    def ordinals(self) -> list[int]:
        """Return the ordinals of all records."""

    def location(self, ordinal: int) -> SpoolLocation:
        """Return where a record is stored, until it is dropped."""

    async def read(self, ordinal: int) -> bytes | None:
        """Return the record of an earlier attempt; None if there is no complete one."""

    def drop(self, ordinal: int) -> None:
        """Delete a record, if there is one."""
