"""Converts frames to the data of the figures: pages of a crawl, and ranks by snapshot."""

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
        (
            _folders(url, several=len(hosts) > 1),
            _integer_or_none(depth),
            _integer_or_none(code),
            _is_true(success),
        )
        for url, depth, code, success in zip(
            urls,
            df["depth"].tolist(),
            df["status_code"].tolist(),
            df["success"].tolist(),
            strict=True,
        )
    ]


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
        raise InvalidArgument(f"df must be a frame of {what}, with {', '.join(names)}")


def _limited(path: tuple[str, ...]) -> tuple[str, ...]:
    """Join the deepest folders to one name, since the figure has a fixed number of columns."""
    return path if len(path) <= _LEVELS else (*path[: _LEVELS - 1], "".join(path[_LEVELS - 1 :]))


def _folders(url: str, *, several: bool) -> tuple[str, ...]:
    parts = urlsplit(url)
    *folders, page = parts.path.strip("/").split("/") if parts.path.strip("/") else [""]
    name = unquote(page) or "(front page)"
    name += f"?{parts.query}" if parts.query else ""
    # The index page of a folder has the URL of the folder.
    own = (f"{name}/",) if parts.path.endswith("/") and page else (name,)
    inside = tuple(f"{unquote(folder)}/" for folder in folders)
    return _limited(((parts.netloc,) if several else ()) + inside + own)


def _url_label(url: str, *, several: bool) -> str:
    """Return a URL as the label of a line, without the host if all URLs have the same."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    path = f"{unquote(parts.path).rstrip('/')}{query}"
    return f"{_host(url)}{path}" if several else path or "/"


def _host(url: str) -> str:
    return urlsplit(url).netloc.removeprefix("www.")


def _integer_or_none(value: Any) -> int | None:
    return None if value is None or value is pd.NA or value != value else int(value)  # noqa: PLR0124 - NaN


def _is_true(value: Any) -> bool:
    return value is not pd.NA and bool(value)
