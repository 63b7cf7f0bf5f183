"""Classifies IP addresses as public, cloud metadata or local, with an explicit table.

The table holds the IANA special-purpose registries, the metadata addresses of clouds, and the
IPv6 forms that embed an IPv4 address. The answers of Python's `ipaddress` change with its version.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SPECIAL = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by carriers' NAT"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "Azure's platform service"),
    ("169.254.0.0/16", "link-local, cloud metadata"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "IETF protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112 name service sink"),
    ("192.52.193.0/24", "automatic multicast tunnels"),
    ("192.88.99.0/24", "6to4 relays, deprecated"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "AS112 name service sink"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved, and the broadcast address"),
    ("::/96", "unspecified, loopback, IPv4-compatible"),
    ("::ffff:0:0:0/96", "IPv4-translated (SIIT)"),
    ("64:ff9b:1::/48", "NAT64 of a local network"),
    ("100::/64", "discard only"),
    ("100:0:0:1::/64", "dummy prefix"),
    ("2001::/23", "IETF protocol assignments: Teredo, ORCHID, benchmarking"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "AS112 name service sink"),
    ("3ffe::/16", "the former 6bone"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local, deprecated"),
    ("ff00::/8", "multicast"),
)
_METADATA = (
    ("169.254.0.0/16", "AWS, Azure, Google, DigitalOcean and most others"),
    ("168.63.129.16/32", "Azure's platform service"),
    ("192.0.0.192/32", "Oracle"),
    ("100.100.100.200/32", "Alibaba"),
    ("fd00:ec2::/32", "AWS: metadata, container credentials, time, names"),
    ("fd20:ce::254/128", "Google"),
    ("fd00:c1::a9fe:a9fe/128", "Oracle"),
    ("fd00:42::42/128", "Scaleway"),
    ("fd00:a9fe:a9fe::1/128", "Akamai (Linode)"),
    ("fe80::a9fe:a9fe/128", "OpenStack"),
)
_SPECIAL_NETWORKS = tuple(ip_network(block) for block, _ in _SPECIAL)
_METADATA_NETWORKS = tuple(ip_network(block) for block, _ in _METADATA)
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
