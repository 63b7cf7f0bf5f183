"""The random sample of unchanged pages that are fetched in full."""

from __future__ import annotations

import random
import uuid
from math import sqrt
from types import SimpleNamespace
from typing import Any, cast

import pytest

from webdata_nb.contract.outcomes import upper_bound
from webdata_nb.service.crawl.earlier_pages import EarlierPages

RUNS = 200
URLS = [f"https://x.test/page/{number}" for number in range(300)]
# Four standard deviations of a count: one of 16,000 choices of seeds would fail.
DEVIATIONS = 4


def samples(recheck: float, *, seed: int) -> list[set[str]]:
    """Return the samples of crawls whose job ids follow from a seed."""
    chance = random.Random(seed)
    found = []
    for _ in range(RUNS):
        job_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        context = cast("Any", SimpleNamespace(job=SimpleNamespace(id=job_id)))
        pages = EarlierPages(context, recheck=recheck)
        found.append({url for url in URLS if pages.is_rechecked(url)})
    return found


def is_near(count: float, expected: float, trials: int) -> bool:
    share = expected / trials
    return abs(count - expected) <= DEVIATIONS * sqrt(trials * share * (1 - share))


@pytest.mark.parametrize(("recheck", "wrong"), [(0.01, 3), (0.01, 100), (0.1, 1), (0.1, 10)])
def test_wrong_claims_are_found_at_the_stated_rate(recheck: float, wrong: int) -> None:
    wrong_urls = set(random.Random(wrong).sample(URLS, wrong))
    found = sum(not wrong_urls.isdisjoint(each) for each in samples(recheck, seed=1))
    rate = 1 - (1 - recheck) ** wrong
    assert is_near(found, RUNS * rate, RUNS)


def test_each_page_is_in_the_sample_at_the_same_rate() -> None:
    drawn = samples(0.05, seed=2)
    assert is_near(sum(map(len, drawn)), RUNS * len(URLS) * 0.05, RUNS * len(URLS))
    for url in URLS[::30]:
        assert is_near(sum(url in each for each in drawn), RUNS * 0.05, RUNS)
    assert len({frozenset(each) for each in drawn}) == RUNS


@pytest.mark.parametrize("wrong", [3, 30, 150])
def test_the_bound_is_rarely_too_low(wrong: int) -> None:
    wrong_urls = set(URLS[:wrong])
    too_low = [
        upper_bound(len(each & wrong_urls), len(each)) < wrong / len(URLS)
        for each in samples(0.1, seed=3)
        if each
    ]
    assert len(too_low) > RUNS * 0.99
    assert sum(too_low) <= RUNS * 0.05 + DEVIATIONS * sqrt(RUNS * 0.05 * 0.95)


def test_no_page_and_every_page_can_be_checked() -> None:
    assert all(not each for each in samples(0.0, seed=4))
    assert all(len(each) == len(URLS) for each in samples(1.0, seed=4))
