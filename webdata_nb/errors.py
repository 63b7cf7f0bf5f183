"""What the toolkit raises, all of it under one root.

::

    WebdataError
    ├── InvalidArgument          also a ValueError; refused before anything was sent
    ├── MissingExtra             also an ImportError; names the extra to install
    ├── OverBudget               the estimate exceeds `budget`; nothing was started
    ├── OfflineError             offline mode, and the cache has no answer
    │   └── NotRecorded          replaying, and the recording has no answer
    ├── LocalServiceError        the local service cannot start
    ├── ConnectionFailed         unreachable, reset, or no answer in time
    ├── UnknownOutcome           the answer to a start was lost: the job may exist
    ├── BadAnswer                a reply that breaks the contract; names the field
    ├── ServiceError             the service answered with an error status (any other 4xx)
    │   ├── WrongState      400  the job's present state does not allow the action
    │   ├── AuthError       401  the key is missing or not accepted (also 403)
    │   ├── NotFound        404  no such job for this key, or nothing to export
    │   ├── Expired         410  the raw results are past their retention
    │   ├── InvalidRequest  422  the request is wrong; names the fields (also 400, 413)
    │   ├── NotSupported    501  this service does not offer it (also 405, 406)
    │   ├── RateLimited     429  too many at once; carries the limit and the active count
    │   ├── QuotaExhausted  429  no credits left (also 402)
    │   └── ServiceFault    5xx  the service failed
    ├── JobError                 about one job; carries `job_id` and the rows so far
    │   ├── JobFailed            the job ended `failed`; carries the reason
    │   ├── JobCancelled         the job was cancelled
    │   └── JobTimeout           the deadline passed; the job goes on and can be attached again
    └── IncompleteResult         rows are missing against the service's own count
"""

from __future__ import annotations

from typing import Any


def _restored(
    kind: type[WebdataError], args: tuple[Any, ...], state: dict[str, Any]
) -> WebdataError:
    """Rebuild an error that crossed a process boundary, without running its constructor."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class WebdataError(Exception):
    """Root of everything the toolkit raises on purpose; every error pickles."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


class InvalidArgument(WebdataError, ValueError):
    """An argument, option or setting that cannot be right; nothing was sent."""


class OfflineError(WebdataError):
    """Offline mode is on, and the cache has no answer for this call."""


class NotRecorded(OfflineError):
    """A recording is replayed, and it has no answer for this call."""


class MissingExtra(WebdataError, ImportError):
    """A library is missing that only some users need; the message names the extra."""


class OverBudget(WebdataError):
    """The call may cost more than `budget`; nothing was started.

    Attributes
    ----------
    estimate, budget : float
        Credits that the call may cost at most, and that were allowed.
    """

    def __init__(self, message: str, *, estimate: float, budget: float) -> None:
        super().__init__(message)
        self.estimate = estimate
        self.budget = budget


class LocalServiceError(WebdataError):
    """The local service cannot start; `WEBDATA_BASE_URL` names another service."""


class ConnectionFailed(WebdataError):
    """The service could not be reached, or its answer did not arrive whole and in time."""


class UnknownOutcome(WebdataError):
    """The answer to a start was lost, and sending it again could start a second job.

    Attributes
    ----------
    idempotency_key : str
        The key that the start carried.
    """

    def __init__(self, message: str, *, idempotency_key: str = "") -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class BadAnswer(WebdataError):
    """A reply that breaks the contract.

    Attributes
    ----------
    field : str or None
        Path of the first wrong field, such as `data.3.rank`; None where the body as a whole
        is no JSON.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class ServiceError(WebdataError):
    """The service answered with an error status.

    Attributes
    ----------
    status : int
        The HTTP status.
    detail : str
        The service's own words.
    retry_after : float or None
        Seconds to wait before another try, where the service said so.
    """

    def __init__(
        self, message: str, *, status: int, detail: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after


class WrongState(ServiceError):
    """The job's present state does not allow a cancel or a retry; read its status first."""


class AuthError(ServiceError):
    """The key is missing, wrong, or may not do this."""


class NotFound(ServiceError):
    """No such job for this key, or the job has nothing to export."""


class Expired(ServiceError):
    """The raw results are past their retention; start a new job."""


class InvalidRequest(ServiceError):
    """The service refused the request's content.

    Attributes
    ----------
    fields : tuple of (str, str)
        Path and message of each wrong field, where the service named them.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        detail: str = "",
        retry_after: float | None = None,
        fields: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message, status=status, detail=detail, retry_after=retry_after)
        self.fields = fields


class NotSupported(ServiceError):
    """The service does not offer the operation or the option."""


class RateLimited(ServiceError):
    """More at once than the plan allows, for longer than the client was willing to queue.

    Attributes
    ----------
    limit, active : int or None
        The plan's limit and the present count (`X-Concurrency-Limit`, `X-Concurrency-Active`).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        detail: str = "",
        retry_after: float | None = None,
        limit: int | None = None,
        active: int | None = None,
    ) -> None:
        super().__init__(message, status=status, detail=detail, retry_after=retry_after)
        self.limit = limit
        self.active = active


class QuotaExhausted(ServiceError):
    """No credits are left; waiting a little does not help."""


class ServiceFault(ServiceError):
    """The service failed; the call was tried again as far as that is safe."""


class JobError(WebdataError):
    """What went wrong with one job.

    Attributes
    ----------
    job_id : str
        The job.
    partial : object
        The rows that had arrived, as the frame the call would have returned; None where
        nothing had.
    """

    def __init__(self, message: str, *, job_id: str, partial: Any = None) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.partial = partial


class JobFailed(JobError):
    """The job ended `failed`; `reason` is the service's own text."""

    def __init__(self, job_id: str, reason: str, partial: Any = None) -> None:
        super().__init__(f"job {job_id} failed: {reason}", job_id=job_id, partial=partial)
        self.reason = reason


class JobCancelled(JobError):
    """The job was cancelled; `job_id` is empty where it was a call without one or with several."""

    def __init__(self, job_id: str, partial: Any = None) -> None:
        what = f"job {job_id} was cancelled" if job_id else "the call was cancelled"
        super().__init__(what, job_id=job_id, partial=partial)

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: a cancelled cell shows one line, since nothing is broken."""
        return [f"{type(self).__name__}: {self}"]


class JobTimeout(JobError):
    """The deadline passed; the job goes on at the service.

    Attributes
    ----------
    deadline_s : float
        Seconds that the caller was willing to wait.
    """

    def __init__(self, job_id: str, deadline_s: float, partial: Any = None) -> None:
        super().__init__(
            f"job {job_id} did not end within {deadline_s:g} s; it goes on at the service: "
            "attach to it again by its id, or cancel it",
            job_id=job_id,
            partial=partial,
        )
        self.deadline_s = deadline_s


class IncompleteResult(WebdataError):
    """Fewer rows arrived than the service counts.

    Attributes
    ----------
    expected : int or None
        Rows by the service's own count; None where it cannot be known.
    arrived : int
        Rows that arrived.
    frame : object
        What arrived, as a frame; None until the caller built one.
    """

    def __init__(
        self, expected: int | None, arrived: int, frame: Any = None, *, why: str = ""
    ) -> None:
        counted = "an unknown number of" if expected is None else f"{expected}"
        super().__init__(
            f"{arrived} of {counted} rows arrived{': ' + why if why else ''}; "
            'on_incomplete="warn" returns what is there'
        )
        self.expected = expected
        self.arrived = arrived
        self.frame = frame
        self.why = why
