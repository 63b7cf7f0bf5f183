"""Defines the errors of the service and the HTTP status of each.

Those that the reading of a page raises too are in `webdata_nb.page.errors`.

::

    ApplicationError
    ├── BadInput                422  a value that the contract does not allow
    │   └── EarlierCrawlUnusable     `since` names a crawl that is deleted or made differently
    ├── AccountSuspended        403  no request is accepted, and no job runs, until it is resumed
    ├── ScopeMissing            403  the key lacks the scope that the operation needs
    ├── NoSuchJob               404  unknown, or owned by another account: the same reply
    ├── NoSuchDelivery          404  the same for a webhook delivery
    ├── NothingToExport         404  no exportable results (yet)
    ├── ResultsExpired          410  past retention
    ├── InvalidJobState         400  the job's state does not allow a cancel, a retry or a deletion
    ├── IdempotencyConflict     409  the same Idempotency-Key with another body
    ├── AccountLimitReached     429  a limit of the account; carries the reply's header values
    │   ├── ConcurrencyReached       the plan's number of active jobs and calls is reached
    │   └── CreditsUsedUp            fewer credits are left than the start may cost
    ├── UnreadableSecrets       409  no key of this service decrypts the job's secrets
    ├── MissingSetting          501  needs a setting that this service or session does not have
    ├── SourceError             502  an external source gave no usable reply
    │   ├── SourceAccessDenied  502  it blocks this service or rejects the token
    │   ├── SourceRefused       502  it refuses the request, and would refuse it again
    │   │   └── SourceOverdemand     it cannot send as much data at once
    │   ├── SourceBusy          503  it asks for a pause; carries its length
    │   └── SourceTimeout       504  it did not reply within the call's time
    ├── StoreUnavailable        503  the database cannot be read or written right now
    │   ├── DiskFull            503  its disk is full
    │   └── StoreBusy           503  another process holds its lock
    ├── StoreDamaged            500  the database file is damaged
    ├── SegmentGivenUp          -    a move took too long; the contents stay where they are
    ├── MissingRows             -    a write names rows that are not stored; nothing was written
    ├── MissingDriver           -    the driver of the store's database is not installed
    ├── MissingBlobs            -    stored pages are in files, and no place for files is given
    ├── ClusterError            -    the Dask cluster cannot be used
    ├── StoreForbidden          -    the role lacks rights in the store's database
    ├── OtherKey                -    the store's secrets are encrypted with another key
    ├── OtherSchema             -    another version wrote the database
    ├── AccountImportRefused    -    exported accounts do not fit the file or the database
    ├── DeletionUnfinished      -    a part of an account is in use; the next call deletes it
    ├── NoSuchAccount           -    no such account or key (operator commands)
    ├── JobFailure              -    the whole job failed; the text becomes its `error`
    ├── JobStalled              -    an attempt made no progress; another attempt continues the job
    ├── JobRequeued             -    a crawl passed a checkpoint, and the job waits
    ├── LeaseLost               -    another worker owns the job now; its writes are rejected
    └── PageError               -    one page failed: its row carries `kind` and the text
        ├── FetchError               the transfer failed
        │   ├── HostPaused           no request was sent, at the wish of the host
        │   ├── NotIndexed           the index of an archive has no capture; nothing was read
        │   ├── NameServerTimeout    no name server answered in time
        │   └── EgressDenied         the egress policy forbids the address
        ├── ScrapeError              the page could not be turned into data
        └── ExtractError             the page was scraped; its extraction failed
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from webdata_nb.contract.choices import KEY_SCOPES, KeyScope
from webdata_nb.contract.error_messages import EARLIER_CRAWL_UNUSABLE
from webdata_nb.contract.outcomes import NOT_ARCHIVED
from webdata_nb.page.errors import ApplicationError, BadInput, FetchError

# Retry-After of a reply without the store.
STORE_RETRY_S: Final = 5


class EarlierCrawlUnusable(BadInput):
    """An incremental crawl cannot take pages from the crawl that `since` names."""

    problem_type = EARLIER_CRAWL_UNUSABLE


class AccountSuspended(ApplicationError):
    """The operator has suspended the account of the key."""

    def __init__(self) -> None:
        super().__init__(
            "the account of this key is suspended: its jobs wait, and no request is accepted until "
            "the operator of this service resumes it"
        )


def _listed(names: Sequence[str], conjunction: str) -> str:
    """Return names as a sentence lists them."""
    return f" {conjunction} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


class ScopeMissing(ApplicationError):
    """The key has none of the scopes that open the operation.

    Parameters
    ----------
    needed
        The scopes, any of which suffices.
    present
        Those of the key.
    """

    def __init__(self, needed: Iterable[KeyScope], present: Collection[KeyScope]) -> None:
        has = _listed([scope for scope in KEY_SCOPES if scope in present], "and")
        super().__init__(
            f"this needs a key with the scope {_listed([*needed], 'or')}; this key has "
            f"{f'only {has}' if has else 'none'}"
        )


class NoSuchJob(ApplicationError):
    """No job of that id for this account."""


class NoSuchDelivery(ApplicationError):
    """No webhook delivery of that id for this account."""


class NothingToExport(ApplicationError):
    """The job has no exportable results."""


class ResultsExpired(ApplicationError):
    """The job's rows are past their retention."""


class InvalidJobState(ApplicationError):
    """The job's state does not allow the action."""

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


class IdempotencyConflict(ApplicationError):
    """The caller's Idempotency-Key was used before, with another body."""


class AccountLimitReached(ApplicationError):
    """The account may not start more now; `retry_after` is in whole seconds.

    `code` is the `code` of the reply.
    """

    code = "concurrency"

    def __init__(self, message: str, *, limit: int | None, active: int, retry_after: int) -> None:
        super().__init__(message)
        self.limit: int | None = limit
        self.active: int = active
        self.retry_after: int = retry_after


class ConcurrencyReached(AccountLimitReached):
    """The account has as many active jobs and calls as its plan allows."""

    def __init__(self, *, limit: int, active: int, retry_after: int) -> None:
        super().__init__(
            f"concurrency limit reached: {active} active of {limit} that the plan allows",
            limit=limit,
            active=active,
            retry_after=retry_after,
        )


class CreditsUsedUp(AccountLimitReached):
    """The account's credits do not cover what the start may cost."""

    code = "quota"

    def __init__(
        self, *, needed: int, left: int, limit: int | None, active: int, retry_after: int
    ) -> None:
        allowed = "any number" if limit is None else str(limit)
        super().__init__(
            f"quota reached: this may cost {needed} credits and {left} are left; "
            f"{active} of {allowed} allowed at once are under way",
            limit=limit,
            active=active,
            retry_after=retry_after,
        )


class DeletionUnfinished(ApplicationError):
    """An account is not deleted yet, because a process works on it."""


class NoSuchAccount(ApplicationError):
    """An operator command names an account or a key that does not exist, or that exists already."""


class UnreadableSecrets(ApplicationError):
    """The job's secrets were encrypted with a key that this service does not have."""


class MissingSetting(ApplicationError):
    """The request needs a setting that is missing; the message names it."""


class SourceError(ApplicationError):
    """An external source gave no usable reply; the message names the source."""


class SourceAccessDenied(SourceError):
    """The source blocks this service or rejects the token."""


class SourceRefused(SourceError):
    """The source refuses the request, and would refuse it again; `reason` is its message."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status: int = status
        self.reason: str = reason


class SourceOverdemand(SourceRefused):
    """The source cannot send as much data at once as the request asks for."""


class SourceBusy(SourceError):
    """The source asks for a pause of `retry_after_s` seconds."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SourceTimeout(SourceError):
    """The source did not reply within the call's time."""


class StoreUnavailable(ApplicationError):
    """The database cannot be read or written right now; the same call may succeed later."""


class DiskFull(StoreUnavailable):
    """The disk of the database is full."""


class StoreBusy(StoreUnavailable):
    """Another process holds the database lock for longer than a statement waits."""


class BlobsUnavailable(StoreUnavailable):
    """The place for files fails; its URL is not shown, as it may have a password."""


class StoreDamaged(ApplicationError):
    """The database file is damaged; the message says what to do."""


class MissingBlobs(ApplicationError):
    """Stored pages are in files at a place, and this process does not know it."""


class SegmentGivenUp(ApplicationError):
    """A move took so long that its file is deleted; the contents stay where they are."""


class MissingRows(ApplicationError):
    """A write names rows that are not stored; its transaction was rolled back."""


class MissingDriver(ApplicationError):
    """The driver of the store's database is not installed; the message says how to install it."""


class ClusterError(ApplicationError):
    """The Dask cluster cannot be used; the message says what to do."""


class StoreForbidden(ApplicationError):
    """The role lacks rights in the store's database; the message says which."""


class OtherKey(ApplicationError):
    """The store's secrets are encrypted with keys that this process does not have."""


class OtherSchema(ApplicationError):
    """A version with another schema wrote the database; the message says what to do."""


class AccountImportRefused(ApplicationError):
    """Exported accounts do not fit a file or a database; the message says why."""


class JobFailure(ApplicationError):
    """The job as a whole cannot succeed; its text becomes the job's `error`."""


class JobStalled(ApplicationError):
    """An attempt made no progress and was ended; another attempt continues the job."""


class JobRequeued(ApplicationError):
    """A crawl passed a checkpoint, and the job was returned to the queue."""


class LeaseLost(ApplicationError):
    """The worker's lease on the job ended; the store rejects its writes."""


class HostPaused(FetchError):
    """No request was sent: the host asked for a pause, failed too often, or has a long queue."""


class NotIndexed(FetchError):
    """The index of an archive, which is in memory, has no capture of the URL: nothing was read."""

    def __init__(self, message: str) -> None:
        super().__init__(NOT_ARCHIVED, message)


def request_failure_kind(error: FetchError) -> str:
    """Return the kind of a failure; `host_unavailable` wherever no request was sent to a host."""
    return "host_unavailable" if isinstance(error, HostPaused) else error.kind


class NameServerTimeout(FetchError):
    """No name server answered the lookup of a host in time."""

    def __init__(self, message: str) -> None:
        super().__init__("dns", message)


class EgressDenied(FetchError):
    """The egress policy forbids this address; the message does not describe its network."""

    def __init__(self, message: str) -> None:
        super().__init__("refused", message)
