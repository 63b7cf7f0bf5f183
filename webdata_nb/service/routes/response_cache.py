"""Caches status replies of ended jobs in memory, as the bytes that were sent.

A reply is cached at its second request: a notebook reads its rows once. It is valid while the
database has had no transaction, or while the job's record is the same, since rows of an ended job
are deleted only after its record was changed. Retention by the clock is checked each time, and a
revoked key is refused at the next request.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from starlette.requests import Request

from webdata_nb.service.store.records import JobRecord

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
        self._requested_once: OrderedDict[int, None] = OrderedDict()

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
        self._requested_once.move_to_end(key_hash)
        if len(self._requested_once) > _MAX_REQUESTED_KEYS:
            self._requested_once.popitem(last=False)
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
