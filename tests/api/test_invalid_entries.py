"""An invalid entry of a list is a row with its error; the other inputs run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.api.receipts import SITE, receipt_of
from tests.wire_service import WireService
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.api import (
    crawl_df,
    creatives_df,
    estimate,
    history_df,
    retry_failed,
    scrape_df,
    search_df,
)

INVALID: list[tuple[Any, str | None, str]] = [
    (np.nan, None, "must be a string; it is nan"),
    (None, None, "it is None"),
    (pd.NA, None, "it is <NA>"),
    ("  ", "  ", "it is '  '"),
    (5, "5", "it is 5"),
]
FUNCTIONS: list[tuple[Callable[..., pd.DataFrame], str, str]] = [
    (search_df, "moss", "query"),
    (crawl_df, SITE, "start_url"),
    (scrape_df, SITE, "start_url"),
    (creatives_df, "AR17", "advertiser"),
]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(("function", "valid", "label"), FUNCTIONS)
@pytest.mark.parametrize("collection", [list, lambda each: pd.Series(each, dtype=object)])
def test_an_invalid_entry_is_a_row_with_its_error_and_its_input(
    service: WireService,
    function: Callable[..., pd.DataFrame],
    valid: str,
    label: str,
    collection: Callable[[list[Any]], Any],
) -> None:
    df = function(collection([valid, *(entry for entry, _, _ in INVALID)]))
    starts = [each for each in service.requests if each.method == "POST"]
    assert len(starts) == 1
    failed = df[~df["success"].astype(bool)]
    assert len(failed) == len(INVALID)
    assert df["success"].sum() == len(df) - len(INVALID) > 0
    for row, (_, text, words) in zip(range(len(failed)), INVALID, strict=True):
        value = failed[label].iloc[row]
        assert pd.isna(value) if text is None else value == text
        error = failed["error"].iloc[row]
        assert error.startswith("InvalidArgument: ")
        assert words in error or (function is creatives_df and "it is" in error)
    receipt = receipt_of(df)
    assert receipt["inputs"]["failed"] == len(INVALID)
    assert receipt["counts"]["failed"] == len(INVALID)
    assert receipt["status"] == "partial"


@pytest.mark.usefixtures("connected")
def test_a_text_that_is_no_url_names_the_url_that_was_meant() -> None:
    df = crawl_df([SITE, "site.test/docs", "htps://site.test", "ftp://site.test"])
    errors = df["error"].dropna().tolist()
    assert "did you mean https://site.test/docs?" in errors[0]
    assert "did you mean https://site.test?" in errors[1]
    assert "ftp://site.test" in errors[2]
    wrong = df[df["error"].notna()]
    assert wrong["url"].tolist() == wrong["start_url"].tolist()


@pytest.mark.usefixtures("connected")
def test_a_wrong_option_raises_though_an_entry_is_invalid(service: WireService) -> None:
    for urls in ([SITE, "nowhere"], ["nowhere"]):
        with pytest.raises(InvalidArgument, match="more than 1,000 pages and a list cannot"):
            crawl_df(urls, max_pages=5000)
    assert service.requests == []


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("function", [crawl_df, scrape_df])
def test_on_error_raise_raises_before_any_traffic(
    service: WireService, function: Callable[..., pd.DataFrame]
) -> None:
    with pytest.raises(InvalidArgument, match=r"input 2 of 3: url .*'nowhere'"):
        function([SITE, "nowhere", SITE], on_error="raise")
    with pytest.raises(InvalidArgument, match="input 1 of 1"):
        crawl_df(["nowhere"], on_error="raise", stream=True)
    assert service.requests == []


@pytest.mark.usefixtures("connected")
def test_a_list_of_invalid_entries_sends_nothing_and_warns(service: WireService) -> None:
    with pytest.warns(UserWarning, match=r"2 inputs: no row succeeded, such as nowhere: .*URL"):
        df = scrape_df(["nowhere", "elsewhere"], scrape_options={"formats": ["links"]})
    assert df["start_url"].tolist() == ["nowhere", "elsewhere"]
    assert {"links"} <= set(df.columns)
    assert receipt_of(df)["request"].keys() == {"max_pages", "max_depth", "scrape_options"}
    assert service.requests == []


@pytest.mark.usefixtures("connected")
def test_retry_leaves_invalid_entries_alone(service: WireService) -> None:
    urls: list[Any] = [SITE, "nowhere", None]
    df = crawl_df(urls)
    sent = len(service.requests)
    again = retry_failed(df)
    assert len(service.requests) == sent
    assert again.equals(df)


@pytest.mark.usefixtures("connected")
def test_a_stream_yields_a_row_for_an_invalid_entry(service: WireService) -> None:
    stream = crawl_df([SITE, "nowhere"], stream=True)
    batches = list(stream)
    assert batches[-1]["start_url"].tolist() == batches[-1]["url"].tolist() == ["nowhere"]
    assert "InvalidArgument" in batches[-1]["error"].iloc[0]
    assert stream.receipt is not None
    assert stream.receipt["inputs"]["failed"] == 1
    assert len(service.posted(paths.CRAWL)) == 1


@pytest.mark.usefixtures("connected")
def test_estimate_and_history_leave_invalid_entries_out() -> None:
    crawl_df(SITE)
    assert estimate(crawl_df, [SITE, "nowhere"]).inputs == 1
    assert history_df(crawl_df, [SITE, "nowhere"])["start_url"].unique().tolist() == [SITE]


@pytest.mark.usefixtures("connected")
def test_a_single_invalid_input_raises(service: WireService) -> None:
    calls: list[Callable[..., pd.DataFrame]] = [crawl_df, scrape_df, search_df, creatives_df]
    for call in calls:
        with pytest.raises(InvalidArgument):
            call(np.nan)
    assert service.requests == []
