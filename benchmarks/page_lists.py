"""Compares `scrape_df` of 200 pages with a crawl of the same pages.

Prints the ratio of the seconds from call to frame, with a warm service and a new request each time,
and the number of jobs that the list makes. The figure is the least ratio of interleaved rounds, as
other programs can only slow one of the two down. The exit code is 1 above the limit, or for several
jobs.

    python -m benchmarks.page_lists [pages] [rounds]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable

import pandas as pd

from benchmarks.floors import check
from tests.site.document import document, prose
from tests.site.server import Site
from webdata_nb import connect, crawl_df, scrape_df
from webdata_nb.toolkit.api import jobs_df


def seconds(call: Callable[[], pd.DataFrame], rows: int) -> float:
    """Return the duration of a call, which must return so many rows."""
    began = time.perf_counter()
    found = len(call())
    if found != rows:
        sys.exit(f"{found} rows instead of {rows}")
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    paths = [f"/page{number}" for number in range(pages)]
    ratios = []
    with Site() as site, connect():
        site.page("/", document("Index", links=paths))
        for number, path in enumerate(paths):
            site.page(path, document(f"Page {number}", text=prose(f"subject{number}", 400)))
        urls = [site.at(path) for path in paths]
        for number in range(rounds + 1):
            crawl_s = seconds(
                lambda: crawl_df(site.url, max_pages=pages + 1, refresh=True), pages + 1
            )
            before = len(jobs_df(limit=1000))
            list_s = seconds(lambda: scrape_df(urls, refresh=True), pages)
            jobs = len(jobs_df(limit=1000)) - before
            if number:  # the first round starts the service
                ratios.append(list_s / crawl_s)
                print(f"crawl {crawl_s:.2f} s, list {list_s:.2f} s: {ratios[-1]:.2f}; {jobs} jobs")
    best = min(ratios)
    sys.exit(not check("page_lists: seconds, of a crawl", best) or jobs > 1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"WEBDATA_HOME": home, "WEBDATA_PROGRESS": "0"}
        main()
