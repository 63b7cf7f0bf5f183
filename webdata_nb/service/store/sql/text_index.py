"""The text index on a database that runs the named statements."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

from webdata_nb.service.compression import zstd
from webdata_nb.service.store.records import IndexedPage, TextMatch
from webdata_nb.service.store.snippets import folded_words
from webdata_nb.service.store.sql.connection import SqlRow, Transaction
from webdata_nb.service.store.sql.indexed_text import origin_of

T = TypeVar("T")
# More words of a query are not looked for.
MAX_QUERY_WORDS: Final = 64
_LEVEL: Final = 3


class TextIndex(ABC):
    """Full-text search over visible rows, to be used by `async with`.

    The index is derived data: when it is lost or damaged, it starts empty and is filled again.
    Several processes may fill one index at the same time. It has a row for each page, with the
    compressed text, and the database's own index of the words follows these rows. Subclasses know
    how a database stores and matches words.

    Raises
    ------
    StoreUnavailable
        From every method: the index cannot be used now, or was damaged and is empty.
    """

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @abstractmethod
    async def return_space(self) -> None:
        """Return the space of deleted pages to the file system, where the database can."""

    @abstractmethod
    async def _change(self, change: Callable[[Transaction], T]) -> T:
        """Run `change` in a transaction."""

    @abstractmethod
    async def _read(self, statement: str, /, **values: Any) -> Sequence[SqlRow]:
        """Return the rows of one statement."""

    @abstractmethod
    def _word_values(self, page: IndexedPage) -> dict[str, Any]:
        """Return the title of a page, and what `add_indexed_page` stores of its words."""

    @abstractmethod
    def _query_values(self, query: str, *, require_all: bool) -> dict[str, Any] | None:
        """Return the values of `find_pages` for all or any words of a query; None without words."""

    @abstractmethod
    def _snippet(self, row: SqlRow, words: Collection[str]) -> str | None:
        """Return the snippet of a row of `find_pages`; None if it has no word of the query."""

    async def cursor(self, job_id: str) -> int:
        """Return the number of a job's rows that are indexed."""
        return _position(await self._read("index_cursor", job_id=job_id))

    async def cursors(self, account_id: str | None = None) -> dict[str, int]:
        """Return the cursors of the jobs of one account or of all, by job id."""
        rows = await self._read("index_cursors", account_id=account_id)
        return {row["job_id"]: row["position"] for row in rows}

    async def set_cursors(self, account_id: str, cursors: Mapping[str, int]) -> None:
        """Mark the rows of some jobs below these positions as indexed, without any text."""
        values = [
            {"job_id": job_id, "account_id": account_id, "position": position}
            for job_id, position in cursors.items()
        ]
        await self._change(lambda transaction: transaction.execute_many("set_index_cursor", values))

    async def add(
        self,
        account_id: str,
        job_id: str,
        pages: Sequence[IndexedPage],
        *,
        start: int = 0,
        upto: int,
        reachable: Mapping[str, bool] = MappingProxyType({}),
    ) -> int:
        """Index pages of a job, and set its cursor from `start` to `upto`; return the cursor.

        Nothing changes if the cursor is not `start`: another process has indexed these rows. A page
        replaces the account's page with the same URL. `reachable` says of visited sites, by their
        origin, whether they could be reached.
        """
        values = await asyncio.to_thread(self._page_values, account_id, job_id, pages)

        def change(transaction: Transaction) -> int:
            transaction.row("lock_index", account_id=account_id)
            position = _position(transaction.rows("index_cursor", job_id=job_id))
            if position != start:
                return position
            for each in values:
                _replace_page(transaction, each)
            for origin, is_reachable in sorted(reachable.items()):
                statement = "delete_unreachable_site" if is_reachable else "add_unreachable_site"
                transaction.execute(statement, account_id=account_id, origin=origin)
            transaction.execute(
                "set_index_cursor", job_id=job_id, account_id=account_id, position=upto
            )
            return upto

        return await self._change(change)

    def _page_values(
        self, account_id: str, job_id: str, pages: Sequence[IndexedPage]
    ) -> list[dict[str, Any]]:
        return [
            {
                "account_id": account_id,
                "job_id": job_id,
                "url": page.url,
                "origin": origin_of(page.url),
                "text": compressed(page.text),
                **self._word_values(page),
            }
            for page in pages
        ]

    async def remove_site(self, account_id: str, origin: str) -> int:
        """Remove an account's pages of a site; return their number."""
        site = {"account_id": account_id, "origin": origin}

        def change(transaction: Transaction) -> int:
            transaction.row("lock_index", account_id=account_id)
            transaction.execute("delete_unreachable_site", **site)
            return transaction.execute("delete_indexed_site", **site)

        return await self._change(change)

    async def delete(self, job_id: str) -> None:
        """Delete a job's pages and cursor."""

        def change(transaction: Transaction) -> None:
            transaction.execute("delete_indexed_job", job_id=job_id)
            transaction.execute("delete_index_cursor", job_id=job_id)

        await self._change(change)

    async def find(self, account_id: str, query: str, *, limit: int) -> list[TextMatch]:
        """Return an account's pages with all words of a query, best first.

        Without a page of a reachable site among them, pages with any of the words. Pages of
        unreachable sites are last.
        """
        matches: list[TextMatch] = []
        for require_all in (True, False):
            values = self._query_values(query, require_all=require_all)
            if values is None:
                break
            rows = await self._read("find_pages", account_id=account_id, limit=limit, **values)
            matches = await asyncio.to_thread(self._matches, rows, query_words(query))
            if any(not match.unreachable for match in matches):
                break
        return matches

    def _matches(self, rows: Sequence[SqlRow], words: Collection[str]) -> list[TextMatch]:
        """Return the pages in rows of `find_pages`, with their snippets."""
        return [
            TextMatch(row["url"], row["title"], snippet, bool(row["unreachable"]))
            for row in rows
            if (snippet := self._snippet(row, words)) is not None
        ]


def compressed(text: str) -> bytes:
    """Return a text as the index stores it, with replacements for what UTF-8 cannot encode."""
    return zstd.compress(text.encode(errors="replace"), _LEVEL)


def decompressed(text: bytes) -> str:
    """Return a text that the index has stored."""
    return zstd.decompress(text).decode()


def query_words(query: str) -> list[str]:
    """Return the different words of a query, folded; of very many the first ones."""
    return list(dict.fromkeys(folded_words(query)))[:MAX_QUERY_WORDS]


def _replace_page(transaction: Transaction, page: Mapping[str, Any]) -> None:
    """Replace the page with the same URL; if its text is the same, only its job changes."""
    if transaction.execute("keep_indexed_page", **page):
        return
    transaction.execute("delete_indexed_page", account_id=page["account_id"], url=page["url"])
    transaction.execute("add_indexed_page", **page)


def _position(rows: Sequence[SqlRow]) -> int:
    return int(rows[0]["position"]) if rows else 0
