"""How much one client may have open at a time: connections by address, requests by account.

No I/O: the connections themselves are `service.connections`'.
"""

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
# What one host has of IPv6: the smallest network that is handed out.
_IPV6_PREFIX: Final = 64


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What a client may have open, and which peers speak for others.

    Attributes
    ----------
    per_address
        Connections of one address, or requests under way for it behind a proxy.
    per_account
        Requests under way of one account, event streams among them.
    trusted_proxies
        Networks whose `X-Forwarded-For` names the client. Their own addresses have no limit.
    """

    per_address: int = PER_ADDRESS
    per_account: int = PER_ACCOUNT
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = LOOPBACK

    def trusts(self, host: str) -> bool:
        """Whether a peer is one of the proxies."""
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
    """Return what stands for one client: an IPv4 address, or a /64 network of IPv6.

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


class TooManyRequests(Exception):
    """A client has as many requests under way as it may."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most


class RequestCounter:
    """Counts requests under way by client; `most` for each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, client: str) -> Iterator[None]:
        """Count a request while it is under way. Raises `TooManyRequests`."""
        if self._open.get(client, 0) >= self._most:
            raise TooManyRequests(self._most)
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]
