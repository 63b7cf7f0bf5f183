"""Describes how far the captures of a dated crawl are from its date."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from webdata_nb.contract.archives import distance_text

Distances = tuple[float, float]


def of_table(rows: pa.Table) -> Distances | None:
    """Return the least and the greatest distance in seconds; None without captures."""
    if "capture_distance_s" not in rows.column_names:
        return None
    distances = [value for value in rows["capture_distance_s"].to_pylist() if value is not None]
    return (min(distances), max(distances)) if distances else None


def receipt_fields(distances: Distances | None) -> dict[str, Any]:
    """Return what a receipt has of them."""
    if distances is None:
        return {}
    names = ("earliest_distance_s", "latest_distance_s")
    return {"captures": dict(zip(names, distances, strict=True))}


def texts(distances: Distances | None) -> list[str]:
    """Return the clause of a receipt's line."""
    if distances is None:
        return []
    return [f"captured {' to '.join(dict.fromkeys(map(distance_text, distances)))}"]
