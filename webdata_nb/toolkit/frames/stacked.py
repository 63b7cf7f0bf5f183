"""Stacks the rows of several inputs into one table, with the inputs as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

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


def stack(op: TableName, names: Sequence[str], parts: Sequence[InputRows]) -> pa.Table:
    """Return all rows in the order of `parts`; a failed input has one row with its error.

    The columns are the labels, `fetched_at` unless the rows have it, `names`, and for creatives
    `success` and `error`.
    """
    return pa.concat_tables([_with_labels(op, names, part) for part in parts])


def columns(op: TableName, names: Sequence[str], labels: Sequence[str]) -> pa.Schema:
    """Return the schema of a stacked table."""
    plain = schemas.SCHEMAS[op]
    fields: list[pa.Field[Any]] = [pa.field(name, schemas.TEXT) for name in labels]
    if "fetched_at" not in plain.names:
        fields.append(pa.field("fetched_at", schemas.WHEN))
    fields += [field for field in _OUTCOME_FIELDS if field.name not in plain.names]
    return pa.schema([*fields, *(plain.field(name) for name in names)])


def _with_labels(op: TableName, names: Sequence[str], part: InputRows) -> pa.Table:
    schema = columns(op, names, list(part.labels))
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
    return stacked if part.error is None else pa.concat_tables([stacked, _error_row(schema, part)])


def _error_row(schema: pa.Schema, part: InputRows) -> pa.Table:
    row: dict[str, Any] = {**part.labels, "success": False, "error": part.error}
    if "status" in schema.names:
        row["status"] = "failed"
    if part.table is None or not part.table.num_rows:
        row["url"] = part.labels.get("start_url")
    if "scraped" in schema.names:
        row["scraped"] = False
    if "fetched_at" in schema.names:
        row["fetched_at"] = part.at
    return pa.table(
        [pa.array([row.get(field.name)], field.type) for field in schema], schema=schema
    )


def with_time(name: str, table: pa.Table, at: datetime | None) -> pa.Table:
    """Return `table` with a timestamp as the first column."""
    fetched_at = pa.array([at] * table.num_rows, schemas.WHEN)
    field: pa.Field[Any] = pa.field(name, schemas.WHEN)
    return table.replace_schema_metadata(None).add_column(0, field, fetched_at)


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables with the same schema."""
    return pa.concat_tables(tables)
