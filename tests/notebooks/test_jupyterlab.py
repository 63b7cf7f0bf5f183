"""JupyterLab in Chromium, against the real local service: what a person sees, and clicks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.display import dom_rules
from tests.local_service import stop
from tests.notebooks import lab as labs
from tests.notebooks.lab import Lab, Notebook
from tests.requirements import require, require_module
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb import settings
from webdata_nb.toolkit.api import Session, connect

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

pytestmark = pytest.mark.slow

IMPORT: Final = "from webdata_nb import crawl_df, crawl_job"
SIZE: Final[ViewportSize] = {"width": 1000, "height": 560}
BAR: Final = ".jupyter-widgets.widget-vbox"
CANCEL: Final = f"{BAR} button"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Give a site of 1,555 pages, a second or less each: no crawl of it ends during a test."""
    with Site(latency=1.0) as running:
        link_tree(running, depth=4, fanout=6)
        yield running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Give a session on the local service that the notebooks will find running."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("WEBDATA_HOME", str(tmp_path_factory.mktemp("home")))
        with connect() as made:
            made.jobs_df()
            yield made
        stop(settings.current())


@pytest.fixture(scope="module")
def lab(service: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:  # noqa: ARG001 - it must run
    require_module("jupyterlab")
    folder = tmp_path_factory.mktemp("lab")
    with labs.running(folder, expose=True, late_replies=True) as running:
        yield running


@pytest.fixture(scope="module")
def page(lab: Lab) -> Iterator[Page]:  # noqa: ARG001 - after it, so that it is closed before
    playwright = require_module("playwright.sync_api")
    chromium = require("chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        opened = browser.new_page(viewport=SIZE)
        opened.set_default_timeout(120_000)
        yield opened
        browser.close()


@pytest.fixture
def crawl(site: Site) -> str:
    return f"crawl_df({site.at('/tree')!r}, max_pages=1000, concurrency=4, cache=False"


def newest(service: Session) -> str:
    return str(service.jobs_df()["status"].iloc[0])


def status_at_end(service: Session) -> str:
    """Return the status of the newest job when it has ended.

    A call waits 2.5 s for the service to cancel its job; on a busy machine that takes longer.
    """
    deadline = time.monotonic() + 120
    while (status := newest(service)) == "running" and time.monotonic() < deadline:
        time.sleep(0.1)
    return status


def opened(lab: Lab, page: Page, name: str, cells: list[str], *, reload: bool = False) -> Notebook:
    notebook = Notebook(page, lab.write(f"{name}.ipynb", [IMPORT, *cells]), reload=reload)
    notebook.run_until_heard(0)
    return notebook


def moving(notebook: Notebook) -> None:
    """Wait until the bar has moved from one look to the next."""
    bar = notebook.page.locator(f"{BAR} .progress-bar").first
    bar.wait_for(state="attached")
    for _ in range(2):
        before = bar.evaluate("bar => bar.style.width")
        notebook.page.wait_for_function(
            "([bar, before]) => parseFloat(bar.style.width) > parseFloat(before || '0')",
            arg=[bar.element_handle(), before],
        )


def no_bar(page: Page) -> None:
    """Wait until no bar is left."""
    page.locator(BAR).first.wait_for(state="detached")


def test_cancel_ends_the_job_while_its_cell_blocks(
    lab: Lab,
    page: Page,
    service: Session,
    crawl: str,
    record_property: Callable[[str, object], None],
) -> None:
    notebook = opened(lab, page, "cancel", [f"df = {crawl})", "print('must not run')"])
    notebook.run(1, 2)
    moving(notebook)
    assert newest(service) == "running"
    notebook.picture("1-running")
    began = time.monotonic()
    page.locator(CANCEL).click()
    notebook.output(1).get_by_text("■ crawl").wait_for()
    took = time.monotonic() - began
    record_property("cancelled_after_s", round(took, 2))
    print(f"cancelled {took:.2f} s after the click")  # noqa: T201 - a figure to report
    assert status_at_end(service) == "cancelled"
    notebook.output(1).get_by_text("JobCancelled: job ").wait_for()
    notebook.picture("2-cancelled")
    assert "Traceback" not in notebook.text(1)
    no_bar(page)
    notebook.wait_until_dropped(2)  # as behind any error
    assert "must not run" not in notebook.text(2)


def test_stop_ends_the_job_too(lab: Lab, page: Page, service: Session, crawl: str) -> None:
    notebook = opened(lab, page, "stop", [f"df = {crawl})", "print('alive')"])
    notebook.run(1)
    moving(notebook)
    notebook.stop()
    notebook.output(1).get_by_text("■ crawl").wait_for()
    notebook.output(1).get_by_text("KeyboardInterrupt: interrupted").wait_for()
    notebook.picture("3-stopped")
    assert status_at_end(service) == "cancelled"
    assert "Traceback" not in notebook.text(1)
    notebook.wait_until_done(1)
    notebook.run(2)
    notebook.output(2).get_by_text("alive").wait_for()


def test_cancel_can_leave_the_rows_so_far_and_the_queue_goes_on(
    lab: Lab, page: Page, service: Session, crawl: str
) -> None:
    code = "print('rows', 0 < len(df) < 1000, df.attrs['webdata']['status'])"
    notebook = opened(lab, page, "partial", [f"df = {crawl}, on_cancel='partial')", code])
    notebook.run(1, 2)
    moving(notebook)
    page.locator(CANCEL).click()
    notebook.output(2).get_by_text("rows True cancelled").wait_for()
    notebook.picture("4-partial")
    assert status_at_end(service) == "cancelled"


def test_a_whole_crawl_leaves_a_line_and_the_queue_runs(
    lab: Lab, page: Page, service: Session, site: Site
) -> None:
    whole = f"df = crawl_df({site.at('/tree')!r}, max_pages=5, cache=False); df[['url', 'title']]"
    notebook = opened(lab, page, "whole", [whole, "print(len(df), 'rows')"])
    notebook.run(1, 2)
    notebook.output(2).get_by_text("5 rows").wait_for()
    notebook.output(1).get_by_text("✓ crawl").wait_for()
    notebook.picture("5-whole")
    assert status_at_end(service) == "completed"
    no_bar(page)


def test_a_list_is_one_panel_with_all_its_pages(lab: Lab, page: Page, site: Site) -> None:
    urls = [site.at(f"/tree/{number}") for number in range(3)]
    several = f"df = crawl_df({urls!r}, max_pages=9, concurrency=2, cache=False)"
    notebook = opened(lab, page, "list", [several, "print(len(df), 'rows')"])
    with site.hold("/tree/0/0"), site.hold("/tree/1/0"), site.hold("/tree/2/0"):
        notebook.run(1, 2)
        words = page.locator(BAR).get_by_text("0/3 inputs, ")
        words.filter(has_text="pages/s").wait_for()
        notebook.picture("6-list")
    notebook.output(1).get_by_text(" rows; 0 from the cache; ").wait_for()
    notebook.output(2).get_by_text(" rows").wait_for()
    notebook.picture("7-list-ended")


def test_a_frame_is_a_compact_table_without_an_extension(lab: Lab, page: Page, site: Site) -> None:
    call = f"crawl_df({site.at('/tree')!r}, max_pages=5, cache=False, progress=False)"
    notebook = opened(lab, page, "table", [f"df = {call}\ndf", "df[['url', 'title']].head(2)"])
    notebook.run(1, 2)
    notebook.output(1).get_by_text("5 rows; ").wait_for()
    notebook.output(2).locator("thead th").nth(1).wait_for()
    headers = notebook.output(1).locator("thead th").all_inner_texts()
    assert headers[:3] == ["url", "title", "status_code"]
    assert notebook.output(2).locator("thead th").all_inner_texts() == ["url", "title"]
    assert notebook.output(1).get_by_role("link").count() == 5
    for number in (1, 2):
        assert dom_rules.problems(notebook.output(number).first) == []
    notebook.picture("14-table")


def test_a_job_is_a_live_panel_that_blocks_nothing(
    lab: Lab, page: Page, service: Session, site: Site
) -> None:
    code = f"job = crawl_job({site.at('/tree')!r}, max_pages=1000, concurrency=4)\njob"
    cells = [code, "print('free', job.kind)", "job"]
    notebook = opened(lab, page, "job", cells)
    notebook.run(1, 2)
    notebook.output(2).get_by_text("free crawl").wait_for()
    moving(notebook)
    page.locator(BAR).get_by_text("running, ").wait_for()
    assert newest(service) == "running"
    notebook.picture("8-job")
    page.locator(CANCEL).click()
    notebook.output(1).get_by_text("■ crawl").wait_for()
    assert status_at_end(service) == "cancelled"
    notebook.run(3)
    notebook.output(3).get_by_text("cancelled, ").wait_for()
    notebook.picture("9-job-cancelled")
    no_bar(page)


def test_in_a_narrow_notebook_nothing_is_cut_off(lab: Lab, page: Page, crawl: str) -> None:
    notebook = opened(lab, page, "narrow", [f"df = {crawl}, on_cancel='partial')"])
    page.set_viewport_size({"width": 560, "height": 640})
    try:
        notebook.run(1)
        moving(notebook)
        notebook.picture("10-narrow")
        shown_whole(notebook, f"{BAR} button, {BAR} .progress, {BAR} .widget-html")
        page.locator(CANCEL).click()
        notebook.output(1).get_by_text("■ crawl").wait_for()
        notebook.picture("11-narrow-ended")
        shown_whole(notebook, ".jp-OutputArea-output span")
    finally:
        page.set_viewport_size(SIZE)


def shown_whole(notebook: Notebook, selector: str) -> None:
    """Check that what is selected lies inside the cell that shows it."""
    cell = notebook.cells.nth(1).bounding_box()
    parts = notebook.cells.nth(1).locator(selector).all()
    assert cell is not None
    assert parts
    for part in parts:
        box = part.bounding_box()
        assert box is not None
        assert box["x"] >= cell["x"]
        assert box["x"] + box["width"] <= cell["x"] + cell["width"]


def test_in_the_dark_theme_it_is_as_readable(lab: Lab, page: Page, crawl: str) -> None:
    with lab.dark():
        notebook = opened(lab, page, "dark", [f"df = {crawl}, on_cancel='partial')"], reload=True)
        page.locator("body[data-jp-theme-light=false]").wait_for(state="attached")
        notebook.run(1)
        moving(notebook)
        notebook.picture("12-dark")
        page.locator(CANCEL).click()
        notebook.output(1).get_by_text("■ crawl").wait_for()
        notebook.picture("13-dark-ended")
