"""The tutorial runs as it is printed, against the sample site and a real service."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from PIL import Image

import webdata_nb
from tests.local_service import stop
from webdata_nb import settings
from website.tutorial import PAGE, tutorial_cells

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
    steps = [(dict(names), value) for names, value in run_cells()]
    pages = steps[1][0]["pages"]
    assert len(pages) > 20
    failed, reason, _plot, prices, hits, differences = [value for _, value in steps[2:8]]
    assert failed["status_code"].tolist() == [500, 404]
    assert reason.outcome == "robots"
    assert prices["name"].tolist()[0] == "Copper rain gauge"
    assert prices["price"].gt(0).all()
    assert len(hits) == 3
    assert differences == (0, "differences")


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
