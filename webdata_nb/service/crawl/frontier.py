"""Queues of the URLs still to fetch: breadth first, depth first and by importance. Pure."""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from webdata_nb.service.crawl.journal import (
    CrawlTarget,
    Packed,
    StateReader,
    StateWriter,
    pack_chunk,
    unpack_chunk,
)
from webdata_nb.service.runtime.steps import Steps

# URLs that best first pops before it considers their links. A constant, so that the order does
# not depend on `concurrency`.
ROUND_SIZE: Final = 8
# The share of its cash that an already read page passes on: less than 1, so that cash cannot
# circulate without end.
DAMPING: Final = 0.85
# Less cash than this is not worth distributing.
_MIN_CASH: Final = 1e-9
# A heap is built anew when it has more stale entries than others, and than this.
_MIN_STALE: Final = 1000

# Waiting candidates of breadth first that are compressed in one step: a millisecond.
CHUNK: Final = 500
# The weight of a link by the grade of its anchor text: no text; a navigation word or a number;
# descriptive words.
LINK_WEIGHTS: Final = {"0": 0.6, "1": 0.8, "2": 1.0}
_FACTOR_PER_FOLDER: Final = 0.97
_FACTOR_FOR_QUERY: Final = 0.8
_NAVIGATION_WORDS: Final = frozenset(
    (
        *("back", "first", "here", "home", "index", "last", "less", "link", "more", "next"),
        *("prev", "previous", "read", "skip", "top", "up"),
    )
)

LinkWeights = Sequence[tuple[str, float]]
"""The keys that the links of a page lead to, each with the weight of its link."""


class BreadthFirstState(Struct, array_like=True, tag=True):
    """The queue in chunks, and its length."""

    chunks: Packed
    count: int


class DepthFirstState(Struct, array_like=True, tag=True):
    """The stack, its bottom first."""

    stack: Packed


class BestFirstState(Struct, array_like=True, tag=True):
    """The keys with their weights, the queue, and the links of the pages read.

    The heaps follow from them.
    """

    added_count: int
    keys: Packed
    cash: bytes
    inlink_weight: bytes
    waiting: Packed
    outlinks: Packed


FrontierState: TypeAlias = BreadthFirstState | DepthFirstState | BestFirstState


class Frontier(Protocol):
    """A queue of candidates.

    Attributes
    ----------
    round_size
        The candidates that may be popped before the results of earlier ones are known; None where
        no result can change which candidate comes next.
    uses_link_weights
        Whether the order depends on `record_links`.
    requeues
        Whether a waiting candidate may move when another page links to it.
    """

    round_size: int | None = None
    uses_link_weights: bool = False
    requeues: bool = False

    def add(self, candidates: Iterable[CrawlTarget]) -> None:
        """Add the candidates of one page, in document order."""

    def pop(self) -> CrawlTarget:
        """Remove and return the next candidate. Raises IndexError when the queue is empty."""

    def record_links(self, page: str, links: LinkWeights) -> None:  # noqa: ARG002 - for some
        """Record all links of a page that was read, if the order depends on them."""
        return

    def can_move(self, key: str) -> bool:  # noqa: ARG002 - for some
        """Return whether adding a queued candidate with this key again would move it."""
        return False

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[CrawlTarget]:
        """Iterate over the queued candidates, in the order of `pop` if that is known."""

    def state(self, writer: StateWriter) -> Steps[FrontierState]:
        """Return the state."""

    def restore(self, reader: StateReader, state: Any) -> Steps[None]:
        """Continue from the state of a frontier of this strategy.

        This one is new, and the start pages were popped from it.
        """


class BreadthFirst(Frontier):
    """First in, first out. Later candidates never change the order of earlier ones.

    What waits between both ends of a long queue is compressed: some 15 bytes instead of 250 for a
    candidate.
    """

    def __init__(self) -> None:
        self._head = deque[CrawlTarget]()
        self._chunks = deque[bytes]()
        self._tail = list[CrawlTarget]()
        self._count = 0

    def add(self, candidates: Iterable[CrawlTarget]) -> None:
        """Append in document order."""
        for candidate in candidates:
            self._tail.append(candidate)
            self._count += 1
            if len(self._tail) == CHUNK:
                self._chunks.append(pack_chunk(self._tail))
                self._tail = []

    def pop(self) -> CrawlTarget:
        """Remove and return the oldest candidate."""
        if not self._head:
            if self._chunks:
                self._head.extend(unpack_chunk(self._chunks.popleft(), CrawlTarget))
            else:
                self._head.extend(self._tail)
                self._tail = []
        candidate = self._head.popleft()
        self._count -= 1
        return candidate

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[CrawlTarget]:
        chunks = (unpack_chunk(chunk, CrawlTarget) for chunk in self._chunks)
        return chain(self._head, chain.from_iterable(chunks), self._tail)

    def state(self, writer: StateWriter) -> Steps[BreadthFirstState]:
        """Return the queue; the chunks are copied as they are."""
        yield
        head, tail = ([pack_chunk(list(end))] if end else [] for end in (self._head, self._tail))
        chunks = [writer.write(chunk) for chunk in (*head, *self._chunks, *tail)]
        return BreadthFirstState(chunks, self._count)

    def restore(self, reader: StateReader, state: BreadthFirstState) -> Steps[None]:
        """Continue with another queue."""
        self._chunks, self._count = deque(map(reader.read, state.chunks)), state.count
        yield


class DepthFirst(Frontier):
    """Last in, first out: the next URL is the first unvisited link of the last page read.

    A waiting URL moves to the top when another page links to it, because a depth-first search
    descends into it from there. Its depth is that of the shortest known path. Each result may
    change which URL is next, so only one URL is popped before its result is known.
    """

    round_size: int | None = 1
    requeues = True

    def __init__(self) -> None:
        # By key; a dictionary keeps the order of insertion, so the top of the stack is last.
        self._stack: dict[str, CrawlTarget] = {}

    def add(self, candidates: Iterable[CrawlTarget]) -> None:
        """Push in reverse, so that the page's first link is popped first; move waiting URLs up."""
        for candidate in reversed(list(candidates)):
            queued = self._stack.pop(candidate.key, candidate)
            depth = min(queued.depth, candidate.depth)
            self._stack[candidate.key] = (
                queued if queued.depth == depth else replace(queued, depth=depth)
            )

    def pop(self) -> CrawlTarget:
        """Remove and return the newest candidate."""
        if not self._stack:
            raise IndexError("the frontier is empty")
        return self._stack.popitem()[1]

    def can_move(self, key: str) -> bool:
        """Return whether the URL is queued: a new link moves it to the top."""
        return key in self._stack

    def __len__(self) -> int:
        return len(self._stack)

    def __iter__(self) -> Iterator[CrawlTarget]:
        return reversed(self._stack.values())

    def state(self, writer: StateWriter) -> Steps[DepthFirstState]:
        """Return the stack."""
        return DepthFirstState((yield from writer.pack(self._stack.values())))

    def restore(self, reader: StateReader, state: DepthFirstState) -> Steps[None]:
        """Continue with another stack."""
        yield from reader.unpack(
            state.stack,
            CrawlTarget,
            lambda chunk: self._stack.update((one.key, one) for one in chunk),
        )


@dataclass(frozen=True, slots=True)
class WeightedLinks:
    """The links of a page read, by the numbers of their keys."""

    numbers: array[int]
    weights: array[float]
    total_weight: float

    def encode(self) -> tuple[bytes, bytes, float]:
        """Return the fields, the arrays in the byte order of this machine."""
        return self.numbers.tobytes(), self.weights.tobytes(), self.total_weight


class BestFirst(Frontier):
    """The most important page first, popped in rounds; ties in the order of `add`.

    Importance is estimated online after Abiteboul, Preda and Cobena (2003, OPIC). The start page
    has a cash of 1. A page that is read distributes its cash over the pages that it links to.
    After each page, the richest of the pages read before distributes its cash again, damped. Cash
    alone favours the links of the last page read, so the score multiplies it by the weighted
    number of links to a page and by the prior of its URL.

    Memory: 12 bytes for each link of each page read. Time: some heap operations for each link.
    """

    round_size: int | None = ROUND_SIZE
    uses_link_weights = True

    def __init__(self) -> None:
        # Keys have numbers, in the order in which they were first met.
        self._keys: list[str] = []
        self._number_by_key: dict[str, int] = {}
        # By the number of a key.
        self._cash = array("d")
        self._inlink_weight = array("d")
        self._waiting: dict[int, CrawlTarget] = {}
        self._insertion_order: dict[int, int] = {}
        self._prior: dict[int, float] = {}
        # The pages read, in their order.
        self._outlinks: dict[int, WeightedLinks] = {}
        self._reading_order: dict[int, int] = {}
        # Entries are not removed when a score or cash changes: such an entry is stale.
        self._heap: list[tuple[float, int, int]] = []
        self._richest: list[tuple[float, int, int]] = []
        self._added_count = 0

    def add(self, candidates: Iterable[CrawlTarget]) -> None:
        """Add candidates; the very first one, the start page, receives all the cash."""
        for candidate in candidates:
            number = self._number_of(candidate.key)
            if not self._added_count:
                self._set_cash(number, 1.0)
            self._wait(number, candidate, self._added_count)
            self._added_count += 1

    def pop(self) -> CrawlTarget:
        """Remove and return the candidate with the highest score."""
        while True:
            negative_score, _, number = heapq.heappop(self._heap)
            if number in self._waiting and -negative_score == self._score(number):
                del self._insertion_order[number], self._prior[number]
                return replace(self._waiting.pop(number), score=-negative_score)

    def record_links(self, page: str, links: LinkWeights) -> None:
        """Distribute the cash of the page just read, then that of the richest page read before."""
        number = self._number_of(page)
        outlinks = [
            (self._number_of(key), weight) for key, weight in links if key != page and weight > 0
        ]
        self._read(
            number,
            WeightedLinks(
                array("I", [other for other, _ in outlinks]),
                array("d", [weight for _, weight in outlinks]),
                sum(weight for _, weight in outlinks),
            ),
        )
        for other, weight in outlinks:
            self._inlink_weight[other] += weight
        self._distribute_cash(number, 1.0)
        richest = self._richest_page()
        if richest is not None:
            self._distribute_cash(richest, DAMPING)
        # Stale entries of the heaps are dropped where they outnumber the others.
        if len(self._heap) > 2 * len(self._waiting) + _MIN_STALE:
            self._heap.clear()
            for waiting in self._waiting:
                self._push(waiting)
        if len(self._richest) > 2 * len(self._outlinks) + _MIN_STALE:
            self._richest.clear()
            for read in self._outlinks:
                self._push(read)

    def _number_of(self, key: str) -> int:
        number = self._number_by_key.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
            self._cash.append(0.0)
            self._inlink_weight.append(0.0)
        return number

    def _wait(self, number: int, candidate: CrawlTarget, insertion_order: int) -> None:
        self._waiting[number] = candidate
        self._insertion_order[number] = insertion_order
        self._prior[number] = url_prior(candidate.url)
        self._push(number)

    def _read(self, number: int, links: WeightedLinks) -> None:
        self._reading_order.setdefault(number, len(self._reading_order))
        self._outlinks[number] = links

    def _distribute_cash(self, page: int, share: float) -> None:
        links = self._outlinks[page]
        amount = self._cash[page] * share
        self._set_cash(page, 0.0)
        for number, weight in zip(links.numbers, links.weights, strict=True):
            self._set_cash(number, self._cash[number] + amount * weight / links.total_weight)

    def _set_cash(self, number: int, cash: float) -> None:
        self._cash[number] = cash
        self._push(number)

    def _score(self, number: int) -> float:
        return self._cash[number] * (1.0 + self._inlink_weight[number]) * self._prior[number]

    def _push(self, number: int) -> None:
        """Add entries with the present score of a page, or its cash if it was read."""
        if number in self._waiting:
            entry = -self._score(number), self._insertion_order[number], number
            heapq.heappush(self._heap, entry)
        elif number in self._reading_order and self._cash[number] > _MIN_CASH:
            entry = -self._cash[number], self._reading_order[number], number
            heapq.heappush(self._richest, entry)

    def _richest_page(self) -> int | None:
        """Return the page read with the most cash, the first of several; None if it is little."""
        while self._richest:
            negative_cash, _, number = self._richest[0]
            if -negative_cash == self._cash[number]:
                return number
            heapq.heappop(self._richest)
        return None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[CrawlTarget]:
        return iter(self._waiting.values())

    def state(self, writer: StateWriter) -> Steps[BestFirstState]:
        """Return all that the heaps follow from."""
        orders = self._insertion_order
        return BestFirstState(
            self._added_count,
            (yield from writer.pack(self._keys)),
            self._cash.tobytes(),
            self._inlink_weight.tobytes(),
            (
                yield from writer.pack(
                    (each, orders[each], one) for each, one in self._waiting.items()
                )
            ),
            (
                yield from writer.pack(
                    (each, *links.encode()) for each, links in self._outlinks.items()
                )
            ),
        )

    def restore(self, reader: StateReader, state: BestFirstState) -> Steps[None]:
        """Continue with another state, whose keys begin with those of the start pages."""
        self._added_count = state.added_count
        yield from reader.unpack(
            state.keys, str, lambda keys: [self._number_of(key) for key in keys]
        )
        self._cash = array("d", state.cash)
        self._inlink_weight = array("d", state.inlink_weight)

        def add_read(chunk: list[tuple[int, bytes, bytes, float]]) -> None:
            for number, numbers, weights, total_weight in chunk:
                links = WeightedLinks(array("I", numbers), array("d", weights), total_weight)
                self._read(number, links)
                self._push(number)

        def add_waiting(chunk: list[tuple[int, int, CrawlTarget]]) -> None:
            for number, insertion_order, candidate in chunk:
                self._wait(number, candidate, insertion_order)

        yield from reader.unpack(state.outlinks, tuple[int, bytes, bytes, float], add_read)
        yield from reader.unpack(state.waiting, tuple[int, int, CrawlTarget], add_waiting)


def anchor_grade(anchor: str) -> str:
    """Grade an anchor text from "0" (empty) to "2" (descriptive)."""
    words = anchor.lower().split()
    if not words:
        return "0"
    descriptive = any(len(w) > 1 and w.isalpha() and w not in _NAVIGATION_WORDS for w in words)
    return "2" if descriptive else "1"


def anchor_grades(anchors: Iterable[str]) -> str:
    """Return one digit for each anchor text, the form that the journal stores."""
    return "".join(map(anchor_grade, anchors))


def url_prior(url: str) -> float:
    """Return a factor of at most 1: deep paths and queries make an important page less likely."""
    path, _, query = url.partition("?")
    folder_factor = _FACTOR_PER_FOLDER ** max(0, path.count("/") - 3)
    return float(folder_factor) * (_FACTOR_FOR_QUERY if query else 1.0)
