"""No figure of `benchmarks.structure` is above its limit, and no limit below its ceiling."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from benchmarks import concepts, structure

CHECKOUT: Final = Path(__file__).resolve().parents[1]
BOUNDS: Final = structure.ceilings()


@pytest.fixture(scope="module")
def source() -> concepts.Source:
    return concepts.Source(CHECKOUT)


@pytest.mark.slow
def test_no_figure_is_above_its_limit(source: concepts.Source) -> None:
    """`python -m benchmarks.structure --list NAME` prints what most of them count."""
    figures = structure.measure(source)
    assert figures.keys() == BOUNDS.keys()
    assert not structure.above_limits(figures)


def test_no_limit_is_below_its_ceiling() -> None:
    assert all(bounds["limit"] >= bounds["ceiling"] for bounds in BOUNDS.values())


@pytest.mark.slow
def test_forms_of_a_page_are_those_of_the_package(source: concepts.Source) -> None:
    """A form that was renamed is renamed in the list; one that is gone is deleted from it."""
    missing = set(concepts.FORMS_OF_A_PAGE) - set(concepts.forms_of_a_page(source))
    assert not missing


@pytest.mark.slow
def test_a_concept_too_many_is_found(tmp_path: Path) -> None:
    package = tmp_path / concepts.PACKAGE
    (package / "contract").mkdir(parents=True)
    (package / "contract" / "paths.py").write_text('CRAWL = "/v1/crawl"\nNEW = "/v1/new-crawls"\n')
    (package / "records.py").write_text(SECOND_OF_EACH)
    found = concepts.listed(concepts.Source(tmp_path))
    assert {name: len(found[name]) for name in EXPECTED} == EXPECTED


EXPECTED: Final = {
    "models that start a crawl": 2,
    "paths that start a crawl": 2,
    "hand-written codecs": 1,
    "readers of HTML by own parsing": 1,
    "readers of JSON-LD": 1,
    "protocols with one implementation": 1,
    "retry policies": 1,
}
SECOND_OF_EACH: Final = '''
class CrawlRequest(Strict): ...


class NewCrawlRequest(CrawlRequest): ...


class Clock(Protocol):
    def now(self) -> float: ...


class SystemClock:
    def now(self) -> float:
        return time()


@dataclass
class Page:
    url: str
    title: str
    text: str


def encode(page):
    """A docstring with @type is none."""
    return {"u": page.url, "t": page.title, "x": page.text}


def decode(record):
    return Page(record["u"], record["t"], record["x"])


TAG = re.compile(r"<(?P<close>/?)(?P<name>[a-z]+)")
TYPES = node["@type"]
POLICY = BackoffPolicy(1.0, 2.0)
'''
