"""The tutorial runs as it is printed, against the sample site and a real service."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.robotparser import RobotFileParser

import pytest
from PIL import Image

import webdata_nb
from docs.website.tutorial import PAGE, tutorial_cells
from tests.local_service import stop
from tests.site.plain_audit import PlainSite
from webdata_nb import settings
from webdata_nb.demo.server import SampleSite

# The query of the tutorial as pages may spell its words.
FORMS: Final = [form for word in ("rain", "gauge") for form in (word, word.title(), f"{word}.")]
NOTEBOOKS: Final = PAGE.parents[1] / "notebooks"
PICTURES: Final = PAGE.parent / "pictures"


@pytest.fixture
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path / "home"))
    with webdata_nb.connect():
        yield
        stop(settings.current())


def run_cells() -> Iterator[tuple[dict[str, Any], Any]]:
    """Run the cells of the tutorial; yield the variables and the last value after each."""
    names: dict[str, Any] = {}
    for code, _ in tutorial_cells():
        value = None
        for statement in ast.parse(code).body:
            source = ast.get_source_segment(code, statement) or ""
            if isinstance(statement, ast.Expr):
                value = eval(source, names)
            else:
                exec(source, names)
        yield names, value


@pytest.mark.slow
@pytest.mark.usefixtures("_home")
def test_tutorial_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webdata_nb.options, "engines", dict(webdata_nb.options.engines))
    steps: list[tuple[dict[str, Any], Any]] = []
    truth = PlainSite("", 0)
    for names, value in run_cells():
        if not steps:  # the last step closes the site
            truth = PlainSite(names["site"].url, max_pages=1000)
            truth.read()
            rules = RobotFileParser(f"{truth.start}robots.txt")
            rules.read()
        steps.append((dict(names), value))
    allowed = {
        page.url: page for url, page in truth.pages.items() if rules.can_fetch("webdata_nb", url)
    }
    pages = steps[1][0]["pages"]
    failed, reason, plot, prices, hits, differences = [value for _, value in steps[2:8]]
    assert set(pages[pages["success"]]["url"]) == allowed.keys()
    statuses = {url: reply.status for url, reply in truth.replies.items() if reply.failed}
    assert dict(zip(failed["url"], failed["status_code"], strict=True)) == statuses
    assert not rules.can_fetch("webdata_nb", reason.url)
    assert reason.outcome == "robots"
    assert len(plot.axes) > 0
    declared = [json.loads(text) for page in allowed.values() for text in page.json_ld]
    products = {
        each["name"]: float(each["offers"]["price"])
        for each in declared
        if each["@type"] == "Product"
    }
    assert dict(zip(prices["name"], prices["price"], strict=True)) == products
    # The pages that have the words most often are the best.
    counts = {url: sum(map(page.words.count, FORMS)) for url, page in allowed.items()}
    assert set(hits["url"]) == set(sorted(counts, key=lambda url: -counts[url])[:3])
    assert differences == (0, "differences")


def test_broken_links_of_the_notebook(sample_site: SampleSite) -> None:
    """The stored output, which the tests of notebooks compare with that of a run."""
    cells = json.loads((NOTEBOOKS / "03_site_audit.ipynb").read_text("utf-8"))["cells"]
    [cell] = [each for each in cells if "links_df(pages, broken=True)" in "".join(each["source"])]
    [shown] = ["".join(each["data"]["text/html"]) for each in cell["outputs"]]
    site = PlainSite(sample_site.url, max_pages=1000)
    site.read()
    truth = site.broken_links()
    assert f"{len(truth)} rows" in "".join(cell["outputs"][0]["data"]["text/plain"])
    for pair in truth:
        for url in pair:
            assert url.removeprefix(sample_site.url) in shown


def test_pictures_of_the_tutorial_exist() -> None:
    text = PAGE.read_text("utf-8")
    pictures = [name for _, name in tutorial_cells() if name]
    assert len(pictures) >= 5
    for name in pictures:
        assert f"(pictures/{name}-light.png)" in text
        for theme in ("light", "dark"):
            with Image.open(PICTURES / f"{name}-{theme}.png") as picture:
                assert picture.width > 500


def test_animated_picture_is_small() -> None:
    path = PICTURES / "crawl.gif"
    assert path.stat().st_size < 1_500_000
    with Image.open(path) as picture:
        assert getattr(picture, "n_frames", 1) > 20
