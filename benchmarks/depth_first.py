"""Compares pages per second of depth-first and breadth-first crawls of the same site.

In a breadth-first crawl, the next pages are known early. In a depth-first crawl, each page decides
which one is next, so the service prefetches. Both crawl ten pages in parallel; the site responds
after up to 100 ms, 50 ms on average. There are three shapes of sites: a tree (each page's first
link is unknown until the page is read), a manual (every page links to its whole section), and a
random graph.

Run it from the checkout, with the `test` extra::

    python -m benchmarks.depth_first
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.site.document import document
from tests.site.graphs import link_tree
from tests.site.process import SiteProcess
from tests.wire.kills import connected
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local

if TYPE_CHECKING:
    from tests.site.server import Site
    from webdata_nb.toolkit.client.client import Client

CONCURRENCY: Final = 10
LATENCY: Final = 0.1
PAGES: Final = 400
SHAPES: Final = ("tree", "manual", "web")
_SECTION: Final = 25


def shapes(site: Site) -> None:
    """Recipe: all three shapes, with about 400 pages each."""
    link_tree(site, depth=3, fanout=7)
    chance = random.Random(1)
    sections = [
        [f"/manual/{first}/{n}" for n in range(_SECTION)] for first in range(PAGES // _SECTION)
    ]
    fronts = [section[0] for section in sections]
    for section in sections:
        for path in section:
            site.page(path, document(f"Page {path}", links=[*section, *fronts]))
    site.page("/manual", document("Manual", links=fronts))
    web = [f"/web/{n}" for n in range(PAGES)]
    for path in web:
        site.page(path, document(f"Page {path}", links=chance.choices(web, k=8)))
    site.page("/web", document("Web", links=web[:1]))


async def seconds(client: Client, url: str, strategy: str) -> tuple[float, int]:
    """Return the duration and the number of rows of a crawl."""
    start = {
        "url": url, "crawl_strategy": strategy, "concurrency": CONCURRENCY, "max_pages": PAGES,
    }  # fmt: skip
    began = time.perf_counter()
    job_id = (await client.start_crawl(start)).job_id
    while True:
        status = await client.crawl_status(job_id, include_data=False)
        if status.status.terminal:
            return time.perf_counter() - began, status.completed_pages
        await asyncio.sleep(0.02)


async def compare(url: str, rounds: int) -> None:
    """Print the medians of all shapes."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = Settings(data_dir=home / "data", cache_dir=home / "cache", log_dir=home / "logs")
        try:
            async with connected(settings) as (client, _):
                for shape in SHAPES:
                    page_rates: dict[str, list[float]] = {"bfs": [], "dfs": []}
                    for strategy in ("bfs", "dfs") * rounds:
                        took_s, rows = await seconds(client, f"{url}{shape}", strategy)
                        page_rates[strategy].append(rows / took_s)
                    rates = {name: statistics.median(values) for name, values in page_rates.items()}
                    print(
                        f"{shape}: bfs {rates['bfs']:.0f} pages a second, dfs {rates['dfs']:.0f},"
                        f" ratio {rates['dfs'] / rates['bfs']:.2f}"
                    )
        finally:
            await local.stop(settings)


def main() -> None:
    """Run the comparison."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=3)
    with SiteProcess("benchmarks.depth_first:shapes", latency=LATENCY) as site:
        asyncio.run(compare(site.url, arguments.parse_args().rounds))


if __name__ == "__main__":
    main()
