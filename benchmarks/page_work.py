r"""Compares the processor time of processing one page with html-to-markdown and trafilatura.

- ``asked``: title, outlinks and the Markdown of the whole page, from bytes, against
  html-to-markdown's ``convert`` alone on the decoded text. ``scrape`` also produces the robots
  directives, the canonical URL and the text, at negligible cost.
- ``row``: everything else that a crawl's row contains, too: metadata with the hash of the body,
  quality, and the shape that trap detection uses; against the same.
- ``main``: such a row with main content extraction, against ``trafilatura.extract`` to Markdown.

The pages are documentation of Debian's packages, of 20 to 90 kB: an even sample of each of eleven
sets with different generators (Sphinx, DocBook, AsciiDoc, gtk-doc, Texinfo, and others), since a
cost that one generator does not cause may dominate for another. Contestants alternate by round,
with an alternating first one. Each processes page after page, as in a crawl, so that it finds the
processor's caches as its own last page left them. The time of a page is the minimum of its rounds,
since other processes can only add time.

Run it from the checkout, in the environment of the tests::

    apt-get install apache2-doc cmake-doc git-doc libglib2.0-doc nodejs-doc octave-doc \
        postgresql-doc python-django-doc python-sqlalchemy-doc python3-doc sqlite3-doc
    pip install html-to-markdown trafilatura lxml_html_clean
    python -m benchmarks.page_work
"""

from __future__ import annotations

import importlib
import sys
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from webdata_nb.page.content.page_source import ConversionOptions, PageSource
from webdata_nb.page.scrape.page import scrape
from webdata_nb.service.runtime.process import configure_gc
from webdata_nb.service.workers.worker import GC_THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.content.page_source import PageFact

CEILINGS: Final = {"asked": 0.85, "row": 1.0, "main": 0.15}
"""The most of each peer's CPU time that ours may take (``docs/decisions/0007``)."""
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
ROUNDS: Final = {"asked": 15, "row": 15, "main": 3}
BYTES: Final = (20_000, 90_000)
ROW: Final[frozenset[PageFact]] = frozenset({"metadata", "quality", "shape"})
MARKDOWN_ONLY: Final = ConversionOptions(("markdown",), only_main_content=False, facts=frozenset())
FULL: Final = ConversionOptions(("markdown",), only_main_content=False, facts=ROW)
MAIN: Final = ConversionOptions(("markdown",), facts=ROW)

Work: TypeAlias = "Callable[[PageSource], object]"


def sample(package: str) -> list[PageSource]:
    """Return an even sample of a package's documentation pages of medium size."""
    min_bytes, max_bytes = BYTES
    folders = sorted(Path("/usr/share").glob(SETS[package]))
    root = folders[0].resolve() if folders else Path()
    pages = sorted(root.rglob("*.html")) if folders else []
    paths = [
        path for path in pages if path.is_file() and min_bytes < path.stat().st_size < max_bytes
    ]
    if not paths:
        sys.exit(f"the documentation is missing: apt-get install {package}")
    return [
        as_fetched(package, root, path) for path in paths[:: max(1, len(paths) // PAGES)][:PAGES]
    ]


def as_fetched(package: str, root: Path, path: Path) -> PageSource:
    """Return a page as if it had been fetched from a documentation site."""
    url = f"https://docs.test/{package}/{path.relative_to(root).as_posix()}"
    return PageSource(url, url, 200, "text/html", path.read_bytes(), (), datetime.now(UTC))


def peer(name: str) -> Any:
    """Import a peer, or exit and say what to install."""
    try:
        return importlib.import_module(name)
    except ImportError:
        sys.exit(f"the peer {name} is missing: see the docstring of this program")


def contest(pages: list[PageSource], ours: Work, theirs: Work, rounds: int) -> list[list[float]]:
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
    sets = {package: sample(package) for package in SETS}
    pages = [page for sampled in sets.values() for page in sampled]
    size = sum(len(page.body) for page in pages) / len(pages) / 1000
    convert, extract = peer("html_to_markdown").convert, peer("trafilatura").extract

    def converted(page: PageSource) -> object:
        return convert(page.body.decode(errors="replace"))

    contests: dict[str, tuple[Work, Work, str]] = {
        "asked": (lambda page: scrape(page, MARKDOWN_ONLY), converted, "html-to-markdown"),
        "row": (lambda page: scrape(page, FULL), converted, "html-to-markdown"),
        "main": (
            lambda page: scrape(page, MAIN),
            lambda page: extract(page.body, url=page.url, output_format="markdown"),
            "trafilatura",
        ),
    }
    configure_gc(*GC_THRESHOLDS)  # as a page worker does; for both sides
    exceeded = False
    for name, (ours, theirs, rival) in contests.items():
        best_times = contest(pages, ours, theirs, ROUNDS[name])
        our_s, their_s = map(sum, zip(*best_times, strict=True))
        ratio = our_s / their_s
        exceeded |= ratio > CEILINGS[name]
        print(
            f"{name}: ours {1000 * our_s / len(pages):.3f} ms, {rival}"
            f" {1000 * their_s / len(pages):.3f} ms a page of {size:.0f} kB;"
            f" CPU ratio {ratio:.3f} (at most {CEILINGS[name]})"
        )
        times = iter(best_times)
        for package, sampled in sets.items():
            our_s, their_s = map(sum, zip(*islice(times, len(sampled)), strict=True))
            print(f"    {package}: {our_s / their_s:.3f}")
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
