"""How the files of a rendered page are asked for: they share the manners of pages, not their line.

A page's turn at its host is the turn of its files too: they wait behind no other page, and a
crawl delay of seconds for each of fifty files would outlast any page. What a host says of itself
holds for all: one that was asked too much is left alone for as long as it wants.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from webdata_nb.service.web.polite_fetcher import OVERLOAD_STATUS
from webdata_nb.service.web.throttle import Throttle

MAX_SPACING_S: Final = 0.2
"""The most seconds between two files of a page whose host wants a distance between requests."""


@dataclass(frozen=True, slots=True)
class SubresourceThrottle:
    """What one page's files owe to the hosts they come from.

    Attributes
    ----------
    throttle : Throttle
        What is known of every host.
    host : str
        The page's own.
    delay_s : float
        The seconds that it wants between requests.
    patience_s : float
        The most seconds that a file waits for its host.
    """

    throttle: Throttle
    host: str
    delay_s: float = 0.0
    patience_s: float = 5.0

    async def wait(self, host: str) -> None:
        """Return when a host may be asked for a file.

        Raises
        ------
        FetchError
            At once, when that would take too long.
        """
        pace_s = min(self.delay_s, MAX_SPACING_S) if host == self.host else 0.0
        await self.throttle.wait_unqueued(host, delay_s=pace_s, max_wait_s=self.patience_s)

    async def note(self, host: str, status: int, retry_after_s: float | None) -> bool:
        """Tell what a host answered; True where it complained.

        An error is held against nobody: a page may name any address of a host, and ask for what
        fails there as often as it likes.
        """
        if status in OVERLOAD_STATUS:
            await self.throttle.report_overload(host, retry_after_s)
            return True
        if status < HTTPStatus.BAD_REQUEST:
            await self.throttle.report_success(host)
        return False
