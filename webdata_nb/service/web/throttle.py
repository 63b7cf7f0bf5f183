"""Politeness towards hosts: who waits for whom, within one process."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from webdata_nb.service.errors import FetchError
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.web.politeness import (
    FRESH,
    GO,
    HostRecord,
    Manners,
    Verdict,
    erred,
    gives_up,
    is_idle,
    judge,
    penalised,
    rewarded,
    started,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATIENCE_S: Final = 30.0
# What a turn may take beside the distances between the requests in line, for the pauses and the
# outages that those before it sit out.
TURN_S: Final = 60.0
# A line this long is that of a dozen jobs at one host that asks for the longest delay.
LONGEST_LINE_S: Final = 3600.0
_MAX_HOSTS: Final = 4096


class Throttle(Protocol):
    """What the engines ask before each request: the seam for one shared by several workers."""

    def turn(
        self, host: str, *, delay_s: float = 0.0, patience_s: float = PATIENCE_S
    ) -> AbstractAsyncContextManager[float]:
        """Wait for this host's next turn; the request goes inside the `async with` block.

        The block is given the seconds that were spent in line: behind others, and for the distance
        between requests. They are the host's wish, and count against nobody's patience.

        Parameters
        ----------
        host : str
            The host with its port, so that servers on one machine do not wait for each other.
        delay_s : float
            The least seconds between the starts of two requests (robots.txt's Crawl-delay).
        patience_s : float
            The most seconds to wait for a host that asked to be left alone or that has failed.
            The seconds in line are not counted; they have a deadline of their own, `turn_limit_s`,
            and a line of more than an hour is not joined.

        A request made inside the block of a turn at the same host, such as one for robots.txt on
        the way to a redirect's target, joins no line: it would wait for itself.

        Raises
        ------
        FetchError
            Of kind ``timeout``, at once when the host would need longer than that or its line is
            too long, and when the deadline in line has passed; of kind ``host_unavailable``, at
            once, when the host has failed so often that it is left alone.
        """
        ...

    async def alongside(self, host: str, *, delay_s: float = 0.0, patience_s: float) -> None:
        """Wait until a request that belongs to a page under way may start, in no line.

        Parameters
        ----------
        host : str
            The host.
        delay_s : float
            The least seconds since the last start of a request.
        patience_s : float
            The most seconds to wait, for whatever reason.

        Raises
        ------
        FetchError
            At once, as `turn` does, when it would take longer.
        """
        ...

    async def penalise(self, host: str, retry_after_s: float | None = None) -> None:
        """Report a complaint (429, 503 and the like) or, without a time, also a failure."""
        ...

    async def fail(self, host: str) -> None:
        """Report that one page failed: no reason to slow down, but many in a row are an outage."""
        ...

    async def reward(self, host: str) -> None:
        """Report a good answer."""
        ...


def turn_limit_s(ahead: int, spacing_s: float, patience_s: float = PATIENCE_S) -> float:
    """Return the most seconds that a request stands in a host's line.

    Parameters
    ----------
    ahead : int
        How many requests stood there when it came.
    spacing_s : float
        The seconds between two requests.
    patience_s : float
        The seconds for which those who stand there wait for a host that asks for a pause.

    Examples
    --------
    >>> turn_limit_s(0, 0.0), turn_limit_s(9, 10.0)
    (60.0, 260.0)
    """
    return max(TURN_S, patience_s) + 2 * (ahead + 1) * spacing_s


@dataclass(slots=True)
class _Held:
    """A turn that keeps everybody else from a host while it lasts."""

    host: str
    lasts: bool = True


_HELD: ContextVar[tuple[_Held, ...]] = ContextVar("held", default=())


@dataclass(slots=True)
class _Host:
    record: HostRecord = FRESH
    gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    queued: int = 0


class HostThrottle:
    """A `Throttle` for one process and one event loop.

    Turns of one host are given in the order they were asked for; hosts do not wait for each
    other. See `politeness` for the rules.

    Parameters
    ----------
    manners : Manners
        The rules' figures.
    clock, sleep, chance : callable
        Monotonic seconds, waiting, and a random number from 0 to 1.
    """

    def __init__(
        self,
        manners: Manners = Manners(),  # noqa: B008 - frozen, so one default serves all
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._manners = manners
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def turn(
        self, host: str, *, delay_s: float = 0.0, patience_s: float = PATIENCE_S
    ) -> AsyncIterator[float]:
        """Wait for this host's next turn, as `Throttle.turn` says."""
        entry = self._entry(host)
        if not entry.queued and self._start(entry, delay_s) == GO:
            yield 0.0
            return
        if any(held.host == host and held.lasts for held in _HELD.get()):
            await self.alongside(host, delay_s=delay_s, patience_s=patience_s)
            yield 0.0
            return
        if entry.queued * delay_s > LONGEST_LINE_S:
            raise _too_long(host, entry.queued, delay_s)
        with ExitStack() as stack:
            came = self._clock()
            spacing_s = max(delay_s, entry.record.pause_s)
            limit_s = turn_limit_s(entry.queued, spacing_s, patience_s)
            with waiting_for(f"a turn at {host}", limit_s + patience_s):
                await self._queue(host, entry, stack, limit_s)
                in_line_s = self._clock() - came
                left_s = max(0.0, limit_s - in_line_s)
                is_trial, spaced_s = await self._wait(host, entry, delay_s, patience_s, left_s)
            if is_trial:
                # The trial of a broken host: nobody else starts before its end.
                stack.callback(_hold(host))
            else:
                stack.close()
            yield in_line_s + spaced_s

    async def alongside(self, host: str, *, delay_s: float = 0.0, patience_s: float) -> None:
        """Wait until a request may start that belongs to a page, as `Throttle.alongside` says."""
        entry = self._hosts.get(host)
        if entry is None and delay_s <= 0:
            return  # nothing is known of it, and a page may name hosts without end
        entry = entry or self._entry(host)
        while (verdict := self._start(entry, delay_s)).wait_s > 0:
            if verdict.wait_s > patience_s:
                raise _left_alone(host, verdict, entry.record)
            patience_s -= verdict.wait_s
            with waiting_for(f"a pause of {host}", verdict.wait_s):
                await self._sleep(verdict.wait_s)

    async def penalise(self, host: str, retry_after_s: float | None = None) -> None:
        """Report a complaint or a failure, as `Throttle.penalise` says."""
        entry = self._entry(host)
        entry.record = penalised(
            entry.record, self._clock(), retry_after_s, self._manners, self._chance()
        )

    async def fail(self, host: str) -> None:
        """Report a failure of one page."""
        entry = self._entry(host)
        entry.record = erred(entry.record, self._clock(), self._manners)

    async def reward(self, host: str) -> None:
        """Report a good answer."""
        entry = self._hosts.get(host)
        if entry is not None:
            entry.record = rewarded(entry.record, self._manners)

    def _entry(self, host: str) -> _Host:
        entry = self._hosts.get(host)
        if entry is None:
            if len(self._hosts) >= _MAX_HOSTS:
                self._forget_idle()
            entry = self._hosts[host] = _Host()
        return entry

    def _forget_idle(self) -> None:
        now = self._clock()
        self._hosts = {
            host: entry
            for host, entry in self._hosts.items()
            if entry.queued or not is_idle(entry.record, now)
        }

    def _start(self, entry: _Host, delay_s: float) -> Verdict:
        now = self._clock()
        verdict = judge(entry.record, now, delay_s)
        if verdict == GO:
            entry.record = started(entry.record, now)
        return verdict

    async def _queue(self, host: str, entry: _Host, stack: ExitStack, limit_s: float) -> None:
        """Take the host's gate until `stack` is closed; it opens in the order of asking."""
        ahead, entry.queued = entry.queued, entry.queued + 1
        stack.callback(_leave, entry)
        try:
            async with asyncio.timeout(limit_s):
                await entry.gate.acquire()
        except TimeoutError:
            raise _no_turn(host, limit_s, ahead) from None
        stack.callback(entry.gate.release)

    async def _wait(
        self, host: str, entry: _Host, delay_s: float, patience_s: float, spacing_limit_s: float
    ) -> tuple[bool, float]:
        """Wait until a request may start; tell if it is a trial, and the seconds of distance."""
        spaced_s = 0.0
        while (verdict := self._start(entry, delay_s)).wait_s > 0:
            if verdict.reason != "spacing":
                if verdict.wait_s > patience_s or gives_up(entry.record, verdict):
                    raise _left_alone(host, verdict, entry.record)
                patience_s -= verdict.wait_s
            else:
                spaced_s += verdict.wait_s
                if spaced_s > spacing_limit_s:
                    raise _no_turn(host, spacing_limit_s, 0)
            await self._sleep(verdict.wait_s)
        if verdict.is_trial:
            entry.record = started(entry.record, self._clock())
        return verdict.is_trial, spaced_s


def _leave(entry: _Host) -> None:
    entry.queued -= 1


def _hold(host: str) -> Callable[[], None]:
    """Let requests made from here on know that they are inside a turn; return what ends that."""
    held = _Held(host)
    _HELD.set((*(each for each in _HELD.get() if each.lasts), held))

    def end() -> None:
        held.lasts = False

    return end


def _no_turn(host: str, waited_s: float, ahead: int) -> FetchError:
    return FetchError(
        "timeout", f"{host} had no turn for this page within {waited_s:.0f} s; {ahead} were ahead."
    )


def _too_long(host: str, queued: int, delay_s: float) -> FetchError:
    return FetchError(
        "timeout", f"{host} asks for {delay_s:g} s between requests, and {queued} are in line."
    )


def _left_alone(host: str, verdict: Verdict, record: HostRecord) -> FetchError:
    rest = f"it is left alone for another {verdict.wait_s:.0f} s"
    if verdict.reason == "broken":
        return FetchError(
            "host_unavailable", f"{host} failed {record.failures} times in a row; {rest}."
        )
    if verdict.reason == "asked":
        return FetchError("timeout", f"{host} asked for a pause; {rest}.")
    return FetchError("timeout", f"{host} is asked less often after it complained; {rest}.")
