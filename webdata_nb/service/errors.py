"""What can go wrong inside the service.

::

    ServiceError
    ├── BadInput                422  a value the contract does not allow
    ├── NoSuchJob               404  unknown, or another account's: one and the same answer
    ├── NoSuchDelivery          404  the same of a webhook's delivery
    ├── NothingToExport         404  no exportable results (yet)
    ├── Gone                    410  past retention
    ├── WrongState              400  cancel or retry that the present state does not allow
    ├── Conflict                409  the same Idempotency-Key with another body
    ├── OverLimit               429  the account's limits; carries what the reply's headers say
    │   ├── ConcurrencyReached       as many active jobs and calls as the plan allows
    │   └── CreditsUsedUp            fewer credits left than the start may cost
    ├── SecretsLost             409  no key of this service opens the job's secrets
    ├── NotSetUp                501  needs a setting that this service or session does not have
    ├── SourceProblem           502  an outside source did not give a usable answer
    │   ├── SourceRefused       502  it blocks us, or does not accept the token
    │   ├── SourceBusy          503  it asks to wait; carries for how long
    │   └── SourceSlow          504  it did not answer within the call's time
    ├── StoreUnavailable        503  the database takes no writes or gives no answer just now
    │   ├── DiskFull            503  there is no space left for it
    │   └── StoreBusy           503  another process holds it
    ├── StoreDamaged            500  the database file is damaged
    ├── MissingRows             -    rows that a write names are not stored; nothing was written
    ├── NewerSchema             -    a newer release wrote the database; it alone may open it
    ├── NoSuchAccount           -    no account or key of that name, for the operator
    ├── JobFailed               -    the whole job failed; the text is its `error`
    ├── JobStalled              -    an attempt made no progress; the job is taken up again
    ├── LeaseLost               -    another worker owns the job now; stop without a trace
    └── PageError               -    one page failed: its row carries `kind` and the text
        ├── FetchError               the transfer failed
        │   ├── NameServerSilent     no name server answered for its host
        │   └── Refused              the egress policy forbids the address
        ├── ScrapeError              the page arrived but could not be turned into data
        └── ExtractError             the page was scraped; its extraction failed
"""

from __future__ import annotations


class ServiceError(Exception):
    """Root of everything the service raises on purpose."""


class BadInput(ServiceError):
    """A request value that is not allowed; `loc` is the path to it in the body."""

    def __init__(self, message: str, *, loc: tuple[str | int, ...] = ("body",)) -> None:
        super().__init__(message)
        self.loc = loc


class NoSuchJob(ServiceError):
    """No job of that id for this account."""


class NoSuchDelivery(ServiceError):
    """No webhook delivery of that id for this account."""


class NothingToExport(ServiceError):
    """The job has no exportable results."""


class Gone(ServiceError):
    """The raw results are past their retention."""


class WrongState(ServiceError):
    """The job's present state does not allow the action."""

    def __init__(self, message: str, *, state: str) -> None:
        super().__init__(message)
        self.state = state


class Conflict(ServiceError):
    """The caller's Idempotency-Key was used before, with another body."""


class OverLimit(ServiceError):
    """The account may not start more now; `retry_after` is in whole seconds.

    `code` is the reply's word for the limit.
    """

    code = "concurrency"

    def __init__(self, message: str, *, limit: int | None, active: int, retry_after: int) -> None:
        super().__init__(message)
        self.limit, self.active, self.retry_after = limit, active, retry_after


class ConcurrencyReached(OverLimit):
    """All the active jobs and calls that the plan allows at once are under way."""

    def __init__(self, *, limit: int, active: int, retry_after: int) -> None:
        super().__init__(
            f"concurrency limit reached: {active} active of {limit} that the plan allows",
            limit=limit,
            active=active,
            retry_after=retry_after,
        )


class CreditsUsedUp(OverLimit):
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


class NoSuchAccount(ServiceError):
    """The operator named an account or a key that does not exist, or exists already."""


class SecretsLost(ServiceError):
    """The job's secrets were sealed with a key that this service does not have."""


class NotSetUp(ServiceError):
    """A setting is missing; the message names it."""


class SourceProblem(ServiceError):
    """An outside source did not give a usable answer; the message names the source."""


class SourceRefused(SourceProblem):
    """The source blocks this service, or does not accept the token."""


class SourceBusy(SourceProblem):
    """The source asks for a pause, of `retry_after_s` seconds."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SourceSlow(SourceProblem):
    """The source did not answer within the call's time."""


class StoreUnavailable(ServiceError):
    """The database cannot be written or read just now; the same call may succeed later."""


class DiskFull(StoreUnavailable):
    """The disk of the database has no space left."""


class StoreBusy(StoreUnavailable):
    """Another process holds the database for longer than a statement waits."""


class StoreDamaged(ServiceError):
    """The database file is damaged; the message says what to do."""


class MissingRows(ServiceError):
    """A write names rows that are not stored; its transaction was rolled back."""


class NewerSchema(ServiceError):
    """The database was written by a newer release, which alone may open it."""


class JobFailed(ServiceError):
    """The job as a whole cannot succeed; its text becomes the job's `error`."""


class JobStalled(ServiceError):
    """An attempt at a job made no progress and was ended; another one takes it up."""


class LeaseLost(ServiceError):
    """The worker's lease on the job ended; its writes are fenced out."""


class PageError(ServiceError):
    """One page failed. `kind` is a short stable word, counted by the receipt."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class FetchError(PageError):
    """The transfer of a page failed.

    `kind` is one of: host_unavailable (it failed so often in a row that it is left alone for a
    while), dns, connect, tls, timeout, reset, protocol, too_large, decode,
    redirects (too many, or a loop), refused, bad_url. `hops` counts the redirects before it.
    """

    hops: int = 0


class NameServerSilent(FetchError):
    """No name server answered for a host within the time of a lookup."""

    def __init__(self, message: str) -> None:
        super().__init__("dns", message)


class Refused(FetchError):
    """The egress policy forbids this address; says nothing about what is behind it."""

    def __init__(self, message: str) -> None:
        super().__init__("refused", message)


class ScrapeError(PageError):
    """A page could not be turned into data.

    `kind` is one of: unsupported_type, parse, cpu_limit, memory_limit, worker_died,
    browser_missing, render, extract.
    """


class ExtractError(PageError):
    """A page's data could not be extracted; the page itself is there.

    `kind` is one of: auth, quota, rate_limited, timeout, unreachable, status, too_long, too_large,
    malformed (no chat completion), refused, cut_off, invalid (no JSON, or not what the schema
    asks for), empty (a page without text), failed (declared data that cannot be read).
    """
