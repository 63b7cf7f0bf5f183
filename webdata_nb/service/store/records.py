"""Jobs, their rows and their receipts as the store takes and returns them.

Times are Unix seconds, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from msgspec import Struct

from webdata_nb.contract.choices import KeyScope
from webdata_nb.contract.events import Profile
from webdata_nb.contract.outcomes import JobKind, JobStatus
from webdata_nb.contract.replies import Receipt
from webdata_nb.service.ledger import Balance, Charge, LineKind, Terms

# How long an idempotency key finds the job that it started.
IDEMPOTENCY_S: Final = 24 * 3600.0
# How long after its last heartbeat a replica counts as alive. Less than a lease, whose end gives
# its jobs to the others.
LIVE_S: Final = 10.0
ReplicaKind = Literal["serve", "worker", "dask"]
# Jobs with this many attempts without progress run one at a time.
SUSPECT_ATTEMPTS: Final = 2


@dataclass(frozen=True, slots=True)
class NewJob:
    """A validated job that is not stored yet.

    `max_charges` is what it may cost at most, `key_id` the API key that it was started with.
    """

    id: str
    account_id: str
    kind: JobKind
    subject: str
    request: Mapping[str, Any] = field(repr=False)
    context: Mapping[str, Any] = field(default_factory=dict, repr=False)
    max_charges: tuple[Charge, ...] = ()
    key_id: str | None = None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A stored job; `context` has the settings of the session that started it.

    Attributes
    ----------
    locked
        No key decrypts the job's secrets: `request` and `context` lack them.
    expired_at
        Set when the deletion of its rows begins.
    reserved, unlimited, credits
        Credits reserved at the start; whether the account has no limit, so that nothing is
        reserved; and what the job cost, known from its end on.
    attempts_since_progress
        Claims since the job last stored anything, the present one included.
    settled_rows
        The rows of a long crawl at its last checkpoint; their credits are charged.
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
    settled_rows: int = 0

    @property
    def is_private(self) -> bool:
        """Whether its pages are fetched with the caller's own headers or cookies."""
        options = self.request.get("scrape_options") or self.request
        return bool(options.get("headers") or options.get("cookies"))

    @property
    def credit_fields(self) -> dict[str, Any]:
        """The fields of a reply about the job's credits."""
        return {
            "credits": self.credits,
            "credits_reserved": None if self.unlimited else self.reserved,
            "credits_unlimited": self.unlimited,
        }

    @property
    def expected_rows(self) -> int:
        """The number of rows at the end, as far as it is known while the job runs."""
        return self.published if self.state.terminal else max(self.total, self.published)

    def elapsed(self, now: float) -> float | None:
        """Return the seconds from the first claim to the end, or to `now`."""
        if self.started_at is None:
            return None
        return max(0.0, (self.finished_at or now) - self.started_at)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to a job, until another attempt begins.

    `page_events` says that each page of the job is reported to a webhook, or that it may be.
    """

    job_id: str
    worker: str
    attempt: int
    page_events: bool = True


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One journal entry of a job; one that is read has what its reader needs.

    Attributes
    ----------
    ordinal, url, success
        Its place in the job, its URL, and whether nothing failed.
    journal
        What the engine needs to continue; empty where the content has it.
    page
        The JSON of a row, if the entry is one; with a content, what belongs to the visit alone.
    position
        The place among the visible rows.
    charged
        The operations to charge for a successful row once it is visible.
    visit
        What a crawl stores of the visit beside its row (`crawl.journal`).
    source
        The page from which values were extracted, as a JSON string, where the entry is whole.
    content_id
        The hash of the content's text, which has the rest of the row (`page_contents`).
    body, size
        The compressed text, None if it is in a segment or missing, and its length before.
    segment
        The name of the segment that has the content.
    text
        The text, if it was read from a segment.
    """

    ordinal: int
    url: str
    success: bool
    journal: bytes
    page: bytes | None = None
    position: int | None = None
    charged: tuple[str, ...] = ()
    visit: str | None = None
    source: bytes = field(default=b"", repr=False)
    content_id: bytes | None = None
    body: bytes | None = field(default=None, repr=False)
    size: int = 0
    segment: str | None = None
    text: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class StoredVisit:
    """The entry of a page that a later crawl may ask the site about."""

    ordinal: int
    url: str
    visit: str


class UrlOutcome(Struct, frozen=True):
    """One entry of a receipt: what happened to a URL."""

    url: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StoreSignal:
    """Another process changed a job or added to the queue; with neither, any of that.

    Attributes
    ----------
    job_id
        The job that changed.
    is_queue
        Whether a job was added to the queue.
    """

    job_id: str | None = None
    is_queue: bool = False


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """What an engine writes in one transaction under its lease.

    Attributes
    ----------
    entries, updates
        New journal entries, and new contents of stored rows.
    published
        (ordinal, position) of stored rows that become visible.
    url_outcomes
        Entries of the receipt.
    pinned_files
        (name, body) of files that later attempts must see unchanged, such as robots.txt.
    total, completed, outcome
        New values of the job's fields.
    """

    entries: tuple[JournalEntry, ...] = ()
    updates: tuple[JournalEntry, ...] = ()
    published: tuple[tuple[int, int], ...] = ()
    url_outcomes: tuple[UrlOutcome, ...] = ()
    pinned_files: tuple[tuple[str, bytes], ...] = ()
    total: int | None = None
    completed: int | None = None
    outcome: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CrawlState:
    """The state from which a long crawl continues, and the ordinal of its next journal entry."""

    state: bytes | bytearray = field(repr=False)
    next_ordinal: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint of a long crawl: charges and reservations, and perhaps its state.

    Attributes
    ----------
    state
        The state of the crawl, which replaces the one before; None keeps that one.
    max_charges
        What the crawl may cost until the next one at most.
    pinned_files
        As in a batch.
    """

    state: CrawlState | None
    max_charges: tuple[Charge, ...] = ()
    pinned_files: tuple[tuple[str, bytes], ...] = ()


EMPTY_BATCH: Final = CommitBatch()
# More than any job has.
ALL_ENTRIES: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StoredSource:
    """The source of a page from which values were extracted.

    Attributes
    ----------
    text
        The source; None if it is not stored or damaged.
    damage
        Why it cannot be read; empty if it can, or is not stored.
    """

    text: str | None = field(default=None, repr=False)
    damage: str = ""


@dataclass(frozen=True, slots=True)
class RowSummary:
    """A visible row without its content; `final` if it will not change any more."""

    position: int
    url: str
    success: bool
    final: bool = True


@dataclass(frozen=True, slots=True)
class RowRange:
    """The visible rows from position `start`, at most `count`."""

    start: int
    count: int


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job with some of its rows and its receipt, read in one transaction."""

    job: JobRecord
    rows: tuple[bytes, ...]
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the processes that serve a store together.

    Attributes
    ----------
    id
        Random for each start; its jobs have it as their worker.
    name
        The name that the operator knows it by.
    slots
        How many jobs it runs at a time.
    started_at
        When it started, by the store's clock.
    kind, version
        What it runs, and its release.
    """

    id: str
    name: str
    slots: int
    started_at: float
    kind: ReplicaKind = "serve"
    version: str = ""


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What a store knows of all processes.

    Attributes
    ----------
    jobs, deliveries, replicas
        Jobs by (kind, state), webhook deliveries by (state,), and live processes by (kind,).
    oldest_pending_s
        For how long the job that waits longest has waited, in seconds; 0 without one.
    usage
        Amounts of `usage` by fact, kind and label, of all accounts and days.
    """

    jobs: Mapping[tuple[str, ...], int]
    deliveries: Mapping[tuple[str, ...], int]
    replicas: Mapping[tuple[str, ...], int]
    oldest_pending_s: float = 0.0
    usage: Mapping[tuple[str, str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnindexedRow:
    """A visible row that is not in the text index yet.

    `success` says whether its page was fetched, whatever became of an extraction from it.
    """

    position: int
    url: str
    title: str | None
    markdown: str | None
    journal: Mapping[str, Any]
    success: bool


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """The text of a visible row for the text index, and the position of the row in its job."""

    url: str
    title: str
    text: str
    position: int = 0


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A page that matches a query of the text index.

    `snippet` is the text around the match. `unreachable` says that the page's site could not be
    reached when it was last visited.
    """

    url: str
    title: str
    snippet: str
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's key for a start, and the fingerprint of the body that came with it."""

    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SpoolLocation:
    """Where a spooled record starts: a file and an offset in bytes."""

    path: str
    start: int


@dataclass(frozen=True, slots=True)
class Account:
    """An account; its balance is that of the billing period at the time it was read."""

    id: str
    name: str
    terms: Terms
    balance: Balance
    created_at: float
    suspended_at: float | None = None
    deleted_at: float | None = None
    cleared_at: float | None = None

    @property
    def state(self) -> Literal["active", "suspended", "being deleted", "deleted"]:
        """What an operator calls its state."""
        if self.cleared_at is not None:
            return "deleted"
        if self.deleted_at is not None:
            return "being deleted"
        return "active" if self.suspended_at is None else "suspended"


@dataclass(frozen=True, slots=True)
class AccountContents:
    """How much is stored of an account; `bytes` are those of pages before their compression."""

    account_id: str
    jobs: int
    active_jobs: int
    rows: int
    deliveries: int
    keys: int
    segments: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without the key itself. It is invalid from `ends_at` on."""

    id: str
    name: str
    account_id: str
    account: str
    created_at: float
    scopes: frozenset[KeyScope]
    ends_at: float | None
    last_used_at: float | None


@dataclass(frozen=True, slots=True)
class OperationUsage:
    """Units and credits charged for one operation in a billing period."""

    platform: str
    operation: str
    units: int
    credits: int


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """An account's credits, active jobs and calls, and charges of the billing `period`."""

    account: Account
    period: tuple[float, float]
    active: int
    reserved: int
    used: tuple[OperationUsage, ...]

    def facts(self) -> dict[str, Any]:
        """Return what lists show of the account; a number is None without a limit."""
        terms, balance = self.account.terms, self.account.balance
        return {
            "account": self.account.name,
            "plan": terms.plan,
            "state": self.account.state,
            "monthly": terms.monthly,
            "left": None if terms.monthly is None else balance.monthly_left,
            "topup": balance.topup_left,
            "reserved": self.reserved,
            "used": sum(operation.credits for operation in self.used),
            "active": self.active,
            "limit": terms.concurrency,
        }


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One stored line of an account's ledger, numbered from 1."""

    number: int
    at: float
    kind: LineKind
    monthly: int
    topup: int
    reservation_id: str | None
    platform: str | None
    operation: str | None
    units: int | None
    credits: int


# The key under which a job's context has the options of its webhook.
WEBHOOK_CONTEXT: Final = "webhook"
# Concurrent attempts at one account's endpoint, of all processes together.
LANES_PER_ENDPOINT: Final = 4


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one endpoint; every attempt and replay has the same `event_id`."""

    id: str
    event_id: str
    account_id: str
    job_id: str
    event: str
    profile: Profile
    endpoint: str
    body: bytes
    replay: bool
    state: str
    attempts: int
    created_at: float
    due_at: float
    ended_at: float | None
    status: int | None
    error: str | None
    lease: str | None


@dataclass(frozen=True, slots=True)
class DueEndpoint:
    """An account's endpoint, at which `count` deliveries are due and have a free lane."""

    account_id: str
    endpoint: str
    count: int


@dataclass(frozen=True, slots=True)
class DeliveryCount:
    """The number of deliveries of an event in a state, and the attempts that they took."""

    event: str
    state: str
    deliveries: int
    attempts: int
