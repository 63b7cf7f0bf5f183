"""The comparison of `benchmarks.same_rows` finds differences, and leaves out times and ids."""

from __future__ import annotations

import json

import pytest

import webdata_nb
from benchmarks import same_rows

ID = "1f0e4d4c-7d2b-4a53-9d4e-2f6f0a5f2c11"
OTHER_ID = "9c0e4d4c-7d2b-4a53-9d4e-2f6f0a5f2c99"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"time_taken": 0.1}, {"time_taken": 0.2}),
        ({"line": f"job {ID}: 3 rows; 0.4 s"}, {"line": f"job {OTHER_ID}: 3 rows; 1.2 s"}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"error": float("nan")}, {"error": float("nan")}),
    ],
)
def test_what_no_run_repeats_is_left_out(old: object, new: object) -> None:
    assert _difference(old, new) is None


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ({"rows": [{"depth": 1}]}, {"rows": [{"depth": 2}]}, ".rows[0].depth"),
        ({"rows": [1, 2]}, {"rows": [2, 1]}, ".rows[0]"),
        ({"rows": [1]}, {"rows": [1, 2]}, ".rows"),
        ({"receipt": {"failed": 1}}, {"receipt": {}}, ".receipt"),
        ({"line": "3 rows; 0.4 s"}, {"line": "4 rows; 0.4 s"}, ".line"),
    ],
)
def test_a_difference_is_named(old: object, new: object, path: str) -> None:
    assert (_difference(old, new) or "").startswith(f"{path}: ")


def test_stored_requests_call_public_functions() -> None:
    requests = json.loads(same_rows.REQUESTS.read_text("utf-8"))
    functions = {call[0] for request in requests for call in request["calls"]} - {"sleep"}
    assert functions <= set(webdata_nb.__all__)
    assert len({request["name"] for request in requests}) == len(requests)


def _difference(old: object, new: object) -> str | None:
    return same_rows.difference(same_rows.normalized(old), same_rows.normalized(new))
