"""Full-text search over stored pages."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import unicodedata
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.stores.jobs import ALICE, BOB, NOW, accounts, new_job
from webdata_nb.service.store.backends import open_text_index
from webdata_nb.service.store.indexing import Indexer
from webdata_nb.service.store.records import CommitBatch, IndexedPage, JournalEntry
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sql.text_index import TextIndex, strip_markdown


def document(position: int, title: str, text: str) -> IndexedPage:
    return IndexedPage(f"http://x/{position}", title, text, position)


async def urls(
    index: TextIndex, query: str, account_id: str = ALICE, *, limit: int = 10
) -> list[str]:
    return [hit.url for hit in await index.find(account_id, query, limit=limit)]


async def test_matches_of_all_words_and_of_titles_rank_first(index: TextIndex) -> None:
    await index.add(
        ALICE,
        "j",
        [
            document(0, "Rain", "aurora " * 3 + "and clouds"),
            document(1, "Aurora forecast", "when to look up"),
            document(2, "Tides", "a forecast of high water"),
        ],
        upto=3,
    )
    assert await urls(index, "aurora forecast") == ["http://x/1"]
    assert await urls(index, "aurora") == ["http://x/1", "http://x/0"]
    assert set(await urls(index, "aurora nowhere")) == {"http://x/1", "http://x/0"}
    assert await urls(index, "absent") == []


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "AND",
        "a* NEAR(b)",
        "col:umn",
        "-",
        "();--",
        "é ü",
        "…",
        "a & !b | (c <-> d:*A)",
        "it's \\'; DROP TABLE job",
        "%(words)s %s",
        "NUL\x00",
        "ª ² \u02bc \u017f \ud800",
        "many " * 400,
        " ".join(f"w{n}" for n in range(400)),
    ],
)
async def test_query_syntax_is_matched_as_text(index: TextIndex, query: str) -> None:
    await index.add(ALICE, "j", [document(0, "t", "x")], upto=1)
    assert await urls(index, query) == []


async def test_accents_fold_and_snippets_surround_the_match(index: TextIndex) -> None:
    text = "word " * 100 + "Überraschung hier " + "word " * 100
    await index.add(ALICE, "j", [document(0, "t", text)], upto=1)
    [hit] = await index.find(ALICE, "uberraschung", limit=1)
    assert "Überraschung hier" in hit.snippet
    assert len(hit.snippet) < 400


async def test_accounts_do_not_find_each_others_pages(index: TextIndex) -> None:
    await index.add(ALICE, "j", [document(0, "t", "secret garden")], upto=1)
    assert await urls(index, "garden", BOB) == []


async def test_words_are_folded_alike_in_pages_and_queries(index: TextIndex) -> None:
    text = "Crème BRÛLÉE, ensure_ascii, Ελλάς, 42nd, Straße, москва, 日本語"
    await index.add(ALICE, "j", [document(0, "t", text)], upto=1)
    for query in ("creme", "CRÈME", "brulee", "ensure_ascii", "ΕΛΛΆΣ", "42ND", "straße", "МОСКВА"):  # noqa: RUF001 - Cyrillic
        assert await urls(index, query) == ["http://x/0"], query
    assert await urls(index, "日本語") == ["http://x/0"]
    assert await urls(index, "strasse") == []


async def test_rare_words_weigh_more_than_common_ones(index: TextIndex) -> None:
    common = [document(n, "t", "the the the the weather " * 5) for n in range(20)]
    rare = document(20, "t", "a text about petrels and other birds of the sea")
    await index.add(ALICE, "j", [*common, rare], upto=21)
    assert (await urls(index, "the weather petrels", limit=30))[0] == "http://x/20"


@pytest.mark.slow
@pytest.mark.parametrize(
    "build_text",
    [
        lambda: " ".join(f"{n:x}" for n in range(600_000)),
        lambda: "x" * 3_000_000,
        lambda: "NUL \x00 in \x00 a text " * 10_000,
        lambda: "字" * 1_000_000,
        lambda: "word " * 1_000_000,
        lambda: "- . " * 1_000_000,
        lambda: " ".join(chr(0x4E00 + n // 200) + chr(0x4E00 + n % 200) for n in range(200_000)),
    ],
)
async def test_text_of_any_size_is_indexed(index: TextIndex, build_text: Callable[[], str]) -> None:
    text = build_text()
    page = document(0, "\x00garden", f"hedgehog {text}")
    await index.add(ALICE, "j", [page, document(1, text, "fox")], upto=2)
    [hit] = await index.find(ALICE, "hedgehog", limit=9)
    assert hit.url == "http://x/0"
    assert await urls(index, "fox") == ["http://x/1"]
    assert await urls(index, "garden") == ["http://x/0"]


async def test_address_of_any_length_is_indexed(index: TextIndex) -> None:
    url = "http://x/" + secrets.token_hex(50_000)
    for job_id, word in (("j1", "moss"), ("j2", "stone")):
        await index.add(ALICE, job_id, [IndexedPage(url, "t", word)], upto=1)
    assert await urls(index, "moss") == []
    assert await urls(index, "stone") == [url]


async def test_rows_that_another_process_indexed_are_not_added_again(index: TextIndex) -> None:
    assert await index.add(ALICE, "j1", [document(0, "Old", "moss")], upto=1) == 1
    assert await index.add(ALICE, "j2", [document(0, "New", "stone")], upto=1) == 1
    assert await index.add(ALICE, "j1", [document(0, "Old", "moss")], upto=1) == 1
    assert await urls(index, "moss") == []
    assert await index.add(ALICE, "j1", [document(1, "Next", "fern")], start=1, upto=2) == 2
    assert await urls(index, "fern") == ["http://x/1"]


async def test_concurrent_indexers_index_each_row_once(store: Store, index: TextIndex) -> None:
    await accounts(store)
    rows: list[dict[str, object]] = [
        {"url": f"http://x/{n}", "title": "t", "success": True, "markdown": f"garden {n}"}
        for n in range(50)
    ]
    for now in (NOW, NOW + 1):
        await _crawled(store, {"url": "http://x/"}, rows, now=now)
    done = await asyncio.gather(*(Indexer(store, index).catch_up(ALICE) for _ in range(4)))
    assert all(done)
    assert set((await index.cursors(ALICE)).values()) == {50}
    assert await index.cursors(BOB) == {}
    found = await urls(index, "garden", limit=200)
    assert len(found) == len(set(found)) == 50


async def test_job_that_expires_while_it_is_indexed_is_not_found(
    store: Store, index: TextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    await accounts(store)
    row: dict[str, object] = {"url": "http://x/a", "success": True, "markdown": "red fox"}
    await _crawled(store, {"url": "http://x/"}, [row])
    [job] = await store.jobs(ALICE, limit=1)
    add = index.add

    async def add_after_expiry(*arguments: Any, **options: Any) -> int:
        await store.retention.mark_expired(job.id, now=NOW)
        await index.delete(job.id)
        return await add(*arguments, **options)

    monkeypatch.setattr(index, "add", add_after_expiry)
    assert await Indexer(store, index).catch_up(ALICE)
    assert await urls(index, "fox") == []
    assert await index.cursors() == {}


async def test_deleted_job_is_not_found(index: TextIndex) -> None:
    await index.add(ALICE, "j1", [document(0, "t", "garden")], upto=1)
    await index.add(ALICE, "j2", [document(1, "t", "garden")], upto=2)
    await index.delete("j1")
    assert await urls(index, "garden") == ["http://x/1"]
    assert await index.cursors() == {"j2": 2}


async def test_page_crawled_again_replaces_its_text(index: TextIndex) -> None:
    await index.add(ALICE, "j1", [document(0, "Old", "garden of moss")], upto=1)
    await index.add(BOB, "b", [document(0, "His", "garden of roses")], upto=1)
    await index.add(ALICE, "j2", [document(0, "New", "garden of stone")], upto=1)
    [match] = await index.find(ALICE, "garden", limit=9)
    assert (match.title, await urls(index, "moss")) == ("New", [])
    assert await urls(index, "roses", BOB) == ["http://x/0"]
    await index.delete("j1")
    assert await urls(index, "stone") == ["http://x/0"]


def page_of(site: str, text: str) -> IndexedPage:
    return IndexedPage(f"http://{site}/", site, text)


async def test_pages_of_unreachable_sites_are_last_and_marked(index: TextIndex) -> None:
    pages = [page_of("gone", "garden garden"), page_of("live", "a long text about one garden")]
    await index.add(ALICE, "j1", pages, upto=2, reachable={"http://gone": True})
    assert await urls(index, "garden") == ["http://gone/", "http://live/"]
    await index.add(ALICE, "j2", [], upto=1, reachable={"http://gone": False})
    found = await index.find(ALICE, "garden", limit=9)
    assert [(match.url, match.unreachable) for match in found] == [
        ("http://live/", False),
        ("http://gone/", True),
    ]
    await index.add(ALICE, "j3", [], upto=1, reachable={"http://gone": True})
    assert await urls(index, "garden") == ["http://gone/", "http://live/"]


async def test_pages_with_any_word_precede_unreachable_ones_with_all(index: TextIndex) -> None:
    pages = [page_of("gone", "moss garden"), page_of("live", "garden")]
    await index.add(ALICE, "j", pages, upto=2, reachable={"http://gone": False})
    assert await urls(index, "moss garden") == ["http://live/", "http://gone/"]


async def test_one_accounts_unreachable_site_is_not_anothers(index: TextIndex) -> None:
    for account in (ALICE, BOB):
        await index.add(account, account, [page_of("x", "garden")], upto=1)
    await index.add(ALICE, "j", [], upto=1, reachable={"http://x": False})
    assert [match.unreachable for match in await index.find(BOB, "garden", limit=1)] == [False]


async def test_removed_site_is_not_found(index: TextIndex) -> None:
    await index.add(ALICE, "j", [page_of("a", "garden"), page_of("b", "garden")], upto=2)
    await index.add(BOB, "k", [page_of("a", "garden")], upto=1)
    assert await index.remove_site(ALICE, "http://a") == 1
    assert await index.remove_site(ALICE, "http://a") == 0
    assert await urls(index, "garden") == ["http://b/"]
    assert await urls(index, "garden", BOB) == ["http://a/"]


@pytest.mark.parametrize(
    ("reason", "unreachable"), [("dns", True), ("connect", True), ("timeout", False), ("", False)]
)
async def test_indexer_marks_sites_that_cannot_be_reached(
    store: Store, index: TextIndex, reason: str, *, unreachable: bool
) -> None:
    await accounts(store)
    good: dict[str, object] = {"url": "http://x/a", "title": "A", "success": True}
    await _crawled(store, {"url": "http://x/"}, [{**good, "markdown": "a fox"}])
    failed: dict[str, object] = {"url": "http://x/", "title": None, "success": False}
    await _crawled(store, {"url": "http://x/"}, [failed], reason=reason, now=NOW + 1)
    await Indexer(store, index).catch_up()
    assert [hit.unreachable for hit in await index.find(ALICE, "fox", limit=9)] == [unreachable]


@pytest.mark.parametrize("store_factory", ["sqlite"], indirect=True)
async def test_index_of_another_version_is_rebuilt(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with sqlite3.connect(path) as other:
        other.executescript("CREATE TABLE cursor (x); PRAGMA user_version = 999;")
    other.close()
    async with open_text_index(tmp_path, store) as index:
        assert await index.cursors() == {}


async def _crawled(
    store: Store,
    request: dict[str, object],
    rows: list[dict[str, object]],
    text: str | None = None,
    *,
    reason: str = "",
    now: float = NOW,
) -> None:
    job, _ = await store.accept(new_job(request=request), now=now)
    claim = await store.claim(f"worker of {job.id}", lease_s=10, now=now)
    [lease] = [lease for each, lease in claim if each.id == job.id]
    optional = {"text": text, "reason": reason}
    journal = orjson.dumps({name: value for name, value in optional.items() if value})
    entries = tuple(
        JournalEntry(
            n,
            str(row["url"]),
            success=bool(row["success"] or row.get("extract", 1) is None),
            journal=journal,
            page=orjson.dumps(row),
            position=n,
        )
        for n, row in enumerate(rows)
    )
    await store.commit(lease, CommitBatch(entries=entries))


async def test_indexer_indexes_visible_rows_once(store: Store, index: TextIndex) -> None:
    await accounts(store)
    good = {"url": "http://x/a", "title": "A", "success": True, "markdown": "# Big [fox](/f)"}
    bad = {"url": "http://x/b", "title": "B", "success": False, "markdown": "fox"}
    await _crawled(store, {"url": "http://x/"}, [good, bad])
    indexer = Indexer(store, index)
    for _ in range(2):
        await indexer.catch_up()
    [hit] = await index.find(ALICE, "fox", limit=9)
    assert (hit.url, hit.snippet) == ("http://x/a", "Big fox")


async def test_page_with_a_failed_extraction_is_indexed(store: Store, index: TextIndex) -> None:
    await accounts(store)
    row: dict[str, object] = {"url": "http://x/a", "title": "A", "success": False}
    await _crawled(store, {"url": "http://x/"}, [{**row, "extract": None, "markdown": "red fox"}])
    await Indexer(store, index).catch_up(ALICE)
    assert await urls(index, "fox") == ["http://x/a"]


async def test_search_result_is_indexed_after_its_page_is_fetched(
    store: Store, index: TextIndex
) -> None:
    def result(n: int, text: str | None) -> JournalEntry:
        url, done = f"http://x/{n}", orjson.dumps({"done": text is not None})
        page = {"url": url, "title": "t", "success": True, **({"markdown": text} if text else {})}
        return JournalEntry(n, url, success=True, journal=done, page=orjson.dumps(page), position=n)

    await accounts(store)
    indexer = Indexer(store, index)
    job, _ = await store.accept(new_job(kind="search"), now=NOW)
    [(_, lease)] = await store.claim("w", lease_s=60, now=NOW)
    await store.commit(lease, CommitBatch(entries=tuple(result(n, None) for n in range(4))))
    assert await indexer.catch_up(ALICE)
    assert job.id not in await index.cursors()
    await store.commit(lease, CommitBatch(updates=(result(0, "red fox"), result(2, "grey fox"))))
    assert await indexer.catch_up(ALICE)
    assert await urls(index, "fox") == ["http://x/0"]
    await store.commit(lease, CommitBatch(updates=(result(1, "arctic fox"),)))
    await store.cancel(ALICE, job.id, now=NOW + 1)
    assert await indexer.catch_up(ALICE)
    assert sorted(await urls(index, "fox")) == ["http://x/0", "http://x/1", "http://x/2"]
    assert await index.cursors() == {job.id: 4}


def fox_at(url: str) -> bytes:
    return orjson.dumps({"url": url, "success": True, "markdown": "fox"})


async def test_search_without_pages_is_skipped(store: Store, index: TextIndex) -> None:
    await accounts(store)
    jobs = [
        (await store.accept(new_job(kind="search", request=request), now=NOW))[0]
        for request in ({"query": "q", "formats": []}, {"query": "q"})
    ]
    for _, lease in await store.claim("w", max_jobs=2, lease_s=60, now=NOW):
        rows = tuple(
            JournalEntry(n, url, success=True, journal=b"{}", page=fox_at(url), position=n)
            for n, url in enumerate(("http://x/0", "http://x/1", "http://x/2"))
        )
        await store.commit(lease, CommitBatch(entries=rows))
    await Indexer(store, index).catch_up()
    assert await index.cursors() == {job.id: 3 for job in jobs}
    assert len(await urls(index, "fox")) == 3


async def test_text_comes_from_the_journal_without_markdown(store: Store, index: TextIndex) -> None:
    await accounts(store)
    row = {"url": "http://x/a", "title": "A", "success": True, "links": []}
    await _crawled(store, {"url": "http://x/"}, [row], text="hidden hedgehog")
    await Indexer(store, index).catch_up(ALICE)
    assert await urls(index, "hedgehog") == ["http://x/a"]


@pytest.mark.parametrize("secret", [{"headers": {"A": "b"}}, {"cookies": {"a": "b"}}])
async def test_pages_fetched_with_secrets_are_not_indexed(
    store: Store, index: TextIndex, secret: dict[str, object]
) -> None:
    await accounts(store)
    row = {"url": "http://x/a", "title": "A", "success": True, "markdown": "private fox"}
    await _crawled(store, {"url": "http://x/", "scrape_options": secret}, [row])
    await Indexer(store, index).catch_up(ALICE)
    assert await urls(index, "fox") == []


def test_strip_markdown_keeps_words_and_drops_markup() -> None:
    markdown = "# Head\n\n1. ## Item\n\n"
    markdown += "- **bold** `code`\n\n| a | b |\n| --- | --- |\n![alt](/i.png) [x](/y)"
    assert strip_markdown(markdown).split() == [
        "Head",
        "Item",
        "bold",
        "code",
        "a",
        "b",
        "---",
        "---",
        "alt",
        "x",
    ]


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("set ensure\\_ascii=True", "set ensure_ascii=True"),
        ("`json.dumps(x, ensure_ascii=True)`", "json.dumps(x, ensure_ascii=True)"),
        ("2\\*3 and 2*3", "2*3 and 2*3"),
        ("a **bold** and *slanted* `__init__`", "a bold and slanted __init__"),
        ("C:\\new \\[not a link\\]", "C:\\new [not a link]"),
        ("one\n```python\nx = 1\n```\ntwo", "one\n\nx = 1\n\ntwo"),
        ("~~gone~~ | a \\| b |", "gone  a | b "),
    ],
)
def test_strip_markdown_keeps_the_characters_of_text(markdown: str, text: str) -> None:
    assert strip_markdown(markdown) == text


def test_strip_markdown_keeps_brackets_of_text() -> None:
    assert strip_markdown("see [![alt](s.png)](t) and `a[0]`\n---\n") == "see alt and a[0]\n\n"


@pytest.mark.parametrize(
    "hostile", ["[", "](", "![a", "> ", "[x](", "1. ", " \n", "_", "*_", "\\", "`", "a_"]
)
def test_unclosed_markup_is_stripped_in_linear_time(hostile: str) -> None:
    # A pattern that looks far ahead from each of them would not come back within the hour.
    assert len(strip_markdown(hostile * 200_000)) <= len(hostile) * 200_000


async def test_indexing_stops_for_an_active_job(store: Store, index: TextIndex) -> None:
    await accounts(store)
    rows: list[dict[str, object]] = [
        {"url": f"http://x/{n}", "success": True, "markdown": f"garden {n}"} for n in range(30)
    ]
    await _crawled(store, {}, rows)
    replies = iter([False, False, True])

    async def busy() -> bool:
        return next(replies)

    indexer = Indexer(store, index)
    assert not await indexer.catch_up(is_busy=busy)
    assert len(await urls(index, "garden", limit=50)) == 20
    assert await indexer.catch_up()
    assert len(await urls(index, "garden", limit=50)) == 30


def test_strip_markdown_of_long_texts_is_independent_of_pieces() -> None:
    lines = "".join(f"- **item {n}** of [a list](/{n})\n" for n in range(10_000))
    assert strip_markdown(lines) == "".join(f"item {n} of a list\n" for n in range(10_000))
    line = "**bold** words " * 10_000
    assert strip_markdown(line) == "bold words " * 10_000
    assert strip_markdown("x" * 200_000) == "x" * 200_000


async def test_an_unchanged_page_belongs_to_the_last_job(index: TextIndex) -> None:
    pages = [document(0, "Rain", "aurora and clouds"), document(1, "Sun", "no clouds")]
    for job_id in ("j1", "j2"):
        await index.add(ALICE, job_id, pages, upto=2)
    await index.add(ALICE, "j3", [document(1, "Sun", "changed")], upto=1)
    await index.delete("j1")
    assert await urls(index, "aurora") == ["http://x/0"]
    assert await urls(index, "clouds") == ["http://x/0"]
    await index.delete("j2")
    assert await urls(index, "aurora") == []
    assert await urls(index, "changed") == ["http://x/1"]


async def test_an_unchanged_page_has_its_snippet_at_another_position(index: TextIndex) -> None:
    await index.add(ALICE, "j1", [document(3, "Rain", "aurora and clouds")], upto=4)
    moved = IndexedPage("http://x/3", "Rain", "aurora and clouds", 7)
    await index.add(ALICE, "j2", [moved, document(3, "Other", "no light")], upto=8)
    await index.delete("j1")
    assert await index.find(ALICE, "aurora", limit=9) == []
    await index.add(ALICE, "j3", [moved], upto=8)
    [match] = await index.find(ALICE, "aurora", limit=9)
    assert (match.url, match.snippet) == ("http://x/3", "aurora and clouds")


async def test_words_with_the_same_hash_do_not_match(index: TextIndex) -> None:
    assert zlib.crc32(b"plumless") == zlib.crc32(b"buckeroo")
    await index.add(ALICE, "j", [document(0, "t", "a plumless hat")], upto=1)
    assert await urls(index, "buckeroo") == []
    assert await urls(index, "plumless") == ["http://x/0"]


async def test_snippet_is_the_passage_with_most_of_the_words(index: TextIndex) -> None:
    text = f"red {'word ' * 60} red fox {'word ' * 60} fox"
    await index.add(ALICE, "j", [document(0, "Animals", text)], upto=1)
    for query in ("red fox", "fox red"):
        [match] = await index.find(ALICE, query, limit=1)
        assert "red fox" in match.snippet
    [match] = await index.find(ALICE, "animals", limit=1)
    assert match.snippet.startswith("red word")


async def test_a_title_with_combining_accents_is_found(index: TextIndex) -> None:
    title = unicodedata.normalize("NFD", "Mon r\u00e9sum\u00e9")
    await index.add(ALICE, "j", [document(0, title, "words about it")], upto=1)
    for query in ("resume", "r\u00e9sum\u00e9"):
        [match] = await index.find(ALICE, query, limit=1)
        assert match.snippet == "words about it"


@pytest.mark.parametrize("store_factory", ["postgres"], indirect=True)
async def test_pages_whose_rows_are_gone_are_not_found(store: Store, tmp_path: Path) -> None:
    await accounts(store)
    fox: dict[str, object] = {"url": "http://x/", "success": True, "markdown": "fox"}
    await _crawled(store, {"url": "http://x/"}, [fox])
    async with open_text_index(tmp_path, store) as index:
        await Indexer(store, index).catch_up()
        [match] = await index.find(ALICE, "fox", limit=9)
        assert match.snippet == "fox"
        [job] = await store.jobs(ALICE, limit=1)
        await store.retention.mark_expired(job.id, now=NOW + 2)
        await store.retention.delete_rows(job.id, now=NOW + 2)
        assert await index.find(ALICE, "fox", limit=9) == []


async def test_pages_that_are_gone_leave_the_index(store: Store, tmp_path: Path) -> None:
    await accounts(store)
    rows: list[dict[str, object]] = [
        {"url": f"http://x/{n}", "success": True, "markdown": f"fox {n}"} for n in range(50)
    ]
    await _crawled(store, {"url": "http://x/"}, rows[:30])
    await _crawled(store, {"url": "http://x/"}, rows[30:], now=NOW + 1)
    async with open_text_index(tmp_path, store) as index:
        await Indexer(store, index).catch_up()
        found = await index.find(ALICE, "fox", limit=99)
        assert {(match.url, match.snippet) for match in found} == {
            (row["url"], row["markdown"]) for row in rows
        }
        [_, older] = await store.jobs(ALICE, limit=2)
        await store.retention.mark_expired(older.id, now=NOW + 2)
        await store.retention.delete_rows(older.id, now=NOW + 2)
        await Indexer(store, index).catch_up(ALICE)
        assert len(await index.find(ALICE, "fox", limit=99)) == 20
