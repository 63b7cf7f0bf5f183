"""Code, formulas and footnotes of the main content, on pages with a reference of other people.

The corpora's own program compares. The floors are counts of ``fidelity_dev`` and may only rise.
Of its 106 footnotes 20 are raised numbers without a link or sidenotes, which are not read.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from tests.page.pages import page_source
from tests.requirements import require
from webdata_nb.page.scrape.page import ConversionOptions, scrape

if TYPE_CHECKING:
    from types import ModuleType

FLOORS: Final = {"code": 27, "language": 14, "formulas": 45, "footnotes": 83, "cells": 109}


def scorer(name: str) -> ModuleType:
    """Import a program of the corpora."""
    folder = require("corpora") / "content"
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found() -> Counter[str]:
    scorer("score")
    program = scorer("score_fidelity")
    counts: Counter[str] = Counter()
    pages = program.load(str(require("corpora") / "content" / "fidelity_dev.tar.gz"))
    for html, truth in pages.values():
        source = page_source(html, url=truth["url"], content_type="text/html")
        markdown = scrape(source, ConversionOptions(), outlinks=False).formats["markdown"]
        for measure, (_, hits) in program.page_scores(markdown, truth).items():
            counts[measure] += hits.total()
    return counts


@pytest.mark.parametrize("measure", FLOORS)
def test_the_main_content_keeps(measure: str, found: Counter[str]) -> None:
    assert found[measure] >= FLOORS[measure]
