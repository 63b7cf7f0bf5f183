"""Pages a second of `crawl_df` against `wget -r`, on the same real site in the same run.

The site is Debian's Python documentation (`python3-doc`), served by nginx on loopback. `crawl_df`
runs as a user calls it: with its defaults, so breadth first, five pages at a time, Markdown of
the main content, robots.txt obeyed, every row durable in the service before it counts; its time
ends when the DataFrame is there. Only the service's start and the first call's imports are left
out, by a crawl of one page beforehand; and the result cache is off. A second line is the same with
whole pages, ten at a time.

`wget -r` is the program that everybody has for "get me this site". It fetches, finds the links
and writes files; it makes no Markdown, keeps no journal and builds no table, and it is one
process with one connection. It follows every link to a page (`-l inf`) and leaves out everything
else (`-A html,htm`), which spares it the style sheets, scripts and sources that `crawl_df` does
not fetch either. It cannot stop after 500 pages, so it gets the whole site, some 530 pages: what
is compared is pages a second, each over what it fetched.

Rounds are interleaved, and the one that goes first changes. Between two measurements the
service comes to rest, because it fills its text index after a crawl, which would slow down
whoever comes next.

Run it from the checkout, with the `test` extra, nginx, wget and python3-doc installed::

    python -m benchmarks.crawl_vs_wget
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.rest import rest
from benchmarks.wget import mirrored
from tests.requirements import find
from tests.site.nginx import NginxSite
from webdata_nb import crawl_df, local
from webdata_nb.settings import current

PAGES: Final = 500
GOOD: Final = 490
ROUNDS: Final = 3
FLOOR: Final = 0.8
# Without the search for the main content, ten at a time: the leanest crawl that makes Markdown.
WHOLE: Final = {"concurrency": 10, "scrape_options": {"only_main_content": False}}

Measure = Callable[[], float]


def crawled(url: str, **options: Any) -> float:
    """Return pages a second of `crawl_df`, DataFrame included."""
    start = time.perf_counter()
    frame = crawl_df(url, max_pages=PAGES, cache=False, progress=False, **options)
    elapsed = time.perf_counter() - start
    # The documentation has a broken link, which is a row as well; it does not count here.
    pages = int((frame["success"] & frame["markdown"].notna()).sum())
    if len(frame) != PAGES or pages < GOOD:
        raise SystemExit(frame.attrs["webdata"]["line"])
    return pages / elapsed


def measured(url: str, wget: Path, pids: tuple[int, ...]) -> Iterator[dict[str, float]]:
    """Give pages a second of each contestant, round by round, each round in another order."""
    contestants: dict[str, Measure] = {
        "crawl_df": lambda: crawled(url),
        "crawl_df, whole pages": lambda: crawled(url, **WHOLE),
        "wget -r": lambda: mirrored(url, wget),
    }
    order = list(contestants)
    for _ in range(ROUNDS):
        results = {}
        for name in order:
            rest(pids)
            results[name] = contestants[name]()
        order.append(order.pop(0))
        yield results


@contextmanager
def own_service(url: str) -> Iterator[tuple[int, ...]]:
    """Run a local service with a home of its own; give its process ids."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["WEBDATA_HOME"] = home
        try:
            crawl_df(url, max_pages=1, cache=False, progress=False)
            running = asyncio.run(local.find(current()))
            if running is None:
                raise SystemExit("this measures the local service: unset WEBDATA_BASE_URL")
            yield running.hello.pids
        finally:
            asyncio.run(local.stop(current()))


def main() -> int:
    """Print each round and the ratio; return 1 where it is below the floor."""
    docs, wget = find("python-docs"), find("wget")
    if docs is None or wget is None or find("nginx") is None:
        raise SystemExit("nginx, wget and python3-doc are needed")
    rounds: list[dict[str, float]] = []
    with NginxSite(docs) as site, own_service(site.url) as pids:
        for results in measured(site.url, wget, pids):
            rounds.append(results)
            print("   ".join(f"{name} {results[name]:.0f}" for name in sorted(results)), flush=True)
    median = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    peer = median.pop("wget -r")
    print(f"medians of {ROUNDS}, pages a second; wget -r {peer:.1f}")
    for name, ours in median.items():
        print(f"{name} {ours:.1f}: ratio {ours / peer:.2f} (floor {FLOOR})")
    return int(min(median.values()) / peer < FLOOR)


if __name__ == "__main__":
    sys.exit(main())
