"""Several inputs told as one: sums that are right whatever order the news comes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire_service import JobScript, WireService, crawl_rows
from webdata_nb.toolkit.api import Session
from webdata_nb.toolkit.calls.lists import CombinedProgress
from webdata_nb.toolkit.display import progress as display
from webdata_nb.toolkit.display.bars import Inputs, Painter, View, status_line

STEPS: Final = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 5)), max_size=40
)


def combined_progress(expected: list[int | None]) -> tuple[CombinedProgress, display.Listener]:
    listener = display.Listener(View("crawl of 3 inputs", None, unit="pages"), want=False)
    return CombinedProgress(listener, expected), listener


def view(completed: int, total: int | None, failed: int = 0, **more: Any) -> View:
    failures = {"timeout": failed} if failed else {}
    return View("x", total, completed=completed, failed=failed, failures=failures, **more)


def test_sums_totals_failures_by_kind_and_credits() -> None:
    progress, listener = combined_progress([None, None, None])
    progress.update(0, view(10, 40, 1, credits=9.0, reserved=40.0))
    assert listener.view.total is None
    progress.update(1, view(5, 20, 2, credits=3.0, reserved=20.0))
    progress.update(2, view(20, 40, reserved=40.0))
    assert status_line(listener.view) == (
        "0/3 inputs, 35/100 pages, 3 failed (timeout), 12 of 100 credits, 0 s"
    )
    progress.finish(0, 38)
    progress.finish(1, None)
    assert status_line(listener.view) == (
        "2/3 inputs (1 failed), 63/83 pages, 3 failed (timeout), 12 of 100 credits, 0 s"
    )


def test_estimates_unknown_total_from_running_inputs() -> None:
    progress, listener = combined_progress([None, None])
    progress.update(0, view(50, 100))
    assert (listener.view.total, listener.view.estimated_total) == (None, 200)
    assert listener.view.share == 0.25
    assert status_line(listener.view) == "0/2 inputs, 50 of about 200 pages, 0 s"
    progress.finish(0, 100)
    progress.finish(1, 4)
    assert (listener.view.total, listener.view.completed) == (104, 104)


@given(STEPS)
def test_sums_equal_those_of_last_views(steps: list[tuple[int, int, int]]) -> None:
    progress, listener = combined_progress([10, None, 30])
    last: dict[int, View] = {}
    for number, completed, failed in steps:
        last[number] = view(completed, 30, failed)
        progress.update(number, last[number])
    assert listener.view.completed == sum(each.completed for each in last.values())
    assert listener.view.failed == sum(each.failed for each in last.values())
    assert sum(listener.view.failures.values()) == listener.view.failed
    for number in range(3):
        progress.finish(number, 7)
    assert (listener.view.completed, listener.view.total) == (21, 21)
    assert listener.view.inputs == Inputs(3, 3, 0)


@dataclass
class LastViewPainter:
    """A painter that keeps the last view."""

    view: View | None = None

    def paint(self, view: View) -> None:
        self.view = view

    def poll_clicks(self) -> None:
        """Nobody clicks."""

    def close(self, view: View) -> None:
        self.view = view


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> LastViewPainter:
    kept = LastViewPainter()

    def made(_view: View) -> Painter:
        return kept

    monkeypatch.setitem(display.KINDS, "log", made)
    return kept


def test_list_shows_progress_of_its_pages(
    service: WireService, connected: Session, kept: LastViewPainter
) -> None:
    service.crawl = JobScript(crawl_rows(4), reply_fields={"credits": 4, "credits_unlimited": True})
    urls = ["https://a.test/", "https://b.test/", "https://c.test/"]
    connected.crawl_df(urls, progress="log", cache=True)
    assert kept.view is not None
    assert (kept.view.completed, kept.view.total, kept.view.unit) == (12, 12, "pages")
    assert kept.view.inputs == Inputs(3, 3, 0)
    connected.crawl_df(urls, progress="log")
    assert (kept.view.completed, kept.view.inputs) == (12, Inputs(3, 3, 0))  # from the cache


def test_failed_input_is_counted(
    service: WireService, connected: Session, kept: LastViewPainter
) -> None:
    service.search = JobScript([], status="failed", error="no provider answered")
    connected.search_df(["a", "b"], progress="log", cache=False)
    assert kept.view is not None
    assert kept.view.inputs == Inputs(2, 2, 2)
