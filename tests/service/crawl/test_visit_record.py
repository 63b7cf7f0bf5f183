"""What a crawl stores of a visit, to ask later whether its page has changed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from webdata_nb.page.errors import PageError
from webdata_nb.service.crawl.visit_record import VisitRecord
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
    record = VisitRecord.of(visit(*headers), "")
    assert (record.etag, record.last_modified) == validators
    assert record.has_validators == any(validators)


def test_failed_and_rendered_pages_have_no_validators() -> None:
    etag = ("etag", '"a"')
    assert not VisitRecord.of(visit(etag, rendered=True), "").has_validators
    assert not VisitRecord.of(visit(etag, error=True), "").has_validators


def test_a_record_is_read_as_it_was_written() -> None:
    for record in (
        VisitRecord('W/"ä"', EARLIER, check="verified"),
        VisitRecord(check="contradicted"),
        VisitRecord('"a"', release="another"),
    ):
        assert VisitRecord.decode(record.encode()) == record
    assert VisitRecord().encode() is None
    assert not VisitRecord.decode(None).has_validators
    assert VisitRecord.decode('{"etag": "a", "check": "of a later release"}').check == ""
