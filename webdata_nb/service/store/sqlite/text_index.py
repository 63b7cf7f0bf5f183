"""Full-text search over stored pages with SQLite's FTS5, in a file of its own.

The index is derived data: it can be deleted, and is then built again. Writing to it does not block
the transactions of jobs. A damaged index is replaced by an empty one.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self, TypeVar

from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.store.indexing import origin_of
from webdata_nb.service.store.interface import TextIndex
from webdata_nb.service.store.records import IndexedPage, TextMatch
from webdata_nb.service.store.sqlite.errors import is_damaged, translated

log = logging.getLogger(__name__)

T = TypeVar("T")
# An index of another version is built anew.
VERSION: Final = 3
# A title names its page: a match there weighs as much as several in the text.
TITLE_WEIGHT: Final = 4.0
SNIPPET_TOKENS: Final = 30
_WORD: Final = re.compile(r"\w+")
_SCHEMA: Final = f"""
CREATE TABLE cursor (job_id TEXT PRIMARY KEY, position INTEGER NOT NULL);
CREATE TABLE document (
  id INTEGER PRIMARY KEY, account_id TEXT NOT NULL, job_id TEXT NOT NULL, url TEXT NOT NULL,
  origin TEXT NOT NULL
);
CREATE INDEX document_job ON document (job_id);
CREATE UNIQUE INDEX document_url ON document (account_id, url);
CREATE INDEX document_origin ON document (account_id, origin);
CREATE TABLE unreachable (
  account_id TEXT, origin TEXT, PRIMARY KEY (account_id, origin)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE body USING fts5 (title, text, tokenize = 'unicode61 remove_diacritics 2');
PRAGMA user_version = {VERSION};
"""
_FIND: Final = """
SELECT document.url, body.title,
  snippet(body, 1, '', '', ' … ', :tokens) AS snippet, unreachable.origin IS NOT NULL
FROM body JOIN document ON document.id = body.rowid
LEFT JOIN unreachable USING (account_id, origin)
WHERE body MATCH :match AND document.account_id = :account_id
ORDER BY unreachable.origin IS NOT NULL, bm25(body, :weight, 1.0), body.rowid LIMIT :limit
"""
_DELETE_PAGE: Final = """
DELETE FROM body WHERE rowid IN (SELECT id FROM document WHERE account_id = ? AND url = ?)
"""
_DELETE_SITE: Final = """
DELETE FROM body WHERE rowid IN (SELECT id FROM document WHERE account_id = ? AND origin = ?)
"""


def _replace_page(
    connection: sqlite3.Connection, account_id: str, job_id: str, page: IndexedPage
) -> None:
    """Add a page in place of the account's earlier one with the same URL."""
    connection.execute(_DELETE_PAGE, (account_id, page.url))
    connection.execute(
        "DELETE FROM document WHERE account_id = ? AND url = ?", (account_id, page.url)
    )
    added = connection.execute(
        "INSERT INTO document (account_id, job_id, url, origin) VALUES (?, ?, ?, ?)",
        (account_id, job_id, page.url, origin_of(page.url)),
    )
    connection.execute(
        "INSERT INTO body (rowid, title, text) VALUES (?, ?, ?)",
        (added.lastrowid, page.title, page.text),
    )


def _set_reachable(
    connection: sqlite3.Connection, account_id: str, reachable: Mapping[str, bool]
) -> None:
    for origin, is_reachable in reachable.items():
        statement = (
            "DELETE FROM unreachable WHERE account_id = ? AND origin = ?"
            if is_reachable
            else "INSERT OR REPLACE INTO unreachable VALUES (?, ?)"
        )
        connection.execute(statement, (account_id, origin))


class SqliteTextIndex(TextIndex):
    """A `TextIndex` in a SQLite file; ranks by bm25."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    async def __aenter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="webdata-index")
        try:
            await self._run(self._open)
        except BaseException:
            self._thread.shutdown()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._run(self._open_connection().close)
        await asyncio.to_thread(self._thread.shutdown)

    async def cursor(self, job_id: str) -> int:
        def query() -> int:
            row = (
                self._open_connection()
                .execute("SELECT position FROM cursor WHERE job_id = ?", (job_id,))
                .fetchone()
            )
            return int(row[0]) if row else 0

        return await self._run(query)

    async def cursors(self) -> dict[str, int]:
        return await self._run(
            lambda: dict(
                self._open_connection().execute("SELECT job_id, position FROM cursor").fetchall()
            )
        )

    async def set_cursors(self, cursors: Mapping[str, int]) -> None:
        def change() -> None:
            with self._open_connection() as c:
                c.execute("BEGIN")
                c.executemany("INSERT OR REPLACE INTO cursor VALUES (?, ?)", cursors.items())

        await self._run(change)

    async def add(
        self,
        account_id: str,
        job_id: str,
        pages: Sequence[IndexedPage],
        *,
        upto: int,
        reachable: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        def change() -> None:
            with self._open_connection() as c:
                c.execute("BEGIN")
                for page in pages:
                    _replace_page(c, account_id, job_id, page)
                _set_reachable(c, account_id, reachable)
                c.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", (job_id, upto))

        await self._run(change)

    async def remove_site(self, account_id: str, origin: str) -> int:
        def change() -> int:
            site = (account_id, origin)
            with self._open_connection() as c:
                c.execute("BEGIN")
                c.execute(_DELETE_SITE, site)
                removed = c.execute(
                    "DELETE FROM document WHERE account_id = ? AND origin = ?", site
                )
                c.execute("DELETE FROM unreachable WHERE account_id = ? AND origin = ?", site)
            return removed.rowcount

        return await self._run(change)

    async def delete(self, job_id: str) -> None:
        def change() -> None:
            with self._open_connection() as c:
                c.execute("BEGIN")
                c.execute(
                    "DELETE FROM body WHERE rowid IN (SELECT id FROM document WHERE job_id = ?)",
                    (job_id,),
                )
                c.execute("DELETE FROM document WHERE job_id = ?", (job_id,))
                c.execute("DELETE FROM cursor WHERE job_id = ?", (job_id,))

        await self._run(change)

    async def find(self, account_id: str, query: str, *, limit: int) -> list[TextMatch]:
        matches: list[TextMatch] = []
        words = [f'"{word}"' for word in _WORD.findall(query)]
        for operator in (" AND ", " OR "):
            matches = await self._match(account_id, operator.join(words), limit)
            if any(not match.unreachable for match in matches):
                break
        return matches

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:  # it could not be opened again after damage
            self._connection = self._open_checked()
        return self._connection

    async def _match(self, account_id: str, match: str, limit: int) -> list[TextMatch]:
        if not match:
            return []
        values = {
            "match": match,
            "account_id": account_id,
            "tokens": SNIPPET_TOKENS,
            "weight": TITLE_WEIGHT,
            "limit": limit,
        }
        return await self._run(
            lambda: [
                TextMatch(url, title, snippet, bool(unreachable))
                for url, title, snippet, unreachable in self._open_connection().execute(
                    _FIND, values
                )
            ]
        )

    async def _run(self, work: Callable[[], T]) -> T:
        """Run `work` on the index's thread; replace a damaged file."""

        def on_thread() -> T:
            try:
                return work()
            except sqlite3.DatabaseError as error:
                if not is_damaged(error):
                    raise
                self._replace(error)
                # Not repeated here: the caller must start from empty cursors.
                raise StoreUnavailable("the index of local search is built anew") from error

        with translated(self._path):
            return await asyncio.get_running_loop().run_in_executor(self._thread, on_thread)

    def _open(self) -> None:
        try:
            self._connection = self._open_checked()
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            self._replace(error)

    def _open_checked(self) -> sqlite3.Connection:
        """Open the file; raises `sqlite3.DatabaseError` if it is visibly damaged."""
        connection = self._connect()
        try:
            present = connection.execute("PRAGMA user_version").fetchone()[0]
            if present == VERSION:
                for table in ("cursor", "document", "unreachable", "body"):
                    connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()  # noqa: S608 - constant names
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return self._empty()

    def _replace(self, error: sqlite3.DatabaseError) -> None:
        """Start with an empty index, which the indexer fills again."""
        log.warning("the index of local search is damaged (%s) and is built anew", error)
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
        self._connection = self._empty()

    def _empty(self) -> sqlite3.Connection:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        connection = self._connect()
        connection.executescript(_SCHEMA)
        return connection

    def _connect(self) -> sqlite3.Connection:
        self._path.touch(mode=0o600)
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=wal")
            connection.execute("PRAGMA synchronous=normal")
        except BaseException:
            connection.close()
            raise
        return connection
