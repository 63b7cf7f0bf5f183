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
from typing import Any, Final, NoReturn

from webdata_nb import errors
from webdata_nb.client import http, replies, retry
from webdata_nb.client.http import Call, Exchange, Failure, Outcome, Pause
from webdata_nb.client.limiter import ConcurrencyLimiter, limiters_for_key
from webdata_nb.client.replies import Answer
from webdata_nb.client.retry import GiveUp, Trouble, Wait
from webdata_nb.contract import paths

log = logging.getLogger("webdata_nb")

# Longer than a start waits for its job's end; with the cancel that follows, within 3 s.
LATE_ANSWER_S: Final = 1.5
_NONE: Final[Mapping[str, str]] = MappingProxyType({})

Send = Callable[[Call], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service answers, with which key, and the headers of every request to it."""

    base_url: str
    api_key: str = field(repr=False)
    headers: Mapping[str, str]


# Returns where the service answers now, after a request could not be sent; None where it is gone.
Locate = Callable[[], Awaitable[Address | None]]


class Answered(asyncio.CancelledError):
    """The caller was cancelled, but its request was answered: something exists at the service."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class Transport:
    """The attempts of every request of one client, paced by its key's limiters."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        trust_env: bool = True,
        headers: Mapping[str, str] = _NONE,
        timeout_s: float = 30.0,
        patience_s: float = 3600.0,
        proxy: str | None = None,
        ca_bundle: str | None = None,
        locate: Locate | None = None,
    ) -> None:
        self._patience_s, self._locate = patience_s, locate
        self._connect = partial(
            Exchange, trust_env=trust_env, timeout_s=timeout_s, proxy=proxy, ca_bundle=ca_bundle
        )
        self._relocating = asyncio.Lock()
        self._use(Address(base_url, api_key, headers))

    def _use(self, address: Address) -> None:
        self.base_url = address.base_url.rstrip("/")
        self._key = http.checked_key(address.api_key)
        self._limiters = limiters_for_key(self.base_url, self._key)
        self._exchange = self._connect(self.base_url, self._key, headers=address.headers)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._exchange.aclose()

    async def json(self, call: Call) -> Any:
        """Return the decoded body of a successful answer.

        Raises
        ------
        ServiceError, ConnectionFailed, UnknownOutcome, BadAnswer
            What the last attempt met.
        """
        send = self._send_to_the_end if call.creates else self._send
        return (await self._until_good(call, send)).decoded

    @contextlib.asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[tuple[Answer, AsyncIterator[bytes]]]:
        """Give a successful answer's head, and its body in pieces as they arrive; else as `json`.

        Only opening is tried again: what follows a break is the caller's to decide.
        """
        opened: list[http.Opened] = []

        async def send(call: Call) -> Outcome:
            return await self._exchange.send(call, keep=opened)

        try:
            answer = await self._until_good(call, send)
            yield answer, http.pieces(opened[-1])
        finally:
            for response in opened:
                await response.aclose()

    async def _until_good(self, call: Call, send: Send) -> Answer:
        limiter = self._limiter(call)
        ticket = limiter.ticket() if limiter else 0
        attempt, patience_ends = 1, time.monotonic() + self._patience_s
        while True:
            base_url = self.base_url
            async with limiter.slot(ticket) if limiter else contextlib.nullcontext():
                outcome = await send(call)
            if isinstance(outcome, Answer) and outcome.good:
                if limiter:
                    limiter.report_success()
                return outcome
            if isinstance(outcome, Failure) and outcome.trouble is Trouble.UNSENT:
                await self._relocate(base_url)
            verdict = self._verdict(call, attempt, outcome)
            if isinstance(verdict, Wait) and verdict.queued and time.monotonic() > patience_ends:
                verdict = GiveUp(f"queued for {self._patience_s:g} s")
            if isinstance(verdict, GiveUp):
                self._raise(call, outcome, verdict)
            await self._pause(call, outcome, verdict, limiter)
            attempt += not verdict.queued

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
                await self._exchange.aclose()
                self._use(address)

    def _limiter(self, call: Call) -> ConcurrencyLimiter | None:
        limiters = {"starts": self._limiters.starts, "reads": self._limiters.reads}
        return limiters.get(call.lane)

    def _verdict(self, call: Call, attempt: int, outcome: Outcome) -> Wait | GiveUp:
        answer = outcome if isinstance(outcome, Answer) else None
        return retry.decide(
            attempt,
            call.method,
            outcome.status if isinstance(outcome, Answer) else outcome.trouble,
            answer.headers if answer else _NONE,
            datetime.now(UTC),
            idempotent=call.idempotent,
            detail=replies.detail_of(answer) if answer else "",
            code=replies.code_of(answer) if answer else None,
            jitter=secrets.randbelow(1000) / 1000,
        )

    async def _pause(
        self, call: Call, outcome: Outcome, wait: Wait, limiter: ConcurrencyLimiter | None
    ) -> None:
        """Wait before the next attempt; a wait that the service asked for holds for the key."""
        headers = outcome.headers if isinstance(outcome, Answer) else _NONE
        pause = Pause(wait.seconds, wait.queued, *retry.concurrency(headers))
        log.info("%s %s: %s; again in %.1f s", call.method, call.path, _why(outcome), pause.seconds)
        if call.on_pause is not None:
            call.on_pause(pause)
        full = isinstance(outcome, Answer) and outcome.status == HTTPStatus.TOO_MANY_REQUESTS
        if limiter is None or not (full or "retry-after" in headers):
            await asyncio.sleep(wait.seconds)
            return
        limiter.close_for(wait.seconds)
        if limiter is self._limiters.reads:
            # Too many requests of any kind; too many jobs, in turn, do not hinder reading.
            self._limiters.starts.close_for(wait.seconds)

    def _raise(self, call: Call, outcome: Outcome, verdict: GiveUp) -> NoReturn:
        if isinstance(outcome, Answer):
            raise replies.problem(self._without_key(outcome), call.path, verdict.why)
        what = f"{call.method} {call.path} at {self.base_url}"
        if outcome.trouble is Trouble.GARBLED:
            raise errors.BadAnswer(
                f"{what} was answered with something that is no JSON ({outcome.text}): "
                "is base_url the address of the service?"
            )
        if outcome.trouble is Trouble.LOST and call.creates and not call.idempotent:
            raise errors.UnknownOutcome(
                f"the answer to {what} was lost ({outcome.text}), so the job may have been "
                "started: look for it before starting another",
                idempotency_key=call.headers.get(paths.IDEMPOTENCY_KEY, ""),
            )
        raise errors.ConnectionFailed(f"{what} failed: {outcome.text} ({verdict.why})")

    def _without_key(self, answer: Answer) -> Answer:
        """Blot out our key where a service repeats it in an error."""
        if not self._key:
            return answer
        return replace(answer, body=answer.body.replace(self._key.encode(), b"***"))

    async def _send(self, call: Call) -> Outcome:
        return await self._exchange.json(call)

    async def _send_to_the_end(self, call: Call) -> Outcome:
        """Send a start; when cancelled meanwhile, its answer is awaited briefly all the same."""
        sending = asyncio.ensure_future(self._exchange.json(call))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            try:
                await asyncio.wait([sending], timeout=LATE_ANSWER_S)
            finally:
                sending.cancel()
            if (late := _good_answer(sending)) is not None:
                raise Answered(late) from None
            raise


def _why(outcome: Failure | Answer) -> str:
    return f"status {outcome.status}" if isinstance(outcome, Answer) else outcome.text


def _good_answer(sending: asyncio.Future[Outcome]) -> Answer | None:
    if not sending.done() or sending.cancelled() or sending.exception() is not None:
        return None
    outcome = sending.result()
    return outcome if isinstance(outcome, Answer) and outcome.good else None
