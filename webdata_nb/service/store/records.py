"""The values that go into the store and come out of it. Times are Unix seconds, UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from webdata_nb.contract.replies import Receipt
from webdata_nb.contract.states import JobKind, JobStatus
from webdata_nb.service.credits.weights import Charge


@dataclass(frozen=True, slots=True)
class NewJob:
    """A validated start, ready to be persisted.

    `most` is what it may cost, `key_id` the key of its account that it was started with.
    """

    id: str
    account_id: str
    kind: JobKind
    subject: str
    request: Mapping[str, Any] = field(repr=False)
    context: Mapping[str, Any] = field(default_factory=dict, repr=False)
    most: tuple[Charge, ...] = ()
    key_id: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as stored; `context` is what its starter's session handed over.

    `locked` where no key opens its secrets any more: `request` and `context` lack them.
    `expired_at` is set once its rows are being cleared away. `reserved` credits are held while it
    runs, none where its account is `unlimited`; `credits` is what it cost, known from its end on.
    `attempts_since_progress` counts the claims since it last stored anything, this one included.
    """

    id: str
    account_id: str
    kind: JobKind
    state: JobStatus
    subject: str
    request: Mapping[str, Any] = field(repr=False)
    context: Mapping[str, Any] = field(repr=False)
    created_at: float
    started_at: float | None
    finished_at: float | None
    attempt: int
    total: int
    completed: int
    published: int
    error: str | None
    outcome: Mapping[str, Any]
    locked: bool = False
    expired_at: float | None = None
    reserved: int | None = None
    unlimited: bool = False
    credits: int | None = None
    attempts_since_progress: int = 0
    key_id: str | None = None

    @property
    def cost(self) -> dict[str, Any]:
        """What replies tell of its credits."""
        return {
            "credits": self.credits,
            "credits_reserved": None if self.unlimited else self.reserved,
            "credits_unlimited": self.unlimited,
        }

    @property
    def expected(self) -> int:
        """Rows that the job has or, while it runs, will have as far as it can tell."""
        return self.published if self.state.terminal else max(self.total, self.published)

    def elapsed(self, now: float) -> float | None:
        """Seconds since the job was first claimed, up to its end."""
        if self.started_at is None:
            return None
        return max(0.0, (self.finished_at or now) - self.started_at)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to a job: void as soon as another attempt exists."""

    job_id: str
    worker: str
    attempt: int


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One journal entry; `page` is the row's JSON where the entry is a row.

    `charged` names the operations that a row costs once it is visible, if it succeeded.
    """

    ordinal: int
    url: str
    success: bool
    journal: bytes
    page: bytes | None = None
    position: int | None = None
    charged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UrlOutcome:
    """What became of one URL."""

    url: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that an engine writes in one transaction, behind the fence of its lease."""

    entries: tuple[JournalEntry, ...] = ()
    updates: tuple[JournalEntry, ...] = ()
    published: tuple[tuple[int, int], ...] = ()
    seen: tuple[UrlOutcome, ...] = ()
    snapshots: tuple[tuple[str, bytes], ...] = ()
    total: int | None = None
    completed: int | None = None
    outcome: Mapping[str, Any] | None = None


EMPTY_BATCH: Final = Batch()
# No job's rows are known yet.
NO_CURSORS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RowSummary:
    """A visible row without its content; `final` once nothing of it will change."""

    position: int
    url: str
    success: bool
    final: bool = True


@dataclass(frozen=True, slots=True)
class RowRange:
    """The visible rows from position `start` that a look is to show."""

    start: int
    count: int


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job with some of its rows and its receipt, all of one moment."""

    job: Job
    rows: tuple[bytes, ...]
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class UnindexedRow:
    """A visible row that the text index has not seen; the index's own cursor is `position`.

    `page` has the URL, the title and the Markdown; `good`: its page came, whatever became of an
    extraction from it.
    """

    position: int
    page: bytes
    journal: bytes
    good: bool


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A journal entry read back."""

    ordinal: int
    position: int | None
    journal: bytes


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The caller's key for a start, and a fingerprint of the body it came with."""

    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SpoolLocation:
    """Where a spooled record lies: from byte `start` of the file at `path` on."""

    path: str
    start: int
