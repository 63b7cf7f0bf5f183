"""Rows are divided into a compressed content and the parts of a visit, and put together again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.stores.jobs import ALICE, NOW, OF_VISIT, new_job, page_row, row_json, shared_entry
from webdata_nb.service.store.page_contents import (
    DamagedContent,
    content_text,
    journal_of,
    row_of,
    share_content,
    with_content,
)
from webdata_nb.service.store.records import JobRecord, JournalEntry
from webdata_nb.service.store.sql.job_rows import accepted_job

LONG = "Räder und Getriebe. " * 100


def job_with(account_id: str = ALICE, /, **request: object) -> JobRecord:
    return accepted_job(new_job(account_id, request={"url": "http://x/", **request}), NOW)


@pytest.mark.parametrize("text", ["", "x", LONG, "line\nline\u2028" * 200, "\x00" * 9999])
async def test_row_and_journal_are_the_same_to_the_byte(text: str) -> None:
    entry = await shared_entry(job_with(), 3, text)
    assert row_of(entry) == row_json(3, text)
    assert orjson.loads(row_of(entry))["markdown"] == text
    assert orjson.loads(journal_of(entry))["links"] == ["/a"] * 9


async def test_visits_of_an_unchanged_page_have_one_content() -> None:
    first = await shared_entry(job_with(), 3, LONG, visit=0.25)
    again = await shared_entry(job_with(), 3, LONG, visit=11.0625)
    changed = await shared_entry(job_with(), 3, LONG + "!")
    assert first.content_id is not None
    assert (first.content_id, first.body, first.size) == (again.content_id, again.body, again.size)
    assert first.page != again.page
    assert changed.content_id not in {None, first.content_id}
    assert len(first.body or b"") < len(LONG) / 5


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
    ids = {entry.content_id for entry in entries if entry.content_id is not None}
    assert len(ids) == len(entries)


async def test_accounts_share_nothing() -> None:
    alice = await shared_entry(job_with(), 3, LONG)
    bob = await shared_entry(job_with("bob"), 3, LONG)
    assert alice.content_id is not None
    assert bob.content_id not in {None, alice.content_id}


TIME = {"fetched_at": "2026-11-25T12:00:00+00:00"}


@pytest.mark.parametrize(
    "content",
    [
        {"metadata": {}},
        {"metadata": TIME},
        {"metadata": {"title": "Ä", **TIME}},
        {"metadata": {**TIME, "rung": "main", "extract": {"fetched_at": 1}}},
        {"markdown": '"fetched_at":"1"', "metadata": {"a": [1], **TIME, "crawl_score": 0.5}},
        {"success": True, "markdown": "x", "metadata": {"final_url": "http://x/", "b\n": None}},
        {"success": False, "error": "no reply"},
        {"extract": orjson.Fragment(b'{\n  "a": 1\n}'), "metadata": TIME},
    ],
)
async def test_members_of_a_row_keep_their_order_and_their_json(content: dict[str, Any]) -> None:
    row = {"url": "http://x/0", "time_taken": 0.5, "quality": None, "text": LONG, **content}
    bare = JournalEntry(0, "http://x/0", success=True, journal=b"{}")
    entry = await share_content(job_with(), bare, row, of_visit=OF_VISIT, shares_journal=True)
    assert entry.content_id is not None
    assert row_of(entry) == orjson.dumps(row)
    visit = orjson.loads(entry.page or b"")
    has_time = "fetched_at" in content.get("metadata", {})
    assert visit == {"time_taken": 0.5, **({"metadata": TIME} if has_time else {})}


async def test_small_rows_stay_whole() -> None:
    small = {"a": 1, "time_taken": 0.5}
    bare = JournalEntry(0, "http://x/0", success=True, journal=b"{}")
    entry = await share_content(job_with(), bare, small, of_visit=OF_VISIT, shares_journal=True)
    assert (entry.content_id, entry.page, entry.journal) == (None, orjson.dumps(small), b"{}")


async def test_a_journal_that_is_not_shared_stays_in_the_entry() -> None:
    bare = JournalEntry(0, "http://x/0", success=True, journal=b'{"done":true}')
    row = page_row(0, LONG)
    entry = await share_content(job_with(), bare, row, of_visit=OF_VISIT, shares_journal=False)
    assert entry.content_id is not None
    assert entry.journal == journal_of(entry) == b'{"done":true}'
    assert row_of(entry) == row_json(0, LONG)


def damaged(row: JournalEntry) -> dict[str, JournalEntry]:
    """Return copies of a row with a damaged content, by what their error names."""
    body = row.body or b""
    other = with_content(row, content_text(row.content_id or b"", body, row.size) + b"!")
    return {
        "missing": replace(row, body=None),
        "decompressed": replace(row, body=b"no frame" + body[8:]),
        "size": replace(row, body=other.body),
        "checksum": replace(row, body=other.body, size=other.size),
    }


@pytest.mark.parametrize("kind", ["missing", "decompressed", "size", "checksum"])
async def test_a_damaged_content_is_a_failed_row(kind: str) -> None:
    row = await shared_entry(job_with(), 3, LONG)
    assert row.content_id is not None
    row = damaged(row)[kind]
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
    row = {**page_row(3, LONG), "rights": rights}
    bare = JournalEntry(3, "http://x/3", success=True, journal=b"{}")
    entry = await share_content(job_with(), bare, row, of_visit=OF_VISIT, shares_journal=True)
    assert entry.content_id is not None
    assert orjson.loads(row_of(entry))["rights"] == rights
    failed = orjson.loads(row_of(damaged(entry)["missing"]))
    assert (failed["success"], failed["rights"]) == (False, rights)
    assert failed["fetched_at"] == row["fetched_at"]


async def test_a_damaged_result_of_a_search_keeps_its_rank() -> None:
    found = {"id": "j-1", "url": "http://x/0", "rank": 1, "title": "T"}
    row = {**found, "success": True, "scraped": True, "markdown": LONG}
    bare = JournalEntry(0, "http://x/0", success=True, journal=b"{}")
    entry = await share_content(job_with(), bare, row, of_visit=found, shares_journal=False)
    assert entry.content_id is not None
    failed = orjson.loads(row_of(damaged(entry)["checksum"]))
    assert {name: failed[name] for name in ("id", "rank", "title")} == {
        "id": "j-1",
        "rank": 1,
        "title": "T",
    }
    assert (failed["success"], failed["scraped"]) == (False, False)


async def test_a_content_of_another_row_is_not_shown() -> None:
    row = await shared_entry(job_with(), 3, LONG)
    wrong = with_content(row, b'{"scope":"alice","row":{"a":1}}')
    assert "another row" in orjson.loads(row_of(wrong))["error"]


async def test_large_pages_are_compressed_too() -> None:
    text = "".join(chr(32 + number * 7919 % 90) for number in range(300_000))
    entry = await shared_entry(job_with(), 3, text)
    assert row_of(entry) == row_json(3, text)
