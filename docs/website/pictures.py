"""Takes the pictures of the documentation from a real JupyterLab in Chromium.

Run it in the environment of the tests: `python -m docs.website.pictures`. It needs Chromium, and
Debian's `python3-doc` for the animated crawl.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PIL import Image, PngImagePlugin
from playwright.sync_api import sync_playwright

from benchmarks.scenes import RANK_SETUP
from docs.website.diagrams import DIGEST_KEY, architecture_diagram, digest
from docs.website.tutorial import tutorial_cells
from tests.notebooks import lab as labs
from tests.notebooks.lab import Lab, Notebook
from tests.requirements import find

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER: Final = Path(__file__).resolve().parents[1] / "pictures"
_THEMES: Final = ("light", "dark")
_PORT: Final = 8000
_PAGES: Final = 200
_CRAWL: Final = (
    "from webdata_nb import crawl_df",
    f'pages = crawl_df("http://localhost:{_PORT}/", max_pages={_PAGES})\npages',
)
_RANKS: Final = f"{RANK_SETUP}\nplot_ranks(ranks(12, 30))"
_SIZE: Final = (1040, 740)
_FRAME_MS: Final = 200
_RESULT_MS: Final = 5000
_CELL_SECONDS: Final = 120.0
_TOOLBAR_CSS: Final = ".jp-cell-toolbar, .jp-Cell .jp-Toolbar { display: none !important; }"


class DocumentationPages(SimpleHTTPRequestHandler):
    """Serves a folder as slowly as a site on the internet."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send a file after a while."""
        time.sleep(0.15)
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
        """Log nothing."""


@contextmanager
def documentation_site() -> Iterator[None]:
    """Serve Debian's Python documentation on a fixed port."""
    root = find("python-docs")
    if root is None:
        raise SystemExit("the animated crawl needs python3-doc")
    handler = partial(DocumentationPages, directory=str(root))
    with ThreadingHTTPServer(("127.0.0.1", _PORT), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def picture_tutorial(lab: Lab, browser: Browser, theme: str) -> None:
    """Run the tutorial in a theme, and take a picture of the outputs that it shows."""
    with lab.dark() if theme == "dark" else nullcontext():
        _run_tutorial(_new_page(browser), lab, tutorial_cells(), theme)


def _run_tutorial(page: Page, lab: Lab, cells: list[tuple[str, str | None]], theme: str) -> None:
    notebook = Notebook(page, lab.write(f"tutorial-{theme}.ipynb", [code for code, _ in cells]))
    _hide_panels(page)
    for number, (_, picture) in enumerate(cells):
        if number == 0:
            notebook.run_until_heard(number)
        else:
            notebook.run(number)
        _wait_for_cell(notebook, number)
        if picture:
            page.wait_for_timeout(800)
            outputs = notebook.cells.nth(number).locator(".jp-Cell-outputArea")
            outputs.scroll_into_view_if_needed()
            outputs.screenshot(path=FOLDER / f"{picture}-{theme}.png")
    page.close()


def _new_page(browser: Browser) -> Page:
    page = browser.new_page(viewport={"width": 1180, "height": 2000})
    page.set_default_timeout(60_000)
    return page


def _hide_panels(page: Page) -> None:
    """Leave the notebook alone on the page."""
    if page.locator(".jp-SideBar.jp-mod-left .lm-mod-current").count():
        page.locator(".jp-SideBar.jp-mod-left .lm-mod-current").click()
    page.add_style_tag(content=_TOOLBAR_CSS)


def _wait_for_cell(notebook: Notebook, number: int) -> None:
    deadline = time.monotonic() + _CELL_SECONDS
    while not re.fullmatch(r"\[\d+\]:?", notebook.prompt(number)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"cell {number} runs for more than {_CELL_SECONDS:.0f} s")
        notebook.page.wait_for_timeout(100)


def picture_ranks(lab: Lab, browser: Browser, theme: str) -> None:
    """Take a picture of the ranks of many queries."""
    page = _new_page(browser)
    with lab.dark() if theme == "dark" else nullcontext():
        notebook = Notebook(page, lab.write(f"ranks-{theme}.ipynb", [_RANKS]))
    notebook.run_until_heard(0)
    _wait_for_cell(notebook, 0)
    figure = page.locator("img.webdata-light:visible, img.webdata-dark:visible")
    figure.scroll_into_view_if_needed()
    figure.screenshot(path=FOLDER / f"ranks-{theme}.png")
    page.close()


def animate_crawl(lab: Lab, browser: Browser) -> None:
    """Record a crawl in a notebook as an animated GIF."""
    page = browser.new_page(viewport={"width": _SIZE[0], "height": _SIZE[1]})
    page.set_default_timeout(60_000)
    notebook = Notebook(page, lab.write("crawl.ipynb", _CRAWL))
    _hide_panels(page)
    notebook.run_until_heard(0)
    frames = [_frame(page)]
    notebook.cells.nth(1).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")  # adds no cell below
    while True:
        started = time.monotonic()
        frames.append(_frame(page))
        if re.fullmatch(r"\[\d+\]:?", notebook.prompt(1)):
            break
        page.wait_for_timeout(max(0.0, _FRAME_MS - (time.monotonic() - started) * 1000))
    page.wait_for_timeout(800)
    frames.append(_frame(page))
    page.close()
    _write_gif(frames, FOLDER / "crawl.gif")


def picture_architecture(lab: Lab, browser: Browser, theme: str) -> None:
    """Take a picture of the architecture's diagram, which JupyterLab's mermaid draws."""
    source = architecture_diagram()
    cell = f"from IPython.display import Markdown\nMarkdown({source!r})"
    page = browser.new_page(viewport={"width": 1180, "height": 1600}, device_scale_factor=2)
    with lab.dark() if theme == "dark" else nullcontext():
        notebook = Notebook(page, lab.write(f"architecture-{theme}.ipynb", [cell]))
    notebook.run_until_heard(0)
    drawing = page.locator('img[src^="data:image/svg"]').first
    image = Image.open(io.BytesIO(drawing.screenshot()))
    info = PngImagePlugin.PngInfo()
    info.add_text(DIGEST_KEY, digest(source))
    image.quantize(64).save(FOLDER / f"architecture-{theme}.png", pnginfo=info, optimize=True)
    page.close()


def _frame(page: Page) -> Image.Image:
    box = page.locator(".jp-NotebookPanel-notebook").bounding_box()
    if box is None:
        raise RuntimeError("the notebook is not on the page")
    return Image.open(io.BytesIO(page.screenshot(clip=box))).convert("RGB")


def _write_gif(frames: list[Image.Image], path: Path) -> None:
    """Write frames with one palette, so that unchanged parts are stored once.

    The animation begins with its end: where only the first frame is shown, it is a crawl.
    """
    frames = [frames[-1], *frames[:-1]]
    palette = frames[0].quantize(128, dither=Image.Dither.NONE)
    images = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [_RESULT_MS] + [_FRAME_MS] * (len(images) - 1)
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True
    )


def main() -> None:
    """Take all pictures, or a part of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(_PARTS), help="take these alone")
    only = parser.parse_args().only
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for part in [only] if only else _PARTS:
            _PARTS[part](browser)
        browser.close()


def _take_tutorial(browser: Browser) -> None:
    for theme in _THEMES:
        with new_lab() as lab:
            picture_tutorial(lab, browser, theme)


def _take_architecture(browser: Browser) -> None:
    with new_lab() as lab:
        for theme in _THEMES:
            picture_architecture(lab, browser, theme)


def _take_ranks(browser: Browser) -> None:
    for theme in _THEMES:
        with new_lab() as lab:
            picture_ranks(lab, browser, theme)


def _take_crawl(browser: Browser) -> None:
    with new_lab() as lab, documentation_site():
        animate_crawl(lab, browser)


_PARTS: Final = {
    "tutorial": _take_tutorial,
    "architecture": _take_architecture,
    "crawl": _take_crawl,
    "ranks": _take_ranks,
}


@contextmanager
def new_lab() -> Iterator[Lab]:
    """Run JupyterLab with a home of its own, so that no picture shows results of another."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEBDATA_HOME"] = f"{folder}/home"
        with labs.running(Path(folder) / "lab") as lab:
            yield lab


if __name__ == "__main__":
    main()
