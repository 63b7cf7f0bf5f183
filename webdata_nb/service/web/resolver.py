"""Names to addresses: looked up once a minute, and every address checked before any is dialled."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from webdata_nb.service.errors import FetchError, NameServerSilent, Refused
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore, current_account

if TYPE_CHECKING:
    from webdata_nb.service.web.egress_policy import EgressPolicy

Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""Gives a host's addresses, or raises OSError (or UnicodeError) when it has none."""

CACHE_S: Final = 60.0
"""How long an answer is used again, a failure too."""
LOOKUP_TIMEOUT_S: Final = 10.0
"""How long one lookup may take."""
QUEUE_S: Final = 30.0
"""How long a lookup may wait for its start, behind other lookups of the same account."""
_MAX_CACHED: Final = 10_000
_THREADS: Final = 16
# For accounts without a lookup under way: names whose servers are silent hold threads for long.
_SPARE_THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class _LookupResult:
    until: float
    addresses: tuple[str, ...] = ()
    problem: str | None = None
    silent: bool = False


class Resolver(AbstractResolver):
    """Resolves host names under an egress policy.

    Parameters
    ----------
    policy : EgressPolicy
        A host is refused when any of its addresses is.
    lookup : callable, optional
        Gives the addresses of a host; by default the operating system is asked.
    clock : callable, optional
        Monotonic time in seconds.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        lookup: Lookup | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._lookup: Lookup = _ask_system if lookup is None else lookup
        self._clock = clock
        self._cache: dict[str, _LookupResult] = {}
        self._free = FairSemaphore(_THREADS, spare=_SPARE_THREADS)
        # By account and host: nobody waits for a lookup in another account's queue.
        self._lookups: dict[tuple[str, str], asyncio.Task[_LookupResult]] = {}

    async def addresses(self, host: str, port: int) -> tuple[str, ...]:
        """Give the addresses of a host, all of them allowed for this port.

        Raises
        ------
        FetchError
            Of kind ``dns``, when the name has no address or none was learnt in time. In ``team``
            mode also when an address is not allowed, in the words for a name without an address.
        Refused
            When one of the addresses is not allowed, in ``local`` mode.
        """
        answer = await self._answer(host)
        if answer.problem is not None:
            if answer.silent:
                raise NameServerSilent(answer.problem)
            raise FetchError("dns", answer.problem)
        self._check(host, answer, port)
        return answer.addresses

    async def check_known(self, host: str, port: int) -> None:
        """Refuse a name as `addresses` does, but not one that this host does not know.

        For requests by way of an upstream proxy, which looks names up itself.
        """
        self._check(host, await self._answer(host), port)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Answer aiohttp's connector, which dials nothing but what this gives."""
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in await self.addresses(host, port)
        ]

    async def close(self) -> None:
        """Give up the lookups under way."""
        asking = list(self._lookups.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _check(self, host: str, answer: _LookupResult, port: int) -> None:
        try:
            for address in answer.addresses:
                self._policy.check_address(address, port)
        except Refused:
            if self._policy.mode == "local":
                raise
            # Otherwise anybody could learn which names an inner network knows.
            raise FetchError("dns", _no_address(host)) from None

    async def _answer(self, host: str) -> _LookupResult:
        if (kept := self._cached(host)) is not None:
            return kept
        key = (current_account(), host)
        task = self._lookups.get(key)
        if task is None:
            task = self._lookups[key] = asyncio.create_task(self._ask(key))
        # Others may be waiting for the same name, so one caller's cancellation must not end it.
        return await asyncio.shield(task)

    async def _ask(self, key: tuple[str, str]) -> _LookupResult:
        _, host = key
        try:
            if not await self._may_start():
                said = f"The lookup of {host!r} did not start within {QUEUE_S:g} s; try later."
                return _LookupResult(self._clock(), problem=said, silent=True)
            try:
                return self._cached(host) or self._store(host, await self._look_up(host))
            finally:
                self._free.release()
        finally:
            del self._lookups[key]

    async def _may_start(self) -> bool:
        """Wait for a place among the lookups; tell whether there was one in time."""
        try:
            async with asyncio.timeout(QUEUE_S):
                await self._free.acquire()
        except TimeoutError:
            return False
        return True

    def _cached(self, host: str) -> _LookupResult | None:
        kept = self._cache.get(host)
        return kept if kept is not None and self._clock() < kept.until else None

    def _store(self, host: str, answer: _LookupResult) -> _LookupResult:
        self._cache.pop(host, None)
        self._cache[host] = answer
        if len(self._cache) > _MAX_CACHED:
            del self._cache[next(iter(self._cache))]
        return answer

    async def _look_up(self, host: str) -> _LookupResult:
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                found = tuple(dict.fromkeys(await self._lookup(host)))
        except TimeoutError:
            said = f"The name server gave no answer for {host!r} within {LOOKUP_TIMEOUT_S:g} s."
            return _LookupResult(self._until(), problem=said, silent=True)
        except (OSError, UnicodeError) as exc:
            why = self._unknown(host, f"could not be found ({_reason(exc)})")
            return _LookupResult(self._until(), problem=why)
        if not found:
            return _LookupResult(self._until(), problem=self._unknown(host, "has no address"))
        return _LookupResult(self._until(), found)

    def _until(self) -> float:
        return self._clock() + CACHE_S

    def _unknown(self, host: str, problem: str) -> str:
        """Say that a name leads nowhere: why, is told to the owner of a local service alone."""
        if self._policy.mode == "local":
            return f"The host {host!r} {problem}."
        return _no_address(host)


async def _ask_system(host: str) -> Sequence[str]:
    """Ask the operating system's resolver in a daemon thread.

    Python waits for an executor's threads when it exits, and a silent name server would delay
    the exit.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()
    threading.Thread(
        target=_answer, args=(loop, answer, host), name="webdata-dns", daemon=True
    ).start()
    return await answer


def _answer(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[list[str]], host: str) -> None:
    """Look a name up and hand the outcome to the loop, unless nobody waits for it any more."""
    try:
        settle = partial(_settle, answer, _system_addresses(host), None)
    except (OSError, UnicodeError) as exc:
        settle = partial(_settle, answer, [], exc)
    with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
        loop.call_soon_threadsafe(settle)


def _settle(
    answer: asyncio.Future[list[str]], addresses: list[str], error: Exception | None
) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(addresses)
    else:
        answer.set_exception(error)


def _system_addresses(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _no_address(host: str) -> str:
    return (
        f"The host {host!r} has no address that this service may reach: its name cannot be "
        "resolved, or the network policy does not allow where it leads."
    )


def _reason(exc: OSError | UnicodeError) -> str:
    return exc.strerror if isinstance(exc, OSError) and exc.strerror else "it is no host name"
