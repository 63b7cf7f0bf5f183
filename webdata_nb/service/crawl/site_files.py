"""Fetches files about a site, such as sitemaps and licences; passing failures are retried."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from webdata_nb.contract import outcomes
from webdata_nb.page.errors import FetchError
from webdata_nb.service.web.fetch import FetchedResponse, FetchRequest
from webdata_nb.service.web.polite_fetcher import PageDeadline, ResponseSource, retry_delay_s


async def fetch_file(
    fetcher: ResponseSource,
    request: FetchRequest,
    deadline: PageDeadline,
    delay_s: float,
    *,
    queued: bool = True,
) -> tuple[FetchedResponse | None, str]:
    """Fetch a file; returns it, or None and the problem.

    `queued` is False for files that pages wait for while they hold their place in a queue.
    """
    attempt = 0
    while True:
        attempt += 1
        status, error_kind, retry_after_s = None, "", None
        try:
            fetched = await fetcher.fetch(request, deadline, delay_s=delay_s, queued=queued)
        except FetchError as error:
            error_kind = error.kind
            problem = error_kind if error_kind == outcomes.NOT_ARCHIVED else str(error)
        else:
            status, problem = fetched.status, f"HTTP {fetched.status}"
            retry_after_s = fetched.retry_after_s
            if status == HTTPStatus.OK:
                return fetched, ""
        wait_s = retry_delay_s(
            attempt,
            status=status,
            kind=error_kind,
            retry_after_s=retry_after_s,
            remaining_s=deadline.remaining_s,
        )
        if wait_s is None:
            return None, problem
        await asyncio.sleep(wait_s)
        deadline.restart_if_interrupted()
