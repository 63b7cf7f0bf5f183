"""Checks extraction against generated pages with known tables, lists and structured data.

Each page is scraped and its schema filled as in a job. A value counts as correct if it equals the
truth at its place, as null if there is none, and as invented otherwise. The exit code is 1 if any
value was invented, or if too few were extracted for a meaningful result.

Run it from the checkout, with the `test` extra::

    python -m benchmarks.extraction_truth --pages 1000
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, Final

from tests.quality.truth_pages import TruthPage, truth_page
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.extract.results import Extraction
from webdata_nb.page.extract.structured import extract_structured
from webdata_nb.page.scrape.page import scrape

PAGES: Final = 1000
LEAST_CORRECT: Final = 0.99
"""Share of the values on the pages that must be read: nulls alone would invent nothing."""

_URL: Final = "https://truth.example/page"
_OPTIONS: Final = ConversionOptions(formats=("structured_data", "tables"))


@dataclass(slots=True)
class Counts:
    """Counts of the outcomes of values that a page has, and of values that it lacks."""

    pages: int = 0
    correct: int = 0
    null: int = 0
    invented: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def values(self) -> int:
        """The values on the pages, and the invented ones."""
        return self.correct + self.null + self.invented


def extracted(page: TruthPage) -> Extraction:
    """Scrape a page and fill its schema, as a job does."""
    body = page.html.encode()
    source = FetchedResponse(_URL, _URL, 200, "text/html", body, (), datetime.now(UTC))
    scraped = scrape(source, _OPTIONS, outlinks=False)
    return extract_structured(
        scraped.formats["structured_data"],
        schema=page.schema,
        tables=scraped.formats["tables"],
        metadata=scraped.metadata,
    )


def count(pages: Iterable[TruthPage]) -> Counts:
    """Compare the values extracted from pages with the truth."""
    counts = Counts()
    for page in pages:
        counts.pages += 1
        data = extracted(page).data
        for at, truth, value in _places(page.truth, data, ""):
            if truth is value is None:
                continue
            if value is None:
                counts.null += 1
            elif _same(truth, value):
                counts.correct += 1
            else:
                counts.invented += 1
                counts.examples.append(f"page {page.number} {at}: {value!r}, not {truth!r}")
    return counts


def _places(truth: Any, value: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    """Pair each value with the truth at its place, down to scalars."""
    if isinstance(truth, dict) or (truth is None and isinstance(value, dict)):
        truths, values = truth or {}, value or {}
        for name in {**truths, **values}:
            yield from _places(truths.get(name), values.get(name), f"{at}/{name}")
    elif isinstance(truth, list) or (truth is None and isinstance(value, list)):
        for index, pair in enumerate(zip_longest(truth or [], value or [])):
            yield from _places(*pair, f"{at}/{index}")
    else:
        yield at, truth, value


def _same(truth: Any, value: Any) -> bool:
    return isinstance(truth, bool) == isinstance(value, bool) and bool(truth == value)


def main() -> int:
    """Print the counts; return 1 if a value was invented or too few were extracted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--first", type=int, default=0, help="number of the first page")
    options = parser.parse_args()
    counts = count(map(truth_page, range(options.first, options.first + options.pages)))
    print(f"pages     {counts.pages}")
    print(f"values    {counts.values}")
    print(f"correct   {counts.correct}")
    print(f"null      {counts.null}")
    print(f"invented  {counts.invented}")
    for example in counts.examples[:20]:
        print(f"  {example}")
    return int(counts.invented > 0 or counts.correct < LEAST_CORRECT * counts.values)


if __name__ == "__main__":
    sys.exit(main())
