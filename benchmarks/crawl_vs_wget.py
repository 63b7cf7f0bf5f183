"""Compares pages per second of `crawl_df` and `wget -r` on the same site.

The site is Debian's Python documentation (`python3-doc`), served by nginx on loopback. `crawl_df`
runs with its defaults: breadth first, five pages in parallel, Markdown of the main content,
robots.txt obeyed. Every row is durable in the service before it counts, and the time ends when the
DataFrame is complete. Only the start of the service and the imports of the first call are excluded,
by a crawl of one page beforehand, in an interpreter that imports only `webdata_nb`. The result
cache is off. A second line is the same with whole pages, ten in parallel.

`wget -r` is the most common program for downloading a site. It fetches pages, finds links and
writes files with one process and one connection; it produces no Markdown, no journal and no table.
It follows every link to a page (`-l inf`) and skips everything else (`-A html,htm`), so that it
fetches no style sheets, scripts and sources, like `crawl_df`. It cannot stop after 500 pages, so it
downloads the whole site of about 530 pages. Each figure is pages per second over the pages that the
contestant fetched.

Rounds are interleaved with an alternating first contestant. Between two measurements the benchmark
waits until the service is idle, since it fills its text index after a crawl.

Run it from the checkout, with the `test` extra, nginx, wget and python3-doc installed::

    python -m benchmarks.crawl_vs_wget
"""

from __future__ import annotations

import statistics
import sys
from typing import Any, Final

from benchmarks.notebook import Notebook
from benchmarks.rest import Measure, rounds
from benchmarks.wget import measure_wget
from tests.requirements import find
from tests.site.nginx import NginxSite

PAGES: Final = 500
MIN_MARKDOWN_PAGES: Final = 490
ROUNDS: Final = 3
FLOOR: Final = 0.8
# Without main content extraction, ten in parallel: the cheapest crawl with Markdown.
WHOLE_PAGES: Final = {"concurrency": 10, "scrape_options": {"only_main_content": False}}


def measure_crawl(notebook: Notebook, url: str, **options: Any) -> float:
    """Return the pages per second of `crawl_df`, including the DataFrame."""
    result = notebook.crawl(url, max_pages=PAGES, **options)
    # The documentation has a broken link, whose row does not count here.
    if result["pages"] != PAGES or result["markdown"] < MIN_MARKDOWN_PAGES:
        raise SystemExit(result["line"])
    return float(result["markdown"] / result["seconds"])


def main() -> int:
    """Print each round and the ratio; return 1 below the floor."""
    docs, wget = find("python-docs"), find("wget")
    if docs is None or wget is None or find("nginx") is None:
        raise SystemExit("nginx, wget and python3-doc are needed")
    with NginxSite(docs) as site, Notebook(site.url) as notebook:
        contestants: dict[str, Measure] = {
            "crawl_df": lambda: measure_crawl(notebook, site.url),
            "crawl_df, whole pages": lambda: measure_crawl(notebook, site.url, **WHOLE_PAGES),
            "wget -r": lambda: measure_wget(site.url, wget),
        }
        results = rounds(contestants, ROUNDS, notebook.pids)
    median = {name: statistics.median(rates) for name, rates in results.items()}
    peer = median.pop("wget -r")
    print(f"medians of {ROUNDS}, pages a second; wget -r {peer:.1f}")
    for name, ours in median.items():
        print(f"{name} {ours:.1f}: ratio {ours / peer:.2f} (floor {FLOOR})")
    return int(min(median.values()) / peer < FLOOR)


if __name__ == "__main__":
    sys.exit(main())
