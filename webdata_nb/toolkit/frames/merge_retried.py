"""Replaces failed rows of a frame by rows that were fetched again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from webdata_nb.errors import InvalidArgument


def failed_row_indices(df: pd.DataFrame) -> list[int]:
    """Return the positions of the rows whose `success` is False."""
    flags = df["success"].tolist()
    return [index for index, flag in enumerate(flags) if not pd.isna(flag) and not flag]


def retryable_row_indices(df: pd.DataFrame) -> list[int]:
    """Return the positions of the failed rows that may succeed: those with a valid input."""
    failed = failed_row_indices(df)
    errors = texts_at(df, "error", failed)
    invalid = f"{InvalidArgument.__name__}: "
    return [
        index
        for index, error in zip(failed, errors, strict=True)
        if error is None or not error.startswith(invalid)
    ]


def count_failed_inputs(df: pd.DataFrame, labels: Sequence[str]) -> int:
    """Return the number of inputs, identified by their labels, whose rows all failed."""
    failed = set(failed_row_indices(df))
    rows = range(len(df))
    keys = zip(*(texts_at(df, name, rows) for name in labels), strict=True)
    only_failed: dict[tuple[str | None, ...], bool] = {}
    for row, key in zip(rows, keys, strict=True):
        only_failed[key] = only_failed.get(key, True) and row in failed
    return sum(only_failed.values())


def replace_columns(
    df: pd.DataFrame, indices: Sequence[int], patch: pd.DataFrame, columns: Sequence[str]
) -> pd.DataFrame:
    """Return `df` with `columns` of the rows at `indices` taken from the rows of `patch`.

    All other values stay, and columns keep their dtypes.
    """
    order = list(range(len(df)))
    for row, index in enumerate(indices):
        order[index] = len(df) + row
    result = df.copy(deep=False)
    for name in columns:
        both = pd.concat([df[name], patch[name].astype(df[name].dtype)], ignore_index=True)
        result[name] = both.take(order).array
    return result


def replace_rows(df: pd.DataFrame, replacements: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Return `df` with the row at each key of `replacements` replaced by the rows of its value."""
    pieces: list[pd.DataFrame] = []
    begin = 0
    for index in sorted(replacements):
        pieces += [df.iloc[begin:index], _with_columns_of(df, replacements[index])]
        begin = index + 1
    result: pd.DataFrame = pd.concat([*pieces, df.iloc[begin:]], ignore_index=True)
    result.attrs = dict(df.attrs)
    return result


def _with_columns_of(df: pd.DataFrame, piece: pd.DataFrame) -> pd.DataFrame:
    columns: dict[str, Any] = {
        name: piece[name].astype(df[name].dtype)
        if name in piece.columns
        else pd.Series([None] * len(piece), dtype=object).astype(df[name].dtype)
        for name in df.columns
    }
    return pd.DataFrame(columns)


def texts_at(df: pd.DataFrame, column: str, indices: Sequence[int]) -> list[str | None]:
    """Return the texts of a column at `indices`; None for missing values."""
    values = df[column].tolist() if column in df.columns else [None] * len(df)
    return [None if pd.isna(values[index]) else str(values[index]) for index in indices]


def rows_of_input(df: pd.DataFrame, labels: Mapping[str, str | None]) -> pd.DataFrame:
    """Return the rows of the input with these labels."""
    rows = list(range(len(df)))
    for name, value in labels.items():
        values = texts_at(df, name, range(len(df)))
        rows = [row for row in rows if values[row] == value]
    return df.iloc[rows]
