"""What became of the extractions of a result's rows, summed up for its receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from webdata_nb.frames.rows import Row

_COUNTED: Final = ("calls", "prompt_tokens", "completion_tokens")


def of_rows(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how many rows were extracted by whom, failures by kind, and tokens used.

    Empty where no row tells of an extraction, as rows of other services may not.
    """
    return _summary(row.get("metadata") for row in rows)


def of_table(rows: pa.Table) -> dict[str, Any]:
    """Do as `of_rows` does, for rows as columns; metadata is JSON there."""
    if "metadata" not in rows.column_names:
        return {}
    column = rows["metadata"]
    # Most crawls extract nothing: then no text is read.
    texts = column.filter(pc.match_substring(column, '"extract"')).to_pylist()
    return _summary(orjson.loads(text) for text in texts if text is not None)


def _summary(metadata: Iterable[Any]) -> dict[str, Any]:
    told = list(_told(metadata))
    if not told:
        return {}
    kinds = Counter(str(each["error"].get("kind")) for each in told if _is_failed(each))
    used = [each["usage"] for each in told if isinstance(each.get("usage"), Mapping)]
    return {
        "providers": dict(Counter(str(each.get("provider")) for each in told)),
        "failed": dict(kinds),
        **{name: sum(_whole(each.get(name)) for each in used) for name in _COUNTED},
    }


def summed(*told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of summaries, such as those of batches.

    Examples
    --------
    >>> summed({"failed": {"invalid": 2}, "calls": 3}, {"failed": {"timeout": 1}, "calls": 1})
    {'failed': {'invalid': 2, 'timeout': 1}, 'calls': 4}
    """
    found: dict[str, Any] = {}
    for name, value in (item for each in told for item in each.items()):
        if isinstance(value, Mapping):
            found[name] = dict(Counter(found.get(name, {})) + Counter(value))
        else:
            found[name] = found.get(name, 0) + value
    return found


def sentence(told: Mapping[str, Any]) -> str:
    """Return what a receipt's line says of it; empty where nothing failed.

    Examples
    --------
    >>> sentence({"failed": {"invalid": 2, "timeout": 1}})
    'extraction failed: 2 invalid, 1 timeout'
    """
    failed = told.get("failed") or {}
    counted = ", ".join(f"{count} {kind}" for kind, count in failed.items())
    return f"extraction failed: {counted}" if counted else ""


def _told(metadata: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for each in metadata:
        told = each.get("extract") if isinstance(each, Mapping) else None
        if isinstance(told, Mapping):
            yield told


def _is_failed(told: Mapping[str, Any]) -> bool:
    return isinstance(told.get("error"), Mapping)


def _whole(value: Any) -> int:
    return value if type(value) is int else 0
