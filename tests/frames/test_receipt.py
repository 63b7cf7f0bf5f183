"""Receipts: what a frame tells of itself."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from webdata_nb.contract.replies import CrawlStatus, CreativesReply, SearchStatus
from webdata_nb.toolkit.frames import receipt
from webdata_nb.toolkit.frames.rows import JobOutcome, to_table

NO_ROWS = to_table("crawl", [])
BEGAN = datetime(2026, 11, 20, 10, tzinfo=UTC)
CHAIN = [
    {"provider": "first", "status": "error", "results_count": 0, "elapsed_ms": 5},
    {"provider": "second", "status": "ok", "results_count": 2, "elapsed_ms": 9},
]


def attrs(outcome: JobOutcome) -> dict[str, Any]:
    return receipt.build(
        outcome,
        request={"url": "u"},
        service="local",
        started_at=BEGAN,
        finished_at=BEGAN + timedelta(seconds=1.25),
    )


def search(**values: Any) -> SearchStatus:
    return SearchStatus.model_validate(
        {
            "job_id": "j",
            "status": "completed",
            "query": "q",
            "engine_requested": "engine_one",
            "engine_used": "engine_two",
            "provider_used": "second",
            "fallback_used": True,
            "fallback_chain": CHAIN,
            "total_results": 2,
            "time_taken": 0.5,
            **values,
        }
    )


def crawl(**values: Any) -> CrawlStatus:
    return CrawlStatus.model_validate({"job_id": "j", "status": "completed", **values})


def test_a_search_tells_its_engines_and_counts() -> None:
    values = attrs(receipt.of_search(search(), [{"success": True}, {"success": False}]))
    assert values["line"] == (
        "search q: 2 rows (1 ok, 1 failed); engine_two by second (fallback); 1.2 s"
    )
    assert values["fallback_chain"] == CHAIN
    assert values["counts"] == {"rows": 2, "total": 2, "ok": 1, "failed": 1}
    assert values["timings"] == {
        "job_s": 0.5,
        "elapsed_s": 1.25,
        "started_at": "2026-11-20T10:00:00.000Z",
        "finished_at": "2026-11-20T10:00:01.250Z",
    }


def test_a_crawl_tells_what_became_of_every_url() -> None:
    counts = {"fetched": 1, "failed:timeout": 1, "robots": 2, "duplicate": 0}
    reply = crawl(total_results=3, receipt={"counts": counts, "examples": {"robots": ["a", "b"]}})
    values = attrs(
        receipt.of_crawl(
            reply, to_table("crawl", [{"success": True}, {"status": "failed"}]), url="u"
        )
    )
    assert values["line"] == (
        "crawl u: 2 of 3 rows (1 ok, 1 failed); not crawled: 2 disallowed by robots.txt; 1.2 s"
    )
    assert values["receipt"] == {"counts": counts, "examples": {"robots": ["a", "b"]}}
    assert values["engine_used"] is None


def test_a_listing_adds_up_its_pages() -> None:
    replies = [
        CreativesReply(advertiser_id="AR1", total_results=2, time_taken=0.5),
        CreativesReply(advertiser_id="AR1", total_results=1, time_taken=0.25),
    ]
    outcome = receipt.of_creatives(replies, advertiser="AR1", rows=3, failed=0, total=3)
    values = attrs(outcome)
    assert values["line"] == "creatives AR1: 3 rows; 1.2 s"
    assert values["timings"]["job_s"] == 0.75


def test_the_receipt_is_small_and_json() -> None:
    examples = {"robots": [f"https://site.test/{n}" for n in range(500)]}
    reply = crawl(receipt={"counts": {"robots": 500}, "examples": examples})
    values = attrs(receipt.of_crawl(reply, NO_ROWS, url="u"))
    assert values["receipt"]["examples"]["robots"] == examples["robots"][:20]
    assert json.loads(json.dumps(values)) == values


@pytest.mark.parametrize("subject", ["a\nb", "a\x1b[31mb", "a\u2028b", "a\x00b", "x" * 500])
def test_a_line_is_one_short_line_that_steers_no_terminal(subject: str) -> None:
    line = attrs(receipt.of_search(search(query=subject), []))["line"]
    assert line.isprintable()
    assert len(line) < 250


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (
            receipt.of_search(search(), []),
            "search q gave no rows; asked: first: error, 0 rows, second: ok, 2 rows",
        ),
        (
            receipt.of_crawl(crawl(receipt={"counts": {"robots": 1}}), NO_ROWS, url="u"),
            "crawl u gave no rows; URLs seen: 1 robots",
        ),
        (
            receipt.of_crawl(crawl(), NO_ROWS, url="u"),
            "crawl u gave no rows; the service gave no reason",
        ),
    ],
)
def test_nothing_is_explained(outcome: JobOutcome, words: str) -> None:
    assert receipt.empty_result_reason(outcome) == words


def test_a_search_says_whom_it_could_ask() -> None:
    status = search(
        engine_used=None,
        providers_usable=["mediawiki", "local"],
        providers_unusable={"brave": "no key: set WEBDATA_BRAVE_KEY"},
    )
    made = attrs(receipt.of_search(status, []))
    assert "usable 2 of 3 providers: mediawiki, local" in made["line"]
    found = attrs(receipt.of_search(status.model_copy(update={"engine_used": "engine_one"}), []))
    assert "usable" not in found["line"]
    assert made["providers_usable"] == ["mediawiki", "local"]
    assert made["providers_unusable"] == {"brave": "no key: set WEBDATA_BRAVE_KEY"}
