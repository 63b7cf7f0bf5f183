"""Sends requests to web archives, at a pace that they allow, with retries."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from webdata_nb.pacing.retry_policies import ARCHIVE_ATTEMPTS, MAX_RETRY_AFTER_S
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import host_and_port
from webdata_nb.service.errors import SourceBusy, SourceError, SourceTimeout
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.web.egress_policy import is_local_host
from webdata_nb.service.web.fetch import FetchedResponse, Fetcher, FetchRequest
from webdata_nb.service.web.polite_fetcher import TRANSIENT_KINDS
from webdata_nb.service.web.throttle import Throttle

# Archives are slow, above all their indexes.
TIMEOUT_S: Final = 60.0
# The Wayback Machine blocks clients that go on after a 429, and sends no Retry-After.
_TOO_MANY_REQUESTS_S: Final = 60.0
_ERROR_PAUSE_S: Final = 2.0
_BUSY_S: Final = 10.0
_LEAST_PAUSE_S: Final = 0.25
_TRANSIENT: Final = TRANSIENT_KINDS | {"timeout", "host_unavailable"}

IsAnswer = Callable[[FetchedResponse], bool]
"""Whether a reply comes from the archive as asked, also with the status of an error."""


def is_no_server_error(fetched: FetchedResponse) -> bool:
    """Return whether a reply is neither a request to wait nor a failure of the server."""
    status = fetched.status
    return status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.TOO_MANY_REQUESTS


@dataclass(frozen=True, slots=True)
class ArchiveClient:
    """Sends requests to one archive.

    `patience_s` is how long a call waits for pauses that the archive asks for.
    """

    name: str
    fetcher: Fetcher
    throttle: Throttle
    patience_s: float = MAX_RETRY_AFTER_S

    async def get(
        self, request: FetchRequest, *, delay_s: float, is_answer: IsAnswer = is_no_server_error
    ) -> FetchedResponse:
        """Return the reply to a request; `delay_s` is the least time between two starts.

        Raises
        ------
        SourceBusy, SourceTimeout, SourceError
            There is no reply, even after retries.
        FetchError
            The reply is too large or damaged, or the address may not be requested.
        """
        host, ends_at = host_and_port(request.url), time.monotonic() + self.patience_s
        if is_local_host(urlsplit(request.url).hostname or ""):
            delay_s = 0.0  # an archive of one's own
        request = replace(request, follow_redirects=False, timeout_s=request.timeout_s or TIMEOUT_S)
        for attempt in range(1, ARCHIVE_ATTEMPTS + 1):
            max_wait_s = max(0.0, ends_at - time.monotonic())
            failure = await self._attempt(host, request, delay_s, max_wait_s, is_answer)
            if isinstance(failure, FetchedResponse):
                return failure
            is_over = failure.retry_after_s > ends_at - time.monotonic()
            if attempt == ARCHIVE_ATTEMPTS or is_over:
                raise failure.error
        raise AssertionError("the last attempt raises")

    async def _attempt(
        self,
        host: str,
        request: FetchRequest,
        delay_s: float,
        max_wait_s: float,
        is_answer: IsAnswer,
    ) -> FetchedResponse | _Failure:
        is_sent = False
        try:
            async with self.throttle.slot(host, delay_s=delay_s, max_wait_s=max_wait_s):
                is_sent = True
                with waiting_for(f"the answer of {host}", TIMEOUT_S):
                    fetched = await self.fetcher.fetch(request)
                if is_answer(fetched):
                    await self.throttle.report_success(host)
                    return fetched
                return await self._report_refusal(host, fetched)
        except FetchError as error:
            if error.kind not in _TRANSIENT:
                raise
            if not is_sent:  # the throttle holds it back
                busy = SourceBusy(f"{self.name}: {error}", retry_after_s=_BUSY_S)
                return _Failure(busy, _BUSY_S)
            return await self._failure(host, error)

    async def _report_refusal(self, host: str, fetched: FetchedResponse) -> _Failure:
        """Hold back further requests to an archive that asks to wait, or fails."""
        status, after_s = fetched.status, fetched.retry_after_s
        is_overload = status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
        if status == HTTPStatus.TOO_MANY_REQUESTS and after_s is None:
            after_s = _TOO_MANY_REQUESTS_S
        pause_s = _ERROR_PAUSE_S if after_s is None else max(after_s, _LEAST_PAUSE_S)
        await self.throttle.report_overload(host, pause_s)
        text = f"{self.name} asks to wait" if is_overload else f"{self.name} failed"
        return _Failure(SourceBusy(f"{text} (status {status})", retry_after_s=pause_s), pause_s)

    async def _failure(self, host: str, error: FetchError) -> _Failure:
        if error.kind == "timeout":
            return _Failure(SourceTimeout(f"{self.name}: {error}"), 0.0)
        await self.throttle.report_overload(host, _ERROR_PAUSE_S)
        return _Failure(SourceError(f"{self.name}: {error}"), _ERROR_PAUSE_S)


@dataclass(frozen=True, slots=True)
class _Failure:
    """An attempt without an answer, and the pause before another one."""

    error: SourceError
    retry_after_s: float
