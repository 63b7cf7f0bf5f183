"""Status replies of ended jobs, kept in memory as they were sent."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from starlette.requests import Request

from webdata_nb.service.store.records import Job

ROOM: Final = 16 * 1024 * 1024
LARGEST: Final = 4 * 1024 * 1024
# Questions that were asked once, by their hash.
_NOTED: Final = 4096


class Question(NamedTuple):
    """Whose account asked about which job, at which path, with which query.

    The reply follows from these.
    """

    account_id: str
    job_id: str
    path: str
    query: bytes

    @classmethod
    def of(cls, request: Request, account_id: str, job_id: str) -> Question:
        """Return what a request asks."""
        scope = request.scope
        return cls(account_id, job_id, scope["path"], scope["query_string"])


@dataclass(frozen=True, slots=True)
class Kept:
    """A reply about a job, and when it was last known to hold; the job is without its secrets."""

    job: Job
    body: bytes
    moment: int
    etag: str


class Shelf:
    """The replies that were asked for last, in so many bytes.

    A notebook reads its rows once, and for it nothing is kept: what is asked for again is.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room, self._used = room, 0
        self._kept: OrderedDict[Question, Kept] = OrderedDict()
        self._noted: OrderedDict[int, None] = OrderedDict()

    def get(self, question: Question) -> Kept | None:
        """Return what is kept, whether it still holds or not."""
        return self._kept.get(question)

    def wants(self, question: Question, size: int) -> bool:
        """Tell whether a reply of `size` bytes is to be kept; the first time it is only noted."""
        if size > min(LARGEST, self._room):
            return False
        mark = hash(question)
        known = mark in self._noted
        self._noted[mark] = None
        self._noted.move_to_end(mark)
        if len(self._noted) > _NOTED:
            self._noted.popitem(last=False)
        return known

    def keep(
        self, question: Question, job: Job, body: bytes, moment: int, *, etag: str = ""
    ) -> None:
        """Keep a reply, or know it to hold at a later moment; those used longest ago make room."""
        self.drop(question)
        self._kept[question] = Kept(public(job), body, moment, etag)
        self._used += len(body)
        while self._used > self._room:
            self.drop(next(iter(self._kept)))

    def drop(self, question: Question) -> None:
        """Forget a reply."""
        found = self._kept.pop(question, None)
        self._used -= 0 if found is None else len(found.body)

    def clear(self) -> None:
        """Forget every reply: nothing outlives its job for long, even if nobody asks again."""
        self._kept.clear()
        self._used = 0


def public(job: Job) -> Job:
    """Return a job without what it keeps secret."""
    return replace(job, request={}, context={}, locked=False)
