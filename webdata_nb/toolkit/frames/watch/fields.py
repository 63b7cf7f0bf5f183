"""Names the fields of pages that can be watched, and reads their values from rows of a crawl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import orjson

from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, did_you_mean, format_value, quoted
from webdata_nb.toolkit.frames import extracted_fields, records
from webdata_nb.toolkit.frames.json_text import dumps

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.contract.requests import Extract

FieldPath = tuple[str, ...]

_CONTENT_HASH: Final = "content_hash"
_DESCRIPTION: Final = "description"
_EXTRACT: Final = "extract"
# What every page has, whatever the request.
_OF_EVERY_PAGE: Final = ("title", _DESCRIPTION, _CONTENT_HASH)
# Formats, in the order of their fields. A screenshot differs in each run.
_FORMATS: Final = ("markdown", "html", "raw_html", "links", "headings", "images", "structured_data")
# Often different although nothing visible changed: watched only where it is named.
_NOISY: Final = frozenset({"raw_html"})


@dataclass(frozen=True, slots=True)
class WatchedFields:
    """The fields that a call compares: columns of pages, and fields of `extract` by their paths."""

    columns: tuple[str, ...]
    extracted: Mapping[str, FieldPath]

    @classmethod
    def choose(
        cls, names: Sequence[str] | None, formats: Sequence[str], extract: Extract | None
    ) -> Self:
        """Return the fields with these names; those that a request gives by default.

        Raises
        ------
        InvalidArgument
            The request gives no such field; nothing was sent.
        """
        requested = [name for name in _FORMATS if name in formats]
        allowed = (*_OF_EVERY_PAGE, *requested)
        paths = _extracted_fields(extract, allowed)
        if names is None:
            content = [name for name in requested if name not in _NOISY] or [_CONTENT_HASH]
            return cls(("title", _DESCRIPTION, *content), paths)
        _check(names, (*allowed, *paths))
        chosen = dict.fromkeys(names)
        return cls(
            tuple(name for name in chosen if name in allowed),
            {name: paths[name] for name in chosen if name in paths},
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return (*self.columns, *self.extracted)

    def values(self, row: Mapping[str, Any]) -> dict[str, str | None]:
        """Return the values of a row as text."""
        metadata, extract = row.get("metadata"), row.get(_EXTRACT)
        values = {name: row.get(name) for name in self.columns}
        if _DESCRIPTION in values:
            values[_DESCRIPTION] = (
                metadata.get(_DESCRIPTION) if isinstance(metadata, dict) else None
            )
        for name, path in self.extracted.items():
            values[name] = extracted_fields.value_at(extract, path)
        return {name: text_of(value) for name, value in values.items()}

    def quotes(self, row: Mapping[str, Any]) -> dict[str, str]:
        """Return where the page of a row has the extracted values: a quote, or their source."""
        metadata = row.get("metadata")
        details = metadata.get(_EXTRACT) if isinstance(metadata, dict) else None
        found = {name: _quote(details, path) for name, path in self.extracted.items() if details}
        return {name: quote for name, quote in found.items() if quote}

    def rows(self, pages: pd.DataFrame) -> Iterator[dict[str, Any]]:
        """Yield the rows of a crawl with the columns that are needed."""
        wanted = {
            *("url", "success", "status_code", "error", _CONTENT_HASH, "fetched_at", "metadata"),
            *(name for name in self.columns if name != _DESCRIPTION),
            *((_EXTRACT,) if self.extracted else ()),
        }
        columns = [name for name in pages.columns if name in wanted]
        for row in records.to_lists(pages[columns]):
            yield dict(zip(columns, row, strict=True))


def text_of(value: Any) -> str | None:
    """Return a value as text: a text as it is, a list with an item in each line, others as JSON.

    Examples
    --------
    >>> text_of(24.0), text_of("24"), text_of({"b": 1, "a": None})
    ('24', '24', '{"a":null,"b":1}')
    >>> print(text_of(["x", "y"]))
    [
    "x",
    "y"
    ]
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(map(_sorted_json, value)) + "\n]"
    return _sorted_json(value)


def _sorted_json(value: Any) -> str:
    """Return JSON that is equal for equal values, whatever the order of keys."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        return dumps(value)


def _extracted_fields(extract: Extract | None, reserved: Sequence[str]) -> dict[str, FieldPath]:
    """Return the paths of extracted fields by name; without a schema, `extract` is one field."""
    if extract is None:
        return {}
    paths = extracted_fields.field_paths(extract.schema_) if extract.schema_ else []
    named = {".".join(path): path for path in paths}
    return {
        f"{_EXTRACT}.{name}" if name in reserved else name: path for name, path in named.items()
    } or {_EXTRACT: ()}


def _quote(details: Mapping[str, Any], path: FieldPath) -> str:
    pointer = extracted_fields.pointer_of(path)
    evidence = details.get("evidence")
    values = evidence.get("values") if isinstance(evidence, Mapping) else None
    place = values.get(pointer) if isinstance(values, Mapping) else None
    quote = place.get("quote") if isinstance(place, Mapping) else None
    provenance = details.get("provenance")
    source = provenance.get(pointer) if isinstance(provenance, Mapping) else None
    return next((str(each) for each in (quote, source) if each), "")


def _check(names: Sequence[str], allowed: Sequence[str]) -> None:
    for name in names:
        if name not in allowed:
            suggestion = did_you_mean(quoted(closest(name, allowed)))
            raise InvalidArgument(
                "columns must be among what this call reads of a page (with formats and extract): "
                f"{', '.join(allowed)}; {format_value(name)} is not{suggestion}"
            )
