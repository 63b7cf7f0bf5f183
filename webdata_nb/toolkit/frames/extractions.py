"""Summarizes the extractions of a result's rows for its receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from webdata_nb.toolkit.frames.rows import Row

_COUNTED: Final = ("calls", "prompt_tokens", "completion_tokens")


def of_rows(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the number of rows by provider, failures by kind, and used tokens.

    The result is empty if no row has metadata about an extraction.
    """
    return _summary(row.get("metadata") for row in rows)


def of_table(rows: pa.Table) -> dict[str, Any]:
    """Return the same as `of_rows` for a table, whose metadata is JSON text."""
    if "metadata" not in rows.column_names:
        return {}
    column = rows["metadata"]
    # Most crawls extract nothing; then no text is decoded.
    texts = column.filter(pc.match_substring(column, '"extract"')).to_pylist()
    return _summary(orjson.loads(text) for text in texts if text is not None)


def _summary(metadata: Iterable[Any]) -> dict[str, Any]:
    extractions = list(_extractions(metadata))
    if not extractions:
        return {}
    kinds = Counter(str(each["error"].get("kind")) for each in extractions if _is_failed(each))
    usages = [each["usage"] for each in extractions if isinstance(each.get("usage"), Mapping)]
    return {
        "providers": dict(Counter(str(each.get("provider")) for each in extractions)),
        "failed": dict(kinds),
        **{name: sum(_integer_or_zero(usage.get(name)) for usage in usages) for name in _COUNTED},
    }


def summed(*summaries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of summaries, such as those of batches.

    Examples
    --------
    >>> summed({"failed": {"invalid": 2}, "calls": 3}, {"failed": {"timeout": 1}, "calls": 1})
    {'failed': {'invalid': 2, 'timeout': 1}, 'calls': 4}
    """
    total: dict[str, Any] = {}
    for name, value in (item for summary in summaries for item in summary.items()):
        if isinstance(value, Mapping):
            total[name] = dict(Counter(total.get(name, {})) + Counter(value))
        else:
            total[name] = total.get(name, 0) + value
    return total


def failure_text(summary: Mapping[str, Any]) -> str:
    """Return the failures of a summary as text; empty if nothing failed.

    Examples
    --------
    >>> failure_text({"failed": {"invalid": 2, "timeout": 1}})
    'extraction failed: 2 invalid, 1 timeout'
    """
    failed = summary.get("failed") or {}
    counted = ", ".join(f"{count} {kind}" for kind, count in failed.items())
    return f"extraction failed: {counted}" if counted else ""


def _extractions(metadata: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for each in metadata:
        extraction = each.get("extract") if isinstance(each, Mapping) else None
        if isinstance(extraction, Mapping):
            yield extraction


def _is_failed(extraction: Mapping[str, Any]) -> bool:
    return isinstance(extraction.get("error"), Mapping)


def _integer_or_zero(value: Any) -> int:
    return value if type(value) is int else 0
