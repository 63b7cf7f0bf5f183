"""Unique results in organic order."""

from __future__ import annotations

import pytest

from webdata_nb.service.search.providers.base import Found
from webdata_nb.service.search.rank import Ranking, result_key


def found(url: str) -> Found:
    return Found(url, url, "")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://x.test/a", "https://www.x.test/a/", True),
        ("http://x.test/a?utm_source=m&b=1", "http://x.test/a?b=1", True),
        ("http://x.test/a?gclid=1", "http://x.test/a", True),
        ("http://x.test/a#part", "http://x.test/a", True),
        ("http://x.test:80/a", "http://x.test/a", True),
        ("http://x.test/a?b=1", "http://x.test/a?b=2", False),
        ("http://x.test/a?id=", "http://x.test/a", False),
        ("http://x.test/a", "http://x.test/A", False),
        ("http://x.test:8080/a", "http://x.test/a", False),
        ("http://sub.x.test/a", "http://x.test/a", False),
    ],
)
def test_what_makes_two_urls_one_result(one: str, other: str, same: bool) -> None:
    assert (result_key(one) == result_key(other)) is same


def test_ranking_keeps_the_first_of_each_in_order_and_stops_when_full() -> None:
    ranking = Ranking(3)
    assert ranking.add([found("http://x/a"), found("http://x/a/"), found("http://x/b")]) == 2
    assert not ranking.full
    assert ranking.add([found("http://x/b"), found("http://x/c"), found("http://x/d")]) == 1
    assert ranking.full
    assert [result.url for result in ranking.found] == ["http://x/a", "http://x/b", "http://x/c"]
