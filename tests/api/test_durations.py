"""Durations and dates as people write them; numbers are seconds, and requests keep milliseconds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.wire_service import KEY, JobScript, WireService
from webdata_nb import cache, options, settings
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument
from webdata_nb.settings import earlier_time, seconds
from webdata_nb.toolkit.api import Session, connect
from webdata_nb.toolkit.requests.arguments import time_text
from webdata_nb.toolkit.requests.inputs import Since

SITE = "http://site.test/"


@pytest.fixture
def service() -> Iterator[WireService]:
    with WireService() as running:
        yield running


@pytest.fixture
def session(
    service: WireService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "cache"))
    with connect(base_url=service.url, api_key=KEY) as made:
        yield made


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (90, 90), (0.5, 0.5), (0, 0), ("90", 90), (" 1.5 ", 1.5), (math.inf, math.inf),
        ("inf", math.inf), ("90s", 90), ("90 sec", 90), ("1 second", 1), ("500ms", 0.5),
        ("2min", 120), ("2m", 120), ("2 Minutes", 120), ("1h", 3600), ("1h30m", 5400),
        ("1h 30min", 5400), ("1 hour and 30 minutes", 5400), ("1.5h", 5400), ("7d", 604_800),
        ("2 weeks", 1_209_600), ("1w, 1d", 691_200), (timedelta(minutes=3), 180),
        (pd.Timedelta("2min"), 120),
    ],
)  # fmt: skip
def test_durations(value: object, expected: float) -> None:
    assert seconds(value) == pytest.approx(expected)


@pytest.mark.parametrize(
    "value",
    ["", "soon", "h", "-1h", "1 h 30", "1mo", "1y", "1e3", "h1", "1h!", "1..5s", None, True, b"1h"],
)
def test_what_is_no_duration(value: object) -> None:
    assert seconds(value) is None


def test_times_that_people_say() -> None:
    now = datetime(2026, 3, 1, 6, 53, 10, tzinfo=UTC)
    assert earlier_time("Today", now) == datetime(2026, 3, 1, tzinfo=UTC)
    assert earlier_time("yesterday", now) == datetime(2026, 2, 28, tzinfo=UTC)
    assert earlier_time("2 days ago", now) == datetime(2026, 2, 27, 6, 53, 10, tzinfo=UTC)
    assert earlier_time("90min", now) == datetime(2026, 3, 1, 5, 23, 10, tzinfo=UTC)
    for text in ("tomorrow", "2026-03-01", "7", "last week", "9999999999w"):
        assert earlier_time(text, now) is None


def test_days_of_archives_are_the_same_all_day() -> None:
    today = datetime.now(UTC).date()
    assert time_text("as_of", "yesterday") in {str(today - timedelta(days=n)) for n in (0, 1)}
    assert time_text("as_of", "2 weeks ago") == str(today - timedelta(days=14))
    assert datetime.fromisoformat(time_text("as_of", "6h")) < datetime.now(UTC)
    assert time_text("as_of", "2024-06-01") == "2024-06-01"


def test_since_takes_times_that_people_say() -> None:
    since = Since.check("yesterday")
    assert since is not None
    assert since.before == datetime.now().astimezone().replace(
        hour=0, minute=0, second=0, microsecond=0
    ) - timedelta(days=1)
    week = Since.check({"base": "7 days ago", "recheck": 0.1})
    assert week is not None
    assert week.before is not None
    assert datetime.now(UTC) - week.before - timedelta(days=7) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"page_timeout": 5}, {"timeout": 5000}),
        ({"page_timeout": "1min"}, {"timeout": 60_000}),
        ({"page_timeout": timedelta(seconds=2.5)}, {"timeout": 2500}),
        ({"page_timeout": 300}, {"timeout": 300_000}),
        ({"page_timeout": "300s"}, {"timeout": 300_000}),
        (
            {"scrape_options": {"timeout": "20s", "wait_for": 1.5}},
            {"timeout": 20_000, "wait_for": 1500},
        ),
        ({"wait_for": "500ms"}, {"wait_for": 500}),
        ({"wait_for": 2}, {"wait_for": 2000}),
        ({"wait_for": "#main > p"}, {"wait_for": "#main > p"}),
        # Milliseconds of the contract.
        ({"page_timeout": 30_000}, {"timeout": 30_000}),
        (
            {"scrape_options": {"timeout": 5000, "wait_for": 99}},
            {"timeout": 5000, "wait_for": 99},
        ),
    ],
)
def test_times_of_pages_are_milliseconds_on_the_wire(
    service: WireService, session: Session, options: dict[str, Any], sent: dict[str, Any]
) -> None:
    service.crawl = JobScript([{"url": SITE, "status": "completed", "success": True}])
    session.scrape_df([SITE], **options)
    bodies = [*service.posted(paths.CRAWL), *service.posted(paths.EXTENDED_CRAWLS)]
    assert bodies[-1]["scrape_options"] == sent


def test_durations_of_a_call(service: WireService, session: Session) -> None:
    service.crawl = JobScript([{"url": SITE, "status": "completed", "success": True}])
    df = session.crawl_df(SITE, ttl="1h", timeout="2min", stale_if_error="2 days")
    assert session.crawl_df(SITE, ttl="1h").attrs["webdata"]["cache"] == "hit"
    assert session.crawl_df(SITE, ttl="0s").attrs["webdata"]["cache"] == "miss"
    assert len(df.webdata.refresh(session=session)) == 1
    with pytest.raises(InvalidArgument, match="timeout must be more than 0 seconds"):
        session.crawl_df(SITE, timeout="0s")
    assert cache.clear(older_than="1 day") == 0
    assert cache.clear(older_than=timedelta(0)) > 0


def test_settings_take_durations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_TTL", "12h")
    assert settings.current().ttl == 43_200
    monkeypatch.setattr(options, "ttl", "90min")
    assert settings.current().ttl == 5400
    with pytest.raises(
        InvalidArgument, match=r"ttl \(WEBDATA_TTL\) must be a number of seconds, or"
    ):
        options.ttl = "soon"
    monkeypatch.setattr(options, "ttl", None)
    monkeypatch.setenv("WEBDATA_TTL", "soon")
    with pytest.raises(ValueError, match="WEBDATA_TTL must be a number of seconds, or a duration"):
        settings.current()
