"""The bound of how many pages may have changed although the site called them unchanged."""

from __future__ import annotations

from math import comb

import pytest

from webdata_nb.contract.outcomes import ClaimChecks, upper_bound


def probability_of_at_most(hits: int, size: int, share: float) -> float:
    return sum(comb(size, n) * share**n * (1 - share) ** (size - n) for n in range(hits + 1))


@pytest.mark.parametrize("size", [1, 2, 9, 50, 149, 300])
def test_the_bound_is_exact(size: int) -> None:
    for hits in range(min(size, 6)):
        bound = upper_bound(hits, size)
        assert probability_of_at_most(hits, size, bound) == pytest.approx(0.05, rel=1e-6)
    assert upper_bound(0, size) == pytest.approx(1 - 0.05 ** (1 / size))
    assert upper_bound(size, size) == 1.0


def test_the_bound_of_large_samples_is_about_three_pages() -> None:
    assert upper_bound(0, 10_000) == pytest.approx(3 / 10_000, rel=0.01)
    assert upper_bound(5_000, 10_000) == pytest.approx(0.5083, abs=1e-4)
    assert 0.9999 < upper_bound(9_999, 10_000) < 1


def test_counts_become_a_statement() -> None:
    assert ClaimChecks.of({"fetched": 3, "scope": 9}) is None
    checks = ClaimChecks.of({"fetched": 1, "unchanged": 1200, "verified": 11, "contradicted": 1})
    assert checks == ClaimChecks(1200, 11, 1)
    assert checks is not None
    assert checks.text() == (
        "1,212 unchanged since the earlier crawl, 12 of them checked, 1 wrong: at most 33.9 % of "
        "the unchanged pages may have changed (95 % confidence)"
    )
    unchecked = ClaimChecks(5, 0, 0)
    assert unchecked.bound is None
    assert unchecked.text() == "5 unchanged since the earlier crawl, none of them checked"
