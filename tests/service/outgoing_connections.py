"""Records the addresses that this process connects to, with an audit hook."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

_RECORDINGS: Final[list[set[str]]] = []
_INTERNET: Final = (2, 4)  # the length of an address of IPv4, and of IPv6


def _note(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _RECORDINGS:
        address = args[1]
        if isinstance(address, tuple) and len(address) in _INTERNET:
            for addresses in _RECORDINGS:
                addresses.add(_plain_address(str(address[0])))


def _plain_address(text: str) -> str:
    """Return an address as it is written shortest, an IPv4-mapped one as what it maps."""
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


# An audit hook cannot be taken away again, so there is one, which mostly does nothing.
sys.addaudithook(_note)


@contextmanager
def record_connections() -> Iterator[set[str]]:
    """Give the addresses that were connected to, or tried, while the block runs."""
    addresses: set[str] = set()
    _RECORDINGS.append(addresses)
    try:
        yield addresses
    finally:
        # By identity: sets that heard the same are equal.
        _RECORDINGS[:] = [each for each in _RECORDINGS if each is not addresses]
