"""Takes pictures of everything that a notebook shows, in a real JupyterLab, light and dark.

    python -m benchmarks.pictures FOLDER [--scenes tables,bar] [--widths 800,1200,1600]

Each picture is checked for broken words, texts outside their boxes and pale texts; the command
ends with 1 if there are any. Nothing replaces a look at the pictures.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import scenes
from benchmarks.scenes import Scene
from tests.display import dom_rules
from tests.notebooks import lab as labs
from tests.notebooks.lab import Lab, Notebook
from tests.requirements import require, require_module
from webdata_nb import settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.bridge import synced

if TYPE_CHECKING:
    from playwright.sync_api import Page

_WIDTHS: Final = (800, 1200, 1600)
_HEIGHT: Final = 2400
_THEMES: Final = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
_PATIENCE_MS: Final = 60_000
_stop_service = synced(local.stop)


def main() -> int:
    """Take the pictures; return 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", default="", help="names of scenes, with commas")
    parser.add_argument("--widths", default=",".join(map(str, _WIDTHS)))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    wanted = [each for each in args.scenes.split(",") if each]
    widths = [int(each) for each in args.widths.split(",")]
    failures = 0
    with _lab() as (lab, page), scenes.sites() as sites:
        for scene in scenes.all_scenes(sites):
            if not wanted or scene.name in wanted:
                failures += _take(lab, page, scene, args.folder, widths)
    print(f"{failures} problems")
    return int(failures > 0)


@contextmanager
def _lab() -> Iterator[tuple[Lab, Page]]:
    """Run JupyterLab and a browser, with a home of the package that is deleted at the end."""
    playwright = require_module("playwright.sync_api")
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(temporary))
        os.environ["WEBDATA_HOME"] = str(folder / "home")
        stack.callback(lambda: _stop_service(settings.current()))
        lab = stack.enter_context(labs.running(folder / "lab", expose=True))
        started = stack.enter_context(playwright.sync_playwright())
        browser = started.chromium.launch(
            executable_path=require("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        stack.callback(browser.close)
        page = browser.new_page(viewport={"width": _WIDTHS[-1], "height": _HEIGHT})
        page.set_default_timeout(_PATIENCE_MS)
        yield lab, page


def _take(lab: Lab, page: Page, scene: Scene, folder: Path, widths: Sequence[int]) -> int:
    """Run the cells of a scene, and take pictures of the outputs; return the number of problems."""
    notebook = Notebook(page, lab.write(f"{scene.name}.ipynb", [scene.setup, *scene.cells]))
    page.evaluate("window.jupyterapp.shell.collapseLeft()")
    notebook.run_until_heard(0)
    failures = 0
    for number in range(1, len(scene.cells) + 1):
        notebook.run(number)
        if scene.running:
            page.wait_for_timeout(scene.running * 1000)
            failures += _looks(notebook, number, f"{scene.name}-{number}-running", folder, widths)
        notebook.wait_until_done(number)
    page.wait_for_timeout(500)
    for number in range(1, len(scene.cells) + 1):
        failures += _looks(notebook, number, f"{scene.name}-{number}", folder, widths)
    return failures


def _looks(notebook: Notebook, number: int, name: str, folder: Path, widths: Sequence[int]) -> int:
    """Take a picture of a cell in each theme and width; return the number of problems."""
    page, failures = notebook.page, 0
    for theme, full_name in _THEMES.items():
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
            full_name,
        )
        is_light = str(theme == "light").lower()
        page.locator(f"body[data-jp-theme-light={is_light}]").wait_for(state="attached")
        for width in widths:
            page.set_viewport_size({"width": width, "height": _HEIGHT})
            page.wait_for_timeout(400)
            cell = notebook.cells.nth(number)
            cell.screenshot(path=folder / f"{name}-{theme}-{width}.png")
            for output in notebook.output(number).all():
                for problem in dom_rules.problems(output):
                    failures += 1
                    print(f"{name}, {theme}, {width} px: {problem}", file=sys.stderr)
    return failures


if __name__ == "__main__":
    sys.exit(main())
