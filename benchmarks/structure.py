"""Prints the size of the package and its concepts beside their ceilings.

The rules of the figures are the docstrings of `benchmarks.concepts`. The last figures count the
files of the package that one `search_df` goes through, first cold and then answered by the cache,
with a stub of the service in another process.

`ceilings.toml` has the ceiling of each figure, and the limit: the value reached so far while
that is above the ceiling. The exit code is 1 if a figure is above its limit, and then the test
`tests/test_structure.py` fails too. A limit may only fall::

    python -m benchmarks.structure
    python -m benchmarks.structure --against COMMIT
    python -m benchmarks.structure --list "readers of JSON-LD"
    python -m benchmarks.structure --write-limits
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from benchmarks import concepts
from benchmarks.page_cpu import worktree

CHECKOUT: Final = Path(__file__).resolve().parents[1]
CEILINGS: Final = Path(__file__).with_name("ceilings.toml")
PACKAGE: Final = concepts.PACKAGE
JOB_ID: Final = "1f0e4d4c-7d2b-4a53-9d4e-2f6f0a5f2c11"
_LIMIT: Final = re.compile(r"limit = [\d_.]+")


def main() -> int:
    """Measure this checkout, and another commit beside it where one is named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--against", metavar="COMMIT", help="an earlier commit to compare with")
    parser.add_argument("--list", metavar="FIGURE", help="print what a figure counts")
    parser.add_argument(
        "--write-limits",
        action="store_true",
        help="set each limit to the present value, or to the ceiling where that is reached",
    )
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trace:
        print(json.dumps(traced_calls()))
    elif arguments.list:
        print(*concepts.listed(concepts.Source(CHECKOUT))[arguments.list], sep="\n")
    else:
        figures = measure(concepts.Source(CHECKOUT))
        if arguments.write_limits:
            write_limits(figures)
        before = measure_commit(arguments.against) if arguments.against else {}
        print_table(figures, before)
        return int(bool(above_limits(figures)))
    return 0


def print_table(figures: Mapping[str, float], before: Mapping[str, float]) -> None:
    """Print one line per figure: an earlier commit, this one, the limit, the ceiling."""
    columns = ("before", "now", "limit", "ceiling") if before else ("now", "limit", "ceiling")
    print(f"{'':<52}", *(f"{column:>9}" for column in columns), sep="")
    for name, bounds in ceilings().items():
        earlier = [before[name]] if before else []
        values = (*earlier, figures[name], bounds["limit"], bounds["ceiling"])
        mark = "  above its limit" if figures[name] > bounds["limit"] else ""
        print(f"{name:<52}", *(f"{value:>9,}" for value in values), mark, sep="")


def ceilings() -> dict[str, dict[str, float]]:
    """Return the ceiling and the limit of each figure."""
    return tomllib.loads(CEILINGS.read_text("utf-8"))


def above_limits(figures: Mapping[str, float]) -> dict[str, float]:
    """Return the figures that are above their limits."""
    bounds = ceilings()
    return {name: value for name, value in figures.items() if value > bounds[name]["limit"]}


def write_limits(figures: Mapping[str, float]) -> None:
    """Set each limit in `ceilings.toml` to the figure, or to the ceiling where that is reached."""
    lines = []
    name = ""
    for line in CEILINGS.read_text("utf-8").splitlines():
        name = line.strip('[]"') if line.startswith("[") else name
        limit = max(figures[name], ceilings()[name]["ceiling"]) if name else 0
        lines.append(_LIMIT.sub(f"limit = {limit:_}", line))
    CEILINGS.write_text("\n".join(lines) + "\n", "utf-8")


def measure_commit(commit: str) -> dict[str, float]:
    """Measure another commit, in a worktree of its own."""
    with worktree(commit) as tree:
        return measure(concepts.Source(tree))


def measure(source: concepts.Source) -> dict[str, float]:
    """Return every figure of a package."""
    return {
        "lines of code": concepts.code_lines(source),
        "files": len(source.files),
        **{name: len(found) for name, found in concepts.listed(source).items()},
        "mentions of a service option": concepts.option_mentions(source),
        "private functions called from one place, %": round(
            100 * concepts.single_use_share(source), 1
        ),
        **trace_in_subprocess(source.checkout),
    }


def trace_in_subprocess(checkout: Path) -> dict[str, float]:
    """Measure calls in a fresh interpreter that imports the package of `checkout`."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("WEBDATA_")
    }
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--trace"],
            cwd=checkout,
            env=environment | {"PYTHONPATH": f"{checkout}:{CHECKOUT}", "WEBDATA_HOME": home},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    figures: dict[str, float] = json.loads(process.stdout)
    return figures


def traced_calls() -> dict[str, int]:
    """Trace one cold and one cached `search_df`, and count the arguments of `crawl_df`."""
    import webdata_nb  # noqa: PLC0415 - whichever checkout is measured

    with stub_service() as url:
        session = webdata_nb.connect(base_url=url, api_key="structure")

        def search(query: str) -> None:
            session.search_df(query, formats=[], progress=False)

        search("warm-up")  # imports count as no call
        cold, cached = (trace(lambda: search("kettle")) for _ in range(2))
    return {
        "arguments of crawl_df": len(inspect.signature(webdata_nb.crawl_df).parameters),
        "files of a cold search_df": len(cold),
        "files of a cached search_df": len(cached),
    }


def trace(function: Any) -> dict[str, int]:
    """Return the calls of `function` by file of the package, in every thread."""
    root = str(Path(sys.modules[PACKAGE].__file__ or "").parent)
    calls: dict[str, int] = defaultdict(int)

    def count(frame: Any, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            calls[frame.f_code.co_filename] += 1

    set_portal_profile(count)
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
        set_portal_profile(None)
    return dict(calls)


def set_portal_profile(profile: Any) -> None:
    """Set the profile function of the portal's thread, which only that thread can do."""
    from webdata_nb.toolkit import bridge  # noqa: PLC0415 - whichever checkout is measured

    async def set_profile() -> None:
        sys.setprofile(profile)

    bridge.PORTAL.submit(set_profile()).result(10)


@contextmanager
def stub_service() -> Iterator[str]:
    """Serve one completed search job for every request."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), StubHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class StubHandler(BaseHTTPRequestHandler):
    """Answers a search with two rows."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Accept a job."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._reply(202, {"success": True, "id": JOB_ID, "job_id": JOB_ID, "status": "pending"})

    def do_GET(self) -> None:
        """Return the job's status and rows."""
        self._reply(200, STATUS)

    def _reply(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


ROWS: Final = [
    {
        "id": f"r{rank}",
        "url": f"https://site.test/{rank}",
        "rank": rank,
        "title": f"Result {rank}",
        "snippet": f"About {rank}",
        "success": True,
    }
    for rank in (1, 2)
]
STATUS: Final = {
    "success": True,
    "id": JOB_ID,
    "job_id": JOB_ID,
    "query": "kettle",
    "engine": "engine_one",
    "status": "completed",
    "total_results": len(ROWS),
    "completed_results": len(ROWS),
    "failed_results": 0,
    "data": ROWS,
}


if __name__ == "__main__":
    sys.exit(main())
