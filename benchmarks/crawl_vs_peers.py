"""Compares pages per second and memory of `crawl_df` with crawlberg, Scrapy and wget.

The site is documentation from Debian packages (`python3-doc`, `python-sqlalchemy-doc`,
`python-django-doc`), linked from one front page and served by nginx on loopback. 900 of its pages
are crawled, ten in parallel. The contestants:

- `crawl_df` for whole pages, with Markdown, links and metadata. Every row is durable in the service
  before it counts, and the time ends when the DataFrame is complete. The start of the service and
  the imports of the first call are excluded by a crawl of one page beforehand. The cache is off.
- `crawl_df` with the main content, the default.
- crawlberg's `crawl_stream`, the fastest peer that produces Markdown; its rows stay in memory.
- Scrapy with html-to-markdown: title, links and Markdown of each page, in memory.
- `wget -r`, which produces no Markdown and cannot stop after 900 pages: pages per second over all.

`crawl_df` runs in an interpreter that imports only `webdata_nb`, and each peer in one of its own.
Our interpreter is kept for all rounds, like a notebook's kernel. Peers also start their clock after
their imports. Rounds are interleaved with a rotating first contestant, and the figures are medians.
Memory is the proportional set size (PSS) of all our processes together: the interpreter that called
`crawl_df`, the service and its workers, as the maximum of the samples of all rounds. The process of
the benchmark is not counted, and loads none of the large libraries that it could share with them.

The last line is the same crawl of 900 pages from a server with a latency of 50 ms, compared with
the time that the latency alone takes at ten requests in parallel. The line before shows how close a
bare fetcher gets that only reads the same pages: its loss is due to the server.

Run it from the checkout, with the `test` extra, nginx, wget and the three packages installed. The
peers are installed into a separate environment, which `--peers` keeps for the next run::

    python -m benchmarks.crawl_vs_peers

`--small` crawls 300 pages of python3-doc, with wget as the only peer, and leaves out the latency.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import psutil

from benchmarks.floors import check
from benchmarks.notebook import Notebook
from benchmarks.rest import Measure, rounds, wait_until_idle
from tests.requirements import find
from tests.site.nginx import NginxSite
from tests.site.process import SiteProcess
from tests.site.server import Site

PAGES: Final = 900
CONCURRENCY: Final = 10
SETS: Final = ("python3.11", "python-sqlalchemy-doc", "python-django-doc")
PACKAGES: Final = ("crawlberg==1.12.*", "scrapy==2.19.*", "html-to-markdown>=3.21")
WHOLE_PAGES: Final[dict[str, Any]] = {"formats": ["markdown", "links"], "only_main_content": False}
# our contestants and the peers whose rates theirs are divided by
RATIOS: Final = (
    ("whole pages", "crawlberg"),
    ("whole pages", "Scrapy + html-to-markdown"),
    ("whole pages", "wget -r"),
    ("main content", "crawlberg"),
    ("main content", "wget -r"),
)
LATENCY_S: Final = 0.05
SMALL_PAGES: Final = 300
# The pages that `wget` must have fetched for a valid rate.
MIN_WGET_PAGES: Final = 490


def measure_crawl(notebook: Notebook, url: str, pages: int = PAGES, **scrape_options: Any) -> float:
    """Return the pages per second of `crawl_df`, including the DataFrame."""
    result = notebook.crawl(
        url, max_pages=pages, concurrency=CONCURRENCY, scrape_options=scrape_options
    )
    if result["pages"] != pages or result["markdown"] < 0.97 * pages:
        raise SystemExit(result["line"])
    return pages / float(result["seconds"])


def measure_peer(python: Path, script: str, url: str) -> float:
    """Return the pages per second of a peer in its own interpreter."""
    program = Path(__file__).parent / "peers" / script
    process = subprocess.run(
        [str(python), str(program), url, str(PAGES), str(CONCURRENCY)],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise SystemExit(f"{script} failed: {process.stderr}")
    result = json.loads(process.stdout.splitlines()[-1])
    if result["markdown"] < 0.95 * PAGES:
        raise SystemExit(f"{script} made Markdown of {result['markdown']} pages only")
    return float(result["pages"] / result["seconds"])


def peers_python(folder: Path) -> Path:
    """Return the interpreter of the peers' environment; create it if it is missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


@contextmanager
def documentation() -> Iterator[Path]:
    """Return a folder whose front page links to every installed set of documentation."""
    folders = {name: Path("/usr/share/doc", name, "html").resolve() for name in SETS}
    if missing := [name for name, root in folders.items() if not root.is_dir()]:
        raise SystemExit(f"not installed: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        for name, root in folders.items():
            Path(folder, name).symlink_to(root)
        links = "".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in folders)
        Path(folder, "index.html").write_text(f"<title>Documentation</title><ul>{links}</ul>")
        yield Path(folder)


def delayed_documentation(site: Site) -> None:
    """Recipe: the same documentation, each response after `LATENCY_S`."""
    with documentation() as root:
        for path in late_paths(root):
            site.page(path, Path(root, path[1:]).read_bytes(), delay=LATENCY_S)
        site.page("/", Path(root, "index.html").read_bytes(), delay=LATENCY_S)


def late_paths(root: Path) -> list[str]:
    """Return the paths of all pages but the front page."""
    files = (file for name in SETS for file in sorted(Path(root, name).rglob("*.html")))
    return [f"/{file.relative_to(root).as_posix()}" for file in files]


async def measure_fetcher(url: str) -> float:
    """Return the pages per second of a fetcher that discards its pages."""
    with documentation() as root:
        paths = iter(late_paths(root)[:PAGES])
    connector = aiohttp.TCPConnector(limit=CONCURRENCY)
    async with aiohttp.ClientSession(url, connector=connector) as session:

        async def fetch() -> None:
            for path in paths:
                async with session.get(path) as answer:
                    await answer.read()

        start = time.perf_counter()
        await asyncio.gather(*(fetch() for _ in range(CONCURRENCY)))
        return PAGES / (time.perf_counter() - start)


def latency(notebook: Notebook, count: int) -> float:
    """Return the time of `crawl_df` over that of the latency alone; print it for a bare fetcher."""
    floor = CONCURRENCY / LATENCY_S
    ours, nothing = [], []
    with SiteProcess("benchmarks.crawl_vs_peers:delayed_documentation") as slow:
        for _ in range(count):
            wait_until_idle(notebook.pids)
            nothing.append(floor / asyncio.run(measure_fetcher(slow.url)))
            ours.append(floor / measure_crawl(notebook, slow.url, **WHOLE_PAGES))
    print(f"50 ms an answer, bare fetcher: {statistics.median(nothing):.2f} times the floor")
    return statistics.median(ours)


class Memory:
    """Samples the memory of a notebook, its service and the workers of the service together."""

    def __init__(self, notebook: Notebook) -> None:
        self._parents = [psutil.Process(notebook.pid), psutil.Process(notebook.pids[0])]
        self._stop_event = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_mb = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_event.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop_event.wait(0.25):
            self.peak_mb = max(self.peak_mb, sum(self._sizes()) / 1e6)

    def _sizes(self) -> Iterator[int]:
        service = self._parents[1]
        for process in (*self._parents, *service.children(recursive=True)):
            try:
                yield int(process.memory_full_info().pss)
            except psutil.Error:
                continue


def check_rates(results: dict[str, list[float]]) -> bool:
    """Print the ratios; return whether each reaches its floor."""
    median = {name: statistics.median(rates) for name, rates in results.items()}
    for name, pages in median.items():
        print(f"{name}: {pages:.1f} pages/s")
    met = [
        check(f"crawl_vs_peers: {ours}, of {peer}", median[ours] / median[peer])
        for ours, peer in RATIOS
        if peer in median
    ]
    return all(met)


def compare(options: argparse.Namespace) -> bool:
    """Compare with all peers; return whether each floor is met."""
    python = peers_python(options.peers)
    with (
        documentation() as root,
        NginxSite(root) as site,
        Notebook(site.url) as notebook,
    ):
        contestants: dict[str, Measure] = {
            "whole pages": lambda: measure_crawl(notebook, site.url, **WHOLE_PAGES),
            "main content": lambda: measure_crawl(notebook, site.url),
            "crawlberg": lambda: measure_peer(python, "crawlberg_stream.py", site.url),
            "Scrapy + html-to-markdown": lambda: measure_peer(
                python, "scrapy_markdown.py", site.url
            ),
            "wget -r": lambda: measure_wget(site.url),
        }
        with Memory(notebook) as memory:
            results = rounds(contestants, options.rounds, notebook.pids)
        met = [
            check_rates(results),
            check("crawl_vs_peers: memory in MB", memory.peak_mb),
            check("crawl_vs_peers: time with 50 ms an answer", latency(notebook, options.rounds)),
        ]
    return all(met)


def compare_small(options: argparse.Namespace) -> bool:
    """Compare with wget on a part of one site; return whether each floor is met."""
    docs = find("python-docs")
    if docs is None:
        raise SystemExit("python3-doc is needed")
    with NginxSite(docs) as site, Notebook(site.url) as notebook:
        contestants: dict[str, Measure] = {
            "whole pages": lambda: measure_crawl(notebook, site.url, SMALL_PAGES, **WHOLE_PAGES),
            "main content": lambda: measure_crawl(notebook, site.url, SMALL_PAGES),
            "wget -r": lambda: measure_wget(site.url),
        }
        return check_rates(rounds(contestants, options.rounds, notebook.pids))


def measure_wget(url: str) -> float:
    """Return the pages per second of `wget -r`, including writing files."""
    program = find("wget")
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "-q", "-r", "-l", "inf", "--no-parent", "-A", "html,htm", url]
        start = time.perf_counter()
        process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        elapsed = time.perf_counter() - start
        pages = sum(1 for _ in Path(folder).rglob("*.htm*"))
    # Exit codes for links to an error page (8), which `crawl_df` meets too, and to another port of
    # the host (4).
    if process.returncode not in {0, 4, 8} or pages < MIN_WGET_PAGES:
        raise SystemExit(
            f"wget ended with {process.returncode} and {pages} pages: {process.stderr}"
        )
    return pages / elapsed


def main() -> int:
    """Print rounds, ratios, memory and the share of latency; return 1 below a floor."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--peers", type=Path, default=Path(tempfile.gettempdir(), "crawl-peers"))
    arguments.add_argument("--small", action="store_true", help="300 pages, wget only")
    options = arguments.parse_args()
    if find("wget") is None or find("nginx") is None:
        raise SystemExit("nginx and wget are needed")
    return 0 if (compare_small if options.small else compare)(options) else 1


if __name__ == "__main__":
    sys.exit(main())
