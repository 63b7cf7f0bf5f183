"""Fetches pages at the pace that their hosts allow, and reports the outcome to the throttle.

During a suspension of the process or the machine (SIGSTOP, a closed lid) deadlines expire although
no time was available, and connections are lost: such pages start again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from webdata_nb.pacing.retry_policies import PAGE, PAGE_WITH_RETRY_AFTER
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import host_and_port
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.web.request import retry_after_s

if TYPE_CHECKING:
    from webdata_nb.page.content.page_source import FetchedResponse
    from webdata_nb.service.signing.request_signer import RequestSigner
    from webdata_nb.service.web.fetch import Fetcher
    from webdata_nb.service.web.request import FetchRequest
    from webdata_nb.service.web.throttle import HostThrottle


HEARTBEAT_S: Final = 0.5
SUSPENDED_AFTER_S: Final = 3.0
"""Seconds without a heartbeat that count as a suspension."""


def elapsed_clock() -> float:
    """Return seconds on a clock that, where possible, also runs while the machine sleeps."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux, whose monotonic clock stops during sleep
    return time.time() if boot is None else time.clock_gettime(boot)


class SuspensionWatch:
    """Detects whether a suspension occurred since the watch began."""

    def __init__(self, detector: SuspensionDetector) -> None:
        self._detector = detector
        self.reset()

    def reset(self) -> None:
        """Forget earlier suspensions."""
        self._count = self._detector.count

    @property
    def interrupted(self) -> bool:
        """Whether a suspension has occurred."""
        return self._detector.update() != self._count


class SuspensionDetector:
    """Counts the suspensions of a process while watches exist; one per event loop.

    A callback of the event loop records the time twice a second; a gap is a suspension. A blocked
    event loop looks the same, and has the same effect on everything that waits.

    Parameters
    ----------
    clock : callable
        Seconds, on a clock that runs while the machine sleeps.
    """

    def __init__(self, *, clock: Callable[[], float] = elapsed_clock) -> None:
        self._clock = clock
        self._watches = 0
        self._last_heartbeat = clock()
        self._next: asyncio.TimerHandle | None = None
        self.count: int = 0

    @contextmanager
    def watch(self) -> Iterator[SuspensionWatch]:
        """Detect suspensions inside the block."""
        if not self._watches:
            self._last_heartbeat = self._clock()
            self._heartbeat()
        self._watches += 1
        try:
            yield SuspensionWatch(self)
        finally:
            self._watches -= 1
            if not self._watches and self._next is not None:
                self._next.cancel()

    def update(self) -> int:
        """Return the number of suspensions up to now."""
        now = self._clock()
        gap_s, self._last_heartbeat = now - self._last_heartbeat, now
        if gap_s > SUSPENDED_AFTER_S:
            self.count += 1
        return self.count

    def _heartbeat(self) -> None:
        self.update()
        self._next = asyncio.get_running_loop().call_later(HEARTBEAT_S, self._heartbeat)


# A timeout shorter than this is not a failure of the host.
FAIR_TIMEOUT_S: Final = 5.0
# Any delay makes the throttle record the start of a request.
_SMALLEST_DELAY_S: Final = 1e-6
TRANSIENT_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
# Replies of an overloaded host. Other errors of one page do not slow down other pages.
OVERLOAD_STATUS: Final = frozenset({429, 503})
TRANSIENT_KINDS: Final = frozenset({"connect", "reset", "protocol"})
# Kinds of failure that a suspension of the process causes.
_INTERRUPTED_KINDS: Final = TRANSIENT_KINDS | {"timeout", "dns", "host_unavailable"}
RESTARTS: Final = 3
"""How often a page starts again with its full timeout after a suspension of the process."""


def retry_delay_s(
    attempt: int, *, status: int | None, kind: str, retry_after_s: float | None, remaining_s: float
) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up.

    A page whose server sends Retry-After is retried until its deadline, any other page twice.
    A wait beyond the deadline is not begun.
    """
    transient = kind in TRANSIENT_KINDS if status is None else status in TRANSIENT_STATUS
    if not transient:
        return None
    policy = PAGE if retry_after_s is None else PAGE_WITH_RETRY_AFTER
    # "Retry-After: 0" must not become a loop without a pause.
    delay_s = policy.next_delay_s(attempt, retry_after_s=retry_after_s or None)
    return delay_s if delay_s is not None and delay_s < remaining_s else None


@dataclass(slots=True)
class PageDeadline:
    """The time that is left for a page, including its retries.

    Time in a host's queue does not count: a host that asks for a delay between requests makes its
    pages wait for each other. A suspension of the machine or the process does not count either:
    the page then starts again with its full timeout, a few times.
    """

    timeout_s: float
    clock: Callable[[], float] = time.monotonic
    queued_s: float = 0.0
    watch: SuspensionWatch | None = None
    restarts: int = 0
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock()

    @property
    def interrupted(self) -> bool:
        """Whether the process was suspended since the start."""
        return self.watch is not None and self.watch.interrupted

    def restart_if_interrupted(self) -> bool:
        """Start again if the process was suspended; return whether it was."""
        if self.watch is None or self.restarts >= RESTARTS or not self.interrupted:
            return False
        self.watch.reset()
        self.restarts += 1
        self.queued_s, self._started = 0.0, self.clock()
        return True

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start, without those in queues."""
        return self.clock() - self._started - self.queued_s

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self.timeout_s - self.elapsed_s)


class ResponseSource(Protocol):
    """Returns the responses to requests, from the web or from an archive."""

    def deadline(self, timeout_s: float) -> AbstractContextManager[PageDeadline]:
        """Start a page's deadline."""

    async def fetch(
        self,
        request: FetchRequest,
        deadline: PageDeadline,
        *,
        queued: bool = True,
    ) -> FetchedResponse:
        """Return the response to a request; raises `FetchError`."""


async def fetch_with_retries(
    source: ResponseSource,
    request: FetchRequest,
    deadline: PageDeadline,
    *,
    queued: bool = True,
    retries: bool = True,
) -> FetchedResponse | FetchError:
    """Send a request, again while its failure may pass; return the last reply or failure."""
    reply: FetchedResponse | FetchError
    for attempt in count(1):
        status, kind, after_s = None, "", None
        try:
            reply = await source.fetch(request, deadline, queued=queued)
        except FetchError as error:
            reply, kind = error, error.kind
        else:
            status, after_s = reply.status, retry_after_s(reply)
        wait_s = retry_delay_s(
            attempt,
            status=status,
            kind=kind,
            retry_after_s=after_s,
            remaining_s=deadline.remaining_s,
        )
        if wait_s is None or not retries:
            break
        await asyncio.sleep(wait_s)
        deadline.restart_if_interrupted()
    return reply


class PoliteFetcher(ResponseSource):
    """A fetcher whose requests wait for their host's slot; shared by the jobs of one egress.

    It sends the requests of crawls and scrapes, and signs them if there is a `signer`.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        throttle: HostThrottle,
        *,
        signer: RequestSigner | None = None,
    ) -> None:
        self._fetcher, self._throttle, self._signer = fetcher, throttle, signer
        self._suspensions = SuspensionDetector()

    @contextmanager
    def deadline(self, timeout_s: float) -> Iterator[PageDeadline]:
        """Start a page's deadline, and watch for suspensions inside the block."""
        with self._suspensions.watch() as watch:
            yield PageDeadline(timeout_s, watch=watch)

    async def fetch(
        self,
        request: FetchRequest,
        deadline: PageDeadline,
        *,
        queued: bool = True,
    ) -> FetchedResponse:
        """Fetch once, as soon as the host allows it.

        A request that fails during a suspension of the process is sent again.

        Parameters
        ----------
        request : FetchRequest
            The request; `deadline` replaces its timeout.
        deadline : PageDeadline
            The page's deadline.
        queued : bool
            False for requests that others wait for while they hold their slot, as for robots.txt:
            they wait for the host's pauses, but not in its queue.

        Raises
        ------
        FetchError
            As `Fetcher.fetch` and `HostThrottle.slot` do.
        """
        while True:
            try:
                host = host_and_port(request.url)
                if queued:
                    slot = self._throttle.slot(
                        host, delay_s=request.delay_s, max_wait_s=deadline.remaining_s
                    )
                    async with slot as queued_s:
                        deadline.queued_s += queued_s
                        # Reported inside the slot: the queue waits for the outcome of a trial.
                        return await self._fetch_and_report(host, request, deadline)
                await self._throttle.wait_unqueued(
                    host,
                    delay_s=request.delay_s or _SMALLEST_DELAY_S,
                    max_wait_s=deadline.remaining_s,
                )
                return await self._fetch_and_report(host, request, deadline)
            except FetchError as failure:
                interrupted = failure.kind in _INTERRUPTED_KINDS
                if not interrupted or not deadline.restart_if_interrupted():
                    raise

    async def _fetch_and_report(
        self, host: str, request: FetchRequest, deadline: PageDeadline
    ) -> FetchedResponse:
        timeout_s = max(0.001, deadline.remaining_s)
        try:
            with waiting_for(f"the answer of {host}", timeout_s):
                fetched = await self._fetcher.fetch(
                    replace(request, timeout_s=timeout_s, signer=self._signer)
                )
        except FetchError as failure:
            # A short timeout of one caller must not pause the host for other accounts.
            is_fair = failure.kind != "timeout" or timeout_s >= FAIR_TIMEOUT_S
            if not deadline.interrupted and is_fair:
                # A refused connection is an outage, no overload: slower requests would not help.
                if failure.kind in {"connect", "timeout"}:
                    await self._throttle.report_failure(host)
                elif failure.kind in TRANSIENT_KINDS:
                    await self._throttle.report_overload(host)
            raise
        if fetched.status in OVERLOAD_STATUS:
            await self._throttle.report_overload(host, retry_after_s(fetched))
        elif fetched.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            await self._throttle.report_error_reply(host)
        elif fetched.status not in TRANSIENT_STATUS:
            await self._throttle.report_success(host)
        return fetched
