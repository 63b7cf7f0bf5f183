"""Reads the declarations of a page outside of nodes: meta tags, metadata, tables and lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import islice
from typing import Any, Final

from webdata_nb.service.extract.field_names import NameReading, name_readings, normalize_name
from webdata_nb.service.extract.vocabulary import COMMON, METADATA, METAS, PAGE_KINDS

MAX_METAS: Final = 5000
MAX_TABLES: Final = 1000
MAX_ROWS: Final = 20_000
MAX_LABEL_LENGTH: Final = 80
_PREFIX: Final = re.compile(
    r"(?:og|article|product|book|music|video|profile|twitter|dc|dcterms|citation|parsely|recipe"
    r"|business:contact_data|place:location)[:.]"
)
_BRACKETS: Final = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_PAIR: Final = 2
_LABELLED: Final = (
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

    Attributes
    ----------
    origin
        Its source, for the provenance.
    columns
        The names of each column; the first one is used in the provenance.
    rows
        The texts of the cells.
    pairs
        Whether it has no header and its rows are pairs of a label and a value.
    """

    origin: str
    columns: tuple[tuple[str, ...], ...]
    rows: Sequence[Sequence[str]]
    pairs: bool = False


class DeclaredFields:
    """The declarations of a page outside of nodes, by name."""

    def __init__(
        self,
        structured: Mapping[str, Any],
        metadata: Mapping[str, Any],
        tables: Sequence[Mapping[str, Any]],
    ) -> None:
        self._metas = _by_rank(structured)
        self._metadata = _of_metadata(metadata)
        self._labels: dict[str, DeclaredValues] = {}
        self.grids: list[DataTable] = []
        left = MAX_ROWS
        for number, table in enumerate(tables[:MAX_TABLES], 1):
            rows = _rows(table.get("rows"), max(left, 0))
            left -= len(rows)
            self._label(rows, number)
            columns = tuple((normalize_name(each),) for each in _cells(table.get("header")))
            if len(columns) >= _PAIR and rows:
                self.grids.append(DataTable(f"table:{number}", columns, rows))
            elif not columns and rows and all(len(row) == _PAIR for row in rows):
                self.grids.append(DataTable(f"table:{number}", _LABELLED, rows, pairs=True))

    def about(self, name: str) -> Iterator[DeclaredValues]:
        """Return the values of a field outside of tables, best first."""
        ways = [each for each in name_readings(name) if _of_page(each)]
        for found in (self._metas, self._metadata):
            for reading in ways:
                yield from found.get(reading.chain[0], ())

    def labelled(self, name: str) -> Iterator[DeclaredValues]:
        """Return the values of a field in tables and definition lists.

        A label must be the name itself or a synonym that is not as common as "name".
        """
        exact = normalize_name(name)
        for reading in name_readings(name):
            near = reading.chain[0]
            if _of_page(reading) and (near == exact or near not in COMMON):
                stated = self._labels.get(near)
                if stated is not None:
                    yield stated

    def _label(self, rows: Sequence[Sequence[str]], number: int) -> None:
        before: DeclaredValues | None = None
        for row in rows:
            if len(row) != _PAIR or len(row[0]) > MAX_LABEL_LENGTH or not row[1]:
                continue
            label = row[0].strip().rstrip(":").strip()
            origin = f"table:{number}/{label}"
            if before is not None and before.origin == origin:
                before.values.append(row[1])  # a term may have several definitions
                continue
            before = stated = DeclaredValues(origin, normalize_name(label), [row[1]], prose=True)
            for name in {normalize_name(label), normalize_name(_BRACKETS.sub(" ", label))} - {""}:
                self._labels.setdefault(name, stated)


def _of_page(reading: NameReading) -> bool:
    return len(reading.chain) == 1 and (not reading.kind or reading.kind in PAGE_KINDS)


def _by_rank(structured: Mapping[str, Any]) -> dict[str, list[DeclaredValues]]:
    """Return the meta tags by their property, the best tag of each first."""
    ranked: dict[str, list[tuple[int, DeclaredValues]]] = {}
    seen: set[str] = set()
    for key, origin in (("opengraph", "opengraph"), ("meta", "meta")):
        given = structured.get(key)
        items = given.items() if isinstance(given, Mapping) else ()
        for meta, content in islice(items, MAX_METAS):
            if meta in seen:
                continue
            seen.add(meta)
            name, rank = METAS.get(meta, (normalize_name(_PREFIX.sub("", meta[:100])), len(METAS)))
            values = _texts(content)
            if name and values:
                stated = DeclaredValues(f"{origin}:{meta}", name, values)
                ranked.setdefault(name, []).append((rank, stated))
    return {
        name: [each for _, each in sorted(found, key=lambda pair: pair[0])]
        for name, found in ranked.items()
    }


def _of_metadata(metadata: Mapping[str, Any]) -> dict[str, list[DeclaredValues]]:
    found: dict[str, list[DeclaredValues]] = {}
    for field, names in METADATA.items():
        values = _texts(metadata.get(field))
        for name in names if values else ():
            stated = DeclaredValues(f"metadata:{field}", name, values, prose=field == "title")
            found.setdefault(name, []).append(stated)
    return found


def _texts(given: Any) -> list[Any]:
    values = given if isinstance(given, list) else [given]
    return [unescape(each).strip() for each in values if isinstance(each, str) and each.strip()]


def _rows(given: Any, most: int) -> list[list[str]]:
    return [_cells(row) for row in given[:most]] if isinstance(given, list | tuple) else []


def _cells(given: Any) -> list[str]:
    if not isinstance(given, list | tuple):
        return []
    return [" ".join(each.split()) if isinstance(each, str) else "" for each in given]
