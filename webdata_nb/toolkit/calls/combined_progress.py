"""Adds the progress of several inputs up into one progress view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.display.progress_view import Inputs, View

# An estimate of the total from a smaller share would be unstable.
_MIN_SHARE: Final = 0.05


class CombinedProgress:
    """Sums up the views of several inputs, and reports the sums to a listener.

    `update` and `finish` must be called on the same event loop.
    """

    def __init__(self, listener: Listener, totals: Sequence[int | None]) -> None:
        self._listener = listener
        self._totals = list(totals)
        self._unknown_totals = self._totals.count(None)
        self._total = sum(total or 0 for total in self._totals)
        self._views: list[View | None] = [None] * len(totals)
        self._failures: Counter[str] = Counter()
        self._completed = self._failed = self._finished_inputs = self._failed_inputs = 0
        self._links_checked = 0
        self._credits = self._reserved = self._share = 0.0
        self._has_credits = self._has_reserved = False

    def update(self, number: int, view: View) -> None:
        """Replace the view of one input."""
        before, self._views[number] = self._views[number], view
        self._add(before, -1)
        self._add(view, 1)
        self._set_total(number, view.total)
        self._report(view)

    def finish(self, number: int, rows: int | None) -> None:
        """Count an input as finished; `rows` is its number of rows, None where it failed."""
        self._finished_inputs += 1
        self._failed_inputs += rows is None
        before = self._views[number] or View("", None)
        rows = before.completed if rows is None else rows
        self._share += 1.0 - before.share
        self._completed += rows - before.completed
        self._set_total(number, rows)
        self._report(before)

    def _add(self, view: View | None, sign: int) -> None:
        if view is None:
            return
        self._completed += sign * view.completed
        self._failed += sign * view.failed
        self._links_checked += sign * view.links_checked
        self._share += sign * view.share
        for kind, count in view.failures.items():
            self._failures[kind] += sign * count
        self._credits += sign * (view.credits or 0)
        self._reserved += sign * (view.reserved or 0)
        self._has_credits |= view.credits is not None
        self._has_reserved |= view.reserved is not None

    def _set_total(self, number: int, total: int | None) -> None:
        if total is None:
            return
        before, self._totals[number] = self._totals[number], total
        self._unknown_totals -= before is None
        self._total += total - (before or 0)

    def _report(self, view: View) -> None:
        count = len(self._views)
        share = self._share / count
        self._listener.update(
            total=None if self._unknown_totals else self._total,
            estimated_total=round(self._completed / share) if share >= _MIN_SHARE else None,
            completed=self._completed,
            failed=self._failed,
            failures=dict(+self._failures),
            links_checked=self._links_checked,
            credits=self._credits if self._has_credits else None,
            reserved=self._reserved if self._has_reserved else None,
            unlimited=self._listener.view.unlimited or view.unlimited,
            phase=view.phase,
            notice=view.notice or self._listener.view.notice,
            inputs=Inputs(count, self._finished_inputs, self._failed_inputs),
        )
