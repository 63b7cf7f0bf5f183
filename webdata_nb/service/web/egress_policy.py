"""Where the service may send requests: one policy for pages, links, redirects and callbacks."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Final, Literal

from webdata_nb.service.errors import Refused
from webdata_nb.service.web.addresses import classify_address
from webdata_nb.service.web.urls import UrlParts, split_url

EgressMode = Literal["local", "team"]

_OTHER_PROTOCOLS: Final = """
    1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113
    115 117 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554
    556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665
    6666 6667 6668 6669 6679 6697 10080
"""
"""The Fetch standard's "bad ports": a request there can be made to speak another protocol."""
_DATA_SERVICES: Final = """
    1433 1521 2181 2375 2376 2377 2379 2380 3260 3306 3389 4369 5432 5671 5672 5900 5984 5985 5986
    6379 6380 6443 7199 8086 8500 8600 9042 9092 9160 9200 9300 10250 10255 10256 11211 15672 25672
    26379 27017 27018 27019 28015 29015
"""
"""Databases, queues, caches, container and cluster control: no page is served from there."""
_NEVER: Final = frozenset(map(int, _OTHER_PROTOCOLS.split()))
_NEVER_FOR_A_TEAM: Final = frozenset(map(int, _DATA_SERVICES.split()))
_WELL_KNOWN_WEB: Final = frozenset((80, 443))
_FIRST_UNPRIVILEGED: Final = 1024

_ADDRESS_REFUSED: Final = "The network policy of this service does not allow that address."


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What may be fetched.

    Parameters
    ----------
    mode : {"local", "team"}
        ``local``: a service for one person's own machine; private addresses are allowed.
        ``team``: a shared service; every address that is not public is refused.
    allowed_networks : tuple of IPv4Network or IPv6Network
        Networks that ``team`` admits although they are not public.
    own_port : int, optional
        The service's own port, never fetched from this host's own addresses.

    Notes
    -----
    Cloud metadata addresses are refused in both modes, inside an admitted network too, and so
    are the IPv6 forms that carry one.

    Examples
    --------
    >>> EgressPolicy("team").check_address("93.184.215.14", 443)
    >>> EgressPolicy("team").check_address("10.0.0.1", 80)
    Traceback (most recent call last):
        ...
    webdata_nb.service.errors.Refused: The network policy of this service does not ...
    """

    mode: EgressMode
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    own_port: int | None = None

    def check_url(self, url: str) -> None:
        """Refuse what no lookup is needed to refuse: scheme, credentials, port, and address.

        `localhost` and the names below it mean this host's own address, whoever is asked.

        Raises
        ------
        FetchError
            Of kind ``bad_url``, when the text is no http or https URL.
        Refused
            When the URL carries a user name or password, or names a port or an address that is
            not allowed.
        """
        there = split_url(url)
        self.check_parts(there)
        written = _written_addresses(there.host)
        if written and not any(self._address_allowed(each, there.port) for each in written):
            raise Refused(_ADDRESS_REFUSED)

    def check_parts(self, url: UrlParts) -> None:
        """Do as `check_url` does, for a URL already taken apart."""
        if url.has_credentials:
            raise Refused(
                "A URL with a user name or password in it is not fetched; "
                "send the credentials as a header instead."
            )
        if not self._port_allowed(url.port):
            raise Refused(f"Port {url.port} is not one that pages are fetched from.")

    def check_address(self, ip: str, port: int) -> None:
        """Refuse an address that the policy forbids, without a word on what is behind it.

        Raises
        ------
        Refused
            When the address may not be dialled.
        """
        if not self._address_allowed(ip, port):
            raise Refused(_ADDRESS_REFUSED)

    def _port_allowed(self, port: int) -> bool:
        if port == 0 or port in _NEVER:
            return False
        if self.mode == "local":
            return True
        if port < _FIRST_UNPRIVILEGED:
            return port in _WELL_KNOWN_WEB
        return port not in _NEVER_FOR_A_TEAM

    def _address_allowed(self, ip: str, port: int) -> bool:
        try:
            found = classify_address(ip)
        except ValueError:
            return False
        if found.metadata or (found.this_host and port == self.own_port):
            return False
        if self.mode == "local" or found.public:
            return True
        return any(found.address in network for network in self.allowed_networks)


def _written_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses that a host means without a lookup: its own, or those of `localhost`."""
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return ("127.0.0.1", "::1")
    try:
        classify_address(host)
    except ValueError:
        return ()
    return (host,)
