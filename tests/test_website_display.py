"""The documentation site in Chromium: readable headers, cells and colours at three widths."""

from __future__ import annotations

import os
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
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "--site-dir", str(folder)],
        cwd=CHECKOUT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [800, 1000, 1600])
def test_pages_are_readable(
    built: Path, browser: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    faults: dict[str, list[str]] = {}
    for name in PAGES:
        page.goto((built / f"{name}.html").as_uri())
        if found := page.evaluate(CHECKS):
            faults[name] = found
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
