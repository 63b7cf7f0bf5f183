"""The protocol of the full-text index of pages, which is derived from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Protocol, Self

from webdata_nb.service.store.records import IndexedPage, TextMatch


class TextIndex(Protocol):
    """Full-text search over visible rows, to be used by `async with`.

    The index is derived data: when it is lost or damaged, it starts empty and is filled again.
    Several processes may fill one index at the same time.

    Raises
    ------
    StoreUnavailable
        From every method: the index cannot be used now, or was damaged and is empty.
    """

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    async def cursor(self, job_id: str) -> int:
        """Return the number of a job's rows that are indexed."""

    async def cursors(self, account_id: str | None = None) -> dict[str, int]:
        """Return the cursors of the jobs of one account or of all, by job id."""

    async def set_cursors(self, account_id: str, cursors: Mapping[str, int]) -> None:
        """Mark the rows of some jobs below these positions as indexed, without any text."""

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

    async def remove_site(self, account_id: str, origin: str) -> int:
        """Remove an account's pages of a site; return their number."""

    async def delete(self, job_id: str) -> None:
        """Delete a job's pages and cursor."""

    async def return_space(self) -> None:
        """Return the space of deleted pages to the file system, where the database can."""

    async def find(self, account_id: str, query: str, *, limit: int) -> list[TextMatch]:
        """Return an account's pages with all words of a query, best first.

        Without a page of a reachable site among them, pages with any of the words. Pages of
        unreachable sites are last.
        """
