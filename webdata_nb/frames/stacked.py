"""The answers of several inputs as one tidy table: what was asked becomes columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from webdata_nb.frames import schemas
from webdata_nb.frames.schemas import TableName

Label = str | None

_OUTCOME: Final[list[pa.Field[Any]]] = [
    pa.field("success", pa.bool_()),
    pa.field("error", schemas.TEXT),
]


@dataclass(frozen=True, slots=True)
class Part:
    """One input's rows, when they were taken, and why there are no more, if that is so."""

    labels: Mapping[str, Label]
    table: pa.Table | None
    at: datetime | None
    error: str | None = None


def stack(op: TableName, shown: Sequence[str], parts: Sequence[Part]) -> pa.Table:
    """Return all rows in the order of `parts`; an input with an error has a row that says it.

    The columns are the labels, `fetched_at` where the rows have none of their own, `shown`, and
    for creatives `success` and `error`.
    """
    return pa.concat_tables([_labelled(op, shown, part) for part in parts])


def columns(op: TableName, shown: Sequence[str], labels: Sequence[str]) -> pa.Schema:
    """Return the schema of a stack."""
    plain = schemas.SCHEMAS[op]
    fields: list[pa.Field[Any]] = [pa.field(name, schemas.TEXT) for name in labels]
    if "fetched_at" not in plain.names:
        fields.append(pa.field("fetched_at", schemas.WHEN))
    fields += [field for field in _OUTCOME if field.name not in plain.names]
    return pa.schema([*fields, *(plain.field(name) for name in shown)])


def _labelled(op: TableName, shown: Sequence[str], part: Part) -> pa.Table:
    schema = columns(op, shown, list(part.labels))
    plain = schemas.SCHEMAS[op]
    given = part.table.select(list(shown)) if part.table is not None else None
    rows = 0 if given is None else given.num_rows
    known: dict[str, Any] = {} if given is None else {n: given[n] for n in given.column_names}
    if op == "creatives":
        wrong = known.get("error", pa.nulls(rows, schemas.TEXT))
        known |= {"success": pc.is_null(wrong)}
    known |= {name: pa.array([value] * rows, schemas.TEXT) for name, value in part.labels.items()}
    if "fetched_at" not in plain.names:
        known["fetched_at"] = pa.array([part.at] * rows, schemas.WHEN)
    filled = [known.get(field.name, pa.nulls(rows, field.type)) for field in schema]
    table = pa.table(filled, schema=schema)
    return table if part.error is None else pa.concat_tables([table, _failed(schema, part)])


def _failed(schema: pa.Schema, part: Part) -> pa.Table:
    told: dict[str, Any] = {**part.labels, "success": False, "error": part.error}
    if "status" in schema.names:
        told["status"] = "failed"
    if "scraped" in schema.names:
        told["scraped"] = False
    if "fetched_at" in schema.names:
        told["fetched_at"] = part.at
    return pa.table(
        [pa.array([told.get(field.name)], field.type) for field in schema], schema=schema
    )


def with_time(name: str, table: pa.Table, at: datetime | None) -> pa.Table:
    """Return `table` with a first column that says when."""
    when = pa.array([at] * table.num_rows, schemas.WHEN)
    field: pa.Field[Any] = pa.field(name, schemas.WHEN)
    return table.replace_schema_metadata(None).add_column(0, field, when)


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables of one schema."""
    return pa.concat_tables(tables)
