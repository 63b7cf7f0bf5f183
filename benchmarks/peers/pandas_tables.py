"""Read the largest table of a page with pandas."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd


def largest_table(body: bytes) -> list[dict[str, Any]]:
    """Return the rows of the table with most text: texts and links by column."""
    html = io.StringIO(body.decode("utf-8", "replace"))
    try:
        frames = pd.read_html(html, extract_links="body")
    except (ValueError, ImportError, IndexError):  # no table, or one that it cannot read
        return []
    frame = max(frames, key=lambda each: len(each.to_string()))
    rows = []
    for row in frame.to_dict("records"):
        values: dict[str, Any] = {}
        for name, cell in row.items():
            text, link = cell if isinstance(cell, tuple) else (cell, None)
            values |= {str(name): text, f"{name} link": link}
        rows.append(values)
    return rows
