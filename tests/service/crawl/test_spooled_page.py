"""Spooled pages are read back unchanged, except for cookies."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.service.crawl.page_fetcher import decode_page, encode_page, with_body_on_disk
from webdata_nb.service.pages import PageVisit
from webdata_nb.service.store.records import SpoolLocation

words = some.text(some.characters(exclude_categories=["Cs"]), max_size=20)
sources = some.builds(
    FetchedResponse,
    url=words,
    final_url=words,
    status=some.integers(200, 399),
    content_type=some.none() | words,
    body=some.binary(max_size=200),
    redirects=some.lists(some.tuples(words, some.integers(300, 399)), max_size=3).map(tuple),
    fetched_at=some.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=some.just(UTC)),  # noqa: DTZ001 - Hypothesis adds the zone
    headers=some.lists(some.tuples(words, words), max_size=3).map(tuple),
)


AT = datetime(2026, 1, 1, tzinfo=UTC)


def visit_of(source: FetchedResponse, screenshot: bytes | None = None) -> PageVisit:
    return PageVisit("http://x/", "http://x/", 200, 0.1, AT, source=source, screenshot=screenshot)


PAGE = visit_of(FetchedResponse("http://x/", "http://x/", 200, None, b"<p>", (), AT))


@given(
    some.builds(
        PageVisit,
        url=words,
        final_url=words,
        status=some.integers(200, 399),
        fetched_at=some.just(AT),
        source=sources,
        elapsed_s=some.floats(0, 1000),
        rendered=some.booleans(),
        screenshot=some.none() | some.binary(max_size=50),
    )
)
def test_spooled_page_round_trip(page: PageVisit) -> None:
    assert decode_page(b"".join(encode_page(page))) == page


@given(sources, some.binary(max_size=30), some.none() | some.binary(max_size=30))
def test_body_is_read_from_spool_file(
    tmp_path_factory: pytest.TempPathFactory,
    source: FetchedResponse,
    before: bytes,
    picture: bytes | None,
) -> None:
    page = visit_of(source, picture)
    parts, path = encode_page(page), tmp_path_factory.mktemp("spool") / "0"
    path.write_bytes(before + b"".join(parts))
    spooled = with_body_on_disk(page, parts[0], SpoolLocation(str(path), len(before)))
    assert spooled.source is not None
    assert spooled.source.body == b""
    assert msgspec.structs.replace(spooled, source=spooled.source.load_body()) == page


@given(sources)
def test_set_cookie_headers_are_not_spooled(source: FetchedResponse) -> None:
    source_with_cookie = replace(source, headers=(("Set-Cookie", "session=secret"), ("etag", "1")))
    record = b"".join(encode_page(visit_of(source_with_cookie)))
    assert b"secret" not in record
    page = decode_page(record)
    assert page is not None
    assert page.source is not None
    assert page.source.headers == (("etag", "1"),)


@given(
    some.binary(max_size=60)
    | some.just(b"".join(encode_page(PAGE)).replace(b'"elapsed_s"', b'"seconds__"'))
)
def test_record_of_another_format_is_ignored(record: bytes) -> None:
    assert decode_page(record) is None
