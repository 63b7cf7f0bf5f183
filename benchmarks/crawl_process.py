"""Crawls on request in an otherwise idle interpreter, like the kernel of a notebook.

`benchmarks.notebook` runs it: `python -m benchmarks.crawl_process URL`. The first crawl, of one
page, starts the service; then the program prints the service's process ids. Each line of standard
input holds the arguments of `crawl_df` as JSON, and is answered by a line about the frame. The
service stops when the input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from webdata_nb import crawl_df
from webdata_nb.settings import current
from webdata_nb.toolkit import local


def measure_crawl(**options: Any) -> dict[str, Any]:
    """Crawl; return the duration, including the DataFrame, and a summary of the rows."""
    start = time.perf_counter()
    frame = crawl_df(**options, cache=False, progress=False)
    seconds = time.perf_counter() - start
    markdown_pages = int((frame["success"] & frame["markdown"].notna()).sum())
    line = frame.attrs["webdata"]["line"]
    return {"pages": len(frame), "seconds": seconds, "markdown": markdown_pages, "line": line}


def main(url: str) -> None:
    """Process the input line by line."""
    measure_crawl(url=url, max_pages=1)
    running = asyncio.run(local.find(current()))
    if running is None:
        raise SystemExit("this measures the local service: unset WEBDATA_BASE_URL")
    try:
        print(json.dumps(running.hello.pids), flush=True)
        for line in sys.stdin:
            print(json.dumps(measure_crawl(**json.loads(line))), flush=True)
    finally:
        asyncio.run(local.stop(current()))


if __name__ == "__main__":
    main(sys.argv[1])
