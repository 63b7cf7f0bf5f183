"""Measures an audit: what its facts cost a crawl, and how long `audit_df` takes.

Rounds with and without `audit=True` alternate over the same documentation pages, each with its own
service: bytes of the database, and processor time of the service and its page workers, per page.
Then a generated site of 2,000 pages with known faults of every kind is crawled: precision and
recall of each kind, seconds and peak memory of `audit_df`, for 1,000 and for all of its pages.

Run it from the checkout, with the `test` extra::

    python -m benchmarks.site_audit
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pandas as pd
import psutil

from tests.requirements import require
from tests.site.faulty_site import FaultySite
from tests.site.server import Site
from tests.site.static import StaticSite
from tests.wire.waiting import processes_on
from webdata_nb import audit_df, crawl_df, settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.bridge import synced

ROUNDS: Final = 3
DOCUMENTATION_PAGES: Final = 300
FAULTY_PAGES: Final = 2000
# Seconds of `audit_df` for 1,000 pages.
LIMIT_S: Final = 2.0
stop = synced(local.stop)


@contextmanager
def own_service() -> Iterator[Path]:
    """Give the block a local service of its own; yields its home."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEBDATA_HOME"] = folder
        try:
            yield Path(folder)
        finally:
            stop(settings.current())


def service_seconds() -> float:
    """Return the processor time of the service and its children."""
    seconds = 0.0
    for process in processes_on(settings.current().data_dir):
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                seconds += sum(each.cpu_times()[:2])
    return seconds


def cost_of_a_page(url: str, *, audit: bool) -> tuple[float, float]:
    """Return the stored bytes and the milliseconds of processor time of a page."""
    with own_service() as home:
        crawl_df(url, max_pages=5, cache=False)  # starts what a first page needs
        before = service_seconds()
        crawl_df(url, max_pages=DOCUMENTATION_PAGES, audit=audit, cache=False)
        seconds = service_seconds() - before
        stop(settings.current())
        size = sum(path.stat().st_size for path in home.rglob("jobs.sqlite*"))
    return size / DOCUMENTATION_PAGES, 1000 * seconds / DOCUMENTATION_PAGES


def compare_crawls() -> None:
    """Print the cost of a page with and without an audit."""
    costs: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with StaticSite(require("python-docs")) as site:
        for _ in range(ROUNDS):
            for audit, measured in costs.items():
                measured.append(cost_of_a_page(site.url, audit=audit))
    medians = {
        audit: list(map(statistics.median, zip(*costs[audit], strict=True))) for audit in costs
    }
    for name, place in (("bytes stored", 0), ("ms of processor time", 1)):
        plain, audited = medians[False][place], medians[True][place]
        print(f"{name} for a page: {plain:.1f}, audited {audited:.1f} ({audited / plain:.2f})")


def timed(pages: pd.DataFrame) -> float:
    """Print seconds and peak memory of an audit; return the seconds."""
    started = time.perf_counter()
    findings = audit_df(pages)
    seconds = time.perf_counter() - started
    tracemalloc.start()
    audit_df(pages)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{len(pages)} pages: {len(findings)} findings, {seconds:.2f} s, {peak / 1e6:.0f} MB")
    return seconds


def wrong_kinds(pages: pd.DataFrame, site: FaultySite) -> list[str]:
    """Print precision and recall of each kind; return those below 1."""
    found = audit_df(pages, fold=False)
    paths = found["url"].str.removeprefix(site.url.rstrip("/"))
    pairs = set(zip(found["issue"], paths, strict=True))
    wrong = []
    kinds = sorted({issue for issue, _ in site.expected | pairs})
    for kind in kinds:
        here, expected = (
            {pair for pair in each if pair[0] == kind} for each in (pairs, site.expected)
        )
        common = len(here & expected)
        if not common == len(here) == len(expected):
            wrong.append(f"{kind}: {common} of {len(expected)} found, {len(here) - common} wrong")
    print(f"{len(kinds)} kinds of faults, {len(pairs)} findings; not exact: {wrong or 'none'}")
    return wrong


def main() -> int:
    """Print all figures; return 1 if a kind is not exact, or an audit takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-crawls", action="store_true", help="measure audit_df alone")
    if not parser.parse_args().skip_crawls:
        compare_crawls()
    with own_service(), Site() as server, Site() as outside:
        site = FaultySite(server, outside, pages=FAULTY_PAGES, copies=10)
        pages = crawl_df(
            site.url,
            audit=True,
            check_links=True,
            sitemap=True,
            max_pages=3 * FAULTY_PAGES,
            formats=[],
            cache=False,
        )
        wrong = wrong_kinds(pages, site)
        seconds = timed(pages.iloc[:1000])
        timed(pages)
    return int(bool(wrong) or seconds > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
