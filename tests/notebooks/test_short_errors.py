"""Errors and warnings of a wrong call in a kernel, in JupyterLab and in marimo's editor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.notebooks import editor
from tests.notebooks import lab as labs
from tests.notebooks.kernel import Kernel
from tests.notebooks.lab import Lab, Notebook, picture
from tests.requirements import require, require_module
from tests.wire_service import JobScript, WireService, crawl_rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SITE: Final = "https://site.test/"
CELLS: Final = (
    "from webdata_nb import crawl_df, options",
    "url = 'https://site.test/'\ncrawl_df(url, max_pages=0)",
    "crawl_df('site.test/docs')",
    "crawl_df(url, max_page=10)",
    "%load_ext webdata_nb\n%webcrawl site.test",
    "%tb",
    "options.tracebacks = 'full'\ncrawl_df(url, max_pages=0)",
)
MESSAGE: Final = "max_pages must be a whole number from 1 to 1000; it is 0"
_ANSI: Final = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.slow
def test_a_kernel_sends_the_message_and_the_line(kernel: Kernel) -> None:
    kernel.run("import webdata_nb")
    cell = kernel.run("1\nwebdata_nb.crawl_df('https://site.test/', max_pages=0)")
    assert cell.error is not None
    assert (cell.error["ename"], cell.error["evalue"]) == ("InvalidArgument", MESSAGE)
    lines = [_ANSI.sub("", line) for line in cell.error["traceback"]]
    assert lines[0] == f"InvalidArgument: {MESSAGE}"
    assert re.fullmatch(r"Cell In\[\d+\], line 2", lines[1])
    assert len(lines) == 2
    traceback = kernel.run("%tb").error
    assert traceback is not None
    assert "build_request" in "\n".join(traceback["traceback"])


def test_an_unattended_kernel_sends_the_whole_traceback(kernel: Kernel) -> None:
    kernel.run("import webdata_nb", live=False)
    cell = kernel.run("webdata_nb.crawl_df('https://site.test/', max_pages=0)", live=False)
    assert cell.error is not None
    text = _ANSI.sub("", "\n".join(cell.error["traceback"]))
    assert "build_request" in text
    assert text.splitlines()[-1].endswith(MESSAGE)


@pytest.mark.parametrize("await_", ["", "await "])
def test_a_warning_points_to_the_line_of_the_cell(
    kernel: Kernel, service: WireService, await_: str
) -> None:
    broken = {"success": False, "status": "failed", "error": "HTTP 404 Not Found"}
    service.crawl = JobScript([{**crawl_rows(1)[0], **broken}])
    function = "acrawl_df" if await_ else "crawl_df"
    for _ in range(2):  # a cell that runs again warns again
        cell = kernel.run(f"1\ndf = {await_}s.{function}({SITE!r}, cache=False)")
        assert cell.status == "ok"
        assert re.search(r"ipykernel_\d+/\d+\.py:2: WebdataWarning: crawl https://site", cell.text)
        assert "no page could be read" in cell.text
        assert f"df = {await_}s.{function}(" in cell.text


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    require_module("jupyterlab")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("WEBDATA_HOME", str(tmp_path_factory.mktemp("home")))
        folder = tmp_path_factory.mktemp("lab")
        with labs.running(folder, expose=True, late_replies=True) as running:
            yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = require_module("playwright.sync_api")
    chromium = require("chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_page(viewport={"width": 1000, "height": 900}) as page:
        page.set_default_timeout(120_000)
        yield page


@pytest.mark.slow
@pytest.mark.parametrize("width", [800, 1000, 1600])
def test_an_error_in_jupyterlab_takes_a_few_lines(lab: Lab, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    notebook = Notebook(page, lab.write(f"errors-{width}.ipynb", CELLS), reload=False)
    notebook.run_until_heard(0)
    for number in range(1, 5):
        notebook.run_each(number)
        box = notebook.output(number).locator("pre").first
        box.wait_for()
        line_height = box.evaluate("pre => parseFloat(getComputedStyle(pre).lineHeight)")
        size = box.bounding_box()
        assert size is not None
        assert size["height"] <= 6 * line_height + 1
        assert box.evaluate("pre => pre.scrollWidth <= pre.clientWidth")
        assert "Traceback" not in notebook.text(number)
    assert MESSAGE in notebook.text(1)
    notebook.picture(f"errors-{width}")
    notebook.run_each(5, 6)
    for number in (5, 6):
        notebook.output(number).get_by_text("Traceback (most recent call last)").wait_for()


@pytest.mark.slow
def test_an_error_is_as_readable_in_the_dark_theme(lab: Lab, page: Page) -> None:
    page.set_viewport_size({"width": 1000, "height": 900})
    with lab.dark():
        notebook = Notebook(page, lab.write("errors-dark.ipynb", CELLS[:3]))
        notebook.run_until_heard(0)
        notebook.run_each(1, 2)
        notebook.output(2).get_by_text("did you mean").wait_for()
        notebook.picture("errors-dark")


@pytest.mark.slow
def test_marimo_shows_the_message(page: Page, tmp_path: Path) -> None:
    require_module("marimo")
    cells = ("import webdata_nb", "webdata_nb.crawl_df('https://site.test/', max_pages=0)")
    with editor.running(tmp_path, cells) as url:
        page.goto(url)
        for _ in range(90):
            button = page.get_by_test_id("run-button").last
            if button.is_visible() and button.is_enabled():
                button.click()
            page.wait_for_timeout(2_000)
            if page.get_by_text(MESSAGE).count():
                break
        page.get_by_text(MESSAGE).first.wait_for()
        picture(page, "errors-marimo")
        assert page.get_by_text("build_request").count() == 0
        page.goto("about:blank")
