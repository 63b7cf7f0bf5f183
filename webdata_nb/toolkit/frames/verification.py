"""Lists the extracted values of a frame, and builds the frame of their verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from webdata_nb.contract.replies import VerifiedPage
from webdata_nb.errors import InvalidArgument
from webdata_nb.foreign_json import well_formed
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.frames.call_receipt import CallReceipt
from webdata_nb.toolkit.frames.json_text import decoded, dumps

_MAX_DEPTH: Final = 50
_FIELDS: Final[list[pa.Field[Any]]] = [
    *(pa.field(n, schemas.TEXT) for n in ("url", "field", "value", "verdict", "reason", "quote")),
    *(pa.field(name, pa.int64()) for name in ("start", "end")),
    pa.field("digest", schemas.TEXT),
]
_SCHEMA: Final = pa.schema(_FIELDS)
_NOT_COMPARED: Final = "the service compares 5,000 values of a page, nested at most 20 deep"
VERDICTS: Final = ("verbatim", "derived", "unsupported", "changed", "gone", "failed")


@dataclass(frozen=True, slots=True)
class ExtractedRow:
    """A row of a frame with extracted data.

    Attributes
    ----------
    url
        Its page.
    data
        The data.
    digest
        The digest of the page; None in rows of a service that gives none.
    job_id
        The job that the row names, as results of a search do; None otherwise.
    label
        The input of the row, in a frame of several inputs; None otherwise.
    """

    url: str
    data: Mapping[str, Any]
    digest: str | None
    job_id: str | None = None
    label: str | None = None


def extracted_rows(df: pd.DataFrame) -> list[ExtractedRow]:
    """Return the rows of a frame that have extracted data.

    Raises
    ------
    InvalidArgument
        The columns are missing, or have text that is not JSON.
    """
    frame.require_frame(df)
    if not {"url", "extract"} <= set(df.columns):
        raise InvalidArgument(
            "df has no columns url and extract: pass extract= to the call; "
            f"it is {format_value(df)}"
        )
    columns = {name: _cells(df, name) for name in ("metadata", "id", "start_url", "query")}
    rows = zip(df["url"].tolist(), df["extract"].tolist(), *columns.values(), strict=True)
    return [
        ExtractedRow(
            str(url),
            data,
            _digest(decoded(metadata, "metadata")),
            _job_id(identifier),
            start_url if isinstance(start_url, str) else query if isinstance(query, str) else None,
        )
        for url, cell, metadata, identifier, start_url, query in rows
        if isinstance(data := _plain(decoded(cell, "extract")), Mapping) and isinstance(url, str)
    ]


def _cells(df: pd.DataFrame, name: str) -> list[Any]:
    return df[name].tolist() if name in df.columns else [None] * len(df)


def _plain(value: Any, depth: int = 0) -> Any:
    """Return data without the types of NumPy, which values from other columns have.

    An integer beyond 64 bits, which no request can have as a number, becomes its digits.
    """
    if callable(to_list := getattr(value, "tolist", None)):
        return to_list()
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(Decimal(value))  # unlike `str(value)` of any length
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        return {name: _plain(each, depth + 1) for name, each in value.items()}
    return [_plain(each, depth + 1) for each in value] if isinstance(value, list) else value


def _digest(metadata: Any) -> str | None:
    for name in ("extract", "evidence", "digest"):
        metadata = metadata.get(name) if isinstance(metadata, Mapping) else None
    return metadata if isinstance(metadata, str) else None


def _job_id(identifier: Any) -> str | None:
    """Return the job in the id of a search's result, ``<job>-<number>``."""
    job_id, dash, number = identifier.rpartition("-") if isinstance(identifier, str) else ("",) * 3
    return job_id if dash and number.isdecimal() else None


def values_of(data: Any, pointer: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Return each value of extracted data that is not null, with its JSON pointer.

    Examples
    --------
    >>> list(values_of({"name": "Hat", "sizes": [36, 38], "price": None}))
    [('/name', 'Hat'), ('/sizes/0', 36), ('/sizes/1', 38)]
    """
    if isinstance(data, Mapping | list) and depth < _MAX_DEPTH:
        pairs = data.items() if isinstance(data, Mapping) else enumerate(data)
        for name, value in pairs:
            step = str(name).replace("~", "~0").replace("/", "~1")
            yield from values_of(value, f"{pointer}/{step}", depth + 1)
    elif _is_value(data):
        yield pointer, data


def _is_value(data: Any) -> bool:
    if isinstance(data, float):
        return isfinite(data)
    return isinstance(data, int) or (isinstance(data, str) and bool(data.strip()))


def build(rows: Sequence[ExtractedRow], pages: Sequence[VerifiedPage]) -> pd.DataFrame:
    """Return one row for each value, with what its page says of it."""
    entries = [
        entry for row, page in zip(rows, pages, strict=True) for entry in _entries(row, page)
    ]
    columns = [list(column) for column in zip(*entries, strict=True)] or [[] for _ in _FIELDS]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, _FIELDS, strict=True)]
    verified = frame.build(pa.table(arrays, schema=_SCHEMA))
    counts = Counter(entry[_SCHEMA.get_field_index("verdict")] for entry in entries)
    line = _line(counts, len(pages))
    receipt = {"kind": "verify", "counts": {"pages": len(pages), **_ordered(counts)}, "line": line}
    verified.attrs = {frame.ATTRS: CallReceipt(receipt)}
    return verified


def _entries(row: ExtractedRow, page: VerifiedPage) -> Iterator[tuple[Any, ...]]:
    if page.outcome != "compared":
        for pointer, value in values_of(row.data):
            rest = (page.outcome, page.detail, None, None, None, page.digest)
            yield row.url, field_name(pointer), _text(value), *rest
        return
    values = dict(values_of(row.data))
    for found in page.values:  # noqa: PD011 - a reply, no frame
        place = (found.quote, _offset(found.start), _offset(found.end), page.digest)
        value = _text(values.pop(found.pointer, None))
        yield row.url, field_name(found.pointer), value, found.verdict, found.reason, *place
    for pointer, value in values.items():
        rest = ("failed", _NOT_COMPARED, None, None, None, page.digest)
        yield row.url, field_name(pointer), _text(value), *rest


def _offset(number: int | None) -> int | None:
    """Return a place in a page; None for a number that no place has."""
    return number if number is not None and 0 <= number < 2**63 else None


def field_name(pointer: str) -> str:
    """Return the name of a field as `extract_df` writes it, with the numbers of list entries.

    Examples
    --------
    >>> field_name("/products/0/price")
    'products.0.price'
    """
    steps = pointer.removeprefix("/").split("/")
    return ".".join(step.replace("~1", "/").replace("~0", "~") for step in steps)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return well_formed(value) if isinstance(value, str) else dumps(value)


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in VERDICTS if counts.get(name)}


def _line(counts: Mapping[str, int], page_count: int) -> str:
    total = sum(counts.values())
    parts = ", ".join(f"{count} {name}" for name, count in _ordered(counts).items())
    values, pages = _count(total, "value"), _count(page_count, "page")
    return f"verify: {values} of {pages}" + (f": {parts}" if parts else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
