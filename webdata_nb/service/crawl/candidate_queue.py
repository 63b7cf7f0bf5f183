"""A long queue of candidates in little memory. Pure.

Both ends are lists. Whatever is between them is divided into chunks, each encoded and compressed:
some 15 bytes instead of 250 for a candidate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final

from webdata_nb.service.crawl.candidate import Candidate, decode_candidate, encode_candidate
from webdata_nb.service.crawl.state_record import compress_json, decompress_json

# Candidates that are compressed in one step: a millisecond.
CHUNK: Final = 500


class CandidateQueue:
    """Candidates, first in, first out."""

    def __init__(self) -> None:
        self._head: deque[Candidate] = deque()
        # Of `CHUNK` candidates each.
        self._chunks: deque[bytes] = deque()
        self._tail: list[Candidate] = []

    def extend(self, candidates: Iterable[Candidate]) -> None:
        """Append candidates."""
        for candidate in candidates:
            self._tail.append(candidate)
            if len(self._tail) == 2 * CHUNK:
                self._compress_tail()

    def popleft(self) -> Candidate:
        """Remove and return the oldest candidate."""
        if not self._head:
            if self._chunks:
                self._head.extend(_decompress(self._chunks.popleft()))
            else:
                self._head.extend(self._tail)
                self._tail = []
        return self._head.popleft()

    def __len__(self) -> int:
        return len(self._head) + CHUNK * len(self._chunks) + len(self._tail)

    def __iter__(self) -> Iterator[Candidate]:
        compressed = chain.from_iterable(map(_decompress, self._chunks))
        return chain(self._head, compressed, self._tail)

    def newest(self, count: int) -> Iterator[Candidate]:
        """Return the newest candidates, the oldest of them first."""
        skipped = len(self) - count
        if skipped <= len(self._head):
            return islice(self, skipped, None)
        skipped -= len(self._head)
        chunks = islice(self._chunks, min(skipped // CHUNK, len(self._chunks)), None)
        skipped -= CHUNK * min(skipped // CHUNK, len(self._chunks))
        return islice(
            chain(chain.from_iterable(map(_decompress, chunks)), self._tail), skipped, None
        )

    def _compress_tail(self) -> None:
        oldest, self._tail = self._tail[:CHUNK], self._tail[CHUNK:]
        if self._head or self._chunks:
            self._chunks.append(compress_json([encode_candidate(each) for each in oldest]))
        else:
            self._head.extend(oldest)


def _decompress(chunk: bytes) -> Iterator[Candidate]:
    items: list[Any] = decompress_json(chunk)
    return map(decode_candidate, items)
