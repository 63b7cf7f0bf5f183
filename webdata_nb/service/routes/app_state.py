"""Holds what route handlers share: the parts of the service, settings of sessions, cached replies.

Status replies of ended jobs are cached in memory, as the bytes that were sent: at the second
request, since a notebook reads its rows once. A reply is valid while the database has had no
transaction, or while the job's record is the same, since rows of an ended job are deleted only
after its record was changed. Retention by the clock is checked each time, and a revoked key is
refused at the next request.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import Request

from webdata_nb.contract.local import NO_CREATIVES, Creatives, SessionSettings
from webdata_nb.service.creatives.listing import CreativesListing
from webdata_nb.service.local_lifetime import LocalLifetime
from webdata_nb.service.runtime.bounded_dict import BoundedDict
from webdata_nb.service.settings import Retention
from webdata_nb.service.store.job_context import JobEvents, StoreRetry
from webdata_nb.service.store.records import JobRecord
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.webhooks.delivery import Webhooks
from webdata_nb.service.work.engines import JobEngines
from webdata_nb.service.work.runner import Runner

T = TypeVar("T")

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
# Hashes of keys that were requested once.
_MAX_REQUESTED_KEYS: Final = 4096


class ResponseKey(NamedTuple):
    """Identifies a status reply by account, job, path and query."""

    account_id: str
    job_id: str
    path: str
    query: bytes

    @classmethod
    def of(cls, request: Request, account_id: str, job_id: str) -> ResponseKey:
        """Return the key of a request."""
        scope = request.scope
        return cls(account_id, job_id, scope["path"], scope["query_string"])


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A reply, the job without its secrets, and the last data version at which it was valid."""

    job: JobRecord
    body: bytes
    data_version: int
    etag: str


class ResponseCache:
    """A least recently used cache of replies, limited by bytes.

    Replies are cached at the second request, because a notebook reads its rows only once.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes, self._used_bytes = max_bytes, 0
        self._responses: OrderedDict[ResponseKey, CachedResponse] = OrderedDict()
        self._requested_once = BoundedDict[int, None](_MAX_REQUESTED_KEYS)

    def get(self, key: ResponseKey) -> CachedResponse | None:
        """Return the cached reply, which may be out of date."""
        return self._responses.get(key)

    def should_cache(self, key: ResponseKey, size: int) -> bool:
        """Whether to cache a reply of `size` bytes: from the second request on."""
        if size > min(MAX_BODY_BYTES, self._max_bytes):
            return False
        key_hash = hash(key)
        requested_before = key_hash in self._requested_once
        self._requested_once[key_hash] = None
        return requested_before

    def put(
        self, key: ResponseKey, job: JobRecord, body: bytes, data_version: int, *, etag: str = ""
    ) -> None:
        """Cache a reply, or confirm it; drop the least recently used ones."""
        self.drop(key)
        self._responses[key] = CachedResponse(without_secrets(job), body, data_version, etag)
        self._used_bytes += len(body)
        while self._used_bytes > self._max_bytes:
            self.drop(next(iter(self._responses)))

    def drop(self, key: ResponseKey) -> None:
        """Drop a reply."""
        dropped = self._responses.pop(key, None)
        self._used_bytes -= 0 if dropped is None else len(dropped.body)

    def clear(self) -> None:
        """Drop every reply, so that none outlives its job for long."""
        self._responses.clear()
        self._used_bytes = 0


def without_secrets(job: JobRecord) -> JobRecord:
    """Return a job without its secrets."""
    return replace(job, request={}, context={}, locked=False)


# How long an operator's answer is shared, at least; and what share of the time may be spent on it.
ANSWER_S: Final = 2.0
_ANSWER_SHARE: Final = 0.05
_MAX_ANSWERS: Final = 64


class SharedAnswers:
    """Answers to operators, shared by the requests of the same seconds.

    Pages are loaded again and again. What takes long is shared for longer.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(
        self,
        key: Hashable,
        read: Callable[[], Coroutine[Any, Any, T]],
        *,
        shared_s: float = ANSWER_S,
    ) -> T:
        """Return the answer of a key, which `read` reads unless there is one."""
        if key not in self._answers and len(self._answers) >= _MAX_ANSWERS:
            return await read()
        if key not in self._answers:
            answer = self._answers[key] = asyncio.create_task(read())
            answer.add_done_callback(partial(self._expire, key, shared_s, time.monotonic()))
        value: T = await asyncio.shield(self._answers[key])
        return value

    def _expire(
        self, key: Hashable, shared_s: float, began_at: float, answer: asyncio.Task[Any]
    ) -> None:
        """Drop an answer when it is old, and an error at once."""
        if answer.cancelled() or answer.exception() is not None:
            del self._answers[key]
            return
        took_s = time.monotonic() - began_at
        left_s = max(shared_s, took_s / _ANSWER_SHARE)
        answer.get_loop().call_later(left_s, self._answers.pop, key)


MAX_CACHED_SESSIONS = 64


class LeasedSessions:
    """Reads the settings that sessions bound to their leases of the local service."""

    def __init__(self, lifetime: LocalLifetime, creatives: Creatives = NO_CREATIVES) -> None:
        self._lifetime, self._creatives = lifetime, creatives
        self._contexts = BoundedDict[str | None, tuple[SessionSettings, Mapping[str, Any]]](
            MAX_CACHED_SESSIONS
        )

    def context_of(self, lease_id: str | None) -> Mapping[str, Any]:
        """Return the settings that a job inherits from its session; empty without a session."""
        settings = self._lifetime.settings_of(lease_id)
        cached = self._contexts.get(lease_id)
        if cached is None or cached[0] is not settings:
            # Creatives calls are not jobs, and their token must not reach the database.
            context = settings.model_dump(mode="json", exclude_defaults=True, exclude={"creatives"})
            cached = self._contexts[lease_id] = settings, context
        return cached[1]

    def creatives_of(self, lease_id: str | None) -> Creatives:
        """Return the creatives source of the session, or that of the service."""
        creatives = self._lifetime.settings_of(lease_id).creatives
        return self._creatives if creatives == NO_CREATIVES else creatives


@dataclass(frozen=True, slots=True)
class AppState:
    """Shared objects of the route handlers, stored as `app.state.app_state`."""

    store: Store
    engines: JobEngines
    runner: Runner
    events: JobEvents
    webhooks: Webhooks
    creatives: CreativesListing
    sessions: LeasedSessions
    retry: StoreRetry
    retention: Retention
    notify_deleted: Callable[[], None]
    clock: Callable[[], float] = time.time
    response_cache: ResponseCache = field(default_factory=ResponseCache)
    operator_answers: SharedAnswers = field(default_factory=SharedAnswers)
