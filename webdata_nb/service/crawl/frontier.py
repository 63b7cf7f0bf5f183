"""The URLs still to fetch, in the order of a strategy. Pure: no clock, no I/O, no chance."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

# Pages that a crawl in rounds pops before it looks at their links. A constant, so that the
# order does not depend on `concurrency`.
ROUND_SIZE: Final = 8


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
    that were offered before, `promotes` whether a URL that still waits is to be offered again
    where another page links to it.
    """

    ahead: int | None
    weighs: bool
    promotes: bool

    def offer(self, candidates: Iterable[Candidate]) -> None:
        """Add the candidates of one page, in document order."""

    def pop(self) -> Candidate:
        """Take the next candidate; raises IndexError when there is none."""

    def cite(self, page: str, cited: Sequence[tuple[str, float]]) -> None:
        """Hear of all the links of a page: the keys they lead to, each with its weight."""

    def movable(self, key: str) -> bool:
        """Tell whether a candidate with this key waits and would move if it were offered again."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Candidate]:
        """Iterate over what waits, where that is known in the order in which it will be popped."""


class BreadthFirst:
    """First in, first out: later offers cannot change what is popped next, so it may run ahead."""

    ahead: int | None = None
    weighs = False
    promotes = False

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

    def movable(self, key: str) -> bool:  # noqa: ARG002 - the protocol's parameter
        """Tell that the order is that of the first offers."""
        return False

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._queue)


class DepthFirst:
    """Last in, first out: next is the first link of the page just read that was not yet visited.

    A URL that waits moves to the top when another page links to it, as a depth-first search
    descends into it from there. Its depth is that of the shortest way known so far. Every result
    may change what comes next, so no more than one URL is popped before its result is known.
    """

    ahead: int | None = 1
    weighs = False
    promotes = True

    def __init__(self) -> None:
        # By key, the top of the stack last: dictionaries keep the order of insertion.
        self._stack: dict[str, Candidate] = {}

    def offer(self, candidates: Iterable[Candidate]) -> None:
        """Push so that the page's first link comes out first; move up what waits already."""
        for candidate in reversed(list(candidates)):
            known = self._stack.pop(candidate.key, candidate)
            depth = min(known.depth, candidate.depth)
            self._stack[candidate.key] = (
                known if known.depth == depth else replace(known, depth=depth)
            )

    def pop(self) -> Candidate:
        """Take the newest."""
        if not self._stack:
            raise IndexError("nothing waits")
        return self._stack.popitem()[1]

    def cite(self, page: str, cited: Sequence[tuple[str, float]]) -> None:
        """Learn nothing: the order is that of the offers."""

    def movable(self, key: str) -> bool:
        """Tell whether a URL waits: a new link moves it to the top."""
        return key in self._stack

    def __len__(self) -> int:
        return len(self._stack)

    def __iter__(self) -> Iterator[Candidate]:
        return reversed(self._stack.values())
