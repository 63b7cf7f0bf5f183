"""Converts the extracted values of pages to typed columns, and to a frame of their verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from webdata_nb.contract.replies import VerifiedPage
from webdata_nb.errors import InvalidArgument
from webdata_nb.foreign_json import well_formed
from webdata_nb.suggestions import counted, format_value
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.frames.frame import CallReceipt, NestedArray, ResultFrame
from webdata_nb.toolkit.frames.rows import decoded, dumps

__all__ = ["extract_df"]

Schema = Mapping[str, Any]

_MAX_FIELD_DEPTH: Final = 10
_DTYPES: Final = {"integer": "Int64", "number": "Float64", "boolean": "boolean", "string": "str"}
_TIME_DTYPES: Final = {"date": "datetime64[us]", "date-time": "datetime64[us, UTC]"}
_REFUSED: Final = (TypeError, ValueError, OverflowError)


def extract_df(df: pd.DataFrame) -> pd.DataFrame:
    """Return the extracted fields of the pages as typed columns, next to their sources.

    Parameters
    ----------
    df
        A frame with an `extract` column, from a call with `extract`.

    Returns
    -------
    pandas.DataFrame
        One row for each row of `df`, with its index, so that both can be joined. `url` is the page.
        Each field has a column with its value and a column `<field>_source` (str) with the place
        from which the value was read, such as `json_ld:Product/offers/price` or `model`. The fields
        of objects have names such as `offers.price`.

        Types follow from the schema of the request: str, Int64, Float64, boolean, datetime64[us] of
        a date, datetime64[us, UTC] of a date and time, and object for lists. Without a schema they
        follow from the values.

    Raises
    ------
    InvalidArgument
        The column is missing, or has text that is not JSON.

    Examples
    --------
    >>> import pandas as pd
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "extract": [{"name": "Hat", "price": 34}]})
    >>> extract_df(pages)[["name", "price"]].to_numpy().tolist()
    [['Hat', 34]]
    """
    frame.require_frame(df)
    if not {"url", "extract"} <= set(df.columns):
        raise InvalidArgument("df has no columns url and extract: pass extract= to the call")
    values = [decoded(value, "extract") for value in df["extract"].tolist()]
    metadata = df["metadata"].tolist() if "metadata" in df.columns else [None] * len(df)
    stated = [value_at(decoded(value, "metadata"), ("extract", "provenance")) for value in metadata]
    provenances = [each if isinstance(each, Mapping) else {} for each in stated]
    schema = _Schema.of_frame(df)
    paths = schema.paths()
    if not paths:
        names = (name for value in values if isinstance(value, Mapping) for name in value)
        paths = [(name,) for name in dict.fromkeys(names)]
    columns: dict[str, pd.Series[Any]] = {"url": df["url"]}
    for path in paths:
        name = _unused(".".join(path), columns)
        cells = [value_at(value, path) for value in values]
        columns[name] = _typed(cells, schema.field(path), df.index)
        pointer = pointer_of(path)
        # Of a list, the different sources of its items.
        sources = (
            dict.fromkeys(
                str(source)
                for place, source in provenance.items()
                if place == pointer or place.startswith(f"{pointer}/")
            )
            for provenance in provenances
        )
        texts = [", ".join(each) or None for each in sources]
        columns[_unused(f"{name}_source", columns)] = pd.Series(texts, df.index, dtype="str")
    extracted = ResultFrame(columns, index=df.index)
    line = frame.receipt_text(df, "line")
    extracted.attrs = {frame.ATTRS: CallReceipt(kind="extract", line=line)}
    return extracted


# Schema


def field_paths(schema: Schema) -> list[tuple[str, ...]]:
    """Return the paths of all fields of a JSON Schema that are no objects, in their order."""
    return _Schema(schema).paths()


@dataclass(frozen=True, slots=True)
class _Schema:
    """The JSON Schema of a request; empty if the frame has none."""

    root: Schema

    @classmethod
    def of_frame(cls, df: pd.DataFrame) -> _Schema:
        request = frame.receipt_of(df).get("request")
        if not isinstance(request, Mapping):
            return cls({})
        options = request.get("scrape_options") or request
        schema = value_at(options, ("extract", "schema"))
        return cls(schema if isinstance(schema, Mapping) else {})

    def paths(self) -> list[tuple[str, ...]]:
        """Return the paths of all fields that are no objects, in their order."""
        return list(self._paths(self.root, ()))

    def _paths(self, schema: Schema, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        properties = self._resolve(schema).get("properties")
        if isinstance(properties, Mapping) and properties and len(path) < _MAX_FIELD_DEPTH:
            for name, field in properties.items():
                yield from self._paths(field, (*path, str(name)))
        elif path:
            yield path

    def field(self, path: Sequence[str]) -> Schema:
        """Return the schema of a field; empty if it has none."""
        schema = self._resolve(self.root)
        for name in path:
            properties = schema.get("properties")
            schema = properties.get(name, {}) if isinstance(properties, Mapping) else {}
            schema = self._resolve(schema)
        return schema

    def _resolve(self, schema: Any) -> Schema:
        """Return a schema without references, and without alternatives that are null."""
        for _ in range(_MAX_FIELD_DEPTH):
            if not isinstance(schema, Mapping):
                return {}
            if isinstance(reference := schema.get("$ref"), str):
                schema = value_at(self.root, reference.removeprefix("#/").split("/"))
            elif (alternative := _only_alternative(schema)) is not None:
                schema = alternative
            else:
                return schema
        return {}


def _only_alternative(schema: Schema) -> Any:
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(schemas := schema.get(keyword), list):
            others = [each for each in schemas if each != {"type": "null"}]
            return others[0] if len(others) == 1 else {}
    return None


# Values


def pointer_of(path: Sequence[str]) -> str:
    """Return the JSON pointer of a field."""
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in path)


def value_at(value: Any, path: Sequence[str]) -> Any:
    """Return the value of a field of extracted data; None if it has none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _unused(name: str, columns: Mapping[str, object]) -> str:
    """Return the name of a new column, with a number if the name is taken."""
    numbered = (f"{name} ({number})" for number in range(2, len(columns) + 3))
    return name if name not in columns else next(each for each in numbered if each not in columns)


def _typed(cells: list[Any], schema: Schema, index: pd.Index[Any]) -> pd.Series[Any]:
    """Return a column with the type of the schema, or that of the values if they differ from it."""
    for dtype in (_dtype_of_schema(schema), _dtype_of_values(cells)):
        if dtype is None:
            continue
        if dtype == "str" and not all(isinstance(cell, str | None) for cell in cells):
            continue
        with suppress(*_REFUSED):
            if dtype not in _TIME_DTYPES.values():
                return pd.Series(cells, index, dtype=dtype)
            utc = dtype == _TIME_DTYPES["date-time"]
            texts = pd.Series(cells, index, dtype=object)
            return pd.to_datetime(texts, utc=utc, format="ISO8601").dt.as_unit("us")
    return pd.Series(NestedArray(cells), index)


def _dtype_of_schema(schema: Schema) -> str | None:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        kinds = others[0] if len(others) == 1 else None
    if kinds == "string" and schema.get("format") in _TIME_DTYPES:
        return _TIME_DTYPES[schema["format"]]
    return _DTYPES.get(kinds) if isinstance(kinds, str) else None


def _dtype_of_values(cells: Sequence[Any]) -> str | None:
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds == {int, float}:
        return "Float64"
    names = {bool: "boolean", int: "Int64", float: "Float64", str: "str"}
    return names.get(kinds.pop()) if len(kinds) == 1 else None


_MAX_VALUE_DEPTH: Final = 50
_DIGEST: Final = ("extract", "evidence", "digest")  # in the metadata of a page
_VERDICT_FIELDS: Final[list[pa.Field[Any]]] = [
    *(pa.field(n, schemas.TEXT) for n in ("url", "field", "value", "verdict", "reason", "quote")),
    *(pa.field(name, pa.int64()) for name in ("start", "end")),
    pa.field("digest", schemas.TEXT),
]
_VERDICT_SCHEMA: Final = pa.schema(_VERDICT_FIELDS)
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
    columns = {
        name: df[name].tolist() if name in df.columns else [None] * len(df)
        for name in ("metadata", "id", "start_url", "query")
    }
    rows = zip(df["url"].tolist(), df["extract"].tolist(), *columns.values(), strict=True)
    return [
        ExtractedRow(
            str(url),
            data,
            digest
            if isinstance(digest := value_at(decoded(metadata, "metadata"), _DIGEST), str)
            else None,
            _job_id(identifier),
            start_url if isinstance(start_url, str) else query if isinstance(query, str) else None,
        )
        for url, cell, metadata, identifier, start_url, query in rows
        if isinstance(data := _plain(decoded(cell, "extract")), Mapping) and isinstance(url, str)
    ]


def _plain(value: Any, depth: int = 0) -> Any:
    """Return data without the types of NumPy, which values from other columns have.

    An integer beyond 64 bits, which no request can have as a number, becomes its digits.
    """
    if callable(to_list := getattr(value, "tolist", None)):
        return to_list()
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(Decimal(value))  # unlike `str(value)` of any length
    if depth >= _MAX_VALUE_DEPTH:
        return value
    if isinstance(value, Mapping):
        return {name: _plain(each, depth + 1) for name, each in value.items()}
    return [_plain(each, depth + 1) for each in value] if isinstance(value, list) else value


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
    if isinstance(data, Mapping | list) and depth < _MAX_VALUE_DEPTH:
        pairs = data.items() if isinstance(data, Mapping) else enumerate(data)
        for name, value in pairs:
            yield from values_of(value, pointer + pointer_of([str(name)]), depth + 1)
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
    columns = [list(column) for column in zip(*entries, strict=True)] or [
        [] for _ in _VERDICT_FIELDS
    ]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, _VERDICT_FIELDS, strict=True)]
    verified = frame.build(pa.table(arrays, schema=_VERDICT_SCHEMA))
    found = Counter(entry[_VERDICT_SCHEMA.get_field_index("verdict")] for entry in entries)
    counts = {name: found[name] for name in VERDICTS if found[name]}
    line = f"verify: {counted(len(entries), 'value')} of {counted(len(pages), 'page')}"
    if counts:
        line += f": {', '.join(f'{count} {name}' for name, count in counts.items())}"
    receipt = {"kind": "verify", "counts": {"pages": len(pages), **counts}, "line": line}
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
