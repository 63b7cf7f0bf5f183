"""The rows of a frame as plain values, for those who draw them."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from webdata_nb.frames import frame

FRAME: Final = pd.DataFrame


def plain(df: pd.DataFrame) -> list[list[Any]]:
    """Return the rows of `df` as lists; what is missing is None, and a time is text."""
    columns = [[_value(each) for each in df.iloc[:, n].tolist()] for n in range(df.shape[1])]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def is_ours(df: pd.DataFrame) -> bool:
    """Whether a frame came from this package, or was derived from one that did."""
    told = df.attrs.get(frame.ATTRS)
    return isinstance(told, dict) and isinstance(told.get("kind"), str)


def line(df: pd.DataFrame) -> str:
    """Return the receipt of a frame in a line; empty where it has none."""
    told = df.attrs.get(frame.ATTRS)
    said = told.get("line") if isinstance(told, dict) else None
    return said if isinstance(said, str) else ""


def _value(value: Any) -> Any:
    if isinstance(value, str | bytes | list | dict):
        return value
    if value is None or value is pd.NA or value is pd.NaT or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat(sep=" ", timespec="seconds")
    return value if isinstance(value, bool | int | float) else str(value)
