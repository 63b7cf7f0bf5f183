"""Measures what a crawled page costs: processor time, bytes in the store, WAL and blobs.

One `webdata serve` crawls Python's documentation, which nginx serves, once for each account: no
account shares stored content with another one. Each store in turn does the same:

- SQLite;
- PostgreSQL;
- PostgreSQL with `--blobs` in a folder.

A crawl has the defaults of the HTTP interface, and its pages are indexed for the local search. The
figures are per page, and for a million such pages. They leave out what is used before the first
crawl. The processor time includes the service, its page workers and PostgreSQL, but not nginx. The
bytes are those after the last job has ended, the service is idle, and PostgreSQL is vacuumed; on
SQLite, "indexes" are the file of the local search, and the WAL, which SQLite overwrites, is not
measured. PostgreSQL's WAL includes full pages, which it writes at their first change after a
checkpoint.

Run it from the checkout, with the `test` extra, nginx, PostgreSQL and python3-doc installed::

    python -m benchmarks.million_pages
    python -m benchmarks.million_pages --accounts 2 --pages 100
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Final, LiteralString

import httpx
import psutil
import psycopg
from psycopg.rows import scalar_row

from benchmarks.page_cpu import CHECKOUT
from benchmarks.replica_throughput import processor_s
from benchmarks.rest import wait_until_idle
from tests import postgres
from tests.replica_process import ReplicaProcess, headers_of
from tests.requirements import require
from tests.site.nginx import NginxSite
from webdata_nb.service.encryption import new_key
from webdata_nb.service.store.backends import DATABASE_FILE, INDEX_FILE

ACCOUNTS, PAGES = 10, 500
_MILLION: Final = 1_000_000
_GB: Final = 1e9
_HOUR_S: Final = 3600
_DEADLINE_S: Final = 1800.0
_TABLES: Final = """
SELECT COALESCE(SUM(pg_table_size(c.oid)), 0)::bigint FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
"""
_INDEXES: Final = """
SELECT COALESCE(SUM(pg_indexes_size(c.oid)), 0)::bigint FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
"""
_TEXT_INDEX: Final = "SELECT pg_total_relation_size('indexed_page')::bigint"
_WAL: Final = "SELECT (pg_current_wal_lsn() - '0/0')::bigint"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a service has used: seconds of processors, and bytes."""

    service_s: float
    database_s: float
    tables: int
    indexes: int
    wal: int
    blobs: int

    def per_page(self, before: Usage, pages: int) -> dict[str, float]:
        """Return what each page has added since `before`."""
        return {
            each.name: (getattr(self, each.name) - getattr(before, each.name)) / pages
            for each in fields(self)
        }


class MeasuredStore:
    """One store of the comparison, with the processes and files that it uses.

    `checkout` has the code that runs.
    """

    def __init__(
        self,
        label: str,
        folder: Path,
        server: postgres.PostgresServer | None,
        *,
        blobs: bool,
        checkout: Path = CHECKOUT,
    ) -> None:
        self.label = label
        self._checkout = checkout
        self._data_dir = folder / "data"
        self._blobs_dir = folder / "blobs"
        self._server = server
        self._key = new_key()
        self._url = "sqlite" if server is None else server.new_schema()
        self.has_blobs = False
        for each in (self._data_dir, self._blobs_dir):
            each.mkdir(parents=True)
        self._service = self._process()

        if blobs:
            self.add_blobs()

    def add_blobs(self) -> None:
        """Let the next process move pages to files."""
        self.has_blobs = True
        self._service = self._process("--blobs", self._blobs_dir.as_uri())

    def _process(self, *options: str) -> ReplicaProcess:
        # Not with the code of the working directory.
        variables = {"PYTHONPATH": str(self._checkout), "PYTHONSAFEPATH": "1"}
        return ReplicaProcess(self._data_dir, self._url, self._key, *options, **variables)

    @contextmanager
    def running(self, accounts: list[str]) -> Iterator[str]:
        """Run a service with some accounts; yield its URL."""
        self._add(accounts)
        self._service.start()
        try:
            self.wait_until_idle()
            yield self._service.url
        finally:
            self._service.kill()

    def wait_until_idle(self) -> None:
        """Wait until the service has indexed its pages, and moved them to files."""
        while self.has_blobs and self._unmoved_contents():
            time.sleep(0.2)
        while self._unindexed_rows():  # it may be idle between two attempts
            time.sleep(0.2)
        process = psutil.Process(self._service.process.pid)
        wait_until_idle((process.pid, *(each.pid for each in process.children(recursive=True))))

    def usage(self) -> Usage:
        """Return what was used until now."""
        service_s = processor_s(self._service.process.pid)
        blobs = self.blob_bytes()
        if self._server is None:
            tables, index = (self._bytes_of(name) for name in (DATABASE_FILE, INDEX_FILE))
            return Usage(service_s, 0.0, tables, index, 0, blobs)
        with psycopg.connect(self._url, autocommit=True, row_factory=scalar_row) as connection:
            tables, indexes, wal = (
                connection.execute(query).fetchone() or 0 for query in (_TABLES, _INDEXES, _WAL)
            )
        pid = int((self._server.folder / "data" / "postmaster.pid").read_text().split()[0])
        return Usage(service_s, processor_s(pid), tables, indexes, wal, blobs)

    def text_index_bytes(self) -> int:
        """Return the bytes of the index of the local search, which `usage` counts too."""
        if self._server is None:
            return self._bytes_of(INDEX_FILE)
        with psycopg.connect(self._url, autocommit=True, row_factory=scalar_row) as connection:
            return int(connection.execute(_TEXT_INDEX).fetchone() or 0)

    def vacuum(self) -> None:
        """Let PostgreSQL use the space of moved pages again, as it does by itself in minutes."""
        if self._server is not None:
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute("VACUUM")

    def blob_bytes(self) -> int:
        """Return the bytes of the files at the place of `--blobs`."""
        return sum(path.stat().st_size for path in self._blobs_dir.rglob("*") if path.is_file())

    def _bytes_of(self, name: str) -> int:
        path = self._data_dir / name
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.stat().st_size

    def _unmoved_contents(self) -> int:
        return self._count("SELECT COUNT(*) FROM content WHERE body IS NOT NULL", DATABASE_FILE)

    def _unindexed_rows(self) -> int:
        rows = self._count("SELECT COALESCE(SUM(published), 0) FROM job", DATABASE_FILE)
        return rows - self._count("SELECT COALESCE(SUM(position), 0) FROM index_cursor", INDEX_FILE)

    def _count(self, query: LiteralString, file: str) -> int:
        """Return the number that a query finds, on SQLite in one of the files."""
        if self._server is None:
            with closing(sqlite3.connect(self._data_dir / file)) as connection:
                return int(connection.execute(query).fetchone()[0])
        with psycopg.connect(self._url, autocommit=True, row_factory=scalar_row) as server:
            return int(server.execute(query).fetchone() or 0)

    def _add(self, accounts: list[str]) -> None:
        program = CHECKOUT / "benchmarks" / "add_accounts.py"
        arguments = [str(self._data_dir), self._url, self._key, *accounts]
        subprocess.run(
            [sys.executable, str(program), *arguments],
            check=True,
            env=os.environ | {"PYTHONPATH": str(self._checkout)},
        )


def crawl(
    service_url: str,
    account: str,
    site_url: str,
    pages: int,
    scrape_options: Mapping[str, object] = MappingProxyType({}),
) -> str:
    """Run a crawl to its end; return its id."""
    deadline = time.monotonic() + _DEADLINE_S
    with httpx.Client(base_url=service_url, headers=headers_of(account), timeout=60) as client:
        options = {"scrape_options": dict(scrape_options)} if scrape_options else {}
        body = {"url": site_url, "max_pages": pages, **options}
        started = client.post("/v1/crawl", json=body).raise_for_status().json()
        while True:
            job = client.get(
                f"/v1/crawl/{started['job_id']}", params={"include_data": "false"}
            ).json()
            if job["status"] == "completed" and job["total_results"] == pages:
                return str(started["job_id"])
            if job["status"] not in {"pending", "running"}:
                raise SystemExit(f"the crawl is {job['status']} with {job['total_results']} pages")
            if time.monotonic() > deadline:
                raise SystemExit(f"the crawl has not ended after {_DEADLINE_S:.0f} s")
            time.sleep(0.1)


def measure(store: MeasuredStore, site_url: str, accounts: int, pages: int) -> dict[str, float]:
    """Return what each page costs on one store."""
    names = [f"account{number}" for number in range(accounts)]
    with store.running(names) as service_url:
        before = store.usage()
        for name in names:
            crawl(service_url, name, site_url, pages)
        store.wait_until_idle()
        store.vacuum()
        return store.usage().per_page(before, accounts * pages)


def main() -> int:
    """Print the costs of each store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accounts", type=int, default=ACCOUNTS)
    parser.add_argument("--pages", type=int, default=PAGES)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        NginxSite(require("python-docs")) as site,
        postgres.running() as server,
    ):
        home = Path(folder)
        stores = [
            MeasuredStore("SQLite", home / "sqlite", None, blobs=False),
            MeasuredStore("PostgreSQL", home / "postgres", server, blobs=False),
            MeasuredStore("PostgreSQL with --blobs", home / "blobs", server, blobs=True),
        ]
        for store in stores:
            costs = measure(store, site.url, options.accounts, options.pages)
            processors_ms = (costs["service_s"] + costs["database_s"]) * 1000
            print(
                f"{store.label}, {options.accounts * options.pages} pages: per page"
                f" {processors_ms:.1f} ms of processor time"
                f" ({costs['database_s'] * 1000:.1f} ms of PostgreSQL),"
                f" {costs['tables']:,.0f} bytes in tables, {costs['indexes']:,.0f} in indexes,"
                f" {costs['wal']:,.0f} of WAL, {costs['blobs']:,.0f} in blobs\n"
                f"  a million: {processors_ms / 1000 * _MILLION / _HOUR_S:.1f} processor hours, "
                + ", ".join(
                    f"{costs[name] * _MILLION / _GB:.1f} GB {text}"
                    for name, text in (
                        ("tables", "in tables"),
                        ("indexes", "in indexes"),
                        ("wal", "of WAL"),
                        ("blobs", "in blobs"),
                    )
                ),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
