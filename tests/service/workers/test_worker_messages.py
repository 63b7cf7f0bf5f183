"""What page workers may say to the service: data of the promised types and sizes, or nothing."""

from __future__ import annotations

import json
import os
import pickle
import random
import struct
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.steps import run_to_completion
from webdata_nb.page.content.page_source import (
    ConversionOptions,
    FetchedResponse,
    FileSlice,
    Redirect,
)
from webdata_nb.page.content.parsed_page import MAX_DECLARATIONS, MAX_RSL_CHARACTERS
from webdata_nb.page.content.structured_data import MAX_DEPTH
from webdata_nb.page.extract.results import EVIDENCE, EXTRACTION, Extraction
from webdata_nb.page.scrape.page import scrape
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.page.sitemap import SITEMAP_FORMAT
from webdata_nb.service.workers.messages import (
    MAX_REPLY_BYTES,
    SIZES,
    BadMessage,
    Buffer,
    PageReply,
    check_sizes,
    decode_job,
    decode_reply_in_steps,
    encode_job,
    encode_reply,
)
from webdata_nb.service.workers.worker import process_page

URL = "http://x.test/a"
FORMATS = ("markdown", "html", "raw_html", "links", "images", "headings", "structured_data")
FACTS = frozenset({"metadata", "quality", "sketch", "shape"})
OPTIONS = ConversionOptions(FORMATS, only_main_content=False, facts=FACTS)  # type: ignore[arg-type]
BODY = """<html lang=en><title>Tïtle</title><link rel=canonical href="/c">
<meta name=robots content="noindex, nofollow"><h1>One 漢字</h1><p>Some words to keep 😀 here</p>
<a href="/b">B</a><a href="/d" rel=nofollow>D</a><a href="https://y.test/">Y</a>
<script type="application/ld+json">{"@type": "Thing", "deep": [[1, 2.5, null, true]]}</script>"""


def decode_reply(head: Buffer, parts: Buffer, options: ConversionOptions) -> PageReply:
    return run_to_completion(decode_reply_in_steps(head, parts, options))


def source(body: str = BODY) -> FetchedResponse:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    headers = (("X-Thing", "a"), ("X-Thing", "b"))
    return FetchedResponse(
        URL, URL, 200, "text/html", body.encode(), (Redirect(URL, 301),), at, headers
    )


def split_message(message: bytes) -> tuple[bytes, bytes]:
    head, parts = SIZES.unpack_from(message)
    assert len(message) == SIZES.size + head + parts
    return message[SIZES.size : SIZES.size + head], message[SIZES.size + head :]


def encoded_reply(options: ConversionOptions = OPTIONS, body: str = BODY) -> tuple[bytes, bytes]:
    return split_message(process_page((source(body), options, True)))


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("formats", [(), ("markdown",), FORMATS])
def test_reply_round_trip(formats: tuple[str, ...], *, encoded: bool) -> None:
    options = replace(OPTIONS, formats=formats, encoded=encoded)
    expected_page = scrape(source(), options)
    reply = decode_reply(*encoded_reply(options), options)
    assert isinstance(reply, Scraped)
    plain = msgspec.structs.replace(expected_page, formats=reply.formats)
    assert reply == plain
    for name, value in expected_page.formats.items():
        expected = value if encoded else orjson.loads(orjson.dumps(value))
        assert reply.formats[name] == expected


def test_job_round_trip() -> None:
    body_slice = FileSlice("/tmp/f", 12, 34)
    for page in (source(), replace(source(), content_type=None), source().with_body_in(body_slice)):
        options = replace(
            OPTIONS, include_tags=("p",), exclude_tags=("a", "b"), encoded=True, schema="{}"
        )
        for given_options in (options, ConversionOptions(markdown_mode="full")):
            for outlinks in (True, False):
                job = (page, given_options, outlinks)
                assert decode_job(*split_message(encode_job(job))) == job


@pytest.mark.parametrize("failure", [("parse", "why"), ("memory_limit", "x" * 5000)])
def test_failure_message_is_truncated(failure: tuple[str, str]) -> None:
    kind, text = decode_reply(*split_message(encode_reply(failure)), OPTIONS)  # type: ignore[misc]
    assert (kind, text) == (failure[0], failure[1][:500])


@pytest.mark.parametrize("encoded", [False, True])
def test_values_that_json_cannot_hold_are_converted(*, encoded: bool) -> None:
    # A raw line break selects the lenient decoder, which keeps these values.
    block = '{"gtin": 123456789012345678901234567890, "half": "a\\ud800b", "text": "a\nb"}'
    body = f'<title>T</title><script type="application/ld+json">{block}</script><p>words'
    options = ConversionOptions(("structured_data",), only_main_content=False, encoded=encoded)
    reply = decode_reply(*encoded_reply(options, body), options)
    assert isinstance(reply, Scraped)
    data = reply.formats["structured_data"]
    [item] = (orjson.loads(data) if encoded else data)["json_ld"]
    assert item == {"gtin": 1.2345678901234568e29, "half": "a�b", "text": "a\nb"}


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("levels", [99, 300, 900])
def test_deep_structured_data_is_truncated(levels: int) -> None:
    blocks = f'<script type="application/ld+json">{nested(levels)}</script>'
    item = "<div itemscope itemtype=http://a/b itemprop=x>"
    body = f"<title>T</title>{blocks}<p>words</p>{item * 80}deep{'</div>' * 80}"
    options = ConversionOptions(("markdown", "structured_data"), only_main_content=False)
    scraped = decode_reply(*encoded_reply(options, body), options)
    assert isinstance(scraped, Scraped)
    assert "words" in scraped.formats["markdown"]
    [block] = scraped.formats["structured_data"]["json_ld"]
    depth = 0
    while isinstance(block, dict):
        block, depth = block["a"], depth + 1
    assert (depth, block) == ((levels, 1) if levels <= MAX_DEPTH else (MAX_DEPTH, None))


@pytest.mark.parametrize("encoded", [False, True])
def test_format_that_json_cannot_hold_is_null(*, encoded: bool) -> None:
    deep: Any = "innermost"
    for _ in range(300):
        deep = [deep]
    options = ConversionOptions(("markdown", "headings"), encoded=encoded)
    made = msgspec.structs.replace(
        scrape(source(), replace(options, encoded=False)),
        formats={"markdown": "words", "headings": deep},
        metadata={"title": "T"},
    )
    message = encode_reply(made.encoded() if encoded else made)
    scraped = decode_reply(*split_message(message), options)
    assert isinstance(scraped, Scraped)
    sent = scraped.formats
    formats = {name: orjson.loads(each) for name, each in sent.items()} if encoded else sent
    assert formats == {"markdown": "words", "headings": None}
    assert scraped.metadata["title"] == "T"
    assert list(scraped.metadata["formats_omitted"]) == ["headings"]


SCHEMA = '{"type": "object", "properties": {"name": {"type": "string"}}}'
EXTRACTED: dict[str, Any] = {"data": {"name": "x"}, "provenance": {"/name": "a"}, "missing": []}


@pytest.mark.parametrize("encoded", [False, True])
def test_worker_extracts_declared_data(*, encoded: bool) -> None:
    body = '<title>T</title><script type="application/ld+json">{"@type": "A", "name": "N"}</script>'
    options = ConversionOptions(("markdown", EXTRACTION), encoded=encoded, schema=SCHEMA)
    scraped = decode_reply(*encoded_reply(options, body), options)
    assert isinstance(scraped, Scraped)
    assert list(scraped.formats) == ["markdown", EXTRACTION]
    sent = scraped.formats[EXTRACTION]
    extraction = msgspec.convert(orjson.loads(sent) if encoded else sent, Extraction)
    assert extraction.data == {"name": "N"}


@pytest.mark.parametrize(
    "extraction",
    [
        [],
        {},
        EXTRACTED | {"data": None},
        EXTRACTED | {"provenance": {"name": "a"}},
        EXTRACTED | {"provenance": {"/name": 1}},
        EXTRACTED | {"missing": [1]},
        EXTRACTED | {"missing": ["name"]},
        {"error": 1},
    ],
)
def test_malformed_extraction_is_rejected(extraction: Any) -> None:
    options = ConversionOptions((EXTRACTION,), schema=SCHEMA)
    scraped = scrape(source(), replace(options, formats=(), schema=None))
    message = encode_reply(msgspec.structs.replace(scraped, formats={EXTRACTION: extraction}))
    with pytest.raises(BadMessage, match="extraction"):
        decode_reply(*split_message(message), options)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (EVIDENCE, {}),
        (EVIDENCE, [{"pointer": "/a"}]),
        (EVIDENCE, [{"pointer": "/a", "verdict": "true"}]),
        (EVIDENCE, [{"pointer": "/a", "verdict": "derived", "start": -1}]),
        (SITEMAP_FORMAT, []),
        (SITEMAP_FORMAT, {"pages": "http://a/", "sitemaps": [], "problem": ""}),
        (SITEMAP_FORMAT, {"pages": [1], "sitemaps": [], "problem": ""}),
    ],
)
def test_malformed_evidence_and_sitemap_are_rejected(name: str, value: Any) -> None:
    scraped = scrape(source(), ConversionOptions(()))
    message = encode_reply(msgspec.structs.replace(scraped, formats={name: value}))
    with pytest.raises(BadMessage, match=name):
        decode_reply(*split_message(message), ConversionOptions((name,)))


class Exploit:
    """What runs when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.path}",)


def test_pickle_is_not_unpickled(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    harmful = pickle.dumps(Exploit(trap))
    head, parts = encoded_reply()
    edited = json.loads(head)
    edited["formats"]["markdown"] = len(harmful)
    for bad in ((harmful, b""), (harmful, harmful), (json.dumps(edited).encode(), harmful)):
        with pytest.raises(BadMessage):
            decode_reply(*bad, OPTIONS)
    del parts
    assert not trap.exists()


NAMES = sorted(orjson.loads(encoded_reply()[0]))
FIELDS = sorted(orjson.loads(encoded_reply()[0])["page"])
OBJECTS = ("metadata", "quality", "audit")
REQUIRED = [each.name for each in msgspec.structs.fields(Scraped) if each.required]
PAGES: list[tuple[str, Any]] = [
    ("title", 1),
    ("title", "x" * 100_000),
    ("title", ["a"]),
    ("metadata", None),
    ("metadata", []),
    ("quality", "good"),
    ("outlinks", None),
    ("outlinks", {}),
    ("outlinks", [[], []]),
    ("outlinks", [["http://a/", "a"]]),
    ("outlinks", [["http://a/", "a", 1]]),
    ("outlinks", [["http://a/", "a", True, 1]]),
    ("outlinks", [["http://a/", None, True]]),
    ("outlinks", [["file:///etc/passwd", "a", True]]),
    ("outlinks", [["javascript:alert(1)", "a", True]]),
    ("outlinks", ["http://a/", "a", "b"]),
    ("outlinks", [{"url": "http://a/", "anchor": "a", "nofollow": True}]),
    ("canonical", 5),
    ("canonical", "http://x/" + "y" * 100_000),
    ("robots", "noindex"),
    ("robots", ["follow"]),
    ("robots", [["noindex"]]),
    ("content_hash", None),
    ("content_hash", "not hex"),
    ("content_hash", "a" * 65),
    ("content_hash", "a" * 32 + "\n"),
    ("sketch", None),
    ("sketch", "no base64"),
    ("sketch", b64encode(bytes(5000)).decode()),
    ("shape", b64encode(bytes(5000)).decode()),
    ("audit", []),
    ("declarations", {}),
    ("declarations", [["meta", "a"]]),
    ("declarations", [["meta", "a", 1]]),
    ("declarations", [["else", "a", "b"]]),
    ("declarations", [["link", "file:///etc/passwd", "b"]]),
    ("declarations", [["rsl", "", "x" * (MAX_RSL_CHARACTERS + 1)]]),
    ("declarations", [["meta", "a", "b"]] * (MAX_DECLARATIONS + 1)),
]
SIZES_OF_PARTS: list[tuple[str, Any]] = [
    ("type", "other"),
    ("type", "failure"),
    ("page", None),
    ("objects", None),
    ("objects", {}),
    ("objects", [{}, {}]),
    ("objects", [{}, {}, {}, {}]),
    ("text", None),
    ("text", -1),
    ("text", True),
    ("text", "1"),
    ("text", 1.5),
    ("text", 2**63),
    ("formats", None),
    ("formats", []),
    ("formats", {"markdown": 1}),
    ("formats", dict.fromkeys((*FORMATS, "screenshot"), 1)),
    ("formats", dict.fromkeys(FORMATS, True)),
    ("formats", dict.fromkeys(FORMATS, -1)),
    ("formats", dict.fromkeys(FORMATS, "1")),
    ("formats", dict.fromkeys(FORMATS, 2**63)),
    ("formats", dict.fromkeys(FORMATS, 1.5)),
]
FAILURES: list[Any] = [
    {"message": "text"},
    {"kind": "parse"},
    {"kind": "parse", "message": 1},
    {"kind": "nonsense", "message": "text"},
    {"kind": ["parse"], "message": "text"},
    {"kind": "parse", "message": "x" * 501},
]


def page_with(name: str, value: Any) -> tuple[bytes, bytes]:
    """Return a reply with another value for a field of its page."""
    head, parts = encoded_reply()
    fields = orjson.loads(head)
    objects = dict(zip(OBJECTS, fields["objects"], strict=True))
    if name in objects:
        objects[name] = value
        return orjson.dumps({**fields, "objects": [*objects.values()]}), parts
    return orjson.dumps({**fields, "page": {**fields["page"], name: value}}), parts


@pytest.mark.parametrize(("name", "value"), PAGES)
def test_page_with_wrong_types_or_sizes_is_rejected(name: str, value: Any) -> None:
    with pytest.raises(BadMessage):
        decode_reply(*page_with(name, value), OPTIONS)


@pytest.mark.parametrize(("name", "value"), SIZES_OF_PARTS)
def test_head_with_wrong_types_or_sizes_is_rejected(name: str, value: Any) -> None:
    head, parts = encoded_reply()
    with pytest.raises(BadMessage):
        decode_reply(json.dumps({**orjson.loads(head), name: value}).encode(), parts, OPTIONS)


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_with_wrong_types_or_sizes_is_rejected(failure: Any) -> None:
    with pytest.raises(BadMessage):
        decode_reply(orjson.dumps({"type": "failure", **failure}), b"", OPTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_incomplete_head_is_rejected(name: str) -> None:
    head, parts = encoded_reply()
    left = {key: value for key, value in orjson.loads(head).items() if key != name}
    with pytest.raises(BadMessage):
        decode_reply(orjson.dumps(left), parts, OPTIONS)


@pytest.mark.parametrize("name", REQUIRED)
def test_incomplete_page_is_rejected(name: str) -> None:
    head, parts = encoded_reply()
    fields = orjson.loads(head)
    del fields["page"][name]
    with pytest.raises(BadMessage):
        decode_reply(orjson.dumps(fields), parts, OPTIONS)


@pytest.mark.parametrize("head", [b"", b"null", b"[]", b"1", b'"x"', b"{", b"\xff", b"[" * 100_000])
def test_head_must_be_an_object(head: bytes) -> None:
    with pytest.raises(BadMessage):
        decode_reply(head, b"", OPTIONS)


def test_format_must_be_json() -> None:
    options = ConversionOptions(("markdown",), encoded=True)
    head, parts = encoded_reply(options)
    good = orjson.loads(head)
    text = parts[: good["text"]]
    for bad in (b'"a", "url": "http://evil/"', b'"open', b"", b"\xff", b"NaN", b'"\xff"'):
        changed = orjson.dumps({**good, "formats": {"markdown": len(bad)}})
        with pytest.raises(BadMessage):
            decode_reply(changed, text + bad, options)


def test_invalid_utf8_is_rejected() -> None:
    options = ConversionOptions(())
    head = orjson.loads(encoded_reply(options)[0])
    with pytest.raises(BadMessage):
        decode_reply(orjson.dumps({**head, "text": 2}), b"\xff\xfe", options)


@pytest.mark.parametrize("value", [10**30, "a\ud800b"])
def test_page_values_that_json_cannot_hold_are_converted(value: Any) -> None:
    page = msgspec.structs.replace(scrape(source(), OPTIONS), metadata={"value": value})
    reply = decode_reply(*split_message(encode_reply(page)), OPTIONS)
    assert isinstance(reply, Scraped)
    assert reply.metadata == {"value": 1e30 if value == 10**30 else "a�b"}


@pytest.mark.parametrize("sizes", [(2**32 - 1, 0), (0, 2**32 - 1), (2**31, 2**31)])
def test_oversized_reply_is_rejected_unread(sizes: tuple[int, int]) -> None:
    with pytest.raises(BadMessage):
        check_sizes(SIZES.pack(*sizes))
    assert check_sizes(SIZES.pack(MAX_REPLY_BYTES - 5, 5)) == (MAX_REPLY_BYTES - 5, 5)


def test_oversized_page_is_a_failure() -> None:
    expected_page = scrape(source(), OPTIONS)
    large = msgspec.structs.replace(
        expected_page, formats={"raw_html": b'"' + b"a" * MAX_REPLY_BYTES + b'"'}
    )
    kind, text = decode_reply(*split_message(encode_reply(large)), OPTIONS)  # type: ignore[misc]
    assert kind == "memory_limit"
    assert "200 MiB" in text


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_random_bytes_raise_one_error_type(head: bytes, parts: bytes) -> None:
    with pytest.raises(BadMessage):
        decode_reply(head, parts, OPTIONS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 50) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.sampled_from(FIELDS), JSON)
def test_any_field_value_is_accepted_or_raises_one_error_type(name: str, value: Any) -> None:
    try:
        decode_reply(*page_with(name, value), OPTIONS)
    except BadMessage:
        return


@given(st.sampled_from(NAMES), JSON)
def test_any_head_value_is_accepted_or_raises_one_error_type(name: str, value: Any) -> None:
    head, parts = encoded_reply()
    try:
        decode_reply(orjson.dumps({**orjson.loads(head), name: value}), parts, OPTIONS)
    except BadMessage:
        return


def test_flipped_bits_are_accepted_or_raise_one_error_type() -> None:
    rng = random.Random(7)
    head, parts = encoded_reply()
    for _ in range(2000):
        data = bytearray(head + parts)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            decode_reply(bytes(data[: len(head)]), bytes(data[len(head) :]), OPTIONS)
        except BadMessage:
            continue


def test_sizes_take_eight_bytes() -> None:
    assert SIZES.size == struct.calcsize("!II") == 8
