"""Events of the log: their form, what they leave out, and how repeats are bounded."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.service.observability import logs
from webdata_nb.service.observability.logs import (
    CALLER,
    JOB_ID,
    REPEAT_INTERVAL_S,
    REQUEST_ID,
    EventThrottle,
    event,
    reason,
)


@pytest.fixture
def restored() -> Iterator[None]:
    """Put the handlers back that the tests' own plugin reads."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    requests = logging.getLogger("webdata_nb.service.requests")
    quiet = requests.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    requests.setLevel(quiet)


def written(
    log_format: logs.LogFormat, name: logs.Event, level: int = logging.INFO, **fields: Any
) -> str:
    logs.configure_logging(log_format)
    [handler] = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    out = io.StringIO()
    handler.setStream(out)
    event(name, level, **fields)
    return out.getvalue()


@pytest.mark.usefixtures("restored")
def test_text_event_has_name_and_fields() -> None:
    line = written("text", "job_ended", account="a", key=None, rows=3, seconds=1.23456, ok=True)
    assert line.endswith(
        " INFO webdata_nb.service.events: job_ended account=a rows=3 seconds=1.235 ok=true\n"
    )


@pytest.mark.usefixtures("restored")
def test_json_event_is_an_object() -> None:
    line = written("json", "job_ended", logging.WARNING, account="a", rows=3, reason='no "way"')
    record = json.loads(line)
    assert record.pop("time")
    assert record == {
        "level": "warning",
        "logger": "webdata_nb.service.events",
        "message": 'job_ended account=a rows=3 reason="no \\"way\\""',
        "event": "job_ended",
        "account": "a",
        "rows": 3,
        "reason": 'no "way"',
    }


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_value_cannot_forge_a_line_or_field(log_format: logs.LogFormat) -> None:
    line = written(
        log_format, "job_ended", reason='x\n2026 INFO forged: y="1 account=other\x1b[31m'
    )
    assert line.count("\n") == 1
    assert "\x1b" not in line
    assert ' account=other"' not in line.replace("\\", "").partition("reason=")[0]


@pytest.mark.usefixtures("restored")
def test_a_line_names_its_request_and_its_job() -> None:
    tokens = REQUEST_ID.set("r1"), JOB_ID.set("j1")
    try:
        assert written("text", "provider_resting", provider="p").endswith("provider=p [r1 j1]\n")
        record = json.loads(written("json", "provider_resting", provider="p"))
        assert (record["request_id"], record["job"]) == ("r1", "j1")
        assert json.loads(written("json", "job_ended", job="other"))["job"] == "other"
    finally:
        REQUEST_ID.reset(tokens[0])
        JOB_ID.reset(tokens[1])
    assert CALLER.get() is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("plain", "plain"),
        ("at https://u:secret@h.test/p?token=secret now", "at https://h.test/... now"),
        ("(http://h.test:81/secret)", "(http://h.test/..."),
        ("http://[::1/secret", "(an address)"),
        ("redis://:secret@h/0", "redis://h/..."),
        ("x" * 1000, "x" * 300),
    ],
)
def test_reason_hides_url_paths(text: str | None, expected: str | None) -> None:
    assert reason(text) == expected


@given(st.text())
def test_reason_accepts_any_text(text: str) -> None:
    assert len(reason(f"http://{text}") or "") <= 300


def test_repeated_event_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = 0.0
    repeats = EventThrottle(lambda: now)
    for number in range(1000):
        now = number / 100
        repeats.event("request_refused", status=429, account="a")
    repeats.event("request_refused", status=429, account="b")
    now += REPEAT_INTERVAL_S
    repeats.event("request_refused", status=429, account="a")
    assert [record.message for record in caplog.records] == [
        "request_refused status=429 account=a",
        "request_refused status=429 account=b",
        "request_refused status=429 account=a repeated=999",
    ]


def test_event_throttle_memory_is_bounded() -> None:
    repeats = EventThrottle()
    for number in range(5000):
        repeats.event("page_retried", host=f"h{number}")
    assert len(repeats._last_logged) <= 1000
