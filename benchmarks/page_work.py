r"""Compares the processor time of processing one page with html-to-markdown.

- ``asked``: title, outlinks and the Markdown of the whole page, from bytes, against
  html-to-markdown's ``convert`` alone on the decoded text. ``scrape`` also produces the robots
  directives, the canonical URL and the text, at negligible cost.
- ``row``: everything else that a crawl's row contains, too: metadata with the hash of the body,
  quality, and the shape that trap detection uses; against the same.
- ``main content``: such a row with the main content only, against the same.

The pages are documentation of Debian's packages, of 20 to 90 kB: an even sample of each of eleven
sets with different generators (Sphinx, DocBook, AsciiDoc, gtk-doc, Texinfo, and others), since a
cost that one generator does not cause may dominate for another. Contestants alternate by round,
with an alternating first one. Each processes page after page, as in a crawl, so that it finds the
processor's caches as its own last page left them. The time of a page is the minimum of its rounds,
since other processes can only add time.

Run it from the checkout, in the environment of the tests::

    apt-get install apache2-doc cmake-doc git-doc libglib2.0-doc nodejs-doc octave-doc \
        postgresql-doc python-django-doc python-sqlalchemy-doc python3-doc sqlite3-doc
    python -m benchmarks.page_work

`--small` takes five pages of each set that is installed.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import html_to_markdown

from benchmarks.floors import check
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.scrape.page import scrape
from webdata_nb.service.runtime.process import configure_gc
from webdata_nb.service.workers.worker import GC_THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.content.page_source import PageFact

SETS: Final = {
    "apache2-doc": "doc/apache2-doc/manual",
    "cmake-doc": "doc/cmake-data/html",
    "git-doc": "doc/git-doc",
    "libglib2.0-doc": "gtk-doc/html",
    "nodejs-doc": "doc/nodejs/api",
    "octave-doc": "doc/octave",
    "postgresql-doc": "doc/postgresql-doc-*/html",
    "python-django-doc": "doc/python-django-doc/html",
    "python-sqlalchemy-doc": "doc/python-sqlalchemy-doc/html",
    "python3-doc": "doc/python3.*/html",
    "sqlite3-doc": "doc/sqlite3",
}
"""Where each package has its pages, below ``/usr/share``."""
PAGES: Final = 15
SMALL_PAGES: Final = 5
ROUNDS: Final = 15
SMALL_ROUNDS: Final = 5
BYTES: Final = (20_000, 90_000)
ROW: Final[frozenset[PageFact]] = frozenset({"metadata", "quality", "shape"})
MARKDOWN_ONLY: Final = ConversionOptions(("markdown",), only_main_content=False, facts=frozenset())
FULL: Final = ConversionOptions(("markdown",), only_main_content=False, facts=ROW)
MAIN: Final = ConversionOptions(("markdown",), facts=ROW)

Work: TypeAlias = "Callable[[FetchedResponse], object]"


def sample(package: str, count: int) -> list[FetchedResponse]:
    """Return an even sample of a package's documentation pages of medium size."""
    min_bytes, max_bytes = BYTES
    folders = sorted(Path("/usr/share").glob(SETS[package]))
    root = folders[0].resolve() if folders else Path()
    pages = sorted(root.rglob("*.html")) if folders else []
    paths = [
        path for path in pages if path.is_file() and min_bytes < path.stat().st_size < max_bytes
    ]
    step = max(1, len(paths) // count)
    return [as_fetched(package, root, path) for path in paths[::step][:count]]


def as_fetched(package: str, root: Path, path: Path) -> FetchedResponse:
    """Return a page as if it had been fetched from a documentation site."""
    url = f"https://docs.test/{package}/{path.relative_to(root).as_posix()}"
    return FetchedResponse(url, url, 200, "text/html", path.read_bytes(), (), datetime.now(UTC))


def contest(
    pages: list[FetchedResponse], ours: Work, theirs: Work, rounds: int
) -> list[list[float]]:
    """Return the processor seconds of both for each page."""
    best_times = [[float("inf"), float("inf")] for _ in pages]
    for number in range(rounds):
        for side in (0, 1) if number % 2 else (1, 0):
            work = theirs if side else ours
            for page, times in zip(pages, best_times, strict=True):
                start = time.process_time()
                work(page)
                times[side] = min(times[side], time.process_time() - start)
    return best_times


def main() -> int:
    """Run the contests; return 1 if ours exceeds its share of processor time in one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--small", action="store_true", help="five pages of what is installed")
    is_small = parser.parse_args().small
    sets = {package: sample(package, SMALL_PAGES if is_small else PAGES) for package in SETS}
    missing = [package for package, pages in sets.items() if not pages]
    if len(missing) == len(sets) or (missing and not is_small):
        sys.exit(f"the documentation is missing: apt-get install {' '.join(missing)}")
    pages = [page for sampled in sets.values() for page in sampled]
    size = sum(len(page.body) for page in pages) / len(pages) / 1000
    contests: dict[str, Work] = {
        "asked": lambda page: scrape(page, MARKDOWN_ONLY),
        "row": lambda page: scrape(page, FULL),
        "main content": lambda page: scrape(page, MAIN),
    }
    configure_gc(*GC_THRESHOLDS)  # as a page worker does; for both sides
    met = []
    for name, ours in contests.items():
        best_times = contest(pages, ours, convert_page, SMALL_ROUNDS if is_small else ROUNDS)
        our_s, their_s = map(sum, zip(*best_times, strict=True))
        print(
            f"{name}: ours {1000 * our_s / len(pages):.3f} ms, html-to-markdown"
            f" {1000 * their_s / len(pages):.3f} ms a page of {size:.0f} kB"
        )
        met.append(check(f"page_work: {name}, of html-to-markdown", our_s / their_s))
        times = iter(best_times)
        for package, sampled in sets.items():
            if sampled:
                our_s, their_s = map(sum, zip(*islice(times, len(sampled)), strict=True))
                print(f"    {package}: {our_s / their_s:.3f}")
    return 0 if all(met) else 1


def convert_page(page: FetchedResponse) -> object:
    """Convert a page by the peer."""
    return html_to_markdown.convert(page.body.decode(errors="replace"))


if __name__ == "__main__":
    sys.exit(main())
