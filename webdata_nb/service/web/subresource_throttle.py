"""Throttles the subresources of a rendered page, which share the pauses of pages, not their queue.

A page's slot at its host covers its subresources: they do not queue behind other pages, and a
crawl delay of seconds for each of fifty files would outlast any page. An overloaded host is left
alone for as long as it asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from webdata_nb.service.web.polite_fetcher import OVERLOAD_STATUS
from webdata_nb.service.web.throttle import Throttle

MAX_SPACING_S: Final = 0.2
"""Upper bound of the delay between two subresources of a host with a crawl delay."""


@dataclass(frozen=True, slots=True)
class SubresourceThrottle:
    """Delays the requests of one page's subresources.

    Attributes
    ----------
    throttle : Throttle
        The throttle of all hosts.
    host : str
        The page's own host.
    delay_s : float
        Seconds that it asks for between requests.
    max_wait_s : float
        Longest wait of a subresource.
    """

    throttle: Throttle
    host: str
    delay_s: float = 0.0
    max_wait_s: float = 5.0

    async def wait(self, host: str) -> None:
        """Wait until a host allows a request for a subresource.

        Raises
        ------
        FetchError
            At once, if the wait would be too long.
        """
        delay_s = min(self.delay_s, MAX_SPACING_S) if host == self.host else 0.0
        await self.throttle.wait_unqueued(host, delay_s=delay_s, max_wait_s=self.max_wait_s)

    async def report(self, host: str, status: int, retry_after_s: float | None) -> bool:
        """Report the status of a reply; return whether the host is overloaded.

        Errors do not count as failures of the host: a page may request any address of any host,
        and fail there as often as it likes.
        """
        if status in OVERLOAD_STATUS:
            await self.throttle.report_overload(host, retry_after_s)
            return True
        if status < HTTPStatus.BAD_REQUEST:
            await self.throttle.report_success(host)
        return False
