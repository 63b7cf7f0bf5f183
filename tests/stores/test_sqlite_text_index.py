"""The text index of SQLite deletes the words of a page with the page."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from tests.stores.jobs import ALICE, BOB
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.store.backends import INDEX_FILE
from webdata_nb.service.store.records import IndexedPage
from webdata_nb.service.store.sql.text_index import TextIndex
from webdata_nb.service.store.sqlite.text_index import SqliteTextIndex, decompressed

WORDS = ("moss", "stone", "fern", "birch", "aurora", "petrel", "tide", "fox", "hedgehog", "rain")
SITES = ("http://a", "http://b", "http://c")


@pytest.fixture
async def index(path: Path) -> AsyncIterator[TextIndex]:
    async with SqliteTextIndex(path) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / INDEX_FILE


def pages_by_word(path: Path) -> dict[str, int]:
    """Return in how many pages each word of the index is, found or not."""
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("decompressed", 1, decompressed)
        connection.execute("INSERT INTO page_text (page_text, rank) VALUES ('integrity-check', 1)")
        connection.execute("CREATE VIRTUAL TABLE temp.word USING fts5vocab (main, page_text, row)")
        return dict(connection.execute("SELECT term, doc FROM temp.word"))


def words_of(pages: Iterable[IndexedPage]) -> dict[str, int]:
    return dict(
        Counter(word for page in pages for word in {*page.title.split(), *page.text.split()})
    )


def document(position: int, text: str) -> IndexedPage:
    return IndexedPage(f"http://x/{position}", "page", text)


@pytest.mark.parametrize("seed", range(4))
async def test_words_are_those_of_the_pages_that_are_found(
    index: TextIndex, path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    found: dict[tuple[str, str], tuple[str, IndexedPage]] = {}
    jobs: list[str] = []
    for number in range(60):
        account = chance.choice((ALICE, BOB))
        match chance.choice(("crawl", "crawl", "crawl", "expire", "remove")):
            case "crawl":
                job = f"j{number}"
                jobs.append(job)
                urls = [f"{site}/{page}" for site in SITES for page in range(4)]
                pages = [
                    IndexedPage(url, "page", " ".join(chance.sample(WORDS, 2)))
                    for url in chance.sample(urls, 6)
                ]
                await index.add(account, job, pages, upto=len(pages))
                found |= {(account, page.url): (job, page) for page in pages}
            case "expire" if jobs:
                job = jobs.pop(chance.randrange(len(jobs)))
                await index.delete(job)
                found = {place: each for place, each in found.items() if each[0] != job}
            case _:
                site = chance.choice(SITES)
                await index.remove_site(account, site)
                found = {
                    (owner, url): each
                    for (owner, url), each in found.items()
                    if owner != account or not url.startswith(f"{site}/")
                }
        assert pages_by_word(path) == words_of(page for _, page in found.values())
    for account in (ALICE, BOB):
        for word in WORDS:
            matches = await index.find(account, word, limit=99)
            assert {match.url for match in matches} == {
                url
                for (owner, url), (_, page) in found.items()
                if owner == account and word in page.text.split()
            }


async def test_concurrent_deletions_delete_words_once(index: TextIndex, path: Path) -> None:
    kept = [document(n, f"moss w{n}") for n in range(100)]
    await index.add(ALICE, "kept", kept, upto=100)
    for number in range(5):
        pages = [document(100 + 100 * number + n, f"moss w{n}") for n in range(100)]
        await index.add(ALICE, f"j{number}", pages, upto=100)
    await asyncio.gather(*(index.delete(f"j{number}") for number in range(5)))
    assert pages_by_word(path) == words_of(kept)


async def test_a_page_without_a_folded_word_of_the_query_has_its_first_passage(
    index: TextIndex,
) -> None:
    # FTS5 folds the long s, and the words of passages do not.
    text = "Wa\u017f\u017fer in old print " + "word " * 100
    await index.add(ALICE, "j", [document(0, text)], upto=1)
    [match] = await index.find(ALICE, "wasser", limit=9)
    assert match.snippet.startswith("Wa\u017f\u017fer in old print")
    assert len(match.snippet) < 400


@pytest.mark.parametrize("change", ["find", "delete"])
async def test_an_index_with_a_damaged_text_is_built_anew(
    index: TextIndex, path: Path, change: str
) -> None:
    await index.add(ALICE, "j", [document(0, "moss"), document(1, "fern")], upto=2)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE indexed_page SET text = x'00' WHERE url = 'http://x/0'")
        connection.commit()
    with pytest.raises(StoreUnavailable, match="is built anew"):
        await (index.delete("j") if change == "delete" else index.find(ALICE, "moss", limit=9))
    assert await index.cursors() == {}
    assert pages_by_word(path) == {}


def bytes_of(path: Path) -> bytes:
    """Return the bytes of the index, its log included."""
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


async def test_nothing_of_a_deleted_account_is_left_in_the_file(
    index: TextIndex, path: Path
) -> None:
    chance = random.Random(5)
    words = {
        account: [f"{chance.getrandbits(64):016x}" for _ in range(500)] for account in (ALICE, BOB)
    }
    for start in range(0, 900, 20):
        for account in (ALICE, BOB):
            pages = [
                IndexedPage(
                    f"http://{account}/{number}",
                    "page",
                    " ".join(chance.sample(words[account], 60)),
                )
                for number in range(start, start + 20)
            ]
            await index.add(
                account, f"{account}-{start}", pages, upto=20, reachable={"http://z": False}
            )
    # A full-text index leaves out what a word has in common with the one before it.
    endings = [word[5:].encode() for word in words[ALICE]]
    await index.delete(f"{ALICE}-0")
    await index.delete_account(ALICE)
    assert any(ending in bytes_of(path) for ending in endings)
    await index.erase()
    left = bytes_of(path)
    assert not [ending for ending in (*endings, b"http://alice/") if ending in left]
    assert len(await index.find(BOB, words[BOB][0], limit=999)) > 20
    assert await index.cursors(ALICE) == {}


async def test_an_unreachable_site_is_forgotten_with_its_last_page(
    index: TextIndex, path: Path
) -> None:
    unreachable = {"http://a": False, "http://b": False}
    await index.add(ALICE, "one", [IndexedPage("http://a/1", "page", "moss")], upto=1)
    await index.add(ALICE, "two", [], upto=1, reachable=unreachable)
    await index.delete("two")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT origin FROM unreachable_site").fetchall() == [
            ("http://a",)
        ]
        await index.delete("one")
        assert connection.execute("SELECT origin FROM unreachable_site").fetchall() == []
