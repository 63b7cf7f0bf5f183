"""Accounts for the proxy access of one rendered page: credential, connections, traffic."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import UrlParts
from webdata_nb.service.runtime.fair_scheduler import current_account
from webdata_nb.service.web.subresource_throttle import SubresourceThrottle

_MIB: Final = 1024 * 1024
_MAX_REFUSALS: Final = 1000


@dataclass(frozen=True, slots=True)
class TrafficLimits:
    """Limits of the traffic of one rendered page.

    Attributes
    ----------
    connections : int
        Open connections.
    requests : int
        Requests in all. For TLS, which the proxy does not read, connections are counted.
    wire_bytes : int
        Bytes in both directions together.
    idle_s : float
        Seconds without a byte in either direction after which a connection is closed.
    """

    connections: int = 64
    requests: int = 1000
    wire_bytes: int = 64 * _MIB
    idle_s: float = 30.0


class ProxySession:
    """The proxy access of one page: its credential and its traffic.

    Attributes
    ----------
    username, password : str
        The credential, valid for this page alone.
    account : str
        The account that the page belongs to.
    limits : TrafficLimits
        The limits of its traffic.
    wire_bytes : int
        Bytes relayed so far.
    refusals : dict of (str, int) to FetchError
        Hosts and ports that the egress policy forbade, or whose names have no address.
    subresource_throttle : SubresourceThrottle, optional
        Delays the page's requests.
    """

    def __init__(
        self, limits: TrafficLimits, subresource_throttle: SubresourceThrottle | None = None
    ) -> None:
        self.subresource_throttle = subresource_throttle
        self.username = secrets.token_hex(8)
        self.password = secrets.token_urlsafe(32)
        self.account = current_account()
        self.limits = limits
        self.wire_bytes = 0
        self.refusals: dict[tuple[str, int], FetchError] = {}
        self._request_count = 0
        self._tasks: set[asyncio.Task[object]] = set()

    def add_traffic(self, byte_count: int) -> None:
        """Account for relayed bytes.

        Raises
        ------
        FetchError
            Of kind ``too_large``, beyond the page's limit.
        """
        self.wire_bytes += byte_count
        if self.wire_bytes > self.limits.wire_bytes:
            raise FetchError("too_large", "The page's traffic is more than a page may have.")

    def add_refusal(self, target: UrlParts, failure: FetchError) -> None:
        """Record a target that was not connected to, up to a bound."""
        if len(self.refusals) < _MAX_REFUSALS:
            self.refusals[target.host, target.port] = failure

    @contextlib.contextmanager
    def connection(self) -> Iterator[bool]:
        """Count the current task as a connection of the page; yield False beyond its limits."""
        task = asyncio.current_task()
        self._request_count += 1
        too_many = self._request_count > self.limits.requests
        if task is None or too_many or len(self._tasks) >= self.limits.connections:
            yield False
            return
        self._tasks.add(task)
        try:
            yield True
        finally:
            self._tasks.discard(task)

    def close(self) -> None:
        """Close all connections of the page."""
        for task in self._tasks:
            task.cancel()
