"""Fills a schema from the structured data of a page, without a language model.

The sources in order of precedence: the node of JSON-LD, microdata or RDFa that the schema
describes; other nodes of the same thing; a label in the content, in a table, a definition list or
before a colon; the node of the page; meta tags; metadata; other tables; and what the page of a
product shows: its price, buttons and labels. Values are never derived: a field without a source is
null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from webdata_nb.page.extract.coerce import ValueCoercion
from webdata_nb.page.extract.declared import DeclaredFields
from webdata_nb.page.extract.field_filling import SchemaFiller, Subject, asks_for_visible_values
from webdata_nb.page.extract.node_graph import NodeGraph, find_root
from webdata_nb.page.extract.schema import FieldSchema, read_schema
from webdata_nb.page.extract.visible.labels import LABELS
from webdata_nb.page.extract.visible.values import NOTHING_VISIBLE, VISIBLE, VisibleValues

STRUCTURED_DATA: Final = "structured_data"
# Not a public format; only extraction uses it.
TABLES: Final = "tables"
SOURCES: Final = (STRUCTURED_DATA, TABLES, LABELS, VISIBLE)
"""The formats of a page that `extract_structured` reads."""
EXTRACTION: Final = "extraction"
"""The name of the extraction among a page's formats; not a public format."""
MAX_ERROR_CHARS: Final = 500
_Pointer = Annotated[str, Meta(pattern="^/")]


class Extraction(Struct, frozen=True):
    """The data extracted from a page; also the message of a page worker.

    Attributes
    ----------
    data
        Every property of the schema, in its order; None if the page has no value.
    provenance
        The source of each value, by JSON pointer:
        ``"json_ld:Product/offers/price"``, ``"opengraph:og:title"``, ``"table:2/Weight"``.
    missing
        JSON pointers of the fields without a value, required or not.
    conflicts
        By JSON pointer, the declared values that the page contradicts, so that the value it shows
        was used.
    notes
        Remarks on the page's data for the user.
    error
        Why the page's data could not be read; empty if it was.
    """

    data: dict[str, Any]
    provenance: dict[_Pointer, str]
    missing: tuple[_Pointer, ...]
    conflicts: dict[str, list[Any]] = {}
    notes: tuple[str, ...] = ()
    error: Annotated[str, Meta(max_length=MAX_ERROR_CHARS)] = ""


def source_formats(schema: str) -> tuple[str, ...]:
    """Return the formats of a page that the extraction of a schema reads."""
    needs_visible = asks_for_visible_values(_cached_schema(schema))
    return tuple(name for name in SOURCES if needs_visible or name != VISIBLE)


def extract_from_formats(
    formats: Mapping[str, Any],
    metadata: Mapping[str, Any],
    schema: str,
    *,
    has_text: bool = True,
) -> dict[str, Any]:
    """Extract from the `source_formats` of a page; the result is an `Extraction` as JSON values.

    Errors become part of the result: a failed extraction must not fail the page.
    """
    try:
        extraction = extract_structured(
            formats[STRUCTURED_DATA] or {},
            schema=_cached_schema(schema),
            tables=formats[TABLES] or (),
            metadata=metadata,
            labels=formats.get(LABELS),
            visible=formats.get(VISIBLE, NOTHING_VISIBLE),
            has_text=has_text,
        )
    except MemoryError:
        message = "the page declares more than fits into the memory of a page worker"
        extraction = Extraction({}, {}, (), error=message)
    except Exception as error:  # noqa: BLE001 - any error is the failure of this extraction
        message = f"the declared data could not be read ({type(error).__name__})"
        extraction = Extraction({}, {}, (), error=message)
    values: dict[str, Any] = msgspec.to_builtins(extraction)
    return values


@lru_cache(maxsize=8)
def _cached_schema(schema: str) -> FieldSchema:
    return read_schema(json.loads(schema))  # noqa: TID251 - written by the extractor


def extract_structured(
    structured: Mapping[str, Any],
    *,
    schema: Mapping[str, Any] | FieldSchema | None,
    tables: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[str, Any] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    visible: VisibleValues = NOTHING_VISIBLE,
    has_text: bool = True,
) -> Extraction:
    """Fill a schema from the structured data of a page. Pure.

    Parameters
    ----------
    structured
        The `structured_data` format of the page.
    schema
        A JSON Schema of an object, or the result of ``read_schema``.
    tables
        Tables of the page, each ``{"header": [cell, ...], "rows": [[cell, ...], ...]}``; the
        header may be empty, and a definition list is a table of two columns.
    metadata
        The page's `metadata`; `final_url` is the base of relative URLs if the schema's format
        requires absolute ones, and `language` decides on decimal commas in tables.
    labels
        The values behind labels in the text of the page, by the label.
    visible
        The values that the page shows to people.
    has_text
        Whether the page has text; the title of a page without text is not the name of anything.

    Raises
    ------
    BadInput
        The schema is missing or not supported.

    Examples
    --------
    >>> offer = {"@type": "Offer", "price": "1.129,90", "priceCurrency": "EUR"}
    >>> page = {"json_ld": [{"@type": "Product", "name": "Pegasus", "offers": offer}]}
    >>> fields = {"product_name": {"type": "string"}, "price": {"type": "number"}}
    >>> extraction = extract_structured(page, schema={"type": "object", "properties": fields})
    >>> extraction.data
    {'product_name': 'Pegasus', 'price': 1129.9}
    >>> extraction.provenance["/price"]
    'json_ld:Product/offers/price'
    """
    field_schema = schema if isinstance(schema, FieldSchema) else read_schema(schema)
    metadata = metadata or {}
    graph = NodeGraph(structured)
    root = find_root(graph, field_schema, _text(metadata, "title") or "")
    coercion = ValueCoercion(
        base_url=_text(metadata, "final_url"),
        language=_text(metadata, "language"),
        currencies=visible.currencies,
    )
    declared = DeclaredFields(structured, metadata, tables, labels or {}, has_text=has_text)
    filler = SchemaFiller(graph, declared, coercion, root, visible)
    origin = root.label if root is not None else ""
    page_object = filler.object(field_schema, Subject(root, origin, page=True), "")
    empty = dict.fromkeys(field_schema.properties)
    return Extraction(
        page_object.value or empty,
        page_object.provenance,
        page_object.missing,
        filler.conflicts,
        (*_notes(structured), *dict.fromkeys(filler.notes)),
    )


def _notes(structured: Mapping[str, Any]) -> tuple[str, ...]:
    repaired = structured.get("json_ld_repaired")
    if not isinstance(repaired, int) or repaired < 1:
        return ()
    blocks = "1 block" if repaired == 1 else f"{repaired} blocks"
    return (f"{blocks} of JSON-LD on the page had syntax errors and was read after a repair",)


def _text(metadata: Mapping[str, Any], name: str) -> str | None:
    value = metadata.get(name)
    return value if isinstance(value, str) else None
