"""The documentation site builds without warnings, and is readable in Chromium at three widths."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pytest

from tests.requirements import require, require_module

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

CHECKOUT: Final = Path(__file__).resolve().parent.parent
CHECKS: Final = (Path(__file__).parent / "website_checks.js").read_text("utf-8")
WIDTHS: Final = (800, 1000, 1600)
PAGES: Final = (
    "index",
    "tutorial",
    "comparison",
    "benchmarks",
    "recipes/index",
    "recipes/team",
    "notebooks/01_quickstart",
    "notebooks/05_batch_research",
    "coming-from",
    "guide/crawling",
    "guide/extraction",
    "guide/operations",
    "guide/creatives",
    "guide/search",
    "reference/index",
    "reference/crawl",
    "reference/commands",
    "reference/errors",
    "reference/http",
    "glossary",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_module("material")
    folder = tmp_path_factory.mktemp("site")
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=CHECKOUT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    return folder


@pytest.fixture(scope="module")
def browser(built: Path) -> Iterator[Browser]:  # noqa: ARG001 - it is built before a browser starts
    playwright = require_module("playwright.sync_api")
    chromium = require("chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


def test_site_builds_in_strict_mode(built: Path) -> None:
    pages = {
        str(page.relative_to(built)): page.read_text("utf-8") for page in built.rglob("*.html")
    }
    assert {"index.html", "tutorial.html", "reference/http.html", "changelog.html"} <= pages.keys()
    assert 'id="webdata_nb.crawl_df"' in pages["reference/crawl.html"]
    assert "31 rows (29 ok, 2 failed)" in pages["notebooks/01_quickstart.html"]
    assert "--max-pages N" in pages["reference/commands.html"]
    loaded = r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:)?//'
    assert [name for name, text in pages.items() if re.search(loaded, text)] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_readable(
    built: Path, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    faults: dict[tuple[str, int], list[str]] = {}
    for name in PAGES:
        page.goto((built / f"{name}.html").as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if found := page.evaluate(CHECKS):
                faults[name, width] = found
    context.close()
    assert faults == {}


def test_checks_find_each_kind_of_fault(browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 800, "height": 600})
    page.set_content(
        "<div class=md-content><table style='width:80px;table-layout:fixed'>"
        "<tr><th style='overflow-wrap:anywhere'>uncommonlylongheader</th></tr>"
        "<tr><td style='overflow:hidden;white-space:nowrap'>text outside of its box</td></tr>"
        "</table><p style='color:#999;width:3000px'>pale</p></div>"
    )
    kinds = {fault.partition(":")[0] for fault in page.evaluate(CHECKS)}
    page.close()
    assert kinds == {"page", "header", "cell", "contrast"}


def test_recipes_fit_a_screen(built: Path, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    too_high: list[str] = []
    for recipe in sorted((built / "recipes").glob("*.html")):
        page.goto(recipe.as_uri())
        box = page.locator(".md-content").bounding_box()
        overflow = "codes => codes.some(code => code.scrollWidth > code.clientWidth)"
        is_recipe = recipe.stem != "index"
        if box is None or (is_recipe and box["height"] > 840):  # below the header
            too_high.append(recipe.stem)
        assert not page.locator(".md-content pre code").evaluate_all(overflow), recipe.stem
    page.close()
    assert too_high == []
