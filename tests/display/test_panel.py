"""The panel's widgets and its button, without a kernel; `tests/notebooks` has them in one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ipywidgets  # type: ignore[import-untyped]
import pytest

from tests.display.test_bars import Tags, hostile
from webdata_nb.toolkit.display import bars
from webdata_nb.toolkit.display.bars import View, Widgets

RUNNING = View("crawl https://site.test/", 10, completed=5, failed=1, status="running")


@pytest.fixture
def widgets() -> Iterator[Widgets]:
    made = Widgets(ipywidgets, RUNNING, can_cancel=True)
    yield made
    made.close()


def test_it_says_what_the_view_says(widgets: Widgets) -> None:
    assert (widgets.bar.value, widgets.bar.max) == (5, 10)
    assert Tags(widgets.title.value).text == "crawl https://site.test/"
    assert Tags(widgets.words.value).text == "5/10 rows, 1 failed, 0 s"


@pytest.mark.parametrize(
    ("view", "value", "most"),
    [
        (View("x", None, completed=7), 0, 7),
        (View("x", 0), 0, 1),
        (View("x", 5, completed=9), 5, 9),
    ],
)
def test_the_bar_takes_any_counts(widgets: Widgets, view: View, value: int, most: int) -> None:
    widgets.show(view)
    assert (widgets.bar.value, widgets.bar.max) == (value, most)


def test_a_click_shows_on_the_button(widgets: Widgets) -> None:
    assert not widgets.button.disabled
    widgets.show(View("x", 10, cancel_requested=True))
    assert widgets.button.disabled
    assert widgets.button.description == "Cancelling"


def test_without_a_way_to_cancel_there_is_no_button() -> None:
    made = Widgets(ipywidgets, RUNNING, can_cancel=False)
    assert made.button.layout.display == "none"
    made.close()


def test_nothing_of_a_description_or_an_error_kind_becomes_markup(widgets: Widgets) -> None:
    for text in hostile():
        widgets.show(View(text, 10, failed=1, failures={text: 1}))
        for drawn in (widgets.title.value, widgets.words.value, bars.without_widgets(text)):
            tags = [tag for tag, _ in Tags(drawn).found]
            assert tags in (["div"], ["div", "code"])


class Unknown:
    """A kernel of another kind."""


class Odd:
    """One with the names that the tap looks for, and other things behind them."""

    session: Any = None
    shell_stream: Any = None
    shell_channel_thread: Any = None
    dispatch_shell: Any = None

    def schedule_dispatch(self, *_: object) -> None:
        raise RuntimeError


@pytest.mark.parametrize("kernel", [None, Unknown(), Odd()])
def test_a_kernel_of_another_kind_is_left_alone(kernel: object) -> None:
    button, clicked = ipywidgets.Button(), []
    with bars.listen_for_clicks(kernel, button, lambda: clicked.append(1)) as pump:
        pump()
        button.click()  # as an idle kernel passes it on
    button.click()
    assert clicked == [1]
    button.close()
