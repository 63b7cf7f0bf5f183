"""Measures incremental crawls: bytes and time against a full crawl, and the check of wrong claims.

The documentation site is Python's, in nginx with compression. First it is crawled in full, then
after 0, 5, 30 and 100 % of its pages have changed: each time incrementally and in full, and the
frames are compared. Bytes are those that nginx sent, headers included.

The second part is a site of 40 pages, 5 of which change without their entity tags. 200 incremental
crawls check 5 % of the unchanged pages; the crawls that find a wrong claim are counted, and those
whose bound is below the true share of wrong claims.

Run it from the checkout, with the `test` extra::

    python -m benchmarks.incremental --pages 1000 --runs 200
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.site.changing_docs import ChangingDocs, changing_docs
from tests.site.server import Site
from tests.site.versions import VersionedSite, text_page
from webdata_nb import connect, crawl_df, options
from webdata_nb.settings import current
from webdata_nb.toolkit import local
from webdata_nb.toolkit.bridge import synced

if TYPE_CHECKING:
    import pandas as pd

SHARES: Final = (0.0, 0.05, 0.3, 1.0)
RECHECKS: Final = (0.0, 0.01)
CLAIM_PAGES: Final = 40
WRONG_PAGES: Final = 5
CLAIM_RECHECK: Final = 0.05
_TIMES: Final = ["time_taken", "fetched_at", "metadata"]
_stop = synced(local.stop)


@contextmanager
def own_service(folder: Path) -> Iterator[None]:
    """Use a service and a cache of its own inside the block."""
    options.data_dir, options.cache_dir = folder / "data", folder / "cache"
    options.log_dir = folder / "logs"
    options.progress = False
    try:
        with connect():
            yield
    finally:
        _stop(current())


class MeasuredCrawls:
    """Crawls of the documentation, with their bytes and seconds."""

    def __init__(self, docs: ChangingDocs, pages: int) -> None:
        self._docs, self._pages = docs, pages

    def crawl(self, **arguments: Any) -> tuple[pd.DataFrame, int, float]:
        """Return the frame of a crawl, the bytes that it took, and its seconds."""
        self._docs.sent()
        began = time.perf_counter()
        frame = crawl_df(self._docs.url, max_pages=self._pages, concurrency=10, **arguments)
        return frame, sum(self._docs.sent().values()), time.perf_counter() - began


def measure_documents(folder: Path, pages: int) -> None:
    """Print bytes and seconds by the share of changed pages."""
    with changing_docs(folder) as docs:
        crawls = MeasuredCrawls(docs, pages)
        last, _, _ = crawls.crawl(refresh=True)
        urls = last.loc[last["success"], "url"].tolist()
        print(f"{len(last)} pages")
        for number, share in enumerate(SHARES):
            docs.change(urls, share, seed=number)
            full, full_bytes, full_s = crawls.crawl(refresh=True)
            for recheck in RECHECKS:
                frame, sent, seconds = crawls.crawl(since={"base": last, "recheck": recheck})
                is_equal = frame.drop(columns=_TIMES).equals(full.drop(columns=_TIMES))
                print(
                    f"{share:4.0%} changed, recheck {recheck:.0%}: {sent / full_bytes:6.2%} of "
                    f"{full_bytes:,} bytes, {seconds:.1f} s of {full_s:.1f} s, equal: {is_equal}"
                )
                print(f"    {frame.attrs['webdata']['line']}")
            last = full


def measure_claims(runs: int) -> None:
    """Print how often wrong claims were found, and how often the bound was too low."""
    with Site() as site:
        versions = VersionedSite(site)
        paths = ["/", *(f"/p{number}" for number in range(1, CLAIM_PAGES))]
        for number, path in enumerate(paths):
            versions.add(path, text_page(number, *paths))
        first = crawl_df(site.url)
        for number, path in enumerate(paths[-WRONG_PAGES:]):
            versions.change(path, text_page(1000 + number, *paths), honest=False)
        found = below = 0
        for _ in range(runs):
            frame = crawl_df(site.url, since={"base": first, "recheck": CLAIM_RECHECK})
            stated = frame.attrs["webdata"]["revalidation"]
            found += stated["contradicted"] > 0
            below += (stated["bound"] or 1.0) < WRONG_PAGES / CLAIM_PAGES
    expected = 1 - (1 - CLAIM_RECHECK) ** WRONG_PAGES
    print(f"wrong claims found in {found} of {runs} crawls, expected {expected * runs:.1f}")
    print(f"bound below the true share in {below} of {runs} crawls, at most {0.05 * runs:.0f}")


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1000, help="pages of the documentation")
    parser.add_argument("--runs", type=int, default=200, help="crawls of the site with wrong tags")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, own_service(Path(name)):
        measure_documents(Path(name), args.pages)
        if args.runs:
            measure_claims(args.runs)


if __name__ == "__main__":
    main()
