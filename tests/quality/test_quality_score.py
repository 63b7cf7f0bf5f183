"""The score of `quality` ranks pages by how well their main content was found.

The rank correlation (Spearman) of the score with the true word F1 over ``wcxb_dev``. The signals
and their weights were chosen with the even pages in view; the odd ones are held to the same floor.
"""

from __future__ import annotations

import importlib.util
from typing import Final

import pytest
from pandas import Series

from tests.page.pages import page_source
from tests.requirements import require
from webdata_nb.page.scrape.page import ConversionOptions, scrape

FLOOR: Final = 0.5


@pytest.fixture(scope="module")
def judged() -> list[tuple[float, float]]:
    """Give the true F1 and our score of every page, in the order of the set."""
    content = require("corpora") / "content"
    spec = importlib.util.spec_from_file_location("score_for_quality", content / "score.py")
    assert spec is not None
    assert spec.loader is not None
    scoring = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scoring)
    rows = []
    for html, truth in scoring.load(str(content / "wcxb_dev.tar.gz")).values():
        source = page_source(html, url=truth["url"], content_type="text/html; charset=utf-8")
        found = scrape(source, ConversionOptions(), outlinks=False)
        text = scoring.untitled(found.formats["markdown"], html, truth["text"])
        f1 = scoring.word_f1(scoring.plain(text), truth["text"])
        rows.append((f1, found.quality["score"]))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1], ids=["even pages", "odd pages"])
def test_the_score_ranks_pages_by_their_true_f1(
    half: int, judged: list[tuple[float, float]]
) -> None:
    true, scores = zip(*judged[half::2], strict=True)
    assert Series(true).rank().corr(Series(scores).rank()) >= FLOOR
