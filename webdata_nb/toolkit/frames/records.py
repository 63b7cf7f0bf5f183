"""Converts the rows of a frame to plain values for the display package."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, TypeVar

import pandas as pd
from pandas.api.extensions import register_dataframe_accessor

from webdata_nb.toolkit.frames import frame

DATA_FRAME: Final = pd.DataFrame

T = TypeVar("T")


def register_accessor(accessor: type[T]) -> type[T]:
    """Make `df.webdata` an instance of `accessor`."""
    return register_dataframe_accessor(frame.ATTRS)(accessor)


def to_lists(df: pd.DataFrame) -> list[list[Any]]:
    """Return the rows of `df` as lists; missing values are None, and times are datetimes."""
    columns = [[_value(each) for each in df.iloc[:, n].tolist()] for n in range(df.shape[1])]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def empty_columns(df: pd.DataFrame) -> frozenset[str]:
    """Return the names of the columns without a value; none if the frame has no rows."""
    if df.empty:
        return frozenset()
    return frozenset(
        str(name) for n, name in enumerate(df.columns) if not df.iloc[:, n].notna().any()
    )


def labels(df: pd.DataFrame) -> list[object] | None:
    """Return the labels of the rows, or None if they are 0, 1, 2 and so on."""
    found = df.index.tolist()
    return None if found == list(range(len(found))) else found


def has_receipt(df: pd.DataFrame) -> bool:
    """Return whether a frame comes from this package, or was derived from such a frame."""
    return bool(receipt_kind(df))


def receipt_kind(df: pd.DataFrame) -> str:
    """Return the kind of a frame, such as `crawl`; empty if it has no receipt."""
    receipt = df.attrs.get(frame.ATTRS)
    kind = receipt.get("kind") if isinstance(receipt, dict) else None
    return kind if isinstance(kind, str) else ""


def receipt_line(df: pd.DataFrame) -> str:
    """Return the receipt of a frame as one line; empty if it has none."""
    receipt = df.attrs.get(frame.ATTRS)
    line = receipt.get("line") if isinstance(receipt, dict) else None
    return line if isinstance(line, str) else ""


def _value(value: Any) -> Any:
    if isinstance(value, str | bytes | list | dict):
        return value
    if value is None or value is pd.NA or value is pd.NaT or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime(warn=False)
    return value if isinstance(value, bool | int | float | datetime) else str(value)
