"""The text index on a database that runs the named statements: its texts, words and snippets.

The text of a page is its Markdown without markup. Words are compared in lower case and without the
diacritics of Latin letters. The snippet of a result is the passage with most words of the query.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar

from webdata_nb.service.store.records import IndexedPage, TextMatch, UnindexedRow
from webdata_nb.service.store.sql.connection import SqlRow, Transaction

T = TypeVar("T")
# More words of a query are not looked for.
MAX_QUERY_WORDS: Final = 64
# Pages whose texts are in memory at one time.
_SNIPPETS: Final = 20
# Pages that one transaction deletes, with their words, so that searches do not wait for long.
_DELETED: Final = 100


class TextIndex(ABC):
    """Full-text search over visible rows, to be used by `async with`.

    The index is derived data: when it is lost or damaged, it starts empty and is filled again.
    Several processes may fill one index at the same time. It has a row for each page, and the
    database's own index of the words follows these rows. Subclasses know how a database stores and
    matches words, and where it has the texts.

    Raises
    ------
    StoreUnavailable
        From every method: the index cannot be used now, or was damaged and is empty.
    """

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(self, *_: object) -> None: ...

    @abstractmethod
    async def return_space(self) -> None:
        """Return the space of deleted pages to the file system, where the database can."""

    @abstractmethod
    async def erase(self) -> None:
        """Remove the words of deleted pages from the index's files, where it has files."""

    @abstractmethod
    async def _change(self, change: Callable[[Transaction], T]) -> T:
        """Run `change` in a transaction."""

    @abstractmethod
    async def _read(self, statement: str, /, **values: Any) -> Sequence[SqlRow]:
        """Return the rows of one statement."""

    @abstractmethod
    def _text_values(self, page: IndexedPage) -> dict[str, Any]:
        """Return what `add_indexed_page` stores of the text of a page."""

    @abstractmethod
    def _query_values(self, query: str, *, require_all: bool) -> dict[str, Any] | None:
        """Return the values of `find_pages` for all or any words of a query; None without words."""

    @abstractmethod
    async def _texts(self, rows: Sequence[SqlRow]) -> Sequence[str | None]:
        """Return the texts of rows of `find_pages`; None for those that are gone."""

    @abstractmethod
    def _snippet(self, title: str, text: str, words: Collection[str]) -> str | None:
        """Return the snippet of a page; None if it has no word of the query."""

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
            cursor = transaction.row("index_cursor", job_id=job_id)
            position = 0 if cursor is None else int(cursor["position"])
            if position != start:
                return position
            for each in values:
                # If its text is the same, only the job of a page changes.
                if not transaction.execute("keep_indexed_page", **each):
                    page = {"account_id": account_id, "url": each["url"]}
                    transaction.execute("delete_indexed_page", **page)
                    transaction.execute("add_indexed_page", **each)
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
                "title": page.title.replace("\x00", " "),  # PostgreSQL refuses NUL
                **self._text_values(page),
            }
            for page in pages
        ]

    async def remove_site(self, account_id: str, origin: str) -> int:
        """Remove an account's pages of a site; return their number."""
        site = {"account_id": account_id, "origin": origin}

        def change(transaction: Transaction) -> int:
            transaction.row("lock_index", account_id=account_id)
            transaction.execute("delete_unreachable_site", **site)
            return transaction.execute("delete_indexed_site", **site, limit=_DELETED)

        removed = 0
        while deleted := await self._change(change):
            removed += deleted
        return removed

    async def delete(self, job_id: str) -> None:
        """Delete a job's pages, and then its cursor."""

        def change(transaction: Transaction) -> int:
            return transaction.execute("delete_indexed_job", job_id=job_id, limit=_DELETED)

        while await self._change(change):
            pass

        def end(transaction: Transaction) -> None:
            transaction.execute("delete_sites_without_pages", job_id=job_id)
            transaction.execute("delete_index_cursor", job_id=job_id)

        await self._change(end)

    async def delete_account(self, account_id: str) -> None:
        """Delete everything of an account."""

        def change(transaction: Transaction) -> int:
            return transaction.execute(
                "delete_indexed_account", account_id=account_id, limit=_DELETED
            )

        def end(transaction: Transaction) -> None:
            transaction.execute("delete_account_cursors", account_id=account_id)
            transaction.execute("delete_account_sites", account_id=account_id)

        while await self._change(change):
            pass
        await self._change(end)

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
            matches = await self._matches(rows, query_words(query))
            if any(not match.unreachable for match in matches):
                break
        return matches

    async def _matches(self, rows: Sequence[SqlRow], words: Collection[str]) -> list[TextMatch]:
        """Return the pages in rows of `find_pages` that still have their text, with snippets."""
        matches: list[TextMatch] = []
        for start in range(0, len(rows), _SNIPPETS):
            some = rows[start : start + _SNIPPETS]
            texts = await self._texts(some)
            matches += await asyncio.to_thread(self._with_snippets, some, texts, words)
        return matches

    def _with_snippets(
        self, rows: Sequence[SqlRow], texts: Sequence[str | None], words: Collection[str]
    ) -> list[TextMatch]:
        return [
            TextMatch(row["url"], row["title"], snippet, bool(row["unreachable"]))
            for row, text in zip(rows, texts, strict=True)
            if text is not None
            and (snippet := self._snippet(row["title"], text, words)) is not None
        ]


def query_words(query: str) -> list[str]:
    """Return the different words of a query, folded; of very many the first ones."""
    return list(dict.fromkeys(folded_words(query)))[:MAX_QUERY_WORDS]


_MAX_WORD_CHARS: Final = 200
MAX_TITLE_CHARS: Final = 2_000
# Of a snippet: before the first match, until the last one, and after the first one.
_CONTEXT_CHARS: Final = 60
_MATCHES_CHARS: Final = 180
_SNIPPET_CHARS: Final = 240
# Matches that are looked at in a text.
_MAX_PLACES: Final = 10_000
_WORD: Final = re.compile(rf"[^\W_]{{1,{_MAX_WORD_CHARS}}}")
_SPACE: Final = re.compile(r"\s")


def _base_letter(character: str) -> str | None:
    """Return the Latin letter below a letter's diacritics."""
    decomposed = unicodedata.normalize("NFD", character)
    base, marks = decomposed[0], decomposed[1:]
    is_latin = base.isascii() and base.isalpha() and all(map(unicodedata.combining, marks))
    return base.lower() if marks and is_latin else None


# One character for each, so that a word has the same place in a text and in its folded text. The
# lower case of a capital sigma would depend on its neighbours.
_SIGMA: Final = "\N{GREEK SMALL LETTER SIGMA}"
_FOLDED: Final = dict.fromkeys((0x3A3, 0x3C2), _SIGMA) | {
    code: _letter for code in range(0xC0, 0x2000) if (_letter := _base_letter(chr(code)))
}


def fold(text: str) -> str:
    """Return a text in lower case and without the diacritics of Latin letters.

    Examples
    --------
    >>> fold("Überraschung")
    'uberraschung'
    """
    return text.lower() if text.isascii() else text.translate(_FOLDED).lower()


def folded_words(text: str) -> list[str]:
    """Return the words of a text in their order.

    Examples
    --------
    >>> folded_words("Crème_brûlée at 5%")
    ['creme', 'brulee', 'at', '5']
    """
    return _WORD.findall(fold(unicodedata.normalize("NFC", text)))


def first_snippet(text: str) -> str:
    """Return the beginning of a text."""
    return _snippet(unicodedata.normalize("NFC", text), 0)


def best_snippet(title: str, text: str, words: Collection[str]) -> str | None:
    """Return the snippet of a text with most of some folded words.

    Without any of them in the text, it is the first one if the title has a word, and None if not.
    """
    text = unicodedata.normalize("NFC", text)
    places = [(match.start(), match[0]) for match in _matches(fold(text), words)]
    if not places and set(words).isdisjoint(folded_words(title[:MAX_TITLE_CHARS])):
        return None
    return _snippet(text, _densest(places))


def _matches(folded: str, words: Collection[str]) -> Iterator[re.Match[str]]:
    """Find words in a folded text; of very many the first ones."""
    alternatives = "|".join(sorted(words, key=len, reverse=True))
    pattern = re.compile(rf"(?<![^\W_])(?:{alternatives})(?![^\W_])")
    return islice(pattern.finditer(folded), _MAX_PLACES)


def _densest(places: Sequence[tuple[int, str]]) -> int:
    """Return where the first snippet with most of the words begins, by places in their order."""
    best = most = first = 0
    inside = Counter[str]()
    for place, word in places:
        inside[word] += 1
        while place - places[first][0] > _MATCHES_CHARS:
            inside -= Counter([places[first][1]])
            first += 1
        if len(inside) > most:
            best, most = places[first][0], len(inside)
    return best


def _snippet(text: str, match: int) -> str:
    """Return the whole words of a text around a match."""
    start, end = max(0, match - _CONTEXT_CHARS), match + _SNIPPET_CHARS
    before, after = text[start:match], text[match:end]
    if start and (space := _SPACE.search(before)):
        before = before[space.end() :]
    if end < len(text):
        after = (after.rsplit(maxsplit=1) or [""])[0]
    snippet = " ".join((before + after).split())
    return f"{'… ' if start else ''}{snippet}{' …' if end < len(text) else ''}"


# Characters that one regex call scans: it holds the interpreter's lock meanwhile.
PIECE_CHARS: Final = 64 * 1024
# Markup is noise in a snippet: images, link targets, emphasis, fences, tables. No alternative scans
# far without finding its end, so that a megabyte of brackets takes no longer than prose.
_MARKS: Final = re.compile(
    r"""
      \\ (?P<escaped> [!-/:-@\[-`{-~] )        # an escaped character
    | ^[^\S\n]* (?: `{3,} | ~{3,} ) [^`\n]*$    # a fence, with the language of its code
    | !?\[ (?= [^\[\]\n]* \]\( )               # before the text of a link or an image
    | \[ (?= !\[ )                             # before an image that is a link
    | \]\( [^()\n]* \)                        # the target behind it
    | ^[^\S\n]* (?: (?: \#{1,6} | [>*+-] | \d{1,9}\. ) [^\S\n]+ )+   # heading, quote, item
    | ^-{3,}[^\S\n]*$                          # rule
    | (?P<stars> (?<! \* ) \*++ )              # emphasis, which our writer never marks with _
    | [`|~]+
    """,
    re.MULTILINE | re.VERBOSE,
)


def origin_of(url: str) -> str:
    """Return scheme, host and port of a canonical URL.

    Examples
    --------
    >>> origin_of("https://a.test:8080/b?c")
    'https://a.test:8080'
    """
    return "/".join(url.split("/", 3)[:3])


def indexed_page(row: UnindexedRow) -> IndexedPage | None:
    """Return what is indexed of a row; None if it has no page or no text."""
    text = row.journal.get("text") if row.markdown is None else strip_markdown(row.markdown)
    if not row.success or not text:
        return None
    return IndexedPage(row.url, row.title or "", text, row.position)


def strip_markdown(markdown: str) -> str:
    """Return the text of Markdown without its markup."""
    return "".join(_MARKS.sub(_text_of_mark, piece) for piece in _pieces(markdown))


def _text_of_mark(mark: re.Match[str]) -> str:
    """Return an escaped character, and stars within a word; nothing for markup."""
    if mark["stars"]:
        text, start, end = mark.string, mark.start(), mark.end()
        is_inside = text[max(0, start - 1) : start].isalnum() and text[end : end + 1].isalnum()
        return mark["stars"] if is_inside else ""
    return mark["escaped"] or ""


def _pieces(text: str) -> Iterator[str]:
    """Split a text into pieces at line ends, else at spaces."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = start + PIECE_CHARS
        piece_end = text.rfind("\n", start, end) + 1 or text.rfind(" ", start, end) + 1 or end
        yield text[start:piece_end]
        start = piece_end
    yield text[start:]
