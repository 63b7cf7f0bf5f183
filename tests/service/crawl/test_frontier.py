"""The queues: their order in little memory and time is that of the plain data structures."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.crawl.reference_best_first import ReferenceBestFirst
from tests.steps import run_to_completion
from webdata_nb.service.crawl import frontier
from webdata_nb.service.crawl.frontier import BestFirst, BreadthFirst
from webdata_nb.service.crawl.journal import CrawlTarget, StateReader, StateWriter


def _candidates(numbers: range) -> list[CrawlTarget]:
    urls = (f"http://x.test/{number}é" for number in numbers)
    return [
        CrawlTarget(url, number % 7, None if number % 3 else f"key of {url}")
        for number, url in zip(numbers, urls, strict=True)
    ]


@settings(max_examples=100, deadline=None)
@given(
    chunk=st.sampled_from([1, 2, 5, 500]),
    steps=st.lists(st.integers(-30, 40), max_size=12),
)
def test_compressed_queue_is_a_queue(chunk: int, steps: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier, "CHUNK", chunk)
        queue, expected, added = BreadthFirst(), deque[CrawlTarget](), 0
        for step in steps:
            if step >= 0:
                new = _candidates(range(added, added + step))
                added += step
                queue.add(new)
                expected.extend(new)
            for _ in range(min(-step, len(expected))):
                assert queue.pop() == expected.popleft()
            assert (len(queue), list(queue)) == (len(expected), list(expected))
            again, writer = BreadthFirst(), StateWriter()
            state = run_to_completion(queue.state(writer))
            run_to_completion(again.restore(StateReader(writer.end(None)), state))
            assert (len(again), list(again)) == (len(expected), list(expected))
            queue = again
        assert [queue.pop() for _ in range(len(expected))] == list(expected)
        with pytest.raises(IndexError):
            queue.pop()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    pages=st.sampled_from([5, 40, 120]),
    density=st.sampled_from([1, 4, 12]),
    min_stale=st.sampled_from([0, 20, 1000]),
)
def test_best_first_has_the_order_of_its_definition(
    seed: int, pages: int, density: int, min_stale: int
) -> None:
    rng = random.Random(seed)
    urls = [f"http://x.test/{'a/' * rng.randrange(4)}{number}" for number in range(pages)]
    weights = [0.0, 0.1, 0.1, 0.5, 1.0]
    links = {
        url: [(rng.choice(urls), rng.choice(weights)) for _ in range(rng.randrange(2 * density))]
        for url in urls
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier, "_MIN_STALE", min_stale)
        queue, expected, known = BestFirst(), ReferenceBestFirst(), {urls[0]}
        for each in (queue, expected):
            each.add([CrawlTarget(urls[0], 0, urls[0])])
        in_flight: list[CrawlTarget] = []
        while expected.waiting:
            for _ in range(min(rng.randrange(1, 9), len(expected.waiting))):
                in_flight.append(queue.pop())
                assert in_flight[-1] == expected.pop()
            for page in in_flight:
                new = dict.fromkeys(key for key, _ in links[page.url] if key not in known)
                known.update(new)
                for each in (queue, expected):
                    each.add([CrawlTarget(key, 1, key) for key in new])
                    each.record_links(page.key, links[page.url])
            in_flight.clear()
            assert list(queue) == list(expected.waiting.values())
    assert len(queue) == 0
