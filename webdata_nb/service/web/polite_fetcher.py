"""Requests that keep a host's manners: wait for a turn, fetch, report how the host did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from webdata_nb.service.errors import FetchError
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.web.suspension import Suspensions, Watch
from webdata_nb.service.web.urls import host_and_port

if TYPE_CHECKING:
    from webdata_nb.service.web.fetch import Fetcher
    from webdata_nb.service.web.request import AllowHop, FetchedResponse, FetchRequest
    from webdata_nb.service.web.throttle import Throttle

# A host that is given less time than this is not to blame when it does not answer within it.
FAIR_TIMEOUT_S: Final = 5.0
_ANY_DISTANCE_S: Final = 1e-6
TRANSIENT_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
# What a host says when it is asked too much; a page that fails on its own slows nobody else.
OVERLOAD_STATUS: Final = frozenset({429, 503})
TRANSIENT_KINDS: Final = frozenset({"connect", "reset", "protocol"})
# How a request ends during which the process stood still.
_INTERRUPTED_KINDS: Final = TRANSIENT_KINDS | {"timeout", "dns", "host_unavailable"}
RESTARTS: Final = 3
"""How often a page may begin anew because the process or the machine stood still."""


@dataclass(slots=True)
class Allowance:
    """The seconds that a page may take, its retries included; waiting in line does not count.

    A host that asks for a distance between requests makes its pages wait for each other. That is
    its wish and no fault of the page, whose deadline would otherwise pass before it is asked for.
    Nor is it one that the machine slept, or that this process was stopped: the page then has its
    whole time again, a few times.
    """

    timeout_s: float
    clock: Callable[[], float] = time.monotonic
    waited_s: float = 0.0
    watch: Watch | None = None
    restarts: int = 0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    @property
    def interrupted(self) -> bool:
        """Whether the process stood still since the beginning."""
        return self.watch is not None and self.watch.interrupted

    def restart_if_interrupted(self) -> bool:
        """Give the whole time again where the process stood still; tell whether it did."""
        if self.watch is None or self.restarts >= RESTARTS or not self.interrupted:
            return False
        self.watch.renew()
        self.restarts += 1
        self.waited_s, self._began = 0.0, self.clock()
        return True

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning, those in line left out."""
        return self.clock() - self._began - self.waited_s

    @property
    def left_s(self) -> float:
        """Seconds that are left, never below 0."""
        return max(0.0, self.timeout_s - self.elapsed_s)


class PoliteFetcher:
    """A fetcher whose requests wait for their host's turn; one for all jobs that go one way."""

    def __init__(
        self, fetcher: Fetcher, throttle: Throttle, suspensions: Suspensions | None = None
    ) -> None:
        self._fetcher, self._throttle = fetcher, throttle
        self._suspensions = suspensions or Suspensions()

    @contextmanager
    def allowance(self, timeout_s: float) -> Iterator[Allowance]:
        """Give what a page may take, while standstills of this process are watched for."""
        with self._suspensions.watch() as watch:
            yield Allowance(timeout_s, watch=watch)

    async def fetch(
        self,
        request: FetchRequest,
        allowance: Allowance,
        *,
        delay_s: float = 0.0,
        allow_hop: AllowHop | None = None,
        in_line: bool = True,
    ) -> FetchedResponse:
        """Fetch once, when the host may be asked; the allowance is the request's deadline.

        A request that fails while this process stood still is sent again, with its whole time.

        Parameters
        ----------
        in_line : bool
            False for what others wait for while they hold their turn, as for robots.txt: it waits
            for the host's pauses, and behind nobody.

        Raises
        ------
        FetchError
            As `Fetcher.fetch` and `Throttle.slot` do.
        """
        while True:
            try:
                if in_line:
                    return await self._in_turn(request, allowance, delay_s, allow_hop)
                return await self._alongside(request, allowance, delay_s, allow_hop)
            except FetchError as failure:
                again = failure.kind in _INTERRUPTED_KINDS and allowance.restart_if_interrupted()
                if not again:
                    raise

    async def _in_turn(
        self, request: FetchRequest, allowance: Allowance, delay_s: float, hop: AllowHop | None
    ) -> FetchedResponse:
        name = host_and_port(request.url)
        slot = self._throttle.slot(name, delay_s=delay_s, max_wait_s=allowance.left_s)
        async with slot as waited_s:
            allowance.waited_s += waited_s
            # Noted before the turn ends: where it was a host's trial, the others wait for it.
            return await self._noted(name, request, allowance, hop)

    async def _alongside(
        self, request: FetchRequest, allowance: Allowance, delay_s: float, hop: AllowHop | None
    ) -> FetchedResponse:
        name = host_and_port(request.url)
        # Any distance makes the throttle note the start, which the next page keeps away from.
        noted_s = delay_s or _ANY_DISTANCE_S
        await self._throttle.wait_unqueued(name, delay_s=noted_s, max_wait_s=allowance.left_s)
        return await self._noted(name, request, allowance, hop)

    async def _noted(
        self, name: str, request: FetchRequest, allowance: Allowance, hop: AllowHop | None
    ) -> FetchedResponse:
        """Fetch, and report to the throttle how the host did."""
        timed = replace(request, timeout_s=max(0.001, allowance.left_s))
        limit_s = timed.timeout_s or 0.0
        try:
            with waiting_for(f"the answer of {name}", limit_s):
                fetched = await self._fetcher.fetch(timed, allow_hop=hop)
        except FetchError as failure:
            if allowance.interrupted:
                raise  # it was no fault of the host's
            # A refused connection is an outage and no overload: to ask less often helps nobody.
            if failure.kind == "timeout" and limit_s < FAIR_TIMEOUT_S:
                raise  # the caller's own haste, which must not rest the host for other accounts
            if failure.kind in {"connect", "timeout"}:
                await self._throttle.report_failure(name)
            elif failure.kind in TRANSIENT_KINDS:
                await self._throttle.report_overload(name)
            raise
        if fetched.status in OVERLOAD_STATUS:
            await self._throttle.report_overload(name, fetched.retry_after_s)
        elif fetched.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            await self._throttle.report_failure(name)
        elif fetched.status not in TRANSIENT_STATUS:
            await self._throttle.report_success(name)
        return fetched
