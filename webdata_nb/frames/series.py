"""What the figures are drawn from: pages of a crawl, and ranks by snapshot."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pandas as pd

from webdata_nb.contract.results import result_key
from webdata_nb.errors import InvalidArgument

_LABELS: Final = ("query", "engine", "language", "country")
_LEVELS: Final = 4


def pages(df: pd.DataFrame) -> list[tuple[tuple[str, ...], int | None, int | None, bool]]:
    """Return folders, depth, status code and success of each page of a crawl."""
    _require(df, "url", "depth", "status_code", "success", what="crawl_df")
    urls = [str(url) for url in df["url"].tolist()]
    hosts = {urlsplit(url).netloc for url in urls}
    return [
        (_folders(url, several=len(hosts) > 1), _whole(depth), _whole(code), _is_true(success))
        for url, depth, code, success in zip(
            urls,
            df["depth"].tolist(),
            df["status_code"].tolist(),
            df["success"].tolist(),
            strict=True,
        )
    ]


def subject(df: pd.DataFrame) -> str:
    """Return what the frame is about, by its receipt; empty where it has none."""
    told = df.attrs.get("webdata")
    said = told.get("subject") if isinstance(told, dict) else None
    return said if isinstance(said, str) else ""


def snapshots(df: pd.DataFrame) -> list[tuple[datetime, dict[str, tuple[str, int]]]]:
    """Return each snapshot of a history: when, and the address and rank of each result by key.

    Raises
    ------
    InvalidArgument
        No history of one search.
    """
    _require(df, "taken_at", "rank", "url", what="history_df(search_df, ...)")
    several = [name for name in _LABELS if name in df and len(df[name].drop_duplicates()) > 1]
    if several:
        raise InvalidArgument(
            f"the history is of several searches: choose one by {' and '.join(several)}"
        )
    hosts = {_host(str(url)) for url in df["url"].dropna().tolist()}
    made = []
    for at, rows in df.groupby("taken_at", sort=True):
        ranked = rows[rows["rank"].notna() & rows["url"].notna()].sort_values("rank")
        told: dict[str, tuple[str, int]] = {}
        for url, rank in zip(ranked["url"].tolist(), ranked["rank"].tolist(), strict=True):
            told.setdefault(
                result_key(str(url)), (_named(str(url), several=len(hosts) > 1), int(rank))
            )
        made.append((pd.Timestamp(str(at)).to_pydatetime(), told))
    return made


def _require(df: Any, *names: str, what: str) -> None:
    if not isinstance(df, pd.DataFrame) or not set(names) <= set(df.columns):
        raise InvalidArgument(f"df must be a frame of {what}, with {', '.join(names)}")


def _limited(path: tuple[str, ...]) -> tuple[str, ...]:
    """Fold what is deep inside into one name: a figure has so many columns."""
    return path if len(path) <= _LEVELS else (*path[: _LEVELS - 1], "".join(path[_LEVELS - 1 :]))


def _folders(url: str, *, several: bool) -> tuple[str, ...]:
    parts = urlsplit(url)
    *folders, page = parts.path.strip("/").split("/") if parts.path.strip("/") else [""]
    name = unquote(page) or "(front page)"
    name += f"?{parts.query}" if parts.query else ""
    # A folder's own page has the address of the folder, which is then a box like any other.
    own = (f"{name}/",) if parts.path.endswith("/") and page else (name,)
    inside = tuple(f"{unquote(folder)}/" for folder in folders)
    return _limited(((parts.netloc,) if several else ()) + inside + own)


def _named(url: str, *, several: bool) -> str:
    """Return an address as a line's label: without its host where all have the same."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    path = f"{unquote(parts.path).rstrip('/')}{query}"
    return f"{_host(url)}{path}" if several else path or "/"


def _host(url: str) -> str:
    return urlsplit(url).netloc.removeprefix("www.")


def _whole(value: Any) -> int | None:
    return None if value is None or value is pd.NA or value != value else int(value)  # noqa: PLR0124 - NaN


def _is_true(value: Any) -> bool:
    return value is not pd.NA and bool(value)
