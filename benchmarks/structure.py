"""Prints the size and structure of the package, here and at an earlier commit.

Columns: source files, lines of code (without blank lines, comments and docstrings), modules with
exactly one importer, class names that occur more than once, and how many files and calls of the
package one `search_df` goes through, first cold and then answered by the cache. The service is a
stub in another process, so that the files counted are those of the toolkit.

Run it from the checkout::

    python -m benchmarks.structure
    python -m benchmarks.structure --against COMMIT
    python -m benchmarks.structure --duplicates
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from benchmarks.page_cpu import worktree

CHECKOUT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "webdata_nb"
JOB_ID: Final = "1f0e4d4c-7d2b-4a53-9d4e-2f6f0a5f2c11"
_NOT_CODE: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


def main() -> None:
    """Measure this checkout, and another commit beside it where one is named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--against", metavar="COMMIT", help="an earlier commit to compare with")
    parser.add_argument("--duplicates", action="store_true", help="list duplicate class names")
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trace:
        print(json.dumps(traced_calls()))
    elif arguments.duplicates:
        for name, files in sorted(duplicate_classes(CHECKOUT).items()):
            print(f"{name}: {', '.join(files)}")
    else:
        after = measure(CHECKOUT)
        before = measure_commit(arguments.against) if arguments.against else {}
        print_table(before, after)


def print_table(before: dict[str, int], after: dict[str, int]) -> None:
    """Print one row per figure."""
    for name, value in after.items():
        earlier = f"{before[name]:>8,}" if before else ""
        print(f"{name:<44}{earlier}{value:>8,}")


def measure_commit(commit: str) -> dict[str, int]:
    """Measure another commit, in a worktree of its own."""
    with worktree(commit) as tree:
        return measure(tree)


def measure(checkout: Path) -> dict[str, int]:
    """Return every figure of the package in `checkout`."""
    return {
        "source files": len(list(sources(checkout))),
        "lines of code": sum(code_lines(path) for path in sources(checkout)),
        "modules with exactly one importer": len(single_importer_modules(checkout)),
        "class names that occur more than once": len(duplicate_classes(checkout)),
        **trace_in_subprocess(checkout),
    }


def sources(checkout: Path) -> Iterator[Path]:
    """Yield the Python files of the package."""
    yield from sorted((checkout / PACKAGE).rglob("*.py"))


def code_lines(path: Path) -> int:
    """Count the lines that hold code: no blank lines, comments or docstrings."""
    docstrings = docstring_lines(ast.parse(path.read_text("utf-8")))
    with path.open("rb") as stream:
        lines = {
            number
            for token in tokenize.tokenize(stream.readline)
            if token.type not in _NOT_CODE
            for number in range(token.start[0], token.end[0] + 1)
        }
    return len(lines - docstrings)


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that docstrings take."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        owner = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, owner) and ast.get_docstring(node, clean=False) is not None:
            expression = node.body[0]
            lines.update(range(expression.lineno, (expression.end_lineno or 0) + 1))
    return lines


def single_importer_modules(checkout: Path) -> list[str]:
    """Return the modules that exactly one other module of the package imports."""
    importers: dict[str, set[str]] = defaultdict(set)
    modules = {module_name(path, checkout) for path in sources(checkout)}
    for path in sources(checkout):
        importer = module_name(path, checkout)
        for name in imported_names(ast.parse(path.read_text("utf-8"))):
            if name in modules and name != importer:
                importers[name].add(importer)
    packages = {name for name in modules if any(other.startswith(f"{name}.") for other in modules)}
    return sorted(name for name in modules - packages if len(importers[name]) == 1)


def module_name(path: Path, checkout: Path) -> str:
    """Return the dotted name of a source file."""
    return ".".join(path.relative_to(checkout).with_suffix("").parts).removesuffix(".__init__")


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield every dotted name that a module imports, whether it is a module or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def duplicate_classes(checkout: Path) -> dict[str, list[str]]:
    """Return the files of each class name that is defined more than once.

    A leading underscore does not make it another name.
    """
    files: dict[str, list[str]] = defaultdict(list)
    for path in sources(checkout):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                files[node.name.lstrip("_")].append(path.relative_to(checkout / PACKAGE).as_posix())
    return {name: paths for name, paths in files.items() if len(paths) > 1}


def trace_in_subprocess(checkout: Path) -> dict[str, int]:
    """Trace the calls in a fresh interpreter that imports the package of `checkout`."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("WEBDATA_")
    }
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--trace"],
            cwd=checkout,
            env=environment | {"PYTHONPATH": str(checkout), "WEBDATA_HOME": home},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    figures: dict[str, int] = json.loads(process.stdout)
    return figures


def traced_calls() -> dict[str, int]:
    """Trace one cold and one cached `search_df`."""
    import webdata_nb  # noqa: PLC0415 - whichever checkout is measured
    import webdata_nb.toolkit.frames.frame  # noqa: PLC0415 - imports count as no call

    with stub_service() as url:
        session = webdata_nb.connect(base_url=url, api_key="structure")

        def search(query: str) -> None:
            session.search_df(query, formats=[], progress=False)

        search("warm-up")
        cold, cached = (trace(lambda: search("kettle")) for _ in range(2))
    return {
        "files of a cold search_df": len(cold),
        "calls of a cold search_df": sum(cold.values()),
        "files of a cached search_df": len(cached),
        "calls of a cached search_df": sum(cached.values()),
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
    main()
