"""JSON bodies have one meaning or are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.service.conftest import Api
from webdata_nb.service.routes.routing import (
    MAX_DEPTH,
    MAX_VALUES,
    InvalidJson,
    parse_strict_json,
)

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(
        st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(values, st.booleans())
def test_valid_json_is_parsed(value: Any, ascii_only: bool) -> None:
    assert parse_strict_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary(max_size=40) | st.text('{}[]",:\\ 1e.-untfa', max_size=40).map(str.encode))
def test_invalid_json_raises_only_invalid_json(raw: bytes) -> None:
    try:
        value = parse_strict_json(raw)
    except InvalidJson:
        return
    assert json.dumps(value)


@pytest.mark.parametrize(
    ("depth", "fine"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False), (100_000, False)]
)
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_bounded(start: str, end: str, depth: int, fine: bool) -> None:
    raw = (start * depth + "1" + end * depth).encode()
    if fine:
        parse_strict_json(raw)
    else:
        with pytest.raises(InvalidJson, match=r"deeper|not valid JSON"):
            parse_strict_json(raw)


def test_brackets_in_strings_do_not_count() -> None:
    text = '[{"' * 50 + '\\"['
    assert parse_strict_json(json.dumps([text]).encode()) == [text]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"url": "http://a/", "url": "http://b/"}',
        b'{"x": [{"a": 1, "b": 2, "\\u0061": 3}]}',
        b'{"url": NaN}',
        b'{"url": -Infinity}',
        b'{"url": 1e999999}',
        b'{"url": "http://a/"',
        b"{'url': 1}",
        b'{"url": "\xff"}',
        b'{"url": "\\ud800"}',
        b'"' + b'\\"' * 100_000,
        b"[" * 100_000,
        b"[]",
        b'"text"',
        b"null",
    ],
)
async def test_request_with_invalid_json_is_422(api: Api, raw: bytes) -> None:
    response = await api.http.post(
        "/v1/crawl", content=raw, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 422, response.text
    [problem] = response.json()["detail"]
    assert problem["loc"] == ["body"] or problem["loc"] == ["body", "url"]
    assert problem.keys() == {"loc", "msg", "type"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/nowhere", 404),
        ("PUT", "/v1/crawl", 405),
        ("DELETE", "/v1/jobs", 405),
        ("GET", "/v1/jobs/x/cancel", 405),
        ("GET", "/v1/jobs?limit=none", 422),
    ],
)
async def test_every_error_has_the_documented_shape(
    api: Api, method: str, path: str, status: int
) -> None:
    response = await api.http.request(method, path)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body.keys() == {"detail"}
    assert isinstance(body["detail"], list if status == 422 else str)


def test_the_number_of_values_is_bounded() -> None:
    parse_strict_json(b"[" + b"1," * (MAX_VALUES - 2) + b"1]")
    parse_strict_json(json.dumps(["," * 100_000]).encode())
    with pytest.raises(InvalidJson, match=f"{MAX_VALUES} list entries"):
        parse_strict_json(b"[" + b"1," * MAX_VALUES + b"1]")
    with pytest.raises(InvalidJson, match=f"{MAX_VALUES} list entries"):
        parse_strict_json(b"[" + b"[]," * MAX_VALUES + b"[]]")
