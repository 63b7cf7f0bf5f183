"""The text index of SQLite deletes the words of texts that it does not store."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import pytest

from tests.stores.document_index import DocumentIndex, open_document_index, pages_by_word
from tests.stores.jobs import ALICE, BOB
from webdata_nb.service.errors import BlobsUnavailable
from webdata_nb.service.store.backends import INDEX_FILE
from webdata_nb.service.store.records import IndexedPage
from webdata_nb.service.store.sqlite.store import SqliteStore

WORDS = ("moss", "stone", "fern", "birch", "aurora", "petrel", "tide", "fox", "hedgehog", "rain")
SITES = ("http://a", "http://b", "http://c")


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[DocumentIndex]:
    async with (
        SqliteStore(tmp_path / "jobs.sqlite") as store,
        open_document_index(tmp_path, store) as opened,
    ):
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / INDEX_FILE


def words_of(pages: Iterable[IndexedPage]) -> dict[str, int]:
    return dict(
        Counter(word for page in pages for word in {*page.title.split(), *page.text.split()})
    )


def document(position: int, text: str) -> IndexedPage:
    return IndexedPage(position, f"http://x/{position}", "page", text)


@pytest.mark.parametrize("seed", range(4))
async def test_words_are_those_of_the_pages_that_are_found(
    index: DocumentIndex, path: Path, seed: int
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
                    IndexedPage(position, url, "page", " ".join(chance.sample(WORDS, 2)))
                    for position, url in enumerate(chance.sample(urls, 6))
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


async def test_concurrent_deletions_delete_words_once(index: DocumentIndex, path: Path) -> None:
    kept = [document(n, f"moss w{n}") for n in range(100)]
    await index.add(ALICE, "kept", kept, upto=100)
    for number in range(5):
        pages = [document(100 + 100 * number + n, f"moss w{n}") for n in range(100)]
        await index.add(ALICE, f"j{number}", pages, upto=100)
    await asyncio.gather(*(index.delete(f"j{number}") for number in range(5)))
    assert pages_by_word(path) == words_of(kept)


@pytest.mark.parametrize("text", [None, "another text"])
async def test_words_of_a_lost_text_are_of_no_page(
    index: DocumentIndex, path: Path, text: str | None
) -> None:
    await index.add(ALICE, "j1", [document(0, "moss"), document(1, "moss stone")], upto=2)
    index.set_text("j1", 0, text)
    await index.add(ALICE, "j2", [document(0, "fern")], upto=1)
    assert pages_by_word(path) == {"page": 3, "moss": 2, "stone": 1, "fern": 1}
    [match] = await index.find(ALICE, "moss", limit=9)
    assert match.url == "http://x/1"
    await index.delete("j2")
    await index.add(BOB, "j3", [document(7, "tide")], upto=1)  # its id must be a new one
    assert await index.find(BOB, "moss", limit=9) == []
    assert pages_by_word(path) == {"page": 3, "moss": 2, "stone": 1, "tide": 1}


async def test_words_are_deleted_once_files_answer_again(
    index: DocumentIndex, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await index.add(ALICE, "j1", [document(n, f"moss w{n}") for n in range(50)], upto=50)
    await index.add(ALICE, "j2", [document(50, "stone")], upto=1)

    async def fail(_: Sequence[tuple[str, int]]) -> list[str | None]:
        raise BlobsUnavailable("the place of the files does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(index.texts, "read", fail)
        await index.delete("j1")
        assert await index.cursors() == {"j2": 1}
        await index.add(ALICE, "j3", [document(51, "fern")], upto=1)
        await index.return_space()
        assert len(pages_by_word(path)) == 54
    assert await index.find(ALICE, "moss", limit=99) == []
    await index.return_space()
    assert pages_by_word(path) == {"page": 2, "stone": 1, "fern": 1}


async def test_a_page_without_a_folded_word_of_the_query_has_its_first_passage(
    index: DocumentIndex,
) -> None:
    # FTS5 folds the long s, and the words of passages do not.
    text = "Wa\u017f\u017fer in old print " + "word " * 100
    await index.add(ALICE, "j", [document(0, text)], upto=1)
    [match] = await index.find(ALICE, "wasser", limit=9)
    assert match.snippet.startswith("Wa\u017f\u017fer in old print")
    assert len(match.snippet) < 400
