"""Resolves host names with a cache, and checks every address against the egress policy."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp.abc import AbstractResolver, ResolveResult

from webdata_nb.page.errors import FetchError
from webdata_nb.service.errors import EgressDenied, NameServerTimeout
from webdata_nb.service.runtime.bounded_dict import BoundedDict
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore, current_account
from webdata_nb.service.runtime.work_threads import run_on_thread

if TYPE_CHECKING:
    from webdata_nb.service.web.egress_policy import EgressPolicy

Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""Returns a host's addresses; raises OSError or UnicodeError if it has none."""

CACHE_S: Final = 60.0
"""Seconds for which a result is cached, also a failure."""
LOOKUP_TIMEOUT_S: Final = 10.0
"""Deadline of one lookup."""
QUEUE_S: Final = 30.0
"""Longest wait for the start of a lookup, behind other lookups of the same account."""
_MAX_CACHED: Final = 10_000
_THREADS: Final = 16
# For accounts without a lookup under way, since silent name servers occupy threads for long.
_SPARE_THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class _LookupResult:
    expires_at: float
    addresses: tuple[str, ...] = ()
    problem: str | None = None
    timed_out: bool = False


class Resolver(AbstractResolver):
    """Resolves host names under an egress policy.

    Parameters
    ----------
    policy : EgressPolicy
        A host is refused if any of its addresses is.
    lookup : callable, optional
        Resolves host names; by default the operating system does.
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
        self._lookup: Lookup = _look_up_in_system if lookup is None else lookup
        self._clock = clock
        self._cache = BoundedDict[str, _LookupResult](_MAX_CACHED)
        self._free = FairSemaphore(_THREADS, spare=_SPARE_THREADS)
        # By account and host: a lookup never waits in the queue of another account.
        self._lookups: dict[tuple[str, str], asyncio.Task[_LookupResult]] = {}

    async def addresses(self, host: str, port: int) -> tuple[str, ...]:
        """Return the addresses of a host, all of which are allowed for the port.

        Raises
        ------
        FetchError
            Of kind ``dns``, if the name has no address or the lookup times out. In ``team`` mode
            also if an address is forbidden, with the message for a name without an address.
        EgressDenied
            One of the addresses is forbidden, in ``local`` mode.
        """
        result = await self._cached_lookup(host)
        if result.problem is not None:
            if result.timed_out:
                raise NameServerTimeout(result.problem)
            raise FetchError("dns", result.problem)
        self._check(host, result, port)
        return result.addresses

    async def known_addresses(self, host: str, port: int) -> tuple[str, ...]:
        """Return the addresses of a host as `addresses` does; none if this host does not know it.

        For requests through an upstream proxy, which resolves names itself.
        """
        result = await self._cached_lookup(host)
        self._check(host, result, port)
        return result.addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a host for aiohttp's connector, which connects only to these addresses."""
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in await self.addresses(host, port)
        ]

    async def close(self) -> None:
        """Cancel the lookups under way."""
        lookups = list(self._lookups.values())
        for task in lookups:
            task.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)

    def _check(self, host: str, result: _LookupResult, port: int) -> None:
        try:
            for address in result.addresses:
                self._policy.check_address(address, port)
        except EgressDenied:
            if self._policy.mode == "local":
                raise
            # A different message would reveal which names an internal network knows.
            raise FetchError("dns", _no_address_message(host)) from None

    async def _cached_lookup(self, host: str) -> _LookupResult:
        if (cached := self._cached(host)) is not None:
            return cached
        key = (current_account(), host)
        task = self._lookups.get(key)
        if task is None:
            task = self._lookups[key] = asyncio.create_task(self._look_up_and_cache(key))
        # Other callers may wait for the same name, so the cancellation of one must not cancel it.
        return await asyncio.shield(task)

    async def _look_up_and_cache(self, key: tuple[str, str]) -> _LookupResult:
        _, host = key
        try:
            try:
                async with asyncio.timeout(QUEUE_S):
                    await self._free.acquire()
            except TimeoutError:
                message = f"The lookup of {host!r} did not start within {QUEUE_S:g} s; try later."
                return _LookupResult(self._clock(), problem=message, timed_out=True)
            try:
                result = self._cached(host)
                if result is None:
                    result = self._cache[host] = await self._look_up(host)
                return result
            finally:
                self._free.release()
        finally:
            del self._lookups[key]

    def _cached(self, host: str) -> _LookupResult | None:
        result = self._cache.get(host)
        return result if result is not None and self._clock() < result.expires_at else None

    async def _look_up(self, host: str) -> _LookupResult:
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                addresses = tuple(dict.fromkeys(await self._lookup(host)))
        except TimeoutError:
            message = f"The name server gave no answer for {host!r} within {LOOKUP_TIMEOUT_S:g} s."
            return _LookupResult(self._expiry(), problem=message, timed_out=True)
        except (OSError, UnicodeError) as exc:
            system_reason = exc.strerror if isinstance(exc, OSError) else None
            reason = system_reason or "it is not a host name"
            message = self._unknown_host_message(host, f"could not be found ({reason})")
            return _LookupResult(self._expiry(), problem=message)
        if not addresses:
            return _LookupResult(
                self._expiry(), problem=self._unknown_host_message(host, "has no address")
            )
        return _LookupResult(self._expiry(), addresses)

    def _expiry(self) -> float:
        return self._clock() + CACHE_S

    def _unknown_host_message(self, host: str, problem: str) -> str:
        """Return the message for an unknown name. Only a local service states the reason."""
        if self._policy.mode == "local":
            return f"The host {host!r} {problem}."
        return _no_address_message(host)


def _look_up_in_system(host: str) -> Awaitable[Sequence[str]]:
    """Resolve a name with the operating system, whose name server may be silent."""
    return run_on_thread(partial(_system_addresses, host))


def _system_addresses(host: str) -> list[str]:
    entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in entries]


def _no_address_message(host: str) -> str:
    return (
        f"The host {host!r} has no address that this service may reach: its name cannot be "
        "resolved, or the network policy does not allow where it leads."
    )
