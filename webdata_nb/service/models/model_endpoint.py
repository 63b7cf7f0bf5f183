"""Sends requests to a language model over HTTP, with queues, pauses and retries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from types import MappingProxyType
from typing import Any, Final, TypeVar

from webdata_nb.page.errors import ExtractError, FetchError
from webdata_nb.service.foreign_services import ErrorReply, has_error, read_error
from webdata_nb.service.models import chat
from webdata_nb.service.models.chat import RESPONSE_FORMATS, ChatMessage, ChatReply, ResponseFormat
from webdata_nb.service.models.model_providers import Model
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore, current_account
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.request import FetchedResponse, FetchLimits

FETCH_LIMITS: Final = FetchLimits(
    wire_bytes=2 * 1024 * 1024, decoded_bytes=4 * 1024 * 1024, redirects=0
)
_MAX_STORED: Final = 1000
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_UNREACHABLE: Final = ("unreachable", "the provider cannot be reached")
_FAILURES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "timeout": ("timeout", "no answer in time"),
        "too_large": ("too_large", "the answer is too large"),
        "decode": ("malformed", "the answer's compression is broken"),
        "refused": ("unreachable", "the network policy does not allow the provider's address"),
    }
)
_LASTING_ERRORS: Final = frozenset({"auth", "quota"})


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits of the requests to a model.

    Attributes
    ----------
    page_timeout_s
        Seconds for all requests about a page, including their time in the queue.
    max_pause_s
        Longest pause that a provider may ask for; a longer one fails the page at once.
    refusal_pause_s
        Seconds without requests after a provider rejected the key or the quota was used up.
    max_concurrent
        Concurrent requests to one provider.
    max_chunks
        Chunks of a long page that are read.
    """

    page_timeout_s: float = 600.0
    max_pause_s: float = 90.0
    refusal_pause_s: float = 30.0
    max_concurrent: int = 4
    max_chunks: int = 12


@dataclass(slots=True)
class ModelQueue:
    """The queue for one provider with one key, and what its replies revealed.

    Accounts share it. What one account's schema, text or model may have caused is stored for that
    account or model alone: the response format (`response_formats`), a pause after a failure
    (`account_pauses`), a model that the key does not permit (`refusals`). A pause that the
    provider asks for applies to all accounts.
    """

    slots: FairSemaphore
    response_formats: dict[tuple[str, str], ResponseFormat] = field(default_factory=dict)
    paused_until: float = 0.0
    account_pauses: dict[str, float] = field(default_factory=dict)
    refusals: dict[str, tuple[float, str, str]] = field(default_factory=dict)

    def opens_at(self, account_id: str) -> float:
        """Return when an account may send requests again, on the monotonic clock."""
        return max(self.paused_until, self.account_pauses.get(account_id, 0.0))

    def pause(self, account_id: str, until: float, *, for_all: bool) -> None:
        """Stop requests until a time, for all accounts or for one."""
        if for_all:
            self.paused_until = max(self.paused_until, until)
        else:
            until = max(until, self.account_pauses.get(account_id, 0.0))
            _store_bounded(self.account_pauses, account_id, until)


@dataclass(frozen=True, slots=True)
class ModelQueues:
    """The queues of a process, by `Model.identity`."""

    limits: ModelLimits = field(default_factory=ModelLimits)
    _queues: dict[str, ModelQueue] = field(default_factory=dict)

    def queue(self, model: Model) -> ModelQueue:
        """Return the queue of a model's provider."""
        if model.identity not in self._queues:
            while len(self._queues) >= _MAX_STORED:
                del self._queues[next(iter(self._queues))]
            self._queues[model.identity] = ModelQueue(FairSemaphore(self.limits.max_concurrent))
        return self._queues[model.identity]


class ModelClient:
    """A client for one model of one provider."""

    def __init__(self, model: Model, fetcher: Fetcher, queues: ModelQueues) -> None:
        self._model, self._fetcher, self._limits = model, fetcher, queues.limits
        self._queue = queues.queue(model)

    async def ask(
        self, messages: Sequence[ChatMessage], schema: Mapping[str, Any] | None
    ) -> tuple[ChatReply, ResponseFormat]:
        """Send a conversation with the strictest response format that the endpoint supports.

        Parameters
        ----------
        messages
            The conversation so far.
        schema
            The JSON schema of the answer; None if no schema can describe it.

        Returns
        -------
        tuple of ChatReply and ResponseFormat
            The answer, and the response format in use.

        Raises
        ------
        ExtractError
            There is no answer.
        """
        name = self._model.name
        key = (current_account(), name)
        response_format = self._queue.response_formats.get(key, self._model.first_format)
        if schema is None:
            response_format = RESPONSE_FORMATS[
                max(RESPONSE_FORMATS.index(response_format), RESPONSE_FORMATS.index("json_object"))
            ]
        format_changed = False
        while True:
            reply = await self._send(chat.request_body(name, messages, response_format, schema))
            error = self._read_error(reply)
            simpler = chat.simpler_format(response_format)
            if simpler is None or not chat.may_reject_format(reply.status, error):
                break
            response_format, format_changed = simpler, True
        if (failure := chat.error_of(reply.status, error)) is not None:
            self._store_refusal(failure)
            raise failure
        answer = chat.parse_reply(reply.body)
        if (
            format_changed
        ):  # store a format that works; the failure of another may have had its own reason
            _store_bounded(self._queue.response_formats, key, response_format)
        return answer, response_format

    async def _send(self, body: bytes) -> FetchedResponse:
        for attempt in count(1):
            await self._wait_for_pause()
            async with self._queue.slots:
                reply, failure = await self._fetch(body)
            after_s = None if reply is None else reply.retry_after_s
            status = reply.status if reply is not None else failure
            error = ErrorReply() if reply is None else self._read_error(reply)
            wait_s = chat.retry_delay_s(status, error, attempt=attempt, retry_after_s=after_s)
            if wait_s is None:
                break
            limited = after_s is not None or status == HTTPStatus.TOO_MANY_REQUESTS
            until = time.monotonic() + wait_s
            self._queue.pause(current_account(), until, for_all=limited)
        if reply is None:
            raise ExtractError(*_FAILURES.get(failure, _UNREACHABLE))
        return reply

    def _read_error(self, reply: FetchedResponse) -> ErrorReply:
        """Return the error that a reply reports; a model's answer is none."""
        if reply.status == HTTPStatus.OK and not has_error(reply.body):
            return ErrorReply()
        return read_error(reply.body, status=reply.status, secrets=(self._model.key,))

    async def _fetch(self, body: bytes) -> tuple[FetchedResponse | None, str]:
        headers = {"Content-Type": "application/json"}
        if self._model.key:
            headers["Authorization"] = f"Bearer {self._model.key}"
        request = FetchRequest(
            f"{self._model.url}/chat/completions",
            headers=headers,
            timeout_s=self._model.timeout_s,
            limits=FETCH_LIMITS,
            accept="application/json",
            method="POST",
            body=body,
            follow_redirects=False,  # the key is only sent to the address in the settings
        )
        try:
            return await self._fetcher.fetch(request), ""
        except FetchError as failure:
            # The message of the failure may contain the address.
            return None, failure.kind

    async def _wait_for_pause(self) -> None:
        """Wait for the end of a pause; raises `ExtractError` at once if it is too long."""
        now = time.monotonic()
        until, *reason = self._queue.refusals.get(self._model.name, (0.0, "", ""))
        if now < until:
            raise ExtractError(*reason)
        opens_at = self._queue.opens_at(current_account())
        if opens_at - now > self._limits.max_pause_s:
            raise ExtractError(
                "rate_limited", "the provider asks for a longer pause than a page may wait"
            )
        await asyncio.sleep(max(0.0, opens_at - now))

    def _store_refusal(self, failure: ExtractError) -> None:
        """Store a failure that applies to every page, so that a crawl does not repeat it."""
        if failure.kind in _LASTING_ERRORS:
            until = time.monotonic() + self._limits.refusal_pause_s
            _store_bounded(
                self._queue.refusals, self._model.name, (until, failure.kind, str(failure))
            )


def _store_bounded(cache: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Store a value, and remove the oldest beyond the bound: callers choose the keys."""
    cache.pop(key, None)
    while len(cache) >= _MAX_STORED:
        del cache[next(iter(cache))]
    cache[key] = value
