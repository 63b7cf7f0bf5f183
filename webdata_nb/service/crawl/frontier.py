"""The URLs still to fetch, in the order of a strategy. Pure: no clock, no I/O, no chance."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

# Pages that a crawl in rounds pops before it looks at their links. A constant, so that the
# order does not depend on `concurrency`.
ROUND: Final = 8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A URL that may be fetched; `depth` is link depth from the start page.

    `key` is what makes it one with its other spellings; `score` is why it was chosen, where the
    strategy weighs pages.
    """

    url: str
    depth: int
    key: str = ""
    score: float | None = None


class Frontier(Protocol):
    """A queue of candidates.

    `ahead` tells how many may be popped before results are known, None that nothing learnt later
    changes what comes next. `weighs` tells whether the strategy wants to hear of links to URLs
    that were offered before.
    """

    ahead: int | None
    weighs: bool

    def offer(self, candidates: Iterable[Candidate]) -> None:
        """Add the candidates of one page, in document order."""

    def pop(self) -> Candidate:
        """Take the next candidate; raises IndexError when there is none."""

    def cite(self, page: str, cited: Sequence[tuple[str, float]]) -> None:
        """Hear of all the links of a page: the keys they lead to, each with its weight."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Candidate]: ...


class BreadthFirst:
    """First in, first out: later offers cannot change what is popped next, so it may run ahead."""

    ahead: int | None = None
    weighs = False

    def __init__(self) -> None:
        self._queue: deque[Candidate] = deque()

    def offer(self, candidates: Iterable[Candidate]) -> None:
        """Append in document order."""
        self._queue.extend(candidates)

    def pop(self) -> Candidate:
        """Take the oldest."""
        return self._queue.popleft()

    def cite(self, page: str, cited: Sequence[tuple[str, float]]) -> None:
        """Learn nothing: the order is that of the offers."""

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._queue)


class DepthFirst:
    """Last in, first out, the links of one page in document order; popped in rounds."""

    ahead: int | None = ROUND
    weighs = False

    def __init__(self) -> None:
        self._stack: list[Candidate] = []

    def offer(self, candidates: Iterable[Candidate]) -> None:
        """Push so that the page's first link comes out first."""
        self._stack.extend(reversed(list(candidates)))

    def pop(self) -> Candidate:
        """Take the newest."""
        return self._stack.pop()

    def cite(self, page: str, cited: Sequence[tuple[str, float]]) -> None:
        """Learn nothing: the order is that of the offers."""

    def __len__(self) -> int:
        return len(self._stack)

    def __iter__(self) -> Iterator[Candidate]:
        return reversed(self._stack)
