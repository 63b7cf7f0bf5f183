"""Writes the rows of a frame as text: JSON, or CSV with escaped formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.toolkit.frames import exports, frame, spreadsheets

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
    return spreadsheets.csv_bytes(frame.to_table(df)).decode()
