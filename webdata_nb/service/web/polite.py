"""Requests that keep a host's manners: wait for a turn, fetch, report how the host did."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.retry_after import parse_retry_after
from webdata_nb.service.web.urls import host

if TYPE_CHECKING:
    from webdata_nb.service.web.fetch import Fetcher
    from webdata_nb.service.web.throttle import Throttle
    from webdata_nb.service.web.transfer import AllowHop, Fetched, FetchRequest

TRANSIENT_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
# What a host says when it is asked too much; a page that fails on its own slows nobody else.
OVERLOAD_STATUS: Final = frozenset({429, 503})
TRANSIENT_KINDS: Final = frozenset({"connect", "reset", "protocol"})


@dataclass(slots=True)
class Allowance:
    """The seconds that a page may take, its retries included; waiting in line does not count.

    A host that asks for a distance between requests makes its pages wait for each other. That is
    its wish and no fault of the page, whose deadline would otherwise pass before it is asked for.
    """

    timeout_s: float
    clock: Callable[[], float] = time.monotonic
    waited_s: float = 0.0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

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

    def __init__(self, fetcher: Fetcher, throttle: Throttle) -> None:
        self._fetcher, self._throttle = fetcher, throttle

    async def fetch(
        self,
        request: FetchRequest,
        allowance: Allowance,
        *,
        delay_s: float = 0.0,
        allow_hop: AllowHop | None = None,
    ) -> Fetched:
        """Fetch once, when the host may be asked; the allowance is the request's deadline.

        Raises
        ------
        FetchError
            As `Fetcher.fetch` and `Throttle.turn` do.
        """
        name = host(request.url)
        turn = self._throttle.turn(name, delay_s=delay_s, patience_s=allowance.left_s)
        async with turn as waited_s:
            allowance.waited_s += waited_s
            timed = replace(request, timeout_s=max(0.001, allowance.left_s))
            # Noted before the turn ends: where it was a host's trial, the others wait for it.
            return await self._noted(name, timed, allow_hop)

    async def _noted(self, name: str, request: FetchRequest, allow_hop: AllowHop | None) -> Fetched:
        """Fetch, and report to the throttle how the host did."""
        try:
            fetched = await self._fetcher.fetch(request, allow_hop=allow_hop)
        except FetchError as failure:
            if failure.kind in TRANSIENT_KINDS:
                await self._throttle.penalise(name)
            elif failure.kind == "timeout":
                await self._throttle.fail(name)
            raise
        if fetched.status in OVERLOAD_STATUS:
            await self._throttle.penalise(name, retry_after_s(fetched))
        elif fetched.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            await self._throttle.fail(name)
        elif fetched.status not in TRANSIENT_STATUS:
            await self._throttle.reward(name)
        return fetched


def retry_after_s(fetched: Fetched) -> float | None:
    """Return for how many seconds an answer asks to be left alone, None where it does not say."""
    return parse_retry_after(fetched.header("retry-after"), datetime.now(UTC))
