"""Defines the exceptions of the toolkit, with one root class.

::

    WebdataError
    ├── InvalidArgument          also a ValueError; rejected before a request was sent
    │   ├── InvalidCall          also a TypeError; an unknown or missing argument
    │   ├── UnknownOption        also an AttributeError; `options` has no such setting
    │   └── NoReceipt            also an AttributeError; `df.webdata` of another DataFrame
    ├── MissingExtra             also an ImportError; names the extra to install
    ├── OverBudget               the estimate exceeds `budget`; nothing was started
    ├── OfflineError             offline mode, and the cache has no result
    │   └── NotRecorded          replaying, and the recording has no result
    ├── LocalServiceError        the local service cannot start
    ├── ConnectionFailed         unreachable, reset, or no reply in time
    │   └── NoWebhook            also a TimeoutError; no webhook event in time
    ├── WatchRunning             another call watches the same; nothing was sent
    ├── WorkerLost               a worker of the executor ended, so an input has no rows
    ├── UnknownOutcome           the reply to a start was lost: the job may exist
    ├── BadAnswer                a reply that breaks the contract; names the field
    ├── ServiceError             the service answered with an error status (any other 4xx)
    │   ├── WrongState      400  the job's present state does not allow the action
    │   ├── AuthError       401  the key is missing or not accepted
    │   │   └── PermissionDenied  403  the key lacks the scope that this needs
    │   ├── NotFound        404  no such job for this key, or nothing to export
    │   ├── Expired         410  the raw results are past their retention
    │   ├── InvalidRequest  422  the request is wrong; names the fields (also 400, 413)
    │   ├── NotSupported    501  this service does not offer it (also 405, 406)
    │   ├── RateLimited     429  too many at once; has the limit and the active count
    │   ├── QuotaExhausted  429  no credits left (also 402)
    │   └── ServiceFault    5xx  the service failed
    ├── JobError                 about one job; has `job_id` and the rows so far
    │   ├── JobFailed            the job ended `failed`; has the reason
    │   ├── JobCancelled         the job was cancelled
    │   └── JobTimeout           the deadline passed; the job continues and can be attached to
    └── IncompleteResult         fewer rows than the service counts

`WebdataWarning`, a `UserWarning`, is the category of all warnings of the package.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Self, TypeVar

from webdata_nb import caller
from webdata_nb.caller import WebdataWarning as WebdataWarning  # noqa: PLC0414 - a public name
from webdata_nb.suggestions import unknown_argument

P = ParamSpec("P")
T = TypeVar("T")


def _unpickle(
    kind: type[WebdataError], args: tuple[Any, ...], state: dict[str, Any]
) -> WebdataError:
    """Rebuild a pickled error without its constructor."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class WebdataError(Exception):
    """Root of the errors that the toolkit raises on purpose; all can be pickled.

    IPython shows the message without a traceback; `%tb` or `options.tracebacks = "full"` shows all.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (type(self), self.args, self.__dict__)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows (its hook)."""
        return caller.DISPLAY.lines(self)


class InvalidArgument(WebdataError, ValueError):
    """An invalid argument, option or setting; nothing was sent."""


class InvalidCall(InvalidArgument, TypeError):
    """The arguments do not match the function's signature."""

    @classmethod
    def of(
        cls,
        name: str,
        signature: inspect.Signature,
        positional: tuple[object, ...],
        keywords: Mapping[str, object],
    ) -> Self:
        """Return the error of a call that Python refuses."""
        names = list(signature.parameters)
        if unknown := [each for each in keywords if each not in names]:
            ending = unknown_argument(unknown[0], names) or f": see help({name})"
            return cls(f"{name}() got an unexpected keyword argument {unknown[0]!r}{ending}")
        try:
            signature.bind(*positional, **keywords)
            reason = "cannot be called with these arguments"
        except TypeError as error:
            reason = f"got {len(positional)} positional arguments"
            if not str(error).startswith("too many"):
                reason = f"is {error}"
        # A call as an example: the required arguments, and the first option.
        kinds = inspect.Parameter
        parameters = [each for each in signature.parameters.values() if each.name != "self"]
        required = [each.name for each in parameters if each.default is kinds.empty]
        options = [each.name for each in parameters if each.kind is kinds.KEYWORD_ONLY]
        example = [f"{option}=..." for option in options[:1] if option not in required]
        return cls(f"{name}() {reason}: call {name}({', '.join([*required, *example])})")


def checked_call(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that a call that Python refuses raises InvalidCall."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if not str(error).startswith(f"{function.__qualname__}() "):
                raise
            raise InvalidCall.of(function.__qualname__, signature, args, kwargs) from None

    return checked


class UnknownOption(InvalidArgument, AttributeError):
    """`options` has no setting of this name."""


class NoReceipt(InvalidArgument, AttributeError):
    """The DataFrame has no receipt, so it has no `df.webdata`."""


class OfflineError(WebdataError):
    """Offline mode is on, and the cache has no result of this call."""


class NotRecorded(OfflineError):
    """A recording is replayed, and it has no result of this call."""


class MissingExtra(WebdataError, ImportError):
    """An optional library is missing; the message names the extra."""


class OverBudget(WebdataError):
    """The call may cost more than `budget`; nothing was started.

    Attributes
    ----------
    estimate, budget : float
        The most credits that the call may cost, and the allowed number.
    """

    def __init__(self, message: str, *, estimate: float, budget: float) -> None:
        super().__init__(message)
        self.estimate = estimate
        self.budget = budget


class LocalServiceError(WebdataError):
    """The local service cannot start; `WEBDATA_BASE_URL` selects another service."""


class ConnectionFailed(WebdataError):
    """The service could not be reached, or its reply was incomplete or late."""


class NoWebhook(ConnectionFailed, TimeoutError):
    """No webhook event arrived within the timeout of the receiver."""


class WatchRunning(WebdataError):
    """Another call of `watch_df` with the same arguments is not finished; nothing was sent."""


class WorkerLost(WebdataError):
    """A worker process of the executor ended abruptly, such as by a signal or a lack of memory."""


class UnknownOutcome(WebdataError):
    """The reply to a start was lost, and repeating it could start a second job.

    Attributes
    ----------
    idempotency_key : str
        The key of the start.
    """

    def __init__(self, message: str, *, idempotency_key: str = "") -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class BadAnswer(WebdataError):
    """A reply that breaks the contract.

    Attributes
    ----------
    field : str or None
        Path of the first invalid field, such as `data.3.rank`; None if the body is not JSON.
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
        The service's message.
    retry_after : float or None
        Seconds to wait before a retry, if the service sent them.
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
    """The key is missing, invalid or not authorized."""


class PermissionDenied(AuthError):
    """The service knows the key, and does not open the operation to it.

    `detail` names the scope that the operation needs, and those of the key.
    """


class NotFound(ServiceError):
    """No such job for this key, or the job has nothing to export."""


class Expired(ServiceError):
    """The raw results are past their retention; start a new job."""


class InvalidRequest(ServiceError):
    """The service rejected the request's content.

    Attributes
    ----------
    fields : tuple of (str, str)
        Path and message of each invalid field, if the service sent them.
    types : tuple of str
        The type of each of these problems, for programs.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        detail: str = "",
        retry_after: float | None = None,
        fields: tuple[tuple[str, str], ...] = (),
        types: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, status=status, detail=detail, retry_after=retry_after)
        self.fields = fields
        self.types = types


class NotSupported(ServiceError):
    """The service does not offer the operation or the option."""


class RateLimited(ServiceError):
    """More active at once than the plan allows, for longer than the client queues.

    Attributes
    ----------
    limit, active : int or None
        The plan's limit and the active count (`X-Concurrency-Limit`, `X-Concurrency-Active`).
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
    """No credits are left; a retry does not help."""


class ServiceFault(ServiceError):
    """The service failed; safe requests were retried."""


class JobError(WebdataError):
    """An error of one job.

    Attributes
    ----------
    job_id : str
        The job.
    partial : object
        The rows received so far, as the frame of the call; None without any.
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
    """The job was cancelled; `job_id` is empty for a call with no job or several."""

    def __init__(self, job_id: str, partial: Any = None) -> None:
        message = f"job {job_id} was cancelled" if job_id else "the call was cancelled"
        super().__init__(message, job_id=job_id, partial=partial)

    def _render_traceback_(self) -> list[str]:
        """Show one line in IPython (its hook): the user knows where they cancelled."""
        return [f"{type(self).__name__}: {self}"]


class JobTimeout(JobError):
    """The deadline passed; the job continues at the service.

    Attributes
    ----------
    deadline_s : float
        The caller's deadline, in seconds.
    """

    def __init__(self, job_id: str, deadline_s: float, partial: Any = None) -> None:
        super().__init__(
            f"job {job_id} did not end within timeout={deadline_s:g} s and goes on at the "
            f'service; job("{job_id}").df() continues, job("{job_id}").cancel() ends it',
            job_id=job_id,
            partial=partial,
        )
        self.deadline_s = deadline_s


class IncompleteResult(WebdataError):
    """Fewer rows arrived than the service counts.

    Attributes
    ----------
    expected : int or None
        Rows by the service's count; None if it is unknown.
    arrived : int
        Rows received.
    frame : object
        The received rows as a frame; None until it is built.
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
