"""Stacks the rows of several inputs into one frame, and replaces the failed rows of such one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames import schemas
from webdata_nb.toolkit.frames.schemas import TableName

Label = str | None

_OUTCOME_FIELDS: Final[list[pa.Field[Any]]] = [
    pa.field("success", pa.bool_()),
    pa.field("error", schemas.TEXT),
]


@dataclass(frozen=True, slots=True)
class InputRows:
    """The rows of one input, the time when they were fetched, and its error, if any."""

    labels: Mapping[str, Label]
    table: pa.Table | None
    at: datetime | None
    error: str | None = None


def stack_inputs(op: TableName, names: Sequence[str], parts: Sequence[InputRows]) -> pa.Table:
    """Return all rows in the order of `parts`; a failed input has one row with its error.

    The columns are the labels, `fetched_at` unless the rows have it, `names`, and for creatives
    `success` and `error`.
    """
    return pa.concat_tables([_with_labels(op, names, part) for part in parts])


def stacked_schema(op: TableName, names: Sequence[str], labels: Sequence[str]) -> pa.Schema:
    """Return the schema of a stacked table."""
    plain = schemas.SCHEMAS[op]
    fields: list[pa.Field[Any]] = [pa.field(name, schemas.TEXT) for name in labels]
    if "fetched_at" not in plain.names:
        fields.append(pa.field("fetched_at", schemas.WHEN))
    fields += [field for field in _OUTCOME_FIELDS if field.name not in plain.names]
    return pa.schema([*fields, *(plain.field(name) for name in names)])


def _with_labels(op: TableName, names: Sequence[str], part: InputRows) -> pa.Table:
    schema = stacked_schema(op, names, list(part.labels))
    plain = schemas.SCHEMAS[op]
    table = part.table.select(list(names)) if part.table is not None else None
    rows = 0 if table is None else table.num_rows
    values: dict[str, Any] = {} if table is None else {n: table[n] for n in table.column_names}
    if op == "creatives":
        errors = values.get("error", pa.nulls(rows, schemas.TEXT))
        values |= {"success": pc.is_null(errors)}
    values |= {name: pa.array([value] * rows, schemas.TEXT) for name, value in part.labels.items()}
    if "fetched_at" not in plain.names:
        values["fetched_at"] = pa.array([part.at] * rows, schemas.WHEN)
    arrays = [values.get(field.name, pa.nulls(rows, field.type)) for field in schema]
    stacked = pa.table(arrays, schema=schema)
    if part.error is None:
        return stacked
    row: dict[str, Any] = {**part.labels, "success": False, "error": part.error}
    if "status" in schema.names:
        row["status"] = "failed"
    if not rows:
        row["url"] = part.labels.get("start_url")
    if "scraped" in schema.names:
        row["scraped"] = False
    if "fetched_at" in schema.names:
        row["fetched_at"] = part.at
    cells = [pa.array([row.get(field.name)], field.type) for field in schema]
    return pa.concat_tables([stacked, pa.table(cells, schema=schema)])


def with_taken_at(table: pa.Table, at: datetime | None) -> pa.Table:
    """Return `table` with the time of its snapshot as the first column."""
    taken_at = pa.array([at] * table.num_rows, schemas.WHEN)
    field: pa.Field[Any] = pa.field("taken_at", schemas.WHEN)
    return table.replace_schema_metadata(None).add_column(0, field, taken_at)


def concat_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables with the same schema."""
    return pa.concat_tables(tables)


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
        piece = replacements[index]
        columns: dict[str, Any] = {
            name: piece[name].astype(df[name].dtype)
            if name in piece.columns
            else pd.Series([None] * len(piece), dtype=object).astype(df[name].dtype)
            for name in df.columns
        }
        pieces += [df.iloc[begin:index], pd.DataFrame(columns)]
        begin = index + 1
    result: pd.DataFrame = pd.concat([*pieces, df.iloc[begin:]], ignore_index=True)
    result.attrs = dict(df.attrs)
    return result


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
