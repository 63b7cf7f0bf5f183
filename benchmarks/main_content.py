"""Compares F1 and processor time of main content extraction with trafilatura.

Both receive the bytes of each labelled page and return Markdown; the corpora's own program scores
both outputs. trafilatura runs with its defaults and `output_format="markdown"`. Ours is `scrape` as
the service calls it, which includes charset detection, parsing, cleaning and the Markdown writer.
Pages are interleaved with an alternating first contestant.

Figures are printed for two fixed halves of each set (by a hash of the page's key): half A was used
to develop the rules, half B only for scoring.

Run it from the checkout, with the corpora present, in the environment of the tests::

    pip install trafilatura lxml_html_clean
    python -m benchmarks.main_content
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from benchmarks.floors import check
from tests.requirements import find
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.scrape.page import scrape

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

SETS: Final = ("aeb", "wcxb_dev")

Extract = Callable[[bytes, str], str]
Row = dict[str, Any]


@dataclass(slots=True)
class Contestant:
    """An extractor, its processor seconds and its results by set."""

    name: str
    extract: Extract
    cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    found: dict[str, list[tuple[str, str, Row]]] = field(default_factory=lambda: defaultdict(list))

    def run(self, name: str, key: str, html: bytes, truth: Row) -> None:
        """Extract one page."""
        start = time.process_time()
        markdown = self.extract(html, truth["url"])
        self.cpu[name] += time.process_time() - start
        self.found[name].append((key, markdown, truth | {"html": html}))


def ours(html: bytes, url: str) -> str:
    """Return the service's Markdown of a page."""
    source = FetchedResponse(url, url, 200, "text/html", html, (), datetime.now(UTC))
    return str(scrape(source, ConversionOptions(), outlinks=False).formats["markdown"])


def trafilatura() -> Extract:
    """Return the peer's extraction function, or exit and say what to install."""
    try:
        peer = importlib.import_module("trafilatura")
    except ImportError:
        sys.exit("the peer is missing: pip install trafilatura lxml_html_clean")

    def extract(html: bytes, url: str) -> str:
        return peer.extract(html, url=url, output_format="markdown") or ""

    return extract


def half_of(key: str) -> str:
    """Return the half of its set that a page belongs to."""
    return "AB"[hashlib.sha256(key.encode()).digest()[-1] % 2]


def score(scoring: ModuleType, name: str, rows: list[tuple[str, str, Row]]) -> str:
    """Return the set's score over `rows`, and by kind of page if the set has kinds."""
    texts = [
        (scoring.plain(scoring.untitled(markdown, truth["html"], truth["text"])), truth)
        for _, markdown, truth in rows
    ]
    if name == "aeb":
        scores = scoring.shingle_scores([(text, truth["text"]) for text, truth in texts])
        return " ".join(f"{key} {value:.4f}" for key, value in scores.items())
    kinds: dict[str, list[float]] = defaultdict(list)
    for text, truth in texts:
        kinds[truth["type"]].append(scoring.word_f1(text, truth["text"]))
    every = statistics.mean(value for values in kinds.values() for value in values)
    by_kind = " ".join(f"{kind} {statistics.mean(kinds[kind]):.3f}" for kind in sorted(kinds))
    return f"word_f1 {every:.4f} {by_kind}"


def report(scoring: ModuleType, name: str, contestants: tuple[Contestant, Contestant]) -> float:
    """Print the figures of one set; return the ratio of processor times."""
    for contestant in contestants:
        rows = contestant.found[name]
        print(
            f"{name} {contestant.name}: {1000 * contestant.cpu[name] / len(rows):.2f} CPU ms a page"
        )
        for half in ("A", "B"):
            of_half = [row for row in rows if half_of(row[0]) == half]
            print(f"  half {half}  {score(scoring, name, of_half)}")
        print(f"  all     {score(scoring, name, rows)}")
    ratio = contestants[0].cpu[name] / contestants[1].cpu[name]
    print(f"{name} CPU ratio {ratio:.3f}")
    return ratio


def load_scoring(content: Path) -> ModuleType:
    """Import the scoring program from the folder of the labelled pages."""
    spec = importlib.util.spec_from_file_location("score_main_content", content / "score.py")
    if spec is None or spec.loader is None:
        sys.exit("the corpora have no content/score.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    """Run both over both sets; return 1 if ours exceeds its share of processor time."""
    corpora = find("corpora")
    if corpora is None:
        sys.exit("the corpora are missing: name their folder in WEBDATA_CORPORA")
    scoring = load_scoring(corpora / "content")
    contestants = (Contestant("ours", ours), Contestant("trafilatura", trafilatura()))
    for name in SETS:
        pages = scoring.load(str(corpora / "content" / f"{name}.tar.gz"))
        for index, (key, (html, truth)) in enumerate(pages.items()):
            for contestant in contestants if index % 2 else contestants[::-1]:
                contestant.run(name, key, html, truth)
    ratios = [report(scoring, name, contestants) for name in SETS]
    return 0 if check("main_content: processor time, of trafilatura", max(ratios)) else 1


if __name__ == "__main__":
    sys.exit(main())
