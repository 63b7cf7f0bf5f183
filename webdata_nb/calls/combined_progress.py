"""What several inputs amount to while they run: one view of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from webdata_nb.display.progress import Listener
from webdata_nb.display.progress_view import Inputs, View

# A guess at the whole from less than this would jump about.
_LEAST_SHARE = 0.05


class CombinedProgress:
    """Adds up the views of several inputs, and tells the listener of them all.

    Everything is told on one loop, where `seen` and `ended` are called.
    """

    def __init__(self, listener: Listener, expected: Sequence[int | None]) -> None:
        self._listener = listener
        self._totals = list(expected)
        self._unknown = self._totals.count(None)
        self._total = sum(total or 0 for total in self._totals)
        self._views: list[View | None] = [None] * len(expected)
        self._failures: Counter[str] = Counter()
        self._completed = self._failed = self._ended = self._lost = 0
        self._credits = self._reserved = self._share = 0.0
        self._told_credits = self._told_reserved = False

    def seen(self, number: int, view: View) -> None:
        """Take the latest view of one input."""
        before, self._views[number] = self._views[number], view
        self._add(before, -1)
        self._add(view, 1)
        self._expect(number, view.total)
        self._tell(view)

    def ended(self, number: int, rows: int | None) -> None:
        """Take the end of one input: its rows are what counts, from wherever they came."""
        self._ended += 1
        self._lost += rows is None
        before = self._views[number] or View("", None)
        rows = before.completed if rows is None else rows
        self._share -= before.share
        self._share += 1.0
        self._completed += rows - before.completed
        self._expect(number, rows)
        self._tell(before)

    def _add(self, view: View | None, sign: int) -> None:
        if view is None:
            return
        self._completed += sign * view.completed
        self._failed += sign * view.failed
        self._share += sign * view.share
        for kind, count in view.failures.items():
            self._failures[kind] += sign * count
        self._credits += sign * (view.credits or 0)
        self._reserved += sign * (view.reserved or 0)
        self._told_credits |= view.credits is not None
        self._told_reserved |= view.reserved is not None

    def _expect(self, number: int, total: int | None) -> None:
        if total is None:
            return
        before, self._totals[number] = self._totals[number], total
        self._unknown -= before is None
        self._total += total - (before or 0)

    def _tell(self, view: View) -> None:
        count = len(self._views)
        self._listener.note(
            total=None if self._unknown else self._total,
            likely=self._likely(self._share / count),
            completed=self._completed,
            failed=self._failed,
            failures=dict(+self._failures),
            credits=self._credits if self._told_credits else None,
            reserved=self._reserved if self._told_reserved else None,
            unlimited=self._listener.view.unlimited or view.unlimited,
            inputs=Inputs(count, self._ended, self._lost),
        )

    def _likely(self, share: float) -> int | None:
        return round(self._completed / share) if share >= _LEAST_SHARE else None
