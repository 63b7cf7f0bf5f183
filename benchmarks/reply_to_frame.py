"""Compares decoding a reply into a typed frame with orjson and `pd.DataFrame`.

Prints the ratio of processor time, the median of interleaved rounds: 1,000 pages, about 15 MB of
JSON. The peer returns untyped object columns; ours returns the complete typed schema.

    python -m benchmarks.reply_to_frame [pages] [rounds]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import orjson
import pandas as pd

from benchmarks.cached_call import page
from benchmarks.floors import check
from webdata_nb.contract.replies import CrawlStatus
from webdata_nb.toolkit.client import transport
from webdata_nb.toolkit.frames import frame, rows, schemas

FORMATS = ("markdown", "links", "images", "headings")


def reply(count: int) -> bytes:
    """Return a status reply with this number of pages."""
    data = [
        {
            **page(number),
            "links": [f"https://site.test/{number}/{link}" for link in range(12)],
            "images": [{"url": f"https://site.test/{link}.png", "alt": "x"} for link in range(3)],
            "headings": [{"level": 1, "text": f"Page {number}"}, {"level": 2, "text": "More"}],
        }
        for number in range(count)
    ]
    head = {"success": True, "job_id": "job", "status": "completed", "total_results": count}
    return orjson.dumps({**head, "data": data})


def ours(body: bytes) -> pd.DataFrame:
    """Decode and validate the reply, and build the typed frame."""
    decoded = transport.HttpReply(200, body=body).decode_json()
    status = transport.parse(CrawlStatus, decoded)
    batch = rows.batch("crawl", status.data)
    columns = schemas.frame_columns("crawl", formats=FORMATS, metadata=True)
    return frame.build(batch.table, columns=columns, objects=batch.objects)


def peer(body: bytes) -> pd.DataFrame:
    """Decode the reply, and let pandas infer the types."""
    return pd.DataFrame(orjson.loads(body)["data"])


def cpu_seconds(work: Callable[[bytes], pd.DataFrame], body: bytes) -> float:
    """Return the processor seconds of one run."""
    began = time.process_time()
    work(body)
    return time.process_time() - began


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 25
    body = reply(count)
    pairs = [(cpu_seconds(ours, body), cpu_seconds(peer, body)) for _ in range(rounds)][3:]
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    mine, theirs = (statistics.median(times) * 1000 for times in zip(*pairs, strict=True))
    print(f"{count} pages, {len(body) / 1e6:.1f} MB of JSON, {len(pairs)} rounds")
    print(f"typed frame {mine:.1f} ms, orjson and pd.DataFrame {theirs:.1f} ms")
    sys.exit(not check("reply_to_frame: processor time, of orjson and pd.DataFrame", ratio))


if __name__ == "__main__":
    main()
