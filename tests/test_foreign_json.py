"""JSON that others wrote: legal or nearly so, and refused by every parser's defaults."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from webdata_nb.foreign_json import MAX_DEPTH, MalformedJson, decode_json, well_formed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'"\ud83d"', "\ufffd"),
        (r'"\ude00\ud83d"', "\ufffd\ufffd"),
        (r'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\uD83D\u0041"', "\ufffdA"),
        (r'"a \\ud83d b"', r"a \ud83d b"),
        (r'"\\\ud83d"', "\\\ufffd"),
        (r'{"\ud83d": ["\udfff"]}', {"\ufffd": ["\ufffd"]}),
        ('"\ud83d"', "\ufffd"),
        ('"\ud83d\ude00"', "\U0001f600"),
        ("[NaN, Infinity, -Infinity, 1e400, -1e400]", [None] * 5),
        ("1" * 5000, None),
        ("[18446744073709551615, 18446744073709551616]", [2**64 - 1, 2.0**64]),
        (r'[18446744073709551616, "\ud83d"]', [2.0**64, "\ufffd"]),
        ("[18446744073709551616, 9223372036854775809, NaN]", [2.0**64, 2**63 + 1, None]),
        ('"a\tb\nc"', "a\tb\nc"),
        ("\ufeff{}", {}),
        (b"\xef\xbb\xbf[1]", [1]),
        ('{"a": "é"}'.encode("utf-16"), {"a": "é"}),
        ('{"a": "é"}'.encode("utf-32-be"), {"a": "é"}),
        (b'"caf\xe9"', "caf\ufffd"),
        (b'"\xf0\x9f\x98"', "\ufffd"),
        (rb'["\ud83d", "caf' + b'\xe9"]', ["\ufffd", "caf\ufffd"]),
    ],
)
def test_what_parsers_refuse_is_read(text: str | bytes, expected: Any) -> None:
    value = decode_json(text)
    assert value == expected
    assert orjson.loads(orjson.dumps(value)) == expected


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json; charset=ISO-8859-1", "café"),
        ('application/json;charset="windows-1252"', "café"),
        ("application/json; charset=no-such-one", "caf\ufffd"),
        ("application/json; charset=base64", "caf\ufffd"),
        ("application/json", "caf\ufffd"),
    ],
)
def test_a_declared_charset_counts_where_the_bytes_are_not_unicode(
    content_type: str, expected: str
) -> None:
    assert decode_json(b'"caf\xe9"', content_type=content_type) == expected
    assert decode_json('"café"'.encode(), content_type=content_type) == "café"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        b"",
        b"\xef\xbb\xbf",
        "{",
        "nil",
        "1 2",
        "{'a': 1}",
        r'"\ud83d',
        "[1,]",
        "\0",
        b"\xff",
    ],
)
def test_other_text_is_malformed(text: str | bytes) -> None:
    with pytest.raises(MalformedJson):
        decode_json(text)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 1000, 1025, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("inner", ["1", "NaN"])
def test_deep_nesting_is_malformed(levels: int, opening: str, closing: str, inner: str) -> None:
    with pytest.raises(MalformedJson, match=f"nests (more than {MAX_DEPTH} levels|too) deep"):
        decode_json(opening * levels + inner + closing * levels)


def test_as_deep_as_can_be_written_again_is_read() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert orjson.dumps(decode_json(text)).decode() == text
    assert decode_json(f"[{', '.join(['[[1]]'] * 1000)}]") == [[[1]]] * 1000


def test_ordinary_json_is_what_any_parser_makes_of_it() -> None:
    value = {"a": [1, -2.5, True, None, "é\u2028\U0001f600\\u"], "b": {"": []}}
    assert decode_json(json.dumps(value)) == decode_json(orjson.dumps(value)) == value


def test_only_unpaired_surrogates_are_replaced() -> None:
    assert well_formed("a\ud83d\ude00\ud83d b") == "a\U0001f600\ufffd b"
    assert well_formed("plain \u00e9") == "plain \u00e9"
