"""Bounds how many pages may have changed although their site called them unchanged. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log, log1p
from typing import Final

from webdata_nb.contract import outcomes

CONFIDENCE: Final = 0.95
_BISECTIONS: Final = 60


@dataclass(frozen=True, slots=True)
class ClaimChecks:
    """The rows of an incremental crawl that their site called unchanged, by their outcome.

    Attributes
    ----------
    trusted
        Rows that were taken from the earlier crawl.
    verified, contradicted
        Rows of a random sample that were fetched in full, and had not changed, or had.
    """

    trusted: int
    verified: int
    contradicted: int

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> ClaimChecks | None:
        """Return the rows of a receipt by its counts; None if no row was called unchanged."""
        names = outcomes.UNCHANGED, outcomes.VERIFIED, outcomes.CONTRADICTED
        checks = cls(*(counts.get(name, 0) for name in names))
        return checks if checks.claimed else None

    @property
    def checked(self) -> int:
        """The size of the sample."""
        return self.verified + self.contradicted

    @property
    def claimed(self) -> int:
        """All rows that the site called unchanged."""
        return self.trusted + self.checked

    @property
    def bound(self) -> float | None:
        """The upper bound, with 95 % confidence, of the share of the claimed rows that are wrong.

        It is the exact bound of Clopper and Pearson, and None without a sample. The sample is drawn
        without replacement, so the bound is cautious.
        """
        return upper_bound(self.contradicted, self.checked) if self.checked else None

    def text(self) -> str:
        """Return what was trusted, what was checked, and the bound, as a clause.

        Examples
        --------
        >>> ClaimChecks(trusted=897, verified=9, contradicted=0).text()
        '906 unchanged since the earlier crawl, 9 of them checked, 0 wrong: at most 28.3 % of the \
unchanged pages may have changed (95 % confidence)'
        """
        claim = f"{self.claimed:,} unchanged since the earlier crawl"
        if self.bound is None:
            return f"{claim}, none of them checked"
        share = 100 * self.bound
        return (
            f"{claim}, {self.checked:,} of them checked, {self.contradicted:,} wrong: at most "
            f"{share:.3g} % of the unchanged pages may have changed (95 % confidence)"
        )


def upper_bound(hits: int, size: int) -> float:
    """Return the one-sided 95 % bound of Clopper and Pearson for the share behind a sample.

    With no hits it is 1 - 0.05 ** (1 / size), about 3 / size.

    Examples
    --------
    >>> round(upper_bound(0, 149), 4)
    0.0199
    >>> round(upper_bound(1, 10), 4)
    0.3942
    """
    if hits >= size:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        share = (low + high) / 2
        if _probability_of_at_most(hits, size, share) > 1 - CONFIDENCE:
            low = share
        else:
            high = share
    return high


def _probability_of_at_most(hits: int, size: int, share: float) -> float:
    """Return the binomial probability of so few hits."""
    term = size * log1p(-share)
    total = exp(term)
    for count in range(1, hits + 1):
        term += log((size - count + 1) / count) + log(share) - log1p(-share)
        total += exp(term)
    return total
