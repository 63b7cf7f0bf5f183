"""Writes the rows of a frame as text: JSON, or CSV with escaped formulas."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import orjson

from webdata_nb.contract.cells import escape_formula
from webdata_nb.frames import exports, frame

if TYPE_CHECKING:
    import pandas as pd


def to_json(df: pd.DataFrame) -> str:
    """Return an array with one object a line, with every column; as in `.jsonl` files."""
    lines = exports.json_lines(frame.to_table(df)).splitlines()
    return (b"[" + b",\n ".join(lines) + b"]\n").decode()


def to_csv(df: pd.DataFrame) -> str:
    """Return RFC 4180 CSV with every column, as the service exports it.

    Lists and objects are JSON text, missing values empty cells. `read_csv_export` reverses the
    escaping of formulas.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(df.columns)
    for line in exports.json_lines(frame.to_table(df)).splitlines():
        writer.writerow(map(_cell, orjson.loads(line).values()))
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return escape_formula(value if isinstance(value, str) else orjson.dumps(value).decode())
