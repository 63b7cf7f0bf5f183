"""Counts the connections of each address and the requests of each account, and limits them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

PER_ADDRESS: Final = 256
PER_ACCOUNT: Final = 256
LOOPBACK: Final = (ip_network("127.0.0.1/32"), ip_network("::1/128"))
LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
# The smallest IPv6 network that providers assign to one customer.
_IPV6_PREFIX: Final = 64


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits of a client, and the trusted proxies.

    Attributes
    ----------
    per_address
        Most connections of one address, or active requests behind a proxy.
    per_account
        Most active requests of one account, including event streams.
    trusted_proxies
        Networks whose `X-Forwarded-For` is trusted. Their addresses have no limit.
    """

    per_address: int = PER_ADDRESS
    per_account: int = PER_ACCOUNT
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = LOOPBACK

    def trusts(self, host: str) -> bool:
        """Whether a peer is a trusted proxy."""
        try:
            address = ip_address(host)
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(
            address.version == network.version and address in network
            for network in self.trusted_proxies
        )


@lru_cache(maxsize=4096)
def address_of(host: str) -> str:
    """Return the key of a client: its IPv4 address, or its /64 network of IPv6.

    Examples
    --------
    >>> address_of("192.0.2.7"), address_of("::ffff:192.0.2.7"), address_of("2001:db8::1:2:3:4")
    ('192.0.2.7', '192.0.2.7', '2001:db8::/64')
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host[:64]
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, _IPV6_PREFIX), strict=False))


def concurrency_headers(limit: int, active: int, *, retry_after_s: int = 1) -> dict[str, str]:
    """Return the headers of a 429: how many requests or jobs are allowed and active at once."""
    return {
        "Retry-After": str(retry_after_s),
        "X-Concurrency-Limit": str(limit),
        "X-Concurrency-Active": str(active),
    }


class TooManyRequests(Exception):
    """A client has reached its number of active requests."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class RequestCounter:
    """Counts active requests by client, up to `limit` each."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._active: Counter[str] = Counter()

    @contextmanager
    def count(self, client: str) -> Iterator[None]:
        """Count a request while the context is open. Raises `TooManyRequests`."""
        if self._active.get(client, 0) >= self._limit:
            raise TooManyRequests(self._limit)
        self._active[client] += 1
        try:
            yield
        finally:
            self._active[client] -= 1
            if not self._active[client]:
                del self._active[client]
