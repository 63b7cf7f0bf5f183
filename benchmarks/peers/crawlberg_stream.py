"""Crawl with crawlberg's stream and keep what its pages carry, Markdown included.

Run by `crawl_vs_peers` in an environment of the peers: URL, pages, concurrency. Prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import crawlberg
from crawlberg.options import CrawlConfig, CrawlStreamRequest, SsrfPolicy


async def main(url: str, pages: int, concurrency: int) -> None:
    """Crawl as `crawl_df` does: breadth first, robots.txt obeyed, one host, loopback allowed."""
    engine = crawlberg.create_engine(
        CrawlConfig(
            max_pages=pages,
            max_depth=10,
            max_concurrent=concurrency,
            rate_limit_ms=0,
            respect_robots_txt=True,
            ssrf=SsrfPolicy(deny_private=False),
        )
    )
    start = time.perf_counter()
    stream = crawlberg.crawl_stream(engine, CrawlStreamRequest(url=url))
    rows = [event async for event in stream if event.type == "page"]
    elapsed = time.perf_counter() - start
    # Read after the clock has stopped: that it did make Markdown of what it fetched.
    markdown_pages = sum("markdown" in str(row) for row in rows)
    print(json.dumps({"pages": len(rows), "seconds": elapsed, "markdown": markdown_pages}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
