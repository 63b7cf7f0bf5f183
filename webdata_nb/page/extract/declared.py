"""Reads the declarations of a page outside of nodes: meta tags, metadata, tables and lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from webdata_nb.page.extract.coerce import iso_date
from webdata_nb.page.extract.field_names import NameReading, name_readings, normalize_name
from webdata_nb.page.extract.vocabulary import (
    COMMON_PROPERTIES,
    META_PROPERTIES,
    METADATA_PROPERTIES,
    PAGE_KINDS,
    PAGE_TITLE_SOURCES,
    READ_FROM_PRODUCTS,
)

MAX_METAS: Final = 5000
MAX_TABLES: Final = 1000
MAX_ROWS: Final = 20_000
MAX_LABEL_LENGTH: Final = 80
_PREFIX: Final = re.compile(
    r"(?:og|article|product|book|music|video|profile|twitter|dc|dcterms|citation|parsely|recipe"
    r"|business:contact_data|place:location)[:.]"
)
_BRACKETS: Final = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_UNIT: Final = re.compile(r"\S\s*[(\[]([^()\[\]]{1,16})[)\]]\s*\Z")
_PAIR: Final = 2
_DOCUMENT_TITLE: Final = "metadata:title"
_PAIR_COLUMNS: Final = (
    ("name", "label", "key", "term", "property", "attribute", "feature", "field"),
    ("value", "definition"),
)
"""The names of the two columns of a table of labels and values, which has no header."""


@dataclass(frozen=True, slots=True)
class DeclaredValues:
    """The values that a page declares under one name.

    Attributes
    ----------
    origin
        Their source, for the provenance.
    name
        Their property.
    values
        Scalars and nodes.
    prose
        Whether the text was written for people, not for machines.
    """

    origin: str
    name: str
    values: list[Any]
    prose: bool = False


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table with column names; each row describes one object.

    Tables with the same column names are one.

    Attributes
    ----------
    origin
        Its source, for the provenance.
    columns
        The names of each column; the first one is used in the provenance.
    rows
        The source of each row and the texts of its cells, without rows that add up others.
    units
        The unit in the name of each column, such as "mm" in "Rain (mm)"; empty without one.
    pairs
        Whether it has no header and its rows are pairs of a label and a value.
    """

    origin: str
    columns: tuple[tuple[str, ...], ...]
    rows: list[tuple[str, Sequence[str]]]
    units: tuple[str, ...] = ()
    pairs: bool = False


class DeclaredFields:
    """The declarations of a page outside of nodes, by name.

    Parameters
    ----------
    structured, metadata, tables, labels
        As in `extract_structured`.
    has_text
        Whether the page has text. The title of a page without text, such as "Loading", is not the
        name of anything.
    """

    def __init__(
        self,
        structured: Mapping[str, Any],
        metadata: Mapping[str, Any],
        tables: Sequence[Mapping[str, Any]],
        labels: Mapping[str, Sequence[str]] = MappingProxyType({}),
        *,
        has_text: bool = True,
    ) -> None:
        self._metas = _read_metas(structured)
        self._metadata = _read_metadata(metadata)
        self._has_text = has_text
        language = metadata.get("language")
        self._language = language if isinstance(language, str) else ""
        self._labels: dict[str, DeclaredValues] = {}
        # Labels with different values, which are not of the page as a whole.
        self._ambiguous: set[str] = set()
        self._labels_in_text = {
            name: DeclaredValues(f"visible:label/{label}", name, list(values), prose=True)
            for label, values in labels.items()
            for name in (normalize_name(label),)
        }
        self.grids: list[DataTable] = []
        by_columns: dict[tuple[tuple[str, ...], ...], DataTable] = {}
        remaining_rows = MAX_ROWS
        for number, table in enumerate(tables[:MAX_TABLES], 1):
            rows = _rows(table.get("rows"), max(remaining_rows, 0))
            remaining_rows -= len(rows)
            self._add_pairs(rows, number)
            header, origin = _cells(table.get("header")), f"table:{number}"
            totals = table.get("totals", ())
            records: list[tuple[str, Sequence[str]]] = [
                (f"{origin}/{row_number}", row)
                for row_number, row in enumerate(rows, 1)
                if row_number - 1 not in totals
            ]
            if len(header) >= _PAIR and records:
                inner = _cells(table.get("inner_header", header))
                columns = tuple(map(_column_names, header, inner))
                if columns in by_columns:
                    by_columns[columns].rows.extend(records)
                else:
                    units = tuple(map(_unit_of, header))
                    by_columns[columns] = DataTable(origin, columns, records, units)
                    self.grids.append(by_columns[columns])
            elif not header and rows and all(len(row) == _PAIR for row in rows):
                self.grids.append(DataTable(origin, _PAIR_COLUMNS, records, pairs=True))

    def values(self, name: str) -> Iterator[DeclaredValues]:
        """Return the values of a field, best first.

        The title of a page is at best the name of its subject, so it comes after a value with the
        exact label.
        """
        titles: list[DeclaredValues] = []
        for source in self._page_values(name):
            if source.origin in PAGE_TITLE_SOURCES:
                titles.append(source)
            else:
                yield source
        exact = normalize_name(name)
        labelled = self._labels.get(exact) if titles else None
        yield from () if labelled is None else (labelled,)
        for source in titles:
            if self._has_text or exact.endswith("title") or source.origin != _DOCUMENT_TITLE:
                yield source
        yield from self._table_values(name)

    def labelled(self, name: str) -> Iterator[DeclaredValues]:
        """Return the values beside a label in the content that is the field's name or a synonym.

        They outweigh what the document declares of itself: a page about an Estonian book may be
        in English. Names that nearly everything has, such as "title", are not read so, nor is a
        date that the document declares as well, in machine-readable form.
        """
        days = self._days(self._page_values(name))
        for reading in name_readings(name):
            label = reading.chain[0]
            if not _is_of_page(reading) or label in COMMON_PROPERTIES:
                continue
            source = None if label in self._ambiguous else self._labels.get(label)
            if source is None and label not in READ_FROM_PRODUCTS:
                source = self._labels_in_text.get(label)
            if source is not None and days.isdisjoint(self._days([source])):
                yield source

    def pair_tables(self) -> list[tuple[str, list[tuple[str, Any]]]]:
        """Return the tables of labels and values with their origins, most rows first."""
        tables = sorted(
            (grid for grid in self.grids if grid.pairs), key=lambda grid: -len(grid.rows)
        )
        return [
            (table.origin, [(row[0].rstrip(" :"), row[1]) for _, row in table.rows])
            for table in tables
        ]

    def _days(self, sources: Iterable[DeclaredValues]) -> set[str]:
        """Return the days that values name, as ISO dates."""
        values = (value for source in sources for value in source.values)
        days = (iso_date(text, self._language) for text in values if isinstance(text, str))
        return {day for day in days if day}

    def _page_values(self, name: str) -> Iterator[DeclaredValues]:
        """Return the values of a field outside of tables, best first."""
        readings = [reading for reading in name_readings(name) if _is_of_page(reading)]
        for values_by_name in (self._metas, self._metadata):
            for reading in readings:
                yield from values_by_name.get(reading.chain[0], ())

    def _table_values(self, name: str) -> Iterator[DeclaredValues]:
        """Return the values of a field in tables and definition lists.

        A label must be the name itself or a synonym that is not as common as "name".
        """
        exact = normalize_name(name)
        for reading in name_readings(name):
            label = reading.chain[0]
            if _is_of_page(reading) and (label == exact or label not in COMMON_PROPERTIES):
                declared = self._labels.get(label)
                if declared is not None:
                    yield declared

    def _add_pairs(self, rows: Sequence[Sequence[str]], number: int) -> None:
        previous: DeclaredValues | None = None
        for row in rows:
            if len(row) != _PAIR or len(row[0]) > MAX_LABEL_LENGTH or not row[1]:
                continue
            label = row[0].strip().rstrip(":").strip()
            origin = f"table:{number}/{label}"
            if previous is not None and previous.origin == origin:
                previous.values.append(row[1])  # a term may have several definitions
                continue
            previous = DeclaredValues(origin, normalize_name(label), [row[1]], prose=True)
            for name in {normalize_name(label), normalize_name(_BRACKETS.sub(" ", label))} - {""}:
                if self._labels.setdefault(name, previous).values[0] != row[1]:
                    self._ambiguous.add(name)


def _column_names(header: str, inner: str) -> tuple[str, ...]:
    """Return the names of a column, from all its header cells and from the innermost one alone.

    What stands in brackets is a unit or a remark, so that the names count without it too.
    """
    texts = (header, _BRACKETS.sub(" ", header), inner, _BRACKETS.sub(" ", inner))
    return tuple(dict.fromkeys(filter(None, map(normalize_name, texts)))) or ("",)


def _unit_of(header: str) -> str:
    """Return what stands in brackets at the end of a column's name, if it is short."""
    match = _UNIT.search(header)
    return match[1].strip() if match is not None else ""


def _is_of_page(reading: NameReading) -> bool:
    return len(reading.chain) == 1 and (not reading.kind or reading.kind in PAGE_KINDS)


def _read_metas(structured: Mapping[str, Any]) -> dict[str, list[DeclaredValues]]:
    """Return the meta tags by their property, the best tag of each first."""
    ranked: dict[str, list[tuple[int, DeclaredValues]]] = {}
    properties: set[str] = set()
    for key, origin in (("opengraph", "opengraph"), ("meta", "meta")):
        tags = structured.get(key)
        items = tags.items() if isinstance(tags, Mapping) else ()
        for meta, content in islice(items, MAX_METAS):
            if meta in properties:
                continue
            properties.add(meta)
            name, rank = META_PROPERTIES.get(
                meta, (normalize_name(_PREFIX.sub("", meta[:100])), len(META_PROPERTIES))
            )
            values = _texts(content)
            if name and values:
                declared = DeclaredValues(f"{origin}:{meta}", name, values)
                ranked.setdefault(name, []).append((rank, declared))
    return {
        name: [declared for _, declared in sorted(pairs, key=lambda pair: pair[0])]
        for name, pairs in ranked.items()
    }


def _read_metadata(metadata: Mapping[str, Any]) -> dict[str, list[DeclaredValues]]:
    by_name: dict[str, list[DeclaredValues]] = {}
    for field, names in METADATA_PROPERTIES.items():
        values = _texts(metadata.get(field))
        for name in names if values else ():
            declared = DeclaredValues(f"metadata:{field}", name, values, prose=field == "title")
            by_name.setdefault(name, []).append(declared)
    return by_name


def _texts(value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    return [unescape(text).strip() for text in values if isinstance(text, str) and text.strip()]


def _rows(value: Any, max_rows: int) -> list[list[str]]:
    return [_cells(row) for row in value[:max_rows]] if isinstance(value, list | tuple) else []


def _cells(value: Any) -> list[str]:
    if not isinstance(value, list | tuple):
        return []
    return [" ".join(cell.split()) if isinstance(cell, str) else "" for cell in value]
