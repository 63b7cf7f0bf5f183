"""Converts frames to the data of the figures: pages of a crawl, and ranks by snapshot."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

import pandas as pd

from webdata_nb.contract.results import result_key
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, did_you_mean, format_value, quoted

_LABELS: Final = ("query", "engine", "language", "country")
# A column of fewer different numbers, such as status codes, has categories.
_FEW_VALUES: Final = 7


def pages(df: pd.DataFrame) -> list[tuple[tuple[str, ...], int | None]]:
    """Return the path and the depth of each page of a crawl; a query string is no part of it."""
    _require(df, "url", "depth", "status_code", "success", what="crawl_df")
    urls = [urlsplit("" if _is_missing(url) else str(url)) for url in df["url"].tolist()]
    has_several_hosts = len({parts.netloc for parts in urls}) > 1
    return [
        (_path(parts, has_several_hosts=has_several_hosts), _integer_or_none(depth))
        for parts, depth in zip(urls, df["depth"].tolist(), strict=True)
    ]


def statuses(df: pd.DataFrame) -> list[tuple[int | None, bool]]:
    """Return the status code and the success of each page of a crawl."""
    codes, successes = df["status_code"].tolist(), df["success"].tolist()
    return [
        (_integer_or_none(code), success is not pd.NA and bool(success))
        for code, success in zip(codes, successes, strict=True)
    ]


def numbers(df: pd.DataFrame, name: str) -> list[float | None] | None:
    """Return the values of a column of many different numbers; None for any other column."""
    column = df[name]
    is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if not is_number or column.nunique() <= _FEW_VALUES:
        return None
    return [None if _is_missing(value) else float(value) for value in column.tolist()]


def categories(df: pd.DataFrame, name: str) -> list[str | None]:
    """Return the values of a column as text.

    Raises
    ------
    InvalidArgument
        The column holds lists or dicts.
    """
    values = df[name].tolist()
    if any(isinstance(value, list | dict | bytes) for value in values):
        raise InvalidArgument(f"color must name a column of numbers or short texts; not {name!r}")
    return [None if _is_missing(value) else str(value) for value in values]


def check_color(df: pd.DataFrame, name: object) -> str:
    """Check that a frame has a column to colour by.

    Raises
    ------
    InvalidArgument
        It has not.
    """
    columns = [str(each) for each in df.columns]
    if not isinstance(name, str) or name not in {"status", *columns}:
        suggestion = did_you_mean(quoted(closest(name, columns)))
        raise InvalidArgument(
            f'color must be "status" or a column of df; it is {name!r}{suggestion}'
        )
    return name


def subject(df: pd.DataFrame) -> str:
    """Return the subject of the frame's receipt; empty if it has none."""
    receipt = df.attrs.get("webdata")
    subject = receipt.get("subject") if isinstance(receipt, dict) else None
    return subject if isinstance(subject, str) else ""


def snapshots(df: pd.DataFrame) -> list[tuple[datetime, dict[str, tuple[str, int]]]]:
    """Return the time of each snapshot of a history, and the URL and rank of each result by key.

    Raises
    ------
    InvalidArgument
        The frame is not the history of one search.
    """
    _require(df, "taken_at", "rank", "url", what="history_df(search_df, ...)")
    several = [name for name in _LABELS if name in df and len(df[name].drop_duplicates()) > 1]
    if several:
        raise InvalidArgument(
            f"the history is of several searches: choose one by {' and '.join(several)}"
        )
    hosts = {_host(str(url)) for url in df["url"].dropna().tolist()}
    snapshots = []
    for at, rows in df.groupby("taken_at", sort=True):
        ranked = rows[rows["rank"].notna() & rows["url"].notna()].sort_values("rank")
        results: dict[str, tuple[str, int]] = {}
        for url, rank in zip(ranked["url"].tolist(), ranked["rank"].tolist(), strict=True):
            results.setdefault(
                result_key(str(url)), (_url_label(str(url), several=len(hosts) > 1), int(rank))
            )
        snapshots.append((pd.Timestamp(str(at)).to_pydatetime(), results))
    return snapshots


def _require(df: Any, *names: str, what: str) -> None:
    if not isinstance(df, pd.DataFrame) or not set(names) <= set(df.columns):
        raise InvalidArgument(
            f"df must be a frame of {what}, with {', '.join(names)}; it is {format_value(df)}"
        )


def _path(parts: SplitResult, *, has_several_hosts: bool) -> tuple[str, ...]:
    names = tuple(unquote(name) for name in parts.path.split("/") if name)
    return (parts.netloc, *names) if has_several_hosts else names


def _url_label(url: str, *, several: bool) -> str:
    """Return a URL as the label of a line, without the host if all URLs have the same."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    path = f"{unquote(parts.path).rstrip('/')}{query}"
    return f"{_host(url)}{path}" if several else path or "/"


def _host(url: str) -> str:
    return urlsplit(url).netloc.removeprefix("www.")


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or value != value  # noqa: PLR0124 - NaN


def _integer_or_none(value: Any) -> int | None:
    return None if _is_missing(value) else int(value)
