"""Rows are divided into a compressed content and the parts of a visit, and put together again."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from tests.stores.jobs import ALICE, NOW, new_job, row_parts, shared_entry
from webdata_nb.service.store.page_contents import (
    MIN_BYTES,
    DamagedContent,
    content_text,
    journal_of,
    new_content,
    row_of,
    share_content,
)
from webdata_nb.service.store.records import (
    JobRecord,
    JournalEntry,
    RowParts,
    StoredContent,
    StoredRow,
)
from webdata_nb.service.store.sql.job_rows import accepted_job

LONG = "Räder und Getriebe. " * 100


def job_with(account_id: str = ALICE, /, **request: object) -> JobRecord:
    return accepted_job(new_job(account_id, request={"url": "http://x/", **request}), NOW)


def stored(entry: JournalEntry) -> StoredRow:
    new = entry.content
    content = None if new is None else StoredContent(new.id, new.body, new.size)
    return StoredRow(entry.url, entry.page or b"", entry.journal, content)


@pytest.mark.parametrize("text", ["", "x", LONG, "line\nline\u2028" * 200, "\x00" * 9999])
async def test_row_and_journal_are_the_same_to_the_byte(text: str) -> None:
    row = row_parts(3, text)
    entry = await shared_entry(job_with(), 3, text)
    assert row_of(stored(entry)) == row.json
    assert orjson.loads(row.json)["markdown"] == text
    assert orjson.loads(journal_of(stored(entry)))["links"] == ["/a"] * 9


async def test_visits_of_an_unchanged_page_have_one_content() -> None:
    first = await shared_entry(job_with(), 3, LONG, visit=0.25)
    again = await shared_entry(job_with(), 3, LONG, visit=11.0625)
    changed = await shared_entry(job_with(), 3, LONG + "!")
    assert first.content is not None
    assert first.content == again.content
    assert first.page != again.page
    assert changed.content is not None
    assert changed.content.id != first.content.id
    assert len(first.content.body) < len(LONG) / 5


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"X-Key": "k"}},
        {"cookies": {"session": "s"}},
        {"scrape_options": {"headers": {"X-Key": "k"}}},
        {"scrape_options": {"cookies": {"session": "s"}}},
    ],
)
async def test_pages_fetched_with_own_headers_or_cookies_share_nothing(
    options: dict[str, object],
) -> None:
    job = job_with(**options)
    entries = [
        await shared_entry(job, 3, LONG),
        await shared_entry(job, 4, LONG),
        await shared_entry(job_with(**options), 3, LONG),
        await shared_entry(job_with(), 3, LONG),
    ]
    ids = {entry.content.id for entry in entries if entry.content is not None}
    assert len(ids) == len(entries)


async def test_accounts_share_nothing() -> None:
    alice = await shared_entry(job_with(), 3, LONG)
    bob = await shared_entry(job_with("bob"), 3, LONG)
    assert alice.content is not None
    assert bob.content is not None
    assert alice.content.id != bob.content.id


async def test_small_rows_and_rows_of_several_lines_stay_whole() -> None:
    small = RowParts((b'{"a":', b"}"), (b"1",))
    indented = RowParts((b'{\n"a":', b',"b":"%b"}' % (b"x" * MIN_BYTES)), (b"1",))
    for row in (small, indented):
        bare = JournalEntry(0, "http://x/0", success=True, journal=b"{}")
        entry = await share_content(job_with(), bare, row, shares_journal=True)
        assert (entry.content, entry.page, entry.journal) == (None, row.json, b"{}")


async def test_a_journal_that_is_not_shared_stays_in_the_entry() -> None:
    bare = JournalEntry(0, "http://x/0", success=True, journal=b'{"done":true}')
    row = row_parts(0, LONG)
    entry = await share_content(job_with(), bare, row, shares_journal=False)
    assert entry.content is not None
    assert entry.journal == journal_of(stored(entry)) == b'{"done":true}'
    assert row_of(stored(entry)) == row.json


def damaged(content: StoredContent) -> dict[str, StoredContent]:
    """Return damaged copies of a content, by what their error names."""
    body = content.body or b""
    other = new_content(content_text(content) + b"!")
    return {
        "missing": replace(content, body=None),
        "decompressed": replace(content, body=b"no frame" + body[8:]),
        "size": replace(content, body=other.body),
        "checksum": replace(content, body=other.body, size=other.size),
    }


@pytest.mark.parametrize("kind", ["missing", "decompressed", "size", "checksum"])
async def test_a_damaged_content_is_a_failed_row(kind: str) -> None:
    row = stored(await shared_entry(job_with(), 3, LONG))
    assert row.content is not None
    row = replace(row, content=damaged(row.content)[kind])
    failed = orjson.loads(row_of(row))
    assert (failed["url"], failed["success"], failed["status"]) == (row.url, False, "failed")
    assert kind in failed["error"]
    assert failed["time_taken"] == 0.5
    assert failed["metadata"]["error_kind"] == "damaged_content"
    assert "markdown" not in failed
    with pytest.raises(DamagedContent, match=kind):
        journal_of(row)


async def test_a_damaged_row_keeps_what_its_page_may_be_used_for() -> None:
    rights = {"verdicts": {"search": "refused"}, "signals": [{"line": "a\nb"}]}
    whole = row_parts(3, LONG)
    own = (whole.own[0], whole.own[1] + b',"rights":' + orjson.dumps(rights), *whole.own[2:])
    bare = JournalEntry(3, "http://x/3", success=True, journal=b"{}")
    row = replace(whole, own=own)
    entry = stored(await share_content(job_with(), bare, row, shares_journal=True))
    assert entry.content is not None
    assert orjson.loads(row_of(entry))["rights"] == rights
    failed = orjson.loads(row_of(replace(entry, content=damaged(entry.content)["missing"])))
    assert (failed["success"], failed["rights"]) == (False, rights)
    assert failed["fetched_at"] == orjson.loads(whole.own[1])


async def test_a_damaged_result_of_a_search_keeps_its_rank() -> None:
    found = orjson.dumps({"id": "j-1", "url": "http://x/0", "rank": 1, "title": "T"})
    tail = b',"success":true,"scraped":true,"markdown":%b}' % orjson.dumps(LONG)
    bare = JournalEntry(0, "http://x/0", success=True, journal=b"{}")
    row = RowParts((b"", tail), (found[:-1],))
    entry = stored(await share_content(job_with(), bare, row, shares_journal=False))
    assert entry.content is not None
    failed = orjson.loads(row_of(replace(entry, content=damaged(entry.content)["checksum"])))
    assert {name: failed[name] for name in ("id", "rank", "title")} == {
        "id": "j-1",
        "rank": 1,
        "title": "T",
    }
    assert (failed["success"], failed["scraped"]) == (False, False)


async def test_a_content_of_another_row_is_not_shown() -> None:
    row = stored(await shared_entry(job_with(), 3, LONG))
    other = new_content(b"\n".join((b"alice", b"{}", b'{"a":', b"}")))
    wrong = replace(row, content=StoredContent(other.id, other.body, other.size))
    assert "another row" in orjson.loads(row_of(wrong))["error"]


async def test_large_pages_are_compressed_too() -> None:
    text = "".join(chr(32 + number * 7919 % 90) for number in range(300_000))
    entry = await shared_entry(job_with(), 3, text)
    assert row_of(stored(entry)) == row_parts(3, text).json
