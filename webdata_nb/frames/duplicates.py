"""Removes duplicate rows of frames that have columns of lists and dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import pandas as pd
import pyarrow as pa

from webdata_nb.errors import InvalidArgument
from webdata_nb.frames import frame
from webdata_nb.frames.json_text import dumps

Keep = Literal["first", "last", False]
_NESTED: Final = (list, dict, set, tuple)


def without_duplicates(
    df: pd.DataFrame, subset: str | Sequence[str] | None, keep: Keep
) -> pd.DataFrame:
    """Return `df` without the rows whose values in `subset` occur in another row.

    By default, `subset` is every column without lists and dicts. Named columns of lists and dicts
    are compared as well.

    Raises
    ------
    InvalidArgument
        The frame does not have a column of `subset`, or no column is left to compare.
    """
    if subset is None:
        names = [str(name) for name in df.columns if not _is_nested(df[name])]
    else:
        names = [subset] if isinstance(subset, str) else list(subset)
    if missing := [name for name in names if name not in df.columns]:
        raise InvalidArgument(f"subset must name columns of the frame; not {missing}")
    if not names:
        raise InvalidArgument(
            "subset must name a column: the frame has none without lists or dicts"
        )
    keys = pd.DataFrame({name: _comparable(df[name]) for name in names}, index=df.index)
    return df[~keys.duplicated(keep=keep)]


def _is_nested(column: pd.Series[Any]) -> bool:
    if isinstance(column.dtype, pd.ArrowDtype):
        return pa.types.is_nested(column.dtype.pyarrow_dtype)
    return column.dtype == object and any(isinstance(value, _NESTED) for value in column)


def _comparable(column: pd.Series[Any]) -> pd.Series[Any]:
    if not _is_nested(column):
        return column
    texts = [None if value is None else dumps(value) for value in frame.to_objects(column)]
    return pd.Series(texts, column.index, dtype="str")
