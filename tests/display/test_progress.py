"""Listeners: events from any thread, painting on one, and the right painter for the place."""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import sys
import threading
from dataclasses import dataclass, field

import pytest

from webdata_nb.contract.events import Progress
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.errors import InvalidArgument, JobCancelled, JobFailed, JobTimeout
from webdata_nb.settings import PROGRESS_KINDS, Options
from webdata_nb.toolkit import bridge
from webdata_nb.toolkit.display import bars, progress
from webdata_nb.toolkit.display.bars import EndState, Painter, View, counts
from webdata_nb.toolkit.display.progress import Listener


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        super().isatty()  # raises once it is closed
        return True


@dataclass
class Recorder:
    """A painter that keeps what it was shown, and on which thread."""

    calls: list[tuple[str, View, int]] = field(default_factory=list)
    painted: threading.Event = field(default_factory=threading.Event)
    poll_count: int = 0

    def paint(self, view: View) -> None:
        self.calls.append(("paint", view, threading.get_ident()))
        self.painted.set()

    def poll_clicks(self) -> None:
        self.poll_count += 1

    def close(self, view: View) -> None:
        self.calls.append(("close", view, threading.get_ident()))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()

    def made(_view: View) -> Painter:
        return recorder

    monkeypatch.setitem(progress.KINDS, "recorded", made)
    return recorder


def at(completed: int, total: int | None = 10, **failed: int) -> Progress:
    return Progress(
        job_id="j",
        type="crawl",
        status=JobStatus.RUNNING,
        completed=completed,
        total=total,
        failed=failed,
    )


def listener() -> Listener:
    return Listener(View("crawl x", None), "recorded")


def test_events_change_nothing_on_screen_until_a_tick(recorder: Recorder) -> None:
    with listener() as bar:
        bar.report(at(3, timeout=1, dns=1))
        assert recorder.calls == []
        bar.tick()
    [(what, view, _)] = recorder.calls
    assert what == "paint"
    assert (view.completed, view.total, view.failed, view.status) == (3, 10, 2, "running")


def test_checked_links_are_counted_behind_the_pages(recorder: Recorder) -> None:
    with listener() as bar:
        bar.report(at(10).model_copy(update={"links_checked": 57}))
        bar.tick()
    [(_, view, _)] = recorder.calls
    assert counts(view) == "10/10 rows, 57 links checked"


def test_start_of_the_service_is_shown_instead_of_counts(recorder: Recorder) -> None:
    with listener() as bar:
        bar.starting_service()
        bar.tick()
        bar.report(at(3))
        bar.tick()
    assert [counts(view) for _, view, _ in recorder.calls] == [
        "starting the local service",
        "3/10 rows",
    ]


def test_terminal_bar_shows_the_phase_without_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Listener(View("crawl x", None, unit="pages"), want=None) as bar:
        bar.starting_service()
        bar.tick()
        line = terminal.getvalue().rpartition("\r")[2]
        assert "crawl x" in line
        assert "starting the local service" in line
        assert "pages" not in line
        bar.report(at(3))
        bar.tick()
    bar.tick()
    last = terminal.getvalue().rpartition("\r")[2]
    assert "3/10" in last
    assert "starting" not in last


@pytest.mark.parametrize("want", [None, "bar"])
def test_notice_is_shown_once_on_standard_error(
    want: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Listener(View("search x", None), want) as bar:
        bar.update(notice="Searches ask a, b.")
        bar.tick()
        bar.update(completed=1)
        bar.tick()
    bar.tick()
    assert terminal.getvalue().count("Searches ask a, b.") == 1
    assert capsys.readouterr().out == ""


def test_what_did_not_change_is_not_painted_again(recorder: Recorder) -> None:
    with listener() as bar:
        bar.report(at(3))
        bar.tick()
        bar.tick()
        bar.update(completed=4)
        bar.tick()
    assert [view.completed for _, view, _ in recorder.calls] == [3, 4]


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (None, "done"),
        (JobFailed("j", "why"), "failed"),
        (ValueError(), "failed"),
        (JobCancelled("j"), "cancelled"),
        (JobTimeout("j", 5.0), "left"),
        (asyncio.CancelledError(), "cancelled"),
        (KeyboardInterrupt(), "cancelled"),
    ],
)
def test_the_last_tick_shows_how_it_ended_once(
    recorder: Recorder, error: BaseException | None, ending: EndState
) -> None:
    bar = listener()
    bar.__enter__()
    bar.__exit__(type(error) if error is not None else None, error, None)
    bar.tick()
    bar.tick()
    assert [(what, view.ending) for what, view, _ in recorder.calls] == [("close", ending)]


def test_under_a_blocking_call_the_waiting_thread_paints_and_the_end_is_seen(
    recorder: Recorder,
) -> None:
    async def awork() -> int:
        bar = listener()
        with bridge.on_tick(bar.tick), bar:
            bar.report(at(5))
            assert await asyncio.to_thread(recorder.painted.wait, 30)
            bar.report(at(10))
        return threading.get_ident()

    portal_thread = bridge.synced(awork)()
    assert portal_thread != threading.get_ident()
    assert {thread for _, _, thread in recorder.calls} == {threading.get_ident()}
    what, view, _ = recorder.calls[-1]
    assert (what, view.completed, view.ending) == ("close", 10, "done")


async def test_awaited_directly_it_paints_on_the_callers_own_loop(recorder: Recorder) -> None:
    bar = listener()
    with bridge.on_tick(bar.tick), bar:
        bar.report(at(5))
        assert await asyncio.to_thread(recorder.painted.wait, 30)
    assert {thread for _, _, thread in recorder.calls} == {threading.get_ident()}
    assert recorder.calls[-1][0] == "close"


def kind_of(want: str | bool | None) -> type[object]:
    painter = progress.choose(want)(View("x", None))
    painter.close(View("x", None, ending="done"))
    return type(painter)


@pytest.mark.parametrize(
    ("want", "terminal", "kind"),
    [
        (None, True, bars.Bar),
        (None, False, bars.Log),
        (True, False, bars.Bar),
        ("log", True, bars.Log),
        ("bar", False, bars.Bar),
    ],
)
def test_the_place_decides_where_the_user_does_not(
    monkeypatch: pytest.MonkeyPatch, want: str | bool | None, terminal: bool, kind: type[object]
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal() if terminal else io.StringIO())
    assert kind_of(want) is kind


def test_without_a_usable_stderr_it_goes_to_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert kind_of(None) is bars.Log
    closed = Terminal()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    assert kind_of(None) is bars.Log


def test_other_threads_do_not_draw_bars_over_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(kind_of, None).result() is bars.Log
        assert pool.submit(kind_of, "bar").result() is bars.Bar


@pytest.mark.parametrize("want", ["spinner", 1, 0.5, ["bar"]])
def test_an_unknown_way_is_refused_and_the_known_ones_are_named(want: object) -> None:
    with pytest.raises(InvalidArgument, match="'bar', 'html', 'log'"):
        Options(progress=want)  # type: ignore[arg-type]


def test_every_kind_can_be_chosen() -> None:
    assert sorted(progress.KINDS) == sorted(PROGRESS_KINDS)


@pytest.mark.parametrize(
    ("status", "ending"),
    [("completed", "done"), ("failed", "failed"), ("cancelled", "cancelled"), ("", "done")],
)
def test_a_job_that_ended_badly_does_not_look_done(
    recorder: Recorder, status: str, ending: EndState
) -> None:
    with listener() as bar:
        bar.ended(status)
    bar.tick()
    assert [(what, view.ending) for what, view, _ in recorder.calls] == [("close", ending)]


def test_an_interrupted_wait_says_that_the_job_goes_on(recorder: Recorder) -> None:
    bar = Listener(View("crawl x", None), "recorded", detach_on_interrupt=True)
    bar.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    bar.tick()
    assert [view.ending for _, view, _ in recorder.calls] == ["left"]


def test_the_painter_is_asked_for_clicks_at_each_tick(recorder: Recorder) -> None:
    with listener() as bar:
        for _ in range(3):
            bar.tick()
    assert recorder.poll_count == 3


def test_credits_and_kinds_of_errors_are_shown_where_the_service_tells(recorder: Recorder) -> None:
    values = at(3, timeout=2).model_dump() | {"credits": 2.5}
    with listener() as bar:
        bar.report(Progress.model_validate(values))
        bar.tick()
    [(_, view, _)] = recorder.calls
    assert (view.credits, view.failures) == (2.5, {"timeout": 2})


@pytest.mark.parametrize("want", ["panel", "html", "marimo"])
def test_a_way_that_the_place_cannot_show_gives_way_and_the_log_says_so(
    want: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert kind_of(want) is bars.Log
    assert f"progress='{want}' is not available here: elsewhere" in caplog.text
