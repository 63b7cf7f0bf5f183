"""Measures the overhead of reading a creatives cursor to its end: 25 pages of 40 creatives.

The peer is httpx, which sends the same 25 requests over one connection and decodes the same
replies. The service is a stub in another process, so that its work counts in neither time. Both
figures are processor time of this process, the median of interleaved rounds; the cache is off.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from typing import Any

import httpx
import orjson

from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.client.paging import creative_pages

PAGES, ROWS, ROUNDS = 25, 40, 15
PATH = "/v1/data/partner-ads/transparency/creatives"
MAX_RATIO = 1.5

STUB = """
import sys, orjson
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
PAGES, ROWS = map(int, sys.argv[1:])
class Stub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        request = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
        page = int(request.get("cursor", 0))
        rows = [{"position": n + 1, "advertiser_id": "AR1", "creative_id": f"CR{n}",
                 "preview_url": f"https://site.test/{n}.png", "format": "image"}
                for n in range(page * ROWS, (page + 1) * ROWS)]
        reply = {"success": True, "advertiser_id": "AR1", "creatives": rows,
                "total_results": len(rows)}
        if page + 1 < PAGES: reply["cursor"] = str(page + 1)
        data = orjson.dumps(reply)
        self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n")
        self.wfile.write(b"Content-Length: %d\\r\\n\\r\\n" % len(data) + data)
    def log_message(self, *_): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
print(server.server_port, flush=True)
server.serve_forever()
"""


async def ours(url: str) -> int:
    """Read the cursor to its end with `creatives_df`."""
    async with Client(url, "key", trust_env=False) as client:
        pages = creative_pages(client, {"advertiser_id": "AR1"})
        return sum([len(reply.creatives) async for reply in pages])


async def send_with_httpx(url: str) -> int:
    """Send the same requests with httpx."""
    count = 0
    # Plain HTTP needs no certificates; loading them would count.
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http:
        body: dict[str, Any] = {"advertiser_id": "AR1"}
        headers = {"Authorization": "Bearer key"}
        while True:
            reply = orjson.loads((await http.post(PATH, json=body, headers=headers)).content)
            count += len(reply["creatives"])
            if "cursor" not in reply:
                return count
            body = {**body, "cursor": reply["cursor"]}


def seconds(work: Any, url: str) -> float:
    """Return the processor time of one run."""
    began = time.process_time()
    assert asyncio.run(work(url)) == PAGES * ROWS
    return time.process_time() - began


def main() -> int:
    """Print the ratio; return 1 above the limit."""
    with subprocess.Popen(
        [sys.executable, "-c", STUB, str(PAGES), str(ROWS)], stdout=subprocess.PIPE, text=True
    ) as stub:
        try:
            assert stub.stdout is not None
            url = f"http://127.0.0.1:{int(stub.stdout.readline())}"
            seconds(ours, url), seconds(send_with_httpx, url)
            rounds = [(seconds(ours, url), seconds(send_with_httpx, url)) for _ in range(ROUNDS)]
        finally:
            stub.terminate()
    mine, peer = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = statistics.median(a / b for a, b in rounds)
    print(f"{PAGES} pages: ours {mine * 1000:.1f} ms, bare httpx {peer * 1000:.1f} ms")
    print(f"ratio {ratio:.2f} (at most {MAX_RATIO})")
    return int(ratio > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
