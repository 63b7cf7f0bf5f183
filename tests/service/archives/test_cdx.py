"""What the indexes of web archives send, as documented and otherwise."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest

from webdata_nb.service.archives.web_archives import (
    MAX_VALUES,
    CdxQuery,
    UnreadableIndex,
    capture_key,
    pack_captures,
    parse_lines,
    parse_wayback,
    unpack_captures,
    wayback_query,
)

FIELDS = ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"]
DIGEST = "XAHDNHZ5P3GSSSNJ3DMEOJF7BMCCPZR3"
# As in the documentation of the Wayback Machine's CDX server.
ROW = ["org,archive)/", "19970126045828", "http://www.archive.org:80/", "text/html", "200"]
ROW += [DIGEST, "1415"]
CDXJ = {
    "urlkey": "org,commoncrawl)/",
    "timestamp": "20240224013058",
    "url": "https://commoncrawl.org/",
    "mime": "text/html",
    "mime-detected": "text/html",
    "status": "200",
    "digest": DIGEST,
    "length": "4712",
    "offset": "1132",
    "filename": "crawl-data/CC-MAIN-2024-10/segments/1/warc/a.warc.gz",
}


def test_half_an_emoji_in_a_listing_costs_no_capture() -> None:
    odd = {**CDXJ, "mime": "\ud83d"}
    captures = parse_lines(b"\n".join(json.dumps(each).encode() for each in (odd, CDXJ)), "cc")
    assert [capture.url for capture in captures] == ["https://commoncrawl.org/"] * 2


def test_a_reply_of_the_wayback_machine_and_its_resume_key() -> None:
    key = "org%2Carchive%29%2F+19980109140106%21"
    body = json.dumps([FIELDS, ROW, [], [key]]).encode()
    [capture], resume_key = parse_wayback(body, "wayback")
    assert resume_key == key
    assert capture.url == "http://www.archive.org/"
    assert capture.captured_at == datetime(1997, 1, 26, 4, 58, 28, tzinfo=UTC)
    assert (capture.status, capture.mime_type, capture.digest, capture.length) == (
        *(200, "text/html", DIGEST, 1415),
    )
    assert parse_qs(wayback_query(CdxQuery("http://a.test/?b=1&c"), 5, key)) == {
        "url": ["http://a.test/?b=1&c"],
        "matchType": ["exact"],
        "output": ["json"],
        "fl": ["timestamp,original,mimetype,statuscode,digest,length"],
        "limit": ["5"],
        "showResumeKey": ["true"],
        "resumeKey": [key],
    }


def test_neighbours_are_collapsed_only_where_they_are_of_one_url() -> None:
    exact = CdxQuery("http://a.test/", distinct=True)
    assert parse_qs(wayback_query(exact, 5, None))["collapse"] == ["digest"]
    host = CdxQuery("http://a.test/", "host", distinct=True)
    assert "collapse" not in wayback_query(host, 5, None)


@pytest.mark.parametrize("body", [b"", b"[]", b" [] \n", b"[[]]", json.dumps([FIELDS]).encode()])
def test_a_reply_without_captures(body: bytes) -> None:
    assert parse_wayback(body, "wayback") == ([], None)


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[1]", b'"a"', b"[[", b"\xff"])
def test_a_reply_that_is_no_list(body: bytes) -> None:
    with pytest.raises(UnreadableIndex, match="it sent"):
        parse_wayback(body, "wayback")


@pytest.mark.parametrize("value", [b"[]", b"{}", b'""'])
def test_a_reply_with_too_many_values_is_not_parsed(value: bytes) -> None:
    for parse, separator, ends in (
        (parse_wayback, b",", (b"[", b"]")),
        (parse_lines, b"\n", (b"", b"")),
    ):
        body = ends[0] + separator.join([value] * (MAX_VALUES + 2)) + ends[1]
        tracemalloc.start()
        try:
            with pytest.raises(UnreadableIndex, match="more than 1,000,000 values"):
                parse(body, "index")
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    "row",
    [
        ["k", "1997", "http://a.test/", "text/html", "200", DIGEST, "1"],
        ["k", "19971399000000", "http://a.test/", "text/html", "200", DIGEST, "1"],
        ["k", "19970126045828", "mailto:a@b.test", "text/html", "200", DIGEST, "1"],
        ["k", "19970126045828", "javascript:alert(1)", "text/html", "200", DIGEST, "1"],
        ["k"],
        [None, None, None],
    ],
)
def test_a_line_without_time_or_web_address_is_left_out(row: list[str]) -> None:
    body = json.dumps([FIELDS, row, ROW]).encode()
    assert [each.url for each in parse_wayback(body, "w")[0]] == ["http://www.archive.org/"]


def test_values_that_are_missing_or_of_another_form_are_none() -> None:
    row = ["k", "19970126045828", "http://a.test/", "warc/revisit", "-", "a b", "x" * 100]
    [capture], _ = parse_wayback(json.dumps([FIELDS, row]).encode(), "w")
    assert (capture.status, capture.digest, capture.length) == (None, None, None)


def test_lines_of_common_crawl() -> None:
    body = f"{json.dumps(CDXJ)}\n\n{json.dumps({**CDXJ, 'offset': '-1'})}\n".encode()
    first, second = parse_lines(body, "CC-MAIN-2024-10")
    assert (first.url, first.offset, first.length) == ("https://commoncrawl.org/", 1132, 4712)
    assert second.offset is None
    with pytest.raises(UnreadableIndex):
        parse_lines(b"[]\n", "CC-MAIN-2024-10")


def test_urls_that_archives_do_not_tell_apart() -> None:
    same = [
        "http://a.test/b",
        "https://a.test/b",
        "http://www.a.test:80/b",
        "https://www2.a.test/b",
    ]
    assert len({capture_key(url) for url in same}) == 1
    others = ["http://a.test/B", "http://a.test/b?", "http://a.test/b/", "http://b.a.test/b"]
    assert len({capture_key(url) for url in (same[0], *others)}) == 4  # an empty query is none
    assert capture_key("no url") is None


def test_captures_are_packed_and_unpacked() -> None:
    captures = [*parse_lines(json.dumps(CDXJ).encode(), "CC-MAIN-2024-10")]
    captures += parse_wayback(json.dumps([FIELDS, ROW]).encode(), "wayback")[0]
    assert unpack_captures(pack_captures(captures)) == captures
