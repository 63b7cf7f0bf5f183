"""Measures what a crawled page costs: processor time, bytes in the store, WAL and blobs.

One `webdata serve` crawls Python's documentation, which nginx serves, once for each account: no
account shares stored content with another one. Each store in turn does the same:

- SQLite;
- PostgreSQL;
- PostgreSQL with `--blobs` in a folder.

A crawl has the defaults of the HTTP interface, and its pages are indexed for the local search. The
figures are per page, and for a million such pages. They leave out what is used before the first
crawl. The processor time includes the service, its page workers and PostgreSQL, but not nginx. The
bytes are those after the last job has ended and the service is idle; on SQLite, "indexes" are the
file of the local search, and the WAL, which SQLite overwrites, is not measured. PostgreSQL's WAL
includes full pages, which it writes at their first change after a checkpoint.

Run it from the checkout, with the `test` extra, nginx, PostgreSQL and python3-doc installed::

    python -m benchmarks.million_pages
    python -m benchmarks.million_pages --accounts 2 --pages 100
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import httpx
import psutil
import psycopg
from psycopg.rows import scalar_row

from benchmarks.replica_throughput import processor_s
from benchmarks.rest import wait_until_idle
from tests import postgres
from tests.replica_process import ReplicaProcess, add_account_to, headers_of
from tests.requirements import require
from tests.site.nginx import NginxSite
from webdata_nb.service.encryption import FixedKeys, SecretCipher, new_key
from webdata_nb.service.store.backends import DATABASE_FILE, INDEX_FILE
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.sql.store import SqlStore
from webdata_nb.service.store.sqlite.store import SqliteStore

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
    """One store of the comparison, with the processes and files that it uses."""

    def __init__(
        self, label: str, folder: Path, server: postgres.PostgresServer | None, *, blobs: bool
    ) -> None:
        self.label = label
        self._data_dir = folder / "data"
        self._blobs_dir = folder / "blobs"
        self._server = server
        self._key = new_key()
        self._url = "sqlite" if server is None else server.new_schema()
        options = ("--blobs", self._blobs_dir.as_uri()) if blobs else ()
        for each in (self._data_dir, self._blobs_dir):
            each.mkdir(parents=True)
        self._service = ReplicaProcess(self._data_dir, self._url, self._key, *options)

    @contextmanager
    def running(self, accounts: list[str]) -> Iterator[str]:
        """Run a service with some accounts; yield its URL."""
        asyncio.run(self._add(accounts))
        self._service.start()
        try:
            self.wait_until_idle()
            yield self._service.url
        finally:
            self._service.kill()

    def wait_until_idle(self) -> None:
        """Wait until the service has indexed its pages."""
        process = psutil.Process(self._service.process.pid)
        wait_until_idle((process.pid, *(each.pid for each in process.children(recursive=True))))

    def usage(self) -> Usage:
        """Return what was used until now."""
        service_s = processor_s(self._service.process.pid)
        blobs = sum(path.stat().st_size for path in self._blobs_dir.rglob("*") if path.is_file())
        if self._server is None:
            tables, index = (self._bytes_of(name) for name in (DATABASE_FILE, INDEX_FILE))
            return Usage(service_s, 0.0, tables, index, 0, blobs)
        with psycopg.connect(self._url, autocommit=True, row_factory=scalar_row) as connection:
            tables, indexes, wal = (
                connection.execute(query).fetchone() or 0 for query in (_TABLES, _INDEXES, _WAL)
            )
        pid = int((self._server.folder / "data" / "postmaster.pid").read_text().split()[0])
        return Usage(service_s, processor_s(pid), tables, indexes, wal, blobs)

    def _bytes_of(self, name: str) -> int:
        path = self._data_dir / name
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.stat().st_size

    async def _add(self, accounts: list[str]) -> None:
        cipher = SecretCipher(FixedKeys((self._key,)))
        async with (
            SqliteStore(self._data_dir / DATABASE_FILE, cipher)
            if self._server is None
            else SqlStore(PostgresDatabase(self._url), cipher)
        ) as store:
            for account in accounts:
                await add_account_to(store, account)


def crawl(service_url: str, account: str, site_url: str, pages: int) -> None:
    """Run a crawl to its end."""
    deadline = time.monotonic() + _DEADLINE_S
    with httpx.Client(base_url=service_url, headers=headers_of(account), timeout=60) as client:
        body = {"url": site_url, "max_pages": pages}
        started = client.post("/v1/crawl", json=body).raise_for_status().json()
        while True:
            job = client.get(
                f"/v1/crawl/{started['job_id']}", params={"include_data": "false"}
            ).json()
            if job["status"] == "completed" and job["total_results"] == pages:
                return
            if job["status"] not in {"pending", "running"}:
                raise SystemExit(f"the crawl is {job['status']} with {job['total_results']} pages")
            if time.monotonic() > deadline:
                raise SystemExit(f"the crawl has not ended after {_DEADLINE_S:.0f} s")
            time.sleep(0.5)


def measure(store: MeasuredStore, site_url: str, accounts: int, pages: int) -> dict[str, float]:
    """Return what each page costs on one store."""
    names = [f"account{number}" for number in range(accounts)]
    with store.running(names) as service_url:
        before = store.usage()
        for name in names:
            crawl(service_url, name, site_url, pages)
        store.wait_until_idle()
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
