"""A page on its way into the store comes back as it was, but for what is nobody's business."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some

from webdata_nb.service.content.source import Source
from webdata_nb.service.crawl.spooled_page import decode, encode, with_body_on_disk
from webdata_nb.service.pages.page_pipeline import Arrived
from webdata_nb.service.store.records import SpoolLocation

words = some.text(some.characters(exclude_categories=["Cs"]), max_size=20)
sources = some.builds(
    Source,
    url=words,
    final_url=words,
    status=some.integers(200, 399),
    content_type=some.none() | words,
    body=some.binary(max_size=200),
    redirects=some.lists(some.tuples(words, some.integers(300, 399)), max_size=3).map(tuple),
    fetched_at=some.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=some.just(UTC)),  # noqa: DTZ001 - Hypothesis adds the zone
    headers=some.lists(some.tuples(words, words), max_size=3).map(tuple),
)


PAGE = Arrived(
    "http://x/",
    Source("http://x/", "http://x/", 200, None, b"<p>", (), datetime(2026, 1, 1, tzinfo=UTC)),
    0.1,
)


@given(
    some.builds(
        Arrived,
        url=words,
        source=sources,
        elapsed_s=some.floats(0, 1000),
        rendered=some.booleans(),
        screenshot=some.none() | some.binary(max_size=50),
    )
)
def test_a_page_comes_back_as_it_was(came: Arrived) -> None:
    assert decode(b"".join(encode(came))) == came


@given(sources, some.binary(max_size=30), some.none() | some.binary(max_size=30))
def test_a_page_that_lies_in_a_file_is_the_same_page(
    tmp_path_factory: pytest.TempPathFactory, source: Source, before: bytes, picture: bytes | None
) -> None:
    came = Arrived("http://x/", source, 0.1, screenshot=picture)
    parts, path = encode(came), tmp_path_factory.mktemp("spool") / "0"
    path.write_bytes(before + b"".join(parts))
    kept = with_body_on_disk(came, parts[0], SpoolLocation(str(path), len(before)))
    assert kept.source.body == b""
    assert replace(kept, source=kept.source.loaded()) == came


@given(sources)
def test_a_sites_cookies_are_not_written(source: Source) -> None:
    told = replace(source, headers=(("Set-Cookie", "session=secret"), ("etag", "1")))
    record = b"".join(encode(Arrived("http://x/", told, 0.1)))
    assert b"secret" not in record
    came = decode(record)
    assert came is not None
    assert came.source.headers == (("etag", "1"),)


@given(
    some.binary(max_size=60)
    | some.just(b"".join(encode(PAGE)).replace(b'"elapsed_s"', b'"seconds__"'))
)
def test_what_another_release_wrote_is_no_page(record: bytes) -> None:
    assert decode(record) is None
