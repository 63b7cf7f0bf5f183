"""Compares rows, order and receipts of stored requests with those of an earlier commit.

`stored_requests.json` has the requests: crawls of every kind, searches of crawled pages, scrapes
and creatives, and calls that are refused. Both versions answer all of them, one after the other,
each with a local service and data of its own, about one site on loopback: the sample web of the
package with a tree of generated pages below `/tree/`, and a WARC file of some of its pages.

Each request has a line: `identical`, or the path of the first difference with both values.
`NORMALIZED` lists what may differ: times, durations, ids of jobs, and versions. The exit code is 1
where anything else differs.

Not compared are crawls of an archive at a date and searches of real engines, which need the
internet, and what a browser loads.

    python -m benchmarks.same_rows --base COMMIT
    python -m benchmarks.same_rows --base COMMIT --only "depth"
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isnan
from pathlib import Path
from typing import Any, Final

from benchmarks.page_cpu import worktree
from webdata_nb.demo.server import SampleWeb

CHECKOUT: Final = Path(__file__).resolve().parents[1]
REQUESTS: Final = Path(__file__).with_name("stored_requests.json")
RUNNER: Final = Path(__file__).with_name("request_runner.py")
# The first commit of the restructuring, "store: create the tables of a database from one schema",
# follows this one.
BASE: Final = "8ad2647f"
ADVERTISER: Final = "AR00000000000000000042"
TREE_PAGES: Final = 1500
_CHILDREN: Final = 6
_WORDS: Final = re.findall(
    r"\w+",
    "anchor basalt cairn delta ember fjord glacier harbour island jetty kelp lagoon meadow north "
    "orchard pebble quarry reef summit tundra upland valley willow yarrow zenith amber bracken "
    "cliff dune estuary fern gorse heather ivory juniper kestrel lichen marsh nettle osprey plover "
    "quartz ridge sorrel thistle umber vetch warbler alder birch cedar dogwood elder fir gannet "
    "hazel iris jackdaw kittiwake larch maple newt otter pine raven skua tern urchin vole wren",
)
_ANY: Final = "*"

# Cells and entries that are times or durations, by name.
NORMALIZED_NAMES: Final = frozenset(
    {
        "time_taken",
        "fetched_at",
        "seconds",
        "job_s",
        "elapsed_s",
        "fetch_seconds",
        "wall_s",
        "started_at",
        "ended_at",
        "retrieved_at",
        "elapsed_ms",
        "version",
        "base_url",
        "file",  # of the cache, named by a digest of the port of the service
        "archive_version",  # size and time of a file
    }
)
# Parts of texts: ids of jobs, times, durations, and what differs by folder or version.
NORMALIZED: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?",
        r"\b\d+(?:\.\d+)? (?:s|ms|min)\b",
        r"/tmp/[\w./-]*same_rows_[\w]*",
    )
)


def main() -> int:
    """Print a line for each request; return 1 if any differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--base", default=BASE, metavar="COMMIT", help=f"default: {BASE}")
    parser.add_argument("--only", default="", metavar="TEXT", help="requests with TEXT in the name")
    options = parser.parse_args()
    requests = [one for one in json.loads(REQUESTS.read_text()) if options.only in one["name"]]
    with site() as url, worktree(options.base) as base:
        before = answers(base, requests, url)
        after = answers(CHECKOUT, requests, url)
    different = 0
    for request, old, new in zip(requests, before, after, strict=True):
        found = difference(normalized(old), normalized(new))
        different += found is not None
        print(f"{request['name']:<40} {summary(new):<20} {found or 'identical'}", flush=True)
    print(f"{len(requests) - different} of {len(requests)} identical to {options.base}")
    return int(bool(different))


def answers(checkout: Path, requests: list[Any], url: str) -> list[Any]:
    """Return the answers of one version to all requests."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("WEBDATA_")
    }
    with tempfile.TemporaryDirectory(prefix="same_rows_") as name:
        folder = Path(name)
        (folder / "archive.warc.gz").write_bytes(web_archive(url))
        text = json.dumps(requests).replace("{folder}", name).replace("{site}", url)
        text = text.replace("{archive}", f"{name}/archive.warc.gz")
        (folder / "requests.json").write_text(text.replace("{advertiser}", ADVERTISER))
        process = subprocess.run(
            [sys.executable, str(RUNNER), str(folder / "requests.json")],
            cwd=checkout,
            env=environment
            | {
                "PYTHONPATH": str(checkout),
                "WEBDATA_HOME": str(folder / "home"),
                "WEBDATA_ENGINE_ONE": "local",
            },
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return [json.loads(line) for line in process.stdout.splitlines()]


def summary(answer: list[Any]) -> str:
    """Return what a request was answered with: rows, or an error."""
    last = answer[-1]
    return last["error"] if "error" in last else f"{len(last['rows'])} rows"


def normalized(value: Any, name: str = "") -> Any:
    """Replace what may differ between two runs of one version."""
    if name in NORMALIZED_NAMES:
        return _ANY
    if isinstance(value, dict):
        return {key: normalized(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [normalized(each) for each in value]
    if isinstance(value, float) and isnan(value):
        return None
    if isinstance(value, str):
        for pattern in NORMALIZED:
            value = pattern.sub(_ANY, value)
    return value


def difference(old: Any, new: Any, path: str = "") -> str | None:
    """Return the path of the first difference and both values; None without one.

    Objects are compared in canonical form, by sorted keys; the order of columns is a list.
    """
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        pairs = [(f"{path}.{key}", old[key], new[key]) for key in sorted(old)]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(f"{path}[{i}]", *each) for i, each in enumerate(zip(old, new, strict=True))]
    else:
        return None if old == new else f"{path}: {_short(old)} -> {_short(new)}"
    found = (difference(first, second, place) for place, first, second in pairs)
    return next(filter(None, found), None)


def _short(value: Any) -> str:
    text = json.dumps(sorted(value) if isinstance(value, dict) else value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}..."


@contextmanager
def site() -> Iterator[str]:
    """Serve the site; give its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), SiteHandler)
    server.origin = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    server.web = SampleWeb(server.origin)  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{server.origin}/"  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()


class SiteHandler(BaseHTTPRequestHandler):
    """Answers with the sample web, and below `/tree/` with generated pages with validators."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send a page."""
        status, headers, body = reply(self.server.web, self.path)  # type: ignore[attr-defined]
        if "ETag" in headers and self.headers.get("If-None-Match") == headers["ETag"]:
            status, body = 304, b""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        """Send the head of a page."""
        self.do_GET()

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


def reply(web: SampleWeb, target: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of a page."""
    if match := re.fullmatch(r"/tree/(?:\w+/\w+-\w+-(\d+)\.html)?", target):
        number = int(match[1] or 0)
        if number < TREE_PAGES and target == tree_path(number):
            headers = {"Content-Type": "text/html; charset=utf-8", "ETag": f'"tree-{number}"'}
            return 200, headers, tree_page(number)
    answer = web.reply(target)
    headers = {"Content-Type": answer.content_type}
    if answer.location is not None:
        headers["Location"] = answer.location
    return answer.status, headers, answer.body


def tree_path(number: int) -> str:
    """Return the path of a page of the tree."""
    if number == 0:
        return "/tree/"
    words = random.Random(number).sample(_WORDS, 3)
    return f"/tree/{words[0]}/{'-'.join(words[1:])}-{number}.html"


def tree_page(number: int) -> bytes:
    """Return a page of the tree: some links to its children, to its parent, and far away.

    Its words are its own: pages that differ in numbers only are taken for endless ones.
    """
    chance = random.Random(f"page {number}")
    first = number * _CHILDREN + 1
    children = [child for child in range(first, first + _CHILDREN) if child < TREE_PAGES]
    links = "".join(f'<li><a href="{tree_path(each)}">Part {each}</a></li>' for each in children)
    title = " ".join(chance.choices(_WORDS, k=4)).capitalize()
    text = " ".join(chance.choices(_WORDS, k=chance.randint(40, 120))).capitalize()
    far = tree_path((number * 7919 + 13) % TREE_PAGES)
    parent = tree_path(max(0, (number - 1) // _CHILDREN))
    return (
        f"<!doctype html><html lang=en><head><title>{title}</title></head><body><main>"
        f"<h1>{title}</h1><p>{text}.</p><p>Compare <a href='{far}'>another part</a>, and the"
        f" <a href='{parent}'>part above</a>.</p><ul>{links}</ul></main></body></html>"
    ).encode()


def web_archive(url: str) -> bytes:
    """Return a WARC file of the sample web's pages."""
    web = SampleWeb(url.rstrip("/"))
    records = []
    for path in ("/", *(path for path in web.paths() if path != "/")):
        status, headers, body = reply(web, path)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        block = f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + body
        head = (
            f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url.rstrip('/')}{path}\r\n"
            "WARC-Date: 2026-01-02T03:04:05Z\r\n"
            "Content-Type: application/http; msgtype=response\r\n"
            f"Content-Length: {len(block)}\r\n\r\n"
        )
        records.append(gzip.compress(head.encode() + block + b"\r\n\r\n", mtime=0))
    return b"".join(records)


if __name__ == "__main__":
    sys.exit(main())
