"""Puts rows that were fetched again in the place of those that had failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd


def failed(df: pd.DataFrame) -> list[int]:
    """Return the places of the rows whose `success` is False."""
    flags = df["success"].tolist()
    return [place for place, flag in enumerate(flags) if not pd.isna(flag) and not flag]


def merged(
    df: pd.DataFrame, places: Sequence[int], patch: pd.DataFrame, columns: Sequence[str]
) -> pd.DataFrame:
    """Return `df` with `columns` of the rows at `places` taken from `patch`, row by row.

    Columns keep their dtypes; all else stays as it is, also what the user added.
    """
    order = list(range(len(df)))
    for row, place in enumerate(places):
        order[place] = len(df) + row
    made = df.copy(deep=False)
    for name in columns:
        both = pd.concat([df[name], patch[name].astype(df[name].dtype)], ignore_index=True)
        made[name] = both.take(order).array
    return made


def replaced(df: pd.DataFrame, pieces: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Return `df` with each row of `pieces` replaced by the rows of its piece."""
    cuts: list[pd.DataFrame] = []
    begin = 0
    for place in sorted(pieces):
        cuts += [df.iloc[begin:place], _like(df, pieces[place])]
        begin = place + 1
    made: pd.DataFrame = pd.concat([*cuts, df.iloc[begin:]], ignore_index=True)
    made.attrs = dict(df.attrs)
    return made


def _like(df: pd.DataFrame, piece: pd.DataFrame) -> pd.DataFrame:
    columns: dict[str, Any] = {
        name: piece[name].astype(df[name].dtype)
        if name in piece.columns
        else pd.Series([None] * len(piece), dtype=object).astype(df[name].dtype)
        for name in df.columns
    }
    return pd.DataFrame(columns)


def texts(df: pd.DataFrame, column: str, places: Sequence[int]) -> list[str | None]:
    """Return the texts of some rows; None for a missing one."""
    values = df[column].tolist() if column in df.columns else [None] * len(df)
    return [None if pd.isna(values[place]) else str(values[place]) for place in places]


def chosen(df: pd.DataFrame, labels: Mapping[str, str | None]) -> pd.DataFrame:
    """Return the rows of one input."""
    rows = list(range(len(df)))
    for name, value in labels.items():
        values = texts(df, name, range(len(df)))
        rows = [row for row in rows if values[row] == value]
    return df.iloc[rows]
