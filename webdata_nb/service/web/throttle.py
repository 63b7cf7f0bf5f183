"""Queues requests per host, spaces them, and holds them back from overloaded and failed hosts.

Start slots space the requests to one host or provider, together with the other processes.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Final

from webdata_nb.pacing.host_pacing import (
    CLOSED,
    HOST,
    IN_PROCESS,
    MAX_WAIT_S,
    SHORTEST_INTERVAL_S,
    START_NOW,
    UNKNOWN,
    UNRESERVED,
    Circuit,
    HostHistory,
    HostPolicy,
    PacingState,
    SharedPacing,
    StartDecision,
    StartReservation,
    is_queue_too_long,
    queue_limit_s,
)
from webdata_nb.service.errors import HostPaused
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.bounded_dict import BoundedDict
from webdata_nb.service.runtime.fair_scheduler import current_account

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class StartSlots:
    """The start times that this process may use for one key.

    Without the other processes it keeps the interval times their number.
    """

    __slots__ = ("_independent", "_key", "_pacing", "_reservation")

    def __init__(self, key: str, pacing: SharedPacing) -> None:
        self._key, self._pacing = key, pacing
        self._reservation: StartReservation | None = None
        self._independent = not pacing.is_shared

    def wait_s(self, now: float, last_start: float, interval_s: float) -> float | None:
        """Return the seconds until the next start, or None if it has to be reserved first."""
        held = self._reservation
        if held is not None and held.required_s >= interval_s:
            start = held.next_start(now, last_start)
            if start is not None:
                return max(0.0, start - now)
        self._reservation = None
        if not self._independent:
            return None
        return max(0.0, last_start + interval_s * self._pacing.replicas - now)

    async def reserve(self, interval_s: float) -> None:
        """Reserve the next starts, or allow one that is independent of other processes."""
        self._reservation = await self._pacing.reserve(self._key, interval_s)
        self._independent = self._reservation is None

    def after_start(self) -> None:
        """Note that a request has started: only the next one may need another reservation."""
        self._independent = not self._pacing.is_shared


class PacedStarts:
    """Lets requests start at an interval; one task at a time waits."""

    def __init__(self, key: str, pacing: SharedPacing) -> None:
        self._slots, self._last_start = StartSlots(key, pacing), -inf

    async def wait(self, interval_s: float, max_wait_s: float) -> None:
        """Wait until a request may start.

        Raises
        ------
        TimeoutError
            At once, if its start is more than `max_wait_s` away.
        """
        while interval_s >= SHORTEST_INTERVAL_S:
            wait_s = self._slots.wait_s(time.monotonic(), self._last_start, interval_s)
            if wait_s is None:
                await self._slots.reserve(interval_s)
            elif wait_s > max_wait_s:
                raise TimeoutError
            elif wait_s > 0:
                await asyncio.sleep(wait_s)
            else:
                break
        self._last_start = time.monotonic()
        self._slots.after_start()


_MAX_HOSTS: Final = 4096
# Accounts per host whose server errors are counted.
_MAX_ACCOUNTS: Final = 256
# So many accounts must meet server errors before the host is unavailable for all accounts.
_ACCOUNTS_OF_OUTAGE: Final = 2
# How long a process sleeps without looking at what others have learnt of the host.
_MAX_SLEEP_S: Final = 1.0

HistoryChange = Callable[[HostHistory, float], HostHistory]


@dataclass(slots=True)
class _TrialSlot:
    """A slot that excludes all other requests to its host while it is active."""

    host: str
    active: bool = True

    def end(self) -> None:
        self.active = False


_TRIAL_SLOTS: ContextVar[tuple[_TrialSlot, ...]] = ContextVar("trial_slots", default=())


@dataclass(slots=True)
class _HostQueue:
    slots: StartSlots
    history: HostHistory = field(default_factory=HostHistory)
    gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0
    # Server errors in a row, for each account that met them since its own last success.
    circuits: BoundedDict[str, Circuit] = field(default_factory=lambda: BoundedDict(_MAX_ACCOUNTS))
    # Up to two accounts that met server errors since the last success of any account.
    failed_accounts: set[str] = field(default_factory=set)


class HostThrottle:
    """Grants requests to hosts, for one event loop; other processes may share the hosts' pacing.

    Each host has a first-in, first-out queue. `pacing.host_pacing` makes the decisions.

    Parameters
    ----------
    policy : HostPolicy
        Pauses and the circuit breaker of each host.
    pacing : SharedPacing
        Connects the processes of the service.
    clock, sleep, random_fraction : callable
        Monotonic seconds, waiting, and a random number from 0 to 1.
    """

    def __init__(
        self,
        policy: HostPolicy = HostPolicy(),  # noqa: B008 - frozen, so one default serves all
        *,
        pacing: SharedPacing = IN_PROCESS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random_fraction: Callable[[], float] = random.random,
    ) -> None:
        self._policy = policy
        self._pacing = pacing
        self._clock = clock
        self._sleep = sleep
        self._random_fraction = random_fraction
        self._queues: dict[str, _HostQueue] = {}
        pacing.subscribe(HOST, self._on_state)

    @asynccontextmanager
    async def slot(
        self, host: str, *, delay_s: float = 0.0, max_wait_s: float = MAX_WAIT_S
    ) -> AsyncIterator[float]:
        """Wait until a request to a host may start, and send it inside the `async with` block.

        The block receives the seconds spent in the queue: behind other requests, and for the
        distance between requests. They do not count towards `max_wait_s`.

        A request made inside the block of a slot at the same host, such as one for robots.txt on
        the way to a redirect's target, does not join the queue: it would wait for itself.

        Parameters
        ----------
        host : str
            The host with its port, so that servers on one machine do not wait for each other.
        delay_s : float
            Least seconds between the starts of two requests (robots.txt's Crawl-delay).
        max_wait_s : float
            Longest wait for a host that asked for a pause or that has failed. The queue has a
            deadline of its own, `queue_limit_s`, and a queue of more than an hour is not joined.

        Raises
        ------
        FetchError
            Of kind ``timeout``, at once if the host's pause or queue is too long, and when the
            deadline in the queue has passed; of kind ``host_unavailable``, at once, if the host
            has failed too often.
        """
        queue = self._queue(host)
        max_wait_s -= await self._wait_for_own_circuit(host, queue, max_wait_s)
        if not queue.length and self._try_start(queue, delay_s) == START_NOW:
            yield 0.0
            return
        if any(trial.host == host and trial.active for trial in _TRIAL_SLOTS.get()):
            await self.wait_unqueued(host, delay_s=delay_s, max_wait_s=max_wait_s)
            yield 0.0
            return
        if is_queue_too_long(queue.length, delay_s):
            raise HostPaused(
                "timeout",
                f"{host} asks for {delay_s:g} s between requests, and {queue.length} are in line.",
            )
        with ExitStack() as stack:
            queued_at = self._clock()
            spacing_s = max(delay_s, queue.history.pause_s) * self._pacing.replicas
            limit_s = queue_limit_s(queue.length, spacing_s, max_wait_s)
            with waiting_for(f"a turn at {host}", limit_s + max_wait_s):
                await self._enter_queue(host, queue, stack, limit_s)
                queued_s = self._clock() - queued_at
                remaining_s = max(0.0, limit_s - queued_s)
                is_trial, spaced_s = await self._wait_for_start(
                    host, queue, delay_s, max_wait_s, remaining_s
                )
            if is_trial:
                # The requests of this task belong to the trial from now on, and the next request
                # starts after its end.
                trial = _TrialSlot(host)
                active = (slot for slot in _TRIAL_SLOTS.get() if slot.active)
                _TRIAL_SLOTS.set((*active, trial))
                stack.callback(trial.end)
            else:
                stack.close()
            yield queued_s + spaced_s

    async def wait_unqueued(self, host: str, *, delay_s: float = 0.0, max_wait_s: float) -> None:
        """Wait until a request that belongs to a page under way may start, outside the queue.

        Parameters
        ----------
        host : str
            The host.
        delay_s : float
            Least seconds since the last start of a request.
        max_wait_s : float
            Longest wait, for any reason.

        Raises
        ------
        FetchError
            At once, as `slot` does, if the wait would be longer.
        """
        queue = self._queues.get(host)
        if queue is None and delay_s <= 0:
            return  # A page may name any number of hosts: do not store unknown ones.
        queue = queue or self._queue(host)
        max_wait_s -= await self._wait_for_own_circuit(host, queue, max_wait_s)
        # The start times that queued requests reserve do not count.
        now = self._clock()
        while (decision := queue.history.decide(now, delay_s)).wait_s > 0:
            if decision.wait_s > max_wait_s:
                raise _host_paused(host, decision, queue.history)
            max_wait_s -= decision.wait_s
            with waiting_for(f"a pause of {host}", decision.wait_s):
                await self._sleep(decision.wait_s)
            now = self._clock()
        if decision == START_NOW:
            queue.history = queue.history.after_start(now)

    async def report_overload(self, host: str, retry_after_s: float | None = None) -> None:
        """Report an overload reply (429, 503). Without Retry-After it is also a failure."""
        policy, random_fraction = self._policy, self._random_fraction()
        self._change(
            host,
            lambda history, now: history.after_overload(
                now, retry_after_s, policy, random_fraction
            ),
        )

    async def report_failure(self, host: str) -> None:
        """Report a failure of one page. It slows nothing down; many in a row are an outage."""
        policy = self._policy
        self._change(host, lambda history, now: history.after_failure(now, policy))

    async def report_error_reply(self, host: str) -> None:
        """Report a server error (5xx) of one page.

        It counts for the account that requested the page, and for all accounts once the pages of
        another account have failed too: one account cannot make a host unavailable for others.
        """
        queue, account, now = self._queue(host), current_account(), self._clock()
        circuit = queue.circuits.get(account, CLOSED)
        queue.circuits[account] = circuit.after_failure(self._policy.breaker, now)
        if len(queue.failed_accounts) < _ACCOUNTS_OF_OUTAGE:
            queue.failed_accounts.add(account)
        if len(queue.failed_accounts) == _ACCOUNTS_OF_OUTAGE:
            await self.report_failure(host)

    async def report_success(self, host: str) -> None:
        """Report a successful reply."""
        queue = self._queues.get(host)
        if queue is not None:
            policy = self._policy
            self._change(host, lambda history, _: history.after_success(policy))
            queue.circuits.pop(current_account(), None)
            queue.failed_accounts.clear()

    def _change(self, host: str, change: HistoryChange) -> None:
        """Apply an event to the host's history, here and at the other processes."""
        queue = self._queue(host)
        before = queue.history
        queue.history = after = change(before, self._clock())
        if after is not before:
            urgent = after.state.is_prolonged(before.state)
            self._pacing.update(
                HOST + host,
                lambda state, now: change(HostHistory().with_state(state), now).state,
                urgent=urgent,
            )

    def _on_state(self, host: str, state: PacingState) -> None:
        """Take over what the processes know together."""
        if host not in self._queues and state == UNKNOWN:
            return
        queue = self._queue(host)
        queue.history = queue.history.with_state(state)

    def _queue(self, host: str) -> _HostQueue:
        queue = self._queues.get(host)
        if queue is None:
            if len(self._queues) >= _MAX_HOSTS:
                now = self._clock()
                self._queues = {
                    other: its_queue
                    for other, its_queue in self._queues.items()
                    if its_queue.length or not its_queue.history.is_idle(now)
                }
            queue = self._queues[host] = _HostQueue(StartSlots(HOST + host, self._pacing))
        return queue

    def _try_start(self, queue: _HostQueue, delay_s: float) -> StartDecision:
        now = self._clock()
        if self._pacing.is_shared:
            decision = _decide_shared(queue, now, delay_s)
        else:
            decision = queue.history.decide(now, delay_s)
        if decision == START_NOW:
            queue.history = queue.history.after_start(now)
            queue.slots.after_start()
        return decision

    async def _wait_for_own_circuit(self, host: str, queue: _HostQueue, max_wait_s: float) -> float:
        """Wait while the circuit of this task's account is open; return the seconds waited.

        The wait is outside the host's queue: requests of other accounts go past it.
        """
        circuit = queue.circuits.get(current_account(), CLOSED)
        open_s = circuit.remaining_s(self._clock())
        if not open_s:
            return 0.0
        history = replace(queue.history, circuit=circuit)
        decision = StartDecision(open_s, "circuit_open")
        if open_s > max_wait_s or history.must_give_up(decision):
            raise _host_paused(host, decision, history)
        with waiting_for(f"a pause of {host}", open_s):
            await self._sleep(open_s)
        return open_s

    async def _enter_queue(
        self, host: str, queue: _HostQueue, stack: ExitStack, limit_s: float
    ) -> None:
        """Acquire the host's gate, in the order of arrival, until `stack` is closed."""
        requests_ahead, queue.length = queue.length, queue.length + 1
        stack.callback(_leave_queue, queue)
        try:
            async with asyncio.timeout(limit_s):
                await queue.gate.acquire()
        except TimeoutError:
            raise _queue_timeout(host, limit_s, requests_ahead) from None
        stack.callback(queue.gate.release)

    async def _wait_for_start(
        self,
        host: str,
        queue: _HostQueue,
        delay_s: float,
        max_wait_s: float,
        max_spacing_s: float,
    ) -> tuple[bool, float]:
        """Wait until a request may start; return whether it is a trial, and its spacing."""
        spaced_s = 0.0
        while (decision := self._try_start(queue, delay_s)).wait_s > 0:
            if decision == UNRESERVED:
                started = self._clock()
                await queue.slots.reserve(max(delay_s, queue.history.pause_s))
                spaced_s += self._clock() - started
                continue
            sleep_s = decision.wait_s
            if self._pacing.is_shared:
                sleep_s = min(sleep_s, _MAX_SLEEP_S)
            if decision.reason != "spacing":
                if decision.wait_s > max_wait_s or queue.history.must_give_up(decision):
                    raise _host_paused(host, decision, queue.history)
                max_wait_s -= sleep_s
            else:
                if spaced_s + decision.wait_s > max_spacing_s:
                    raise _queue_timeout(host, max_spacing_s, 0)
                spaced_s += sleep_s
            await self._sleep(sleep_s)
        if decision.is_trial:
            queue.history = queue.history.after_start(self._clock())
            queue.slots.after_start()
        return decision.is_trial, spaced_s


def _decide_shared(queue: _HostQueue, now: float, delay_s: float) -> StartDecision:
    """Decide with the start times that this process has reserved."""
    decision, interval_s = queue.history.decide_unspaced(now), max(delay_s, queue.history.pause_s)
    if decision.wait_s > 0 or interval_s < SHORTEST_INTERVAL_S:
        return decision
    wait_s = queue.slots.wait_s(now, queue.history.last_start, interval_s)
    if wait_s is None:
        return UNRESERVED
    return StartDecision(wait_s, "spacing") if wait_s > 0 else decision


def _leave_queue(queue: _HostQueue) -> None:
    queue.length -= 1


def _queue_timeout(host: str, waited_s: float, requests_ahead: int) -> HostPaused:
    return HostPaused(
        "timeout",
        f"{host} had no turn for this page within {math.ceil(waited_s)} s; "
        f"{requests_ahead} were ahead.",
    )


def _host_paused(host: str, decision: StartDecision, history: HostHistory) -> HostPaused:
    # Rounded up: what is left is never "0 s".
    pause = f"no request is sent to it for another {math.ceil(decision.wait_s)} s"
    if decision.reason == "circuit_open":
        failures = history.circuit.failures
        return HostPaused("host_unavailable", f"{host} failed {failures} times in a row; {pause}.")
    if decision.reason == "retry_after":
        return HostPaused("timeout", f"{host} asked for a pause; {pause}.")
    return HostPaused("timeout", f"{host} was overloaded; {pause}.")
