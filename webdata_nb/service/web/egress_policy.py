"""Decides which URLs and addresses the service may send requests to (SSRF protection).

Addresses are public, cloud metadata or local by an explicit table: the IANA special-purpose
registries, the metadata addresses of clouds, and the IPv6 forms that embed an IPv4 address. The
answers of Python's `ipaddress` change with its version.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final, Literal

from webdata_nb.page.urls import UrlParts, split_url
from webdata_nb.service.errors import EgressDenied

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NETWORKS: Final = tomllib.loads(Path(__file__).with_name("networks.toml").read_text("utf-8"))
_SPECIAL_NETWORKS = tuple(map(ip_network, _NETWORKS["special"]))
_METADATA_NETWORKS = tuple(map(ip_network, _NETWORKS["metadata"]))
_THIS_HOST_NETWORKS = tuple(map(ip_network, ("0.0.0.0/8", "127.0.0.0/8", "::/128", "::1/128")))
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
_LOW_32 = (  # prefixes whose last 32 bits are an IPv4 address
    IPv6Network("::/96"),
    IPv6Network("::ffff:0:0/96"),
    IPv6Network("::ffff:0:0:0/96"),
    _NAT64,
)
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")
_RFC6052_BYTES = (  # where RFC 6052 puts the IPv4 bytes, by length of the prefix
    (6, 7, 9, 10),
    (7, 9, 10, 11),
    (9, 10, 11, 12),
    (12, 13, 14, 15),
)


@dataclass(frozen=True, slots=True)
class AddressClass:
    """The properties of one address that the egress policy needs.

    Attributes
    ----------
    address : IPv4Address or IPv6Address
        The address that a connection reaches: the IPv4 address of an IPv4-mapped one.
    public : bool
        Global unicast, as ordinary web servers have.
    metadata : bool
        A cloud metadata address, which returns credentials, or one that embeds such an address.
    this_host : bool
        Loopback or unspecified (which connects to loopback), or one that embeds such an address.
    """

    address: Address
    public: bool
    metadata: bool
    this_host: bool


def is_ip_address(host: str) -> bool:
    """Return whether a canonical host is an IP address and not a name."""
    # A canonical IPv4 address ends in a digit and an IPv6 address has a colon; names skip parsing.
    if not host[-1].isdigit() and ":" not in host:
        return False
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=8192)
def classify_address(ip: str) -> AddressClass:
    """Look up an address in the table.

    Raises
    ------
    ValueError
        The text is not an IP address.
    """
    address: Address = ip_address(ip.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    embedded = embedded_ipv4_addresses(address)
    addresses = (address, *embedded)
    return AddressClass(
        address,
        public=_is_public(address, embedded),
        metadata=any(_is_in(candidate, _METADATA_NETWORKS) for candidate in addresses),
        this_host=any(_is_in(candidate, _THIS_HOST_NETWORKS) for candidate in addresses),
    )


def embedded_ipv4_addresses(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address may embed, by any known scheme."""
    if isinstance(address, IPv4Address):
        return ()
    raw = address.packed
    embedded = []
    if any(address in prefix for prefix in _LOW_32) or raw[8:12] in _ISATAP:
        embedded.append(raw[12:])
    if address.sixtofour is not None:
        embedded.append(address.sixtofour.packed)
    if address.teredo is not None:
        embedded.extend(part.packed for part in address.teredo)
    if address in _NAT64_LOCAL:
        embedded.extend(bytes(raw[index] for index in places) for places in _RFC6052_BYTES)
    return tuple(map(IPv4Address, embedded))


def _is_public(address: Address, embedded: tuple[IPv4Address, ...]) -> bool:
    if _is_in(address, _SPECIAL_NETWORKS):
        return False
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        # Networks without IPv4 reach public IPv4 servers through the well-known prefix of NAT64.
        return address in _NAT64 and _is_public(embedded[0], ())
    return all(_is_public(part, ()) for part in embedded)


def _is_in(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)


_LOCAL_NETWORKS = tuple(
    ip_network(text)
    for text in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "::1/128",
        "fc00::/7",
    )
)
_LOCAL_SUFFIXES = (".localhost", ".local", ".lan", ".internal", ".home.arpa")


def is_local_host(host: str) -> bool:
    """Return whether a host is this machine or one of its local network, without a lookup.

    Local names are those without a dot and those with the suffix of a local network.

    Examples
    --------
    >>> [is_local_host(host) for host in ("localhost", "192.168.0.4", "searxng", "example.com")]
    [True, True, True, False]
    """
    name = host.rstrip(".").lower()
    try:
        address = ip_address(name)
    except ValueError:
        return bool(name) and ("." not in name or name.endswith(_LOCAL_SUFFIXES))
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return any((mapped or address) in network for network in _LOCAL_NETWORKS)


EgressMode = Literal["local", "team"]

_BAD_PORTS: Final = """
    1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113
    115 117 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554
    556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665
    6666 6667 6668 6669 6679 6697 10080
"""
"""The "bad ports" of the Fetch standard: a request there could be read as another protocol."""
_DATA_SERVICE_PORTS: Final = """
    1433 1521 2181 2375 2376 2377 2379 2380 3260 3306 3389 4369 5432 5671 5672 5900 5984 5985 5986
    6379 6380 6443 7199 8086 8500 8600 9042 9092 9160 9200 9300 10250 10255 10256 11211 15672 25672
    26379 27017 27018 27019 28015 29015
"""
"""Ports of databases, queues, caches, container and cluster control."""
_FORBIDDEN_PORTS: Final = frozenset(map(int, _BAD_PORTS.split()))
_FORBIDDEN_PORTS_IN_TEAM_MODE: Final = frozenset(map(int, _DATA_SERVICE_PORTS.split()))
_PRIVILEGED_WEB_PORTS: Final = frozenset((80, 443))
_FIRST_UNPRIVILEGED_PORT: Final = 1024

_ADDRESS_REFUSED: Final = "The network policy of this service does not allow that address."


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Which URLs and addresses may be fetched.

    Parameters
    ----------
    mode : {"local", "team"}
        ``local``: a service for one person's own machine; private addresses are allowed.
        ``team``: a shared service; every address that is not public is refused.
    allowed_networks : tuple of IPv4Network or IPv6Network
        Networks that ``team`` allows although they are not public.
    own_port : int, optional
        The service's own port, never fetched from this host's own addresses.

    Notes
    -----
    Cloud metadata addresses, and IPv6 addresses that embed one, are refused in both modes, also
    inside an allowed network.

    Examples
    --------
    >>> EgressPolicy("team").check_address("93.184.215.14", 443)
    >>> EgressPolicy("team").check_address("10.0.0.1", 80)
    Traceback (most recent call last):
        ...
    webdata_nb.service.errors.EgressDenied: The network policy of this service does not ...
    """

    mode: EgressMode
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    own_port: int | None = None

    def check_url(self, url: str) -> None:
        """Refuse a URL by its scheme, credentials, port or address, without a lookup.

        `localhost` and the names below it stand for this host's own address.

        Raises
        ------
        FetchError
            Of kind ``bad_url``, if the text is not an http or https URL.
        EgressDenied
            The URL contains a user name or password, or a port or an address that is not
            allowed.
        """
        target = split_url(url)
        self.check_parts(target)
        addresses = _literal_addresses(target.host)
        if addresses and not any(self._is_allowed(address, target.port) for address in addresses):
            raise EgressDenied(_ADDRESS_REFUSED)

    def check_parts(self, url: UrlParts) -> None:
        """Refuse a URL by its credentials or port."""
        if url.has_credentials:
            raise EgressDenied(
                "A URL with a user name or password in it is not fetched; "
                "send the credentials as a header instead."
            )
        if not self._is_port_allowed(url.port):
            raise EgressDenied(f"Port {url.port} is not one that pages are fetched from.")

    def check_address(self, ip: str, port: int) -> None:
        """Refuse a forbidden address, without information about what it belongs to.

        Raises
        ------
        EgressDenied
            The address is forbidden.
        """
        if not self._is_allowed(ip, port):
            raise EgressDenied(_ADDRESS_REFUSED)

    def _is_port_allowed(self, port: int) -> bool:
        if port == 0 or port in _FORBIDDEN_PORTS:
            return False
        if self.mode == "local":
            return True
        if port < _FIRST_UNPRIVILEGED_PORT:
            return port in _PRIVILEGED_WEB_PORTS
        return port not in _FORBIDDEN_PORTS_IN_TEAM_MODE

    def _is_allowed(self, ip: str, port: int) -> bool:
        try:
            address_class = classify_address(ip)
        except ValueError:
            return False
        if address_class.metadata or (address_class.this_host and port == self.own_port):
            return False
        if self.mode == "local" or address_class.public:
            return True
        return any(address_class.address in network for network in self.allowed_networks)


def _literal_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses of a host that needs no lookup: an address, or `localhost`."""
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return ("127.0.0.1", "::1")
    try:
        classify_address(host)
    except ValueError:
        return ()
    return (host,)
