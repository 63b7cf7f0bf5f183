"""A language model over HTTP: waits for a place, sends, and asks again where that may help."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from types import MappingProxyType
from typing import Any, Final, TypeVar

from webdata_nb.service.errors import ExtractError, FetchError
from webdata_nb.service.extract import chat
from webdata_nb.service.extract.chat import RUNGS, Answer, Message, Rung
from webdata_nb.service.extract.model_providers import Model
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore, current_account
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.request import FetchedResponse, FetchLimits

LIMITS: Final = FetchLimits(wire_bytes=2 * 1024 * 1024, decoded_bytes=4 * 1024 * 1024, redirects=0)
_REMEMBERED: Final = 1000
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
_LASTING: Final = frozenset({"auth", "quota"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one page may cost, in seconds and in questions.

    Attributes
    ----------
    page_s
        For all questions about a page, its places in the queue included.
    patience_s
        The longest rest that a provider may ask for; beyond it the page fails at once.
    rest_s
        How long a provider is left alone that does not accept the key, or has no quota left.
    at_once
        Questions to one provider at once.
    pieces
        The most pieces of a long page that are read.
    """

    page_s: float = 600.0
    patience_s: float = 90.0
    rest_s: float = 30.0
    at_once: int = 4
    pieces: int = 12


@dataclass(slots=True)
class Line:
    """The queue at one provider with one key, and what was learnt of it.

    Accounts share it, so what the schema, the text or the model of one may have caused is kept for
    that account or model alone: how to ask (`rungs`), a pause after a failure (`pauses`), a model
    that the key does not open (`closed`). A pause that the provider asks for is everybody's.
    """

    places: FairSemaphore
    rungs: dict[tuple[str, str], Rung] = field(default_factory=dict)
    open_at: float = 0.0
    pauses: dict[str, float] = field(default_factory=dict)
    closed: dict[str, tuple[float, str, str]] = field(default_factory=dict)

    def opens_at(self, account_id: str) -> float:
        """Return when an account may ask again, on the monotonic clock."""
        return max(self.open_at, self.pauses.get(account_id, 0.0))

    def pause(self, account_id: str, until: float, *, for_all: bool) -> None:
        """Let nobody ask before `until`, or this account alone."""
        if for_all:
            self.open_at = max(self.open_at, until)
        else:
            _put(self.pauses, account_id, max(until, self.pauses.get(account_id, 0.0)))


@dataclass(frozen=True, slots=True)
class Lines:
    """The queues of a process, by `Model.identity`."""

    bounds: Bounds = field(default_factory=Bounds)
    _lines: dict[str, Line] = field(default_factory=dict)

    def of(self, model: Model) -> Line:
        """Return the queue at a model's provider."""
        if model.identity not in self._lines:
            while len(self._lines) >= _REMEMBERED:
                del self._lines[next(iter(self._lines))]
            self._lines[model.identity] = Line(FairSemaphore(self.bounds.at_once))
        return self._lines[model.identity]


class Endpoint:
    """One model of one provider."""

    def __init__(self, model: Model, fetcher: Fetcher, lines: Lines) -> None:
        self._model, self._fetcher, self._bounds = model, fetcher, lines.bounds
        self._line = lines.of(model)

    async def ask(
        self, messages: Sequence[Message], schema: Mapping[str, Any] | None
    ) -> tuple[Answer, Rung]:
        """Ask one question, in the strictest way that the endpoint understands.

        Parameters
        ----------
        messages
            The conversation so far.
        schema
            What the answer must look like; None where that cannot be said in a schema.

        Returns
        -------
        tuple of Answer and Rung
            The answer, and how it was asked for.

        Raises
        ------
        ExtractError
            No answer came.
        """
        name = self._model.name
        place = (current_account(), name)
        rung = self._line.rungs.get(place, self._model.first)
        if schema is None:
            rung = RUNGS[max(RUNGS.index(rung), RUNGS.index("json_object"))]
        stepped = False
        while True:
            reply = await self._send(chat.body(name, messages, rung, schema))
            lower = chat.below(rung)
            if lower is None or not chat.steps_down(reply.status, reply.body):
                break
            rung, stepped = lower, True
        if (failure := chat.problem(reply.status, reply.body)) is not None:
            raise self._noted(failure)
        answer = chat.read(reply.body)
        if stepped:  # a format that works is worth knowing; one that failed may have had its reason
            _put(self._line.rungs, place, rung)
        return answer, rung

    async def _send(self, body: bytes) -> FetchedResponse:
        for attempt in count(1):
            await self._rest()
            async with self._line.places:
                reply, failure = await self._fetched(body)
            after_s = None if reply is None else reply.retry_after_s
            status = reply.status if reply is not None else failure
            body_of_reply = b"" if reply is None else reply.body
            wait_s = chat.retry_delay_s(
                status, body_of_reply, attempt=attempt, retry_after_s=after_s
            )
            if wait_s is None:
                break
            limited = after_s is not None or status == HTTPStatus.TOO_MANY_REQUESTS
            until = time.monotonic() + wait_s
            self._line.pause(current_account(), until, for_all=limited)
        if reply is None:
            raise ExtractError(*_FAILURES.get(failure, _UNREACHABLE))
        return reply

    async def _fetched(self, body: bytes) -> tuple[FetchedResponse | None, str]:
        headers = {"Content-Type": "application/json"}
        if self._model.key:
            headers["Authorization"] = f"Bearer {self._model.key}"
        request = FetchRequest(
            f"{self._model.url}/chat/completions",
            headers=headers,
            timeout_s=self._model.timeout_s,
            limits=LIMITS,
            accept="application/json",
            method="POST",
            body=body,
            follow_redirects=False,  # a key goes to the address that the settings name alone
        )
        try:
            return await self._fetcher.fetch(request), ""
        except FetchError as failure:
            # Its own words may show the address.
            return None, failure.kind

    async def _rest(self) -> None:
        """Wait until the provider may be asked again, or say at once that it may not be."""
        now = time.monotonic()
        until, *why = self._line.closed.get(self._model.name, (0.0, "", ""))
        if now < until:
            raise ExtractError(*why)
        open_at = self._line.opens_at(current_account())
        if open_at - now > self._bounds.patience_s:
            raise ExtractError("rate_limited", "the provider asks for a longer rest than a page")
        await asyncio.sleep(max(0.0, open_at - now))

    def _noted(self, failure: ExtractError) -> ExtractError:
        """Keep what will be so for every page, so that a crawl does not ask a thousand times."""
        if failure.kind in _LASTING:
            until = time.monotonic() + self._bounds.rest_s
            _put(self._line.closed, self._model.name, (until, failure.kind, str(failure)))
        return failure


def _put(known: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Remember a value, and forget the oldest beyond the bound: callers name models."""
    known.pop(key, None)
    while len(known) >= _REMEMBERED:
        del known[next(iter(known))]
    known[key] = value
