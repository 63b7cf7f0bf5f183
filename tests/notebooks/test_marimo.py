"""marimo's editor in Chromium: its own bar while a cell runs, what stays, and the way to stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.display import dom_rules
from tests.notebooks import editor
from tests.notebooks.lab import picture
from tests.requirements import require, require_module
from tests.wire_service import KEY, WireService, crawl_rows

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

SITE: Final = "https://site.test/<b>x&y</b>"
_OFTEN: Final = 90


@pytest.fixture
def notebook(service: WireService, tmp_path: Path) -> Iterator[str]:
    require_module("marimo")
    cells = (
        f"import webdata_nb\ns = webdata_nb.connect(base_url={service.url!r}, api_key={KEY!r})",
        f"df = s.crawl_df({SITE!r}, cache=False)",
        "print('rows', len(df))",
        "s.crawl_job('https://site.test/<i>')",
        "df",
    )
    with editor.running(tmp_path, cells) as url:
        yield url


@pytest.fixture
def page(notebook: str, service: WireService) -> Iterator[Page]:
    """Open the notebook and run it, until somebody waits for its crawl."""
    playwright = require_module("playwright.sync_api")
    chromium = require("chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        opened = browser.new_page(viewport={"width": 1000, "height": 800})
        opened.set_default_timeout(120_000)
        opened.goto(notebook)
        _run_all(opened, service)
        yield opened
        browser.close()


def _run_all(page: Page, service: WireService) -> None:
    """Press the button until it is heard: before its kernel is there, it is not."""
    for _ in range(_OFTEN):
        button = page.get_by_test_id("run-button").last
        if button.is_visible() and button.is_enabled():
            button.click()
        page.wait_for_timeout(2_000)
        if service.polled.is_set():
            return
    pytest.fail(f"the notebook never ran: {page.inner_text('body')}")


def test_the_bar_moves_and_stays(page: Page, service: WireService) -> None:
    title = page.get_by_text(f"crawl {SITE}", exact=True)  # as text, whatever it says
    title.wait_for()
    page.get_by_text("3/10 ").wait_for()
    service.crawl.rows = crawl_rows(7)
    page.get_by_text("7/10 ").wait_for()
    picture(page, "marimo-1-running")
    service.crawl.total, service.crawl.running = 7, False
    page.get_by_text("rows 7").wait_for()
    page.get_by_text("7 rows; ").first.wait_for()
    page.get_by_text("crawl https://site.test/<i>: started").wait_for()
    page.get_by_text(f"crawl {SITE}: 7 rows; ").wait_for()  # below the table
    page.get_by_role("columnheader", name="status_code").wait_for()
    table = page.locator("table", has_text="status_code")
    assert dom_rules.problems(table.locator("xpath=../..")) == []
    picture(page, "marimo-2-done")
    assert title.count() == 1


def test_its_interrupt_ends_the_job(page: Page, service: WireService) -> None:
    page.get_by_text("3/10 ").wait_for()
    page.get_by_test_id("interrupt-button").click()
    page.get_by_text("This cell was interrupted").first.wait_for()
    picture(page, "marimo-3-interrupted")
    assert service.final_statuses() == ["cancelled"]
    assert page.get_by_text("rows 3").count() == 0
