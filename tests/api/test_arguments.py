"""Wrong arguments are named before any traffic, and no message repeats a secret."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import webdata_nb
from tests.api.receipts import SECRET, SITE
from tests.wire_service import WireService
from webdata_nb.errors import (
    InvalidArgument,
)
from webdata_nb.toolkit.api import (
    crawl_df,
    creatives_df,
    jobs_df,
    search_df,
)

CYCLE: dict[str, Any] = {}
CYCLE["again"] = CYCLE

BAD: list[tuple[Callable[..., pd.DataFrame], tuple[Any, ...], dict[str, Any], str]] = [
    (search_df, ("",), {}, "query must contain at least one character"),
    (search_df, (5,), {}, "query must be a string; it is 5"),
    (search_df, ("q",), {"num_results": 51}, "num_results must be a whole number from 1 to 50"),
    (search_df, ("q",), {"num_results": "5"}, "num_results must be a whole number"),
    (search_df, ("q",), {"num_results": True}, "num_results must be a whole number"),
    (search_df, ("q",), {"engine": "google"}, "engine must be 'engine_one', 'engine_two' or"),
    (search_df, ("q",), {"formats": "markdown"}, "formats must be a list"),
    (search_df, ("q",), {"formats": ["json"]}, "formats must be 'markdown', 'html'"),
    (search_df, ("q",), {"safe_search": "no"}, "safe_search must be True or False"),
    (search_df, ("q",), {"country": "usa"}, "country must be a two-letter country code"),
    (search_df, ("q",), {"headers": {"Host": "x"}}, "headers: .*belongs to the connection"),
    (search_df, ("q",), {"headers": {"X-A": 1}}, "headers must hold strings only"),
    (
        search_df,
        ("q",),
        {"extract": {"schema": {"a": 2**70}}},
        r"extract\['a'\] must be a type .*; it is 1180",
    ),
    (
        search_df,
        ("q",),
        {"extract": {"schema": {"a": object()}}},
        r"extract\['a'\] .*must be a type",
    ),
    (search_df, ("q",), {"extract": {"schema": CYCLE}}, "cannot be written as JSON"),
    (search_df, ("q",), {"extract": {}}, "extract must have a prompt, a schema, or both"),
    (
        search_df,
        ("q",),
        {"format_options": {"screenshot": {"size": 5}}},
        "format_options.screenshot.size is not an option: there are capture, full_page, width",
    ),
    (crawl_df, ("site.test",), {}, "url must be an absolute http:// or https:// URL"),
    (crawl_df, (None,), {}, "url is required"),
    (crawl_df, (SITE,), {"max_pages": 0}, "max_pages must be a whole number from 1 to 1000"),
    (crawl_df, (SITE,), {"max_depth": 11}, "max_depth must be a whole number from 1 to 10"),
    (crawl_df, (SITE,), {"crawl_strategy": "random"}, "crawl_strategy must be 'bfs', 'dfs' or"),
    (crawl_df, (SITE,), {"include_paths": [5]}, "include_paths must hold strings only"),
    (crawl_df, (SITE,), {"scrape_options": ["markdown"]}, "scrape_options must be a dictionary"),
    (
        crawl_df,
        (SITE,),
        {"scrape_options": {"wait": 5}, "max_pages": 0},
        "max_pages .*scrape_options.wait is not an option: did you mean 'wait_for'",
    ),
    (creatives_df, ("AR 1",), {}, "advertiser_id must be an advertiser id such as"),
    (creatives_df, ("https://ads.test/x",), {}, "url must be an advertiser's page"),
    (creatives_df, ("AR1",), {"limit": 0}, "limit must be a whole number, 1 or more"),
    (creatives_df, ("AR1",), {"limit": "3"}, "limit must be a whole number, 1 or more"),
    (creatives_df, ("AR1",), {"limit": 3, "max_rows": 4}, "limit=3 and max_rows=4 .* pass limit"),
    (creatives_df, ("AR1",), {"max_rows": 0}, "max_rows must be a whole number, 1 or more"),
    (creatives_df, ("AR1",), {"date_range": "today"}, "date_range must be one of yesterday"),
    (jobs_df, (), {"limit": 0}, "limit must be a whole number, 1 or more"),
    (crawl_df, (SITE,), {"ttl": -1}, "ttl must be 0 seconds or more"),
    (
        crawl_df,
        (SITE,),
        {"ttl": "soon"},
        'ttl must be a number of seconds, or a duration such as "',
    ),
    (crawl_df, (SITE,), {"timeout": "-2min"}, "timeout must be a number of seconds, or a duration"),
    (
        webdata_nb.scrape_df,
        (SITE,),
        {"page_timeout": 400},
        "page_timeout must be from 0.001 to 300 seconds",
    ),
    (
        webdata_nb.scrape_df,
        (SITE,),
        {"page_timeout": "6min"},
        "page_timeout must be from 0.001 to 300 seconds",
    ),
    (
        crawl_df,
        (SITE,),
        {"scrape_options": {"timeout": "x"}},
        "scrape_options.timeout must be a number of seconds",
    ),
    (crawl_df, (SITE,), {"timeout": 0}, "timeout must be more than 0 seconds"),
    (crawl_df, (SITE,), {"timeout": float("nan")}, "timeout must be a number of seconds"),
    (crawl_df, (SITE,), {"cache": "yes"}, "cache must be True or False"),
    (crawl_df, (SITE,), {"offline": 1}, "offline must be True or False"),
    (crawl_df, (SITE,), {"refresh": None}, "refresh must be True or False"),
    (crawl_df, (SITE,), {"progress": "spinner"}, "progress .*must be True, False, None or"),
    (crawl_df, (SITE,), {"on_incomplete": "drop"}, "on_incomplete must be one of 'raise', 'warn'"),
    (crawl_df, (SITE,), {"on_cancel": "warn"}, "on_cancel must be one of 'raise', 'partial'"),
    (crawl_df, (SITE,), {"dtype_backend": "polars"}, "dtype_backend must be one of 'pandas'"),
    (crawl_df, (SITE,), {"out": "pages.txt"}, "out must end in .parquet, .jsonl, .csv or .xlsx"),
    (crawl_df, (SITE,), {"out": "no/such/folder/a.jsonl"}, "out must be in a directory that exi"),
    (crawl_df, (SITE,), {"out": 5}, "out must be a path"),
    (crawl_df, (SITE,), {"session": "local"}, "session must be what connect"),
]


@pytest.mark.parametrize(("function", "args", "given", "words"), BAD)
@pytest.mark.usefixtures("connected")
def test_a_wrong_argument_is_named_before_any_traffic(
    service: WireService,
    function: Callable[..., pd.DataFrame],
    args: tuple[Any, ...],
    given: dict[str, Any],
    words: str,
) -> None:
    with pytest.raises(InvalidArgument, match=words) as refused:
        function(*args, **given)
    assert isinstance(refused.value, ValueError)
    assert service.requests == []


@pytest.mark.parametrize(
    "given",
    [
        {"headers": {"X-Key": SECRET + "\n"}},
        {"cookies": {"session": SECRET + ";"}},
        {"headers": {"X-Key": [SECRET]}},
        {"cookies": SECRET},
    ],
)
@pytest.mark.usefixtures("connected")
def test_no_message_repeats_a_secret(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        search_df("q", **given)
    assert SECRET not in repr(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("name", ["WEBDATA_OFFLINE", "WEBDATA_TTL", "WEBDATA_PROGRESS"])
@pytest.mark.usefixtures("connected")
def test_a_wrong_variable_is_named_like_a_wrong_argument(
    service: WireService, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "perhaps")
    with pytest.raises(InvalidArgument, match=f"{name}|progress"):
        crawl_df(SITE)
    assert service.requests == []


def test_the_blocking_name_is_the_one_that_complains() -> None:
    with pytest.raises(TypeError, match=r"^search_df\(\) got 2 positional arguments"):
        search_df("q", 5)  # type: ignore[call-overload]
    with pytest.raises(
        TypeError, match=r"^crawl_df\(\) got an unexpected keyword argument 'pages'"
    ):
        crawl_df(SITE, pages=5)  # type: ignore[call-overload]


def test_what_is_no_frame_is_refused(tmp_path: Path) -> None:
    wrong: Any = 5
    for call in (
        webdata_nb.links_df,
        webdata_nb.images_df,
        webdata_nb.headings_df,
        webdata_nb.rights_df,
        webdata_nb.chunks_df,
        webdata_nb.tables,
        lambda df: webdata_nb.to_parquet(df, tmp_path / "x.parquet"),
    ):
        with pytest.raises(InvalidArgument, match="DataFrame"):
            call(wrong)
    with pytest.raises(InvalidArgument, match="older_than"):
        webdata_nb.cache.clear(older_than="a day")
