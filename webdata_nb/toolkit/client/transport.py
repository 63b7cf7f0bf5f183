"""Sends a request until it succeeds or another try makes no sense."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypedDict

from webdata_nb import errors
from webdata_nb.contract import paths
from webdata_nb.toolkit.client import http, replies, retry
from webdata_nb.toolkit.client.http import (
    ApiRequest,
    HttpConnection,
    RequestFailure,
    RequestPause,
    SendResult,
)
from webdata_nb.toolkit.client.limiter import ConcurrencyLimiter, key_digest, limiters_for_key
from webdata_nb.toolkit.client.replies import HttpReply
from webdata_nb.toolkit.client.retry import FailureKind, NoRetry, RetryDelay

log = logging.getLogger("webdata_nb")

# Longer than a start waits for its job's end; with the cancel that follows, less than 3 s.
LATE_REPLY_S: Final = 1.5
_NONE: Final[Mapping[str, str]] = MappingProxyType({})

Send = Callable[[ApiRequest], Awaitable[SendResult]]


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a service, its key, and the headers of every request to it."""

    base_url: str
    api_key: str = field(repr=False)
    headers: Mapping[str, str]


# Returns the current address of the service after a request could not be sent; None if it is gone.
Locate = Callable[[], Awaitable[Address | None]]


class LateReply(asyncio.CancelledError):
    """The caller was cancelled, but the reply to its request says that a job was started."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__()
        self.reply = reply


class TransportOptions(TypedDict, total=False):
    """The options of a transport, which `Client` passes on.

    trust_env : bool
        Whether proxies of the environment are used; False towards the local service.
    headers : Mapping[str, str]
        Sent with every request.
    timeout_s : float
        Seconds without a byte after which an attempt has failed; a whole attempt takes at most
        ten times as long.
    queue_timeout_s : float
        Seconds for which a request queues while the plan's concurrency is used up.
    proxy, ca_bundle : str, optional
        A proxy's URL, and a file of certificate authorities.
    locate : Callable, optional
        Returns the service's present address when a request could not be sent.
    """

    trust_env: bool
    headers: Mapping[str, str]
    timeout_s: float
    queue_timeout_s: float
    proxy: str | None
    ca_bundle: str | None
    locate: Locate | None


class Transport:
    """Sends the requests of one client, with retries and its key's concurrency limits."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        trust_env: bool = True,
        headers: Mapping[str, str] = _NONE,
        timeout_s: float = 30.0,
        queue_timeout_s: float = 3600.0,
        proxy: str | None = None,
        ca_bundle: str | None = None,
        locate: Locate | None = None,
    ) -> None:
        self.timeout_s = timeout_s
        self._queue_timeout_s, self._locate = queue_timeout_s, locate
        self._connect = partial(
            HttpConnection,
            trust_env=trust_env,
            timeout_s=timeout_s,
            proxy=proxy,
            ca_bundle=ca_bundle,
        )
        self._relocating = asyncio.Lock()
        self._use(Address(base_url, api_key, headers))

    def _use(self, address: Address) -> None:
        self.base_url = address.base_url.rstrip("/")
        self._key = http.checked_key(address.api_key)
        self._limiters = limiters_for_key(self.base_url, self._key)
        self._connection = self._connect(self.base_url, self._key, headers=address.headers)

    @property
    def key_digest(self) -> str:
        """The name of what all clients of this process share for this key at this service."""
        return key_digest(self.base_url, self._key)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connection.aclose()

    async def json(self, request: ApiRequest) -> Any:
        """Return the decoded body of a successful reply.

        Raises
        ------
        ServiceError, ConnectionFailed, UnknownOutcome, BadAnswer
            The error of the last attempt.
        """
        send = self._send_despite_cancellation if request.creates else self._send
        return (await self._send_until_success(request, send)).decoded

    @contextlib.asynccontextmanager
    async def stream(
        self, request: ApiRequest
    ) -> AsyncIterator[tuple[HttpReply, AsyncIterator[bytes]]]:
        """Give the head of a successful reply, and its body in pieces as they arrive.

        Only opening is tried again: what follows a break is the caller's to decide.
        """
        open_responses: list[http.OpenResponse] = []

        async def send(request: ApiRequest) -> SendResult:
            return await self._connection.send(request, open_responses)

        try:
            reply = await self._send_until_success(request, send)
            yield reply, http.pieces(open_responses[-1])
        finally:
            for response in open_responses:
                await response.aclose()

    async def _send_until_success(self, request: ApiRequest, send: Send) -> HttpReply:
        limiter = self._limiter(request)
        ticket = limiter.ticket() if limiter else 0
        attempt, queue_ends_at = 1, time.monotonic() + self._queue_timeout_s
        while True:
            base_url = self.base_url
            async with limiter.slot(ticket) if limiter else contextlib.nullcontext():
                result = await send(request)
            if isinstance(result, HttpReply) and result.ok:
                if limiter:
                    limiter.report_success()
                return result
            if isinstance(result, RequestFailure) and result.kind is FailureKind.UNSENT:
                await self._relocate(base_url)
            decision = self._decide_retry(request, attempt, result)
            if (
                isinstance(decision, RetryDelay)
                and decision.queued
                and time.monotonic() > queue_ends_at
            ):
                decision = NoRetry(f"queued for {self._queue_timeout_s:g} s")
            if isinstance(decision, NoRetry):
                self._raise(request, result, decision)
            await self._pause(request, result, decision, limiter)
            attempt += not decision.queued

    async def _relocate(self, failed: str) -> None:
        """Go to where the service answers now, unless another request has just done so."""
        if self._locate is None:
            return
        async with self._relocating:
            if self.base_url != failed:
                return
            address = await self._locate()
            if address is not None and address.base_url != failed:
                log.info("%s does not answer; going on at %s", failed, address.base_url)
                await self._connection.aclose()
                self._use(address)

    def _limiter(self, request: ApiRequest) -> ConcurrencyLimiter | None:
        limiters = {"starts": self._limiters.starts, "reads": self._limiters.reads}
        return limiters.get(request.lane)

    def _decide_retry(
        self, request: ApiRequest, attempt: int, result: SendResult
    ) -> RetryDelay | NoRetry:
        reply = result if isinstance(result, HttpReply) else None
        return retry.decide_retry(
            attempt,
            request.method,
            result.status if isinstance(result, HttpReply) else result.kind,
            reply.headers if reply else _NONE,
            datetime.now(UTC),
            idempotent=request.idempotent,
            detail=replies.detail_of(reply) if reply else "",
            code=replies.code_of(reply) if reply else None,
            jitter=secrets.randbelow(1000) / 1000,
        )

    async def _pause(
        self,
        request: ApiRequest,
        result: SendResult,
        delay: RetryDelay,
        limiter: ConcurrencyLimiter | None,
    ) -> None:
        """Wait before the next attempt; a wait that the service asked for holds for the key."""
        headers = result.headers if isinstance(result, HttpReply) else _NONE
        pause = RequestPause(delay.seconds, delay.queued, *retry.concurrency_limits(headers))
        log.info(
            "%s %s: %s; again in %.1f s",
            request.method,
            request.path,
            _failure_text(result),
            pause.seconds,
        )
        if request.on_pause is not None:
            request.on_pause(pause)
        full = isinstance(result, HttpReply) and result.status == HTTPStatus.TOO_MANY_REQUESTS
        if limiter is None or not (full or "retry-after" in headers):
            await asyncio.sleep(delay.seconds)
            return
        limiter.close_for(delay.seconds)
        if limiter is self._limiters.reads:
            # Too many requests of any kind; too many jobs, in turn, do not hinder reading.
            self._limiters.starts.close_for(delay.seconds)

    def _raise(self, request: ApiRequest, result: SendResult, decision: NoRetry) -> NoReturn:
        if isinstance(result, HttpReply):
            raise replies.error_of(
                self._without_key(result),
                request.path,
                decision.reason,
                base_url=self.base_url,
                request_body=request.body,
            )
        operation = f"{request.method} {request.path} at {self.base_url}"
        if result.kind is FailureKind.INVALID:
            raise errors.BadAnswer(
                f"{operation} sent {result.text}: set base_url (WEBDATA_BASE_URL) to the "
                "address of a webdata service"
            )
        if result.kind is FailureKind.LOST and request.creates and not request.idempotent:
            raise errors.UnknownOutcome(
                f"the answer to {operation} was lost ({result.text}), so the job may have been "
                "started: look for it before starting another",
                idempotency_key=request.headers.get(paths.IDEMPOTENCY_KEY, ""),
            )
        reason = f" ({decision.reason})" if decision.reason else ""
        check = "; check base_url (WEBDATA_BASE_URL) and the network"
        remedy = check if result.kind is FailureKind.UNSENT else ""
        raise errors.ConnectionFailed(f"{operation} failed: {result.text}{reason}{remedy}")

    def _without_key(self, reply: HttpReply) -> HttpReply:
        """Blot out our key where a service repeats it in an error."""
        if not self._key:
            return reply
        return replace(reply, body=reply.body.replace(self._key.encode(), b"***"))

    async def _send(self, request: ApiRequest) -> SendResult:
        return await self._connection.json(request)

    async def _send_despite_cancellation(self, request: ApiRequest) -> SendResult:
        """Send a start; when cancelled, wait briefly for its reply."""
        sending = asyncio.ensure_future(self._connection.json(request))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            try:
                await asyncio.wait([sending], timeout=LATE_REPLY_S)
            finally:
                sending.cancel()
            if (late_reply := _successful_reply(sending)) is not None:
                raise LateReply(late_reply) from None
            raise


def _failure_text(result: RequestFailure | HttpReply) -> str:
    return f"status {result.status}" if isinstance(result, HttpReply) else result.text


def _successful_reply(sending: asyncio.Future[SendResult]) -> HttpReply | None:
    if not sending.done() or sending.cancelled() or sending.exception() is not None:
        return None
    result = sending.result()
    return result if isinstance(result, HttpReply) and result.ok else None
