"""Compares what stored pages take with an earlier commit, and looks for losses in their moves.

Services of both commits crawl Python's documentation, which nginx serves, taking turns: each crawl
is of an account of its own, so that no crawl shares stored content with another one. Both commits
run on SQLite, and on PostgreSQL with ``--blobs`` in a folder. Checked are:

- the bytes of database, index and files, for each page that was crawled, after a VACUUM;
- the pages per second, and the processor time per page of service and PostgreSQL, as medians;
- the bytes of ten crawls of one site by one account, against those of its first crawl;
- every reply about a job and its exports, before and after its pages move to files;
- kills of processes in each step of a move and of a sweep: no page is lost, no file is left.

The exit code is 1 if a limit is missed. Run it from the checkout, with the `test` extra, nginx,
PostgreSQL and python3-doc installed::

    python -m benchmarks.bodies --base COMMIT
    python -m benchmarks.bodies --base COMMIT --pages 100 --crawls 4 --kills 1
    python -m benchmarks.bodies --only kills --kills 20
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from benchmarks.floors import check
from benchmarks.million_pages import MeasuredStore, Usage, crawl
from benchmarks.page_cpu import CHECKOUT, worktree
from tests import postgres
from tests.replica_process import headers_of
from tests.requirements import require
from tests.site.nginx import NginxSite
from tests.stores.move_kills import run_move_kills

PAGES, CRAWLS, KILLS = 500, 20, 20
REPEATS: Final = 10
PARTS: Final = ("crawls", "repeats", "exports", "kills")
_FORMATS: Final = ["markdown", "html", "raw_html", "links", "images", "headings"]


@dataclass(slots=True)
class CrawlSide:
    """A running service of one commit, with the figures of its crawls."""

    label: str
    store: MeasuredStore
    url: str
    before: Usage
    pages_per_s: list[float] = field(default_factory=list)
    pages_per_processor_s: list[float] = field(default_factory=list)

    def crawl(self, account: str, site_url: str, pages: int) -> None:
        """Crawl once, and note time and processor time until the service is idle."""
        before, start = self.store.usage(), time.monotonic()
        crawl(self.url, account, site_url, pages)
        self.pages_per_s.append(pages / (time.monotonic() - start))
        self.store.wait_until_idle()
        costs = self.store.usage().per_page(before, pages)
        self.pages_per_processor_s.append(1 / (costs["service_s"] + costs["database_s"]))

    def stored_bytes(self) -> int:
        """Return the bytes that were added."""
        costs = self.store.usage().per_page(self.before, 1)
        return round(costs["tables"] + costs["indexes"] + costs["blobs"])


@contextmanager
def running(
    label: str,
    folder: Path,
    accounts: list[str],
    *,
    on_postgres: bool,
    blobs: bool,
    checkout: Path = CHECKOUT,
) -> Iterator[CrawlSide]:
    """Run a service on a new store."""
    with ExitStack() as stack:
        server = stack.enter_context(postgres.running()) if on_postgres else None
        store = MeasuredStore(label, folder, server, blobs=blobs, checkout=checkout)
        url = stack.enter_context(store.running(accounts))
        yield CrawlSide(label, store, url, store.usage())


def compare_crawls(
    folder: Path, site_url: str, base: Path, pages: int, crawls: int, *, on_postgres: bool
) -> list[bool]:
    """Crawl with both commits in turns; return whether each limit is met."""
    kind = "PostgreSQL with --blobs" if on_postgres else "SQLite"
    accounts = [f"account{number}" for number in range(crawls)]
    with (
        running(
            "before", folder / "1", accounts, on_postgres=on_postgres, blobs=False, checkout=base
        ) as earlier,
        running("now", folder / "2", accounts, on_postgres=on_postgres, blobs=on_postgres) as now,
    ):
        for number, account in enumerate(accounts):
            for side in (earlier, now) if number % 2 else (now, earlier):
                side.crawl(account, site_url, pages)
        for side in (earlier, now):
            side.store.vacuum()
            size, index = (
                each / pages / crawls
                for each in (side.stored_bytes(), side.store.text_index_bytes())
            )
            print(
                f"{kind}, {side.label}: {size:,.0f} bytes a page, {index:,.0f} of them in the text "
                f"index; pages/s {[round(each, 1) for each in side.pages_per_s]}, pages a "
                f"processor second {[round(each, 1) for each in side.pages_per_processor_s]}",
                flush=True,
            )
        print(f"{kind}: {pages * crawls} pages")
        figures = {"bytes": now.stored_bytes() / earlier.stored_bytes()}
        for name in ("pages_per_s", "pages_per_processor_s"):
            before, after = (statistics.median(getattr(side, name)) for side in (earlier, now))
            figures[name.replace("_", " ")] = after / before
        return [check(f"bodies: {name}, of the base", ratio) for name, ratio in figures.items()]


def compare_repeats(folder: Path, site_url: str, pages: int, *, on_postgres: bool) -> bool:
    """Crawl one site again and again for one account; return whether the limit is met."""
    kind = "PostgreSQL with --blobs" if on_postgres else "SQLite"
    with running(kind, folder, ["alice"], on_postgres=on_postgres, blobs=on_postgres) as side:
        sizes = []
        for _ in range(REPEATS):
            side.crawl("alice", site_url, pages)
            side.store.vacuum()
            sizes.append(side.stored_bytes())
    print(f"{kind}: bytes after each crawl {sizes}", flush=True)
    return check("bodies: bytes of ten crawls of a site, of one", sizes[-1] / sizes[0])


def compare_exports(folder: Path, site_url: str, pages: int, *, on_postgres: bool) -> bool:
    """Compare every reply about a crawl before and after its pages move to files."""
    kind = "PostgreSQL" if on_postgres else "SQLite"
    with ExitStack() as stack:
        server = stack.enter_context(postgres.running()) if on_postgres else None
        store = MeasuredStore(kind, folder, server, blobs=False)
        with store.running(["alice"]) as url:
            job_id = crawl(url, "alice", site_url, pages, {"formats": _FORMATS})
            before = replies(url, job_id, pages)
        store.add_blobs()
        with store.running([]) as url:
            after = replies(url, job_id, pages)
        files = store.blob_bytes()
    different = [name for name in before if before[name] != after[name]]
    size = sum(map(len, before.values()))
    print(f"{kind}: {len(before)} replies of {size:,} bytes, {files:,} bytes in files")
    print(f"{kind}: {len(different)} replies differ after the move: {different}")
    return files > 0 and not different


def replies(url: str, job_id: str, pages: int) -> dict[str, bytes]:
    """Return the status pages, the receipt and all exports of a crawl."""
    path = f"/v1/crawl/{job_id}"
    addresses = [f"{path}/receipt", *(f"{path}/export?format={x}" for x in ("json", "csv", "zip"))]
    addresses += [f"{path}?per_page=50&page={number + 1}" for number in range(-(-pages // 50))]
    with httpx.Client(base_url=url, headers=headers_of("alice"), timeout=600) as client:
        return {each: client.get(each).raise_for_status().content for each in addresses}


def kill_moves(folder: Path, kills: int, *, on_postgres: bool) -> bool:
    """Kill processes in each step; return whether nothing was lost."""
    kind = "PostgreSQL" if on_postgres else "SQLite"
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        server = stack.enter_context(postgres.running()) if on_postgres else None
        done = asyncio.run(run_move_kills(folder, server, rounds=kills, seed=kills))
    print(f"{kind}: {done} kills in the steps of moves and sweeps, no page lost, no file left")
    return True


def main() -> int:
    """Print the figures; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", metavar="COMMIT", help="the commit before, for the crawls")
    parser.add_argument("--pages", type=int, default=PAGES, help="pages of each crawl")
    parser.add_argument("--crawls", type=int, default=CRAWLS, help="crawls of each commit")
    parser.add_argument("--kills", type=int, default=KILLS, help="kills in each step")
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    parts = {options.only} if options.only else {*PARTS}
    if options.base is None and "crawls" in parts:
        parser.error("the crawls are compared with a commit: add --base COMMIT, or --only")
    results: list[bool] = []
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        site = stack.enter_context(NginxSite(require("python-docs")))
        base = stack.enter_context(worktree(options.base)) if "crawls" in parts else CHECKOUT
        for on_postgres in (False, True):
            folder, pages = home / str(on_postgres), options.pages
            if "crawls" in parts:
                results += compare_crawls(
                    folder / "crawls",
                    site.url,
                    base,
                    pages,
                    options.crawls,
                    on_postgres=on_postgres,
                )
            if "repeats" in parts:
                results.append(
                    compare_repeats(folder / "repeats", site.url, pages, on_postgres=on_postgres)
                )
            if "exports" in parts:
                results.append(
                    compare_exports(folder / "exports", site.url, pages, on_postgres=on_postgres)
                )
            if "kills" in parts:
                results.append(kill_moves(folder / "kills", options.kills, on_postgres=on_postgres))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
