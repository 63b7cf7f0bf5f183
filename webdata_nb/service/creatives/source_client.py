"""Requests to a source: paced, tried again within the call's time, failures told apart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from webdata_nb.service.errors import (
    FetchError,
    Refused,
    SourceBusy,
    SourceProblem,
    SourceRefused,
    SourceSlow,
)
from webdata_nb.service.web.fetch import FetchedResponse, Fetcher, FetchLimits, FetchRequest
from webdata_nb.service.web.throttle import Throttle
from webdata_nb.service.web.urls import host_and_port

ATTEMPTS: Final = 3
# Pause after an overload reply without Retry-After.
PAUSE_S: Final = 2.0
# An answer that comes later than this cannot be used within the call any more.
_LEAST_S: Final = 0.5
_MIB: Final = 1024 * 1024
FILE_LIMITS: Final = FetchLimits(wire_bytes=10 * _MIB, decoded_bytes=10 * _MIB, redirects=5)
_JSON_LIMITS: Final = FetchLimits(wire_bytes=10 * _MIB, decoded_bytes=40 * _MIB, redirects=0)


@dataclass(frozen=True, slots=True)
class Deadline:
    """When the call must be over, on the monotonic clock."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline so many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """Seconds that are left, never below 0."""
        return max(0.0, self.at - time.monotonic())


@dataclass(frozen=True, slots=True)
class Outlets:
    """The ways out of a call.

    `calls` leads to the address that the settings name, `files` to those that a source names:
    it goes nowhere that a page may not be fetched from.
    """

    calls: Fetcher
    files: Fetcher


@dataclass(frozen=True, slots=True)
class Exchange:
    """Requests to one source within one call.

    `pace_s` is the least time between the starts of two requests to one host, whoever asks.
    """

    source: str
    outlets: Outlets
    throttle: Throttle
    deadline: Deadline
    pace_s: float = 0.0
    pause_s: float = PAUSE_S

    async def json(self, request: FetchRequest) -> tuple[int, Any]:
        """Return status and decoded body of an answer below 500 that is JSON.

        Raises
        ------
        SourceBusy, SourceRefused, SourceSlow, SourceProblem
            There is none, also not by trying again.
        """
        fetched = await self._answer(self.outlets.calls, request, _JSON_LIMITS)
        body = _decoded(fetched.body)
        if body is None:
            raise self._no_json(fetched)
        return fetched.status, body

    async def file(self, url: str) -> bytes:
        """Return a file; errors as `json`."""
        request = FetchRequest(url, accept="image/*,*/*;q=0.5")
        fetched = await self._answer(self.outlets.files, request, FILE_LIMITS)
        if fetched.status != HTTPStatus.OK:
            raise SourceProblem(f"the file answered {fetched.status}")
        return fetched.body

    async def _answer(
        self, way: Fetcher, request: FetchRequest, limits: FetchLimits
    ) -> FetchedResponse:
        attempt = 1
        while True:
            try:
                return await self._once(way, request, limits)
            except SourceBusy as busy:
                if attempt >= ATTEMPTS or busy.retry_after_s + _LEAST_S > self.deadline.left_s:
                    raise
                await asyncio.sleep(busy.retry_after_s)
            except _Passing as passing:
                if attempt >= ATTEMPTS or self.deadline.left_s < _LEAST_S + attempt:
                    raise SourceProblem(str(passing)) from None
            attempt += 1

    async def _once(
        self, way: Fetcher, request: FetchRequest, limits: FetchLimits
    ) -> FetchedResponse:
        left = self.deadline.left_s
        if left <= 0:
            raise self._slow()
        try:
            host = host_and_port(request.url)
            async with asyncio.timeout(left):
                async with self.throttle.slot(host, delay_s=self.pace_s, max_wait_s=left):
                    fetched = await way.fetch(_bounded(request, limits, left))
        except TimeoutError:
            raise self._slow() from None
        except FetchError as error:
            raise self._failed(error) from None
        await self._judge(host, fetched)
        return fetched

    async def _judge(self, host: str, fetched: FetchedResponse) -> None:
        """Tell the throttle how it went; raise where the status says that there is no answer."""
        status = fetched.status
        if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
            after_s = fetched.retry_after_s
            wait_s = self.pause_s if after_s is None else after_s
            await self.throttle.report_overload(host, wait_s)
            raise SourceBusy(f"{self.source} asks to wait ({status})", retry_after_s=wait_s)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            await self.throttle.report_overload(host)
            raise _Passing(f"{self.source} answered {status}")
        await self.throttle.report_success(host)

    def _failed(self, error: FetchError) -> Exception:
        if isinstance(error, Refused) or error.kind in {"bad_url", "too_large", "redirects"}:
            return SourceProblem(f"{self.source}: {error}")
        if error.kind == "timeout":
            return self._slow()
        return _Passing(f"{self.source}: {error}")

    def _slow(self) -> SourceSlow:
        return SourceSlow(f"{self.source} did not answer within timeout_ms")

    def _no_json(self, fetched: FetchedResponse) -> SourceProblem:
        """Say what an answer without JSON means: mostly a wall in front of the source."""
        moved = HTTPStatus.MULTIPLE_CHOICES <= fetched.status < HTTPStatus.BAD_REQUEST
        page = fetched.body.lstrip()[:1] == b"<"
        if moved or page or fetched.status == HTTPStatus.FORBIDDEN:
            return SourceRefused(
                f"{self.source} blocks requests from this address (status {fetched.status}): "
                "wait before trying again, and ask less often"
            )
        return SourceProblem(f"{self.source} answered {fetched.status} with something else")


class _Passing(Exception):
    """A failure that another try may not meet."""


def _bounded(request: FetchRequest, limits: FetchLimits, seconds: float) -> FetchRequest:
    follows = limits.redirects > 0
    return FetchRequest(
        request.url,
        headers=request.headers,
        accept=request.accept,
        method=request.method,
        body=request.body,
        limits=limits,
        timeout_s=seconds,
        follow_redirects=follows,
    )


def _decoded(body: bytes) -> Any:
    text = body.lstrip().removeprefix(b")]}'").lstrip()
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(text)
    return None


def host_of(url: str) -> str:
    """Return a URL's host, in lower case."""
    return (urlsplit(url).hostname or "").lower()


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of a source's answer; anything else counts as an empty one."""
    return value if isinstance(value, dict) else {}
