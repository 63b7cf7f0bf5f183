"""What a crawl stores of a visit, to ask later whether its page has changed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from webdata_nb.page.errors import PageError
from webdata_nb.service.crawl.crawl_results import validators_of
from webdata_nb.service.crawl.journal import (
    CrawlResult,
    CrawlTarget,
    decode_entry,
    encode_entry,
    has_validators,
)
from webdata_nb.service.pages import PageVisit

AT = datetime(2026, 11, 25, 12, 0, 0, 300_000, tzinfo=UTC)
EARLIER = "Wed, 25 Nov 2026 11:59:59 GMT"
NOW = "Wed, 25 Nov 2026 12:00:00 GMT"


def visit(*headers: tuple[str, str], rendered: bool = False, error: bool = False) -> PageVisit:
    failure = PageError("http_404", "HTTP 404") if error else None
    return PageVisit(
        "http://x/", "http://x/", 200, 0.1, AT, headers=headers, rendered=rendered, error=failure
    )


@pytest.mark.parametrize(
    ("headers", "validators"),
    [
        ([], ("", "")),
        ([("ETag", '"a"')], ('"a"', "")),
        ([("etag", 'W/"a"'), ("Last-Modified", EARLIER)], ('W/"a"', EARLIER)),
        ([("etag", '"first"'), ("etag", '"second"')], ('"first"', "")),
        # Changed in the second of the reply, so that another change may have the same time.
        ([("last-modified", NOW)], ("", "")),
        ([("etag", '"a"'), ("last-modified", NOW)], ("", "")),
        ([("last-modified", EARLIER), ("date", EARLIER)], ("", "")),
        ([("last-modified", EARLIER), ("date", NOW)], ("", EARLIER)),
        ([("last-modified", EARLIER), ("date", "no date")], ("", EARLIER)),
        ([("last-modified", "yesterday")], ("", "")),
        ([("last-modified", "Wed, 25 Nov 2026 11:59:59")], ("", "")),
        # Numbers that no date has.
        ([("last-modified", f"Wed, 25 Nov {10**14} 11:59:59 GMT")], ("", "")),
        ([("last-modified", f"Wed, 25 Nov 2026 11:59:59 +{10**18}")], ("", "")),
        ([("etag", "x" * 2000)], ("", "")),
        ([("etag", "unquoted")], ("unquoted", "")),
        # A request cannot have these characters.
        ([("etag", '"a\x7fb"'), ("last-modified", EARLIER)], ("", EARLIER)),
        ([("etag", '"a"'), ("last-modified", f"{EARLIER} (\x7f)")], ("", "")),
        ([("etag", '"\N{SNOWMAN}\tb"')], ('"\N{SNOWMAN}\tb"', "")),
        # In a request, these match any version of the page.
        ([("etag", "*")], ("", "")),
        ([("etag", '"a", *'), ("last-modified", EARLIER)], ("", EARLIER)),
        ([("etag", '"a", W/"b"')], ("", "")),
    ],
)
def test_validators_are_stored_where_they_can_be_relied_on(
    headers: list[tuple[str, str]], validators: tuple[str, str]
) -> None:
    assert validators_of(visit(*headers)) == validators


def test_failed_and_rendered_pages_have_no_validators() -> None:
    etag = ("etag", '"a"')
    assert validators_of(visit(etag, rendered=True)) == ("", "")
    assert validators_of(visit(etag, error=True)) == ("", "")


def test_what_belongs_to_a_visit_is_read_as_it_was_written() -> None:
    target = CrawlTarget("http://x/", 0, ordinal=0)
    bare = CrawlResult("page", "http://x/", url="http://x/")
    for result in (
        replace(bare, etag='W/"ä"', last_modified=EARLIER, release="1", check="verified"),
        replace(bare, check="contradicted"),
        replace(bare, etag='"a"', release="1"),
    ):
        entry = encode_entry(target, result)
        assert entry.journal == encode_entry(target, bare).journal
        assert decode_entry(entry.journal, entry.visit) == result
        assert decode_entry(entry.journal) == bare
        assert has_validators(entry.visit, release="1") == bool(result.etag)
    entry = encode_entry(target, replace(bare, release="1"))
    assert entry.visit is None
    assert not has_validators(entry.visit, release="1")


def test_visits_of_other_releases_have_no_validators() -> None:
    assert not has_validators('{"etag": "a", "release": "another"}', release="1")
    later = '{"etag": "a", "release": "1", "check": "of a later release"}'
    assert not has_validators(later, release="1")
    bare = CrawlResult("page", "http://x/", url="http://x/")
    journal = encode_entry(CrawlTarget("http://x/", 0), bare).journal
    assert decode_entry(journal, later) == bare
