"""Generated pages whose data is known: each block of a page brings its fields and their values.

The same number gives the same page. Blocks vary in markup, order, duplicates, spanning cells and
what stands beside them; the truth is what was put there, never what was read.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "number"}
_WORDS: Final = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "hazel", "iris", "jade"),
    *("Zoë", "R&D", "l'été", "<new>", 'six"', "Ωmega", "half/half", "a:b", "日本"),
)
_OFTEN: Final = 0.5
_SOMETIMES: Final = 0.3
_SELDOM: Final = 0.1
_COLUMNS: Final = {
    "price": NUMBER,
    "weight": NUMBER,
    "shelf": TEXT,
    "year": NUMBER,
    "color": TEXT,
    "code": TEXT,
    "capacity": NUMBER,
    "owner": TEXT,
}
_NEUTRAL: Final = ("items", "rows", "entries", "results", "records")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a page: its markup, and the fields that it gives with their truth."""

    html: str
    fields: Row
    truth: Row


@dataclass(frozen=True, slots=True)
class TruthPage:
    """A page, a schema for it, and the value of each of the schema's fields."""

    number: int
    html: str
    schema: Row
    truth: Row
    blocks: tuple[str, ...] = field(default=())


class Writer:
    """Makes up the values of one page and writes its blocks."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.taken = 0

    def text(self) -> str:
        """Make up a text that stands on the page once."""
        self.taken += 1
        return f"{self.random.choice(_WORDS)} {self.random.choice(_WORDS)} {self.taken}"

    def value(self, schema: Row) -> Any:
        """Make up a value of a type."""
        if schema["type"] == "number":
            return self.random.choice((self.random.randrange(1, 10_000), self._decimal()))
        return self.text()

    def is_(self, share: float) -> bool:
        """Decide something that is so in a share of cases."""
        return self.random.random() < share

    def rows(self, fields: Row, *, most: int = 100, gaps: bool = False) -> list[Row]:
        """Make up rows in no order, some of them twice; `gaps` leaves some without a value."""
        count = self.random.randrange(3, 25)
        if self.is_(_SELDOM):
            count = most
        rows = [{name: self.value(schema) for name, schema in fields.items()} for _ in range(count)]
        if gaps and self.is_(_SOMETIMES):
            for name in list(fields)[1:]:
                for row in rows:
                    row[name] = None if self.is_(_SELDOM) else row[name]
        if self.is_(_SOMETIMES):
            rows.insert(self.random.randrange(count), dict(self.random.choice(rows)))
        self.random.shuffle(rows)
        return rows

    def _decimal(self) -> float:
        return self.random.randrange(1, 100_000) / 100

    # tables and definition lists

    def table(self) -> Block:
        """A table with a header; a cell may span rows, and a column nobody asked for may stand."""
        columns = ["name", *self.random.sample(sorted(_COLUMNS), self.random.randrange(1, 4))]
        fields = {name: _COLUMNS.get(name, TEXT) for name in columns}
        rows = self.rows(fields, gaps=True)
        order = [*columns, *(["Remark"] * self.random.randrange(2))]
        self.random.shuffle(order)
        spans = self._spans(rows, self.random.choice(columns))
        head = "".join(f"<th>{each.title()}</th>" for each in order)
        head = f"<tr>{head}</tr>"
        head = f"<thead>{head}</thead>" if self.is_(_OFTEN) else head
        body = [self._row(row, order, spans.get(at, {})) for at, row in enumerate(rows)]
        caption = "<caption>All of them</caption>" if self.is_(_OFTEN) else ""
        name = self.random.choice(_NEUTRAL)
        return Block(
            f"<table>{caption}{head}{''.join(body)}</table>",
            {name: _list_of(fields)},
            {name: rows},
        )

    def _spans(self, rows: list[Row], column: str) -> dict[int, dict[str, int]]:
        """Let a cell of one column span rows: those then share its value. 0 is a covered cell."""
        spans: dict[int, dict[str, int]] = {}
        at = 0
        while self.is_(_SOMETIMES) and at + 1 < len(rows):
            at += self.random.randrange(3)
            length = self.random.randrange(2, 4)
            if at + length > len(rows):
                break
            spans[at] = {column: length}
            for below in range(at + 1, at + length):
                spans[below] = {column: 0}
                rows[below][column] = rows[at][column]
            at += length
        return spans

    def _row(self, row: Row, order: list[str], spans: dict[str, int]) -> str:
        cells = []
        for name in order:
            span = spans.get(name, 1)
            text = _written(row.get(name, "-"))
            if span:
                cells.append(
                    f'<td rowspan="{span}">{text}</td>' if span > 1 else f"<td>{text}</td>"
                )
        return f"<tr>{''.join(cells)}</tr>"

    def labels(self) -> Block:
        """A definition list, or a table without a header, of single values."""
        names = self.random.sample(("voltage", "warranty", "battery life", "screen size"), 3)
        truth = {each.replace(" ", "_"): self.text() for each in names}
        pairs = [(name.title(), truth[name.replace(" ", "_")]) for name in names]
        return Block(self._listed(pairs), dict.fromkeys(truth, TEXT), truth)

    def terms(self) -> Block:
        """A definition list in which a term has several definitions."""
        name = self.random.choice(("features", "materials", "awards"))
        values = [each["x"] for each in self.rows({"x": TEXT}, most=40)]
        html = f"<dl><dt>Maker</dt><dd>{self.text()}</dd><dt>{name.title()}</dt>"
        html += "".join(f"<dd>{escape(each)}</dd>" for each in values) + "</dl>"
        return Block(html, {name: {"type": "array", "items": TEXT}}, {name: values})

    def pairs(self) -> Block:
        """A definition list, or a table without a header, read as names with values."""
        called = self.random.choice(("name", "label", "key"))
        rows = self.rows({called: TEXT, "value": TEXT})
        listed = [(row[called], row["value"]) for row in rows]
        name = self.random.choice(("specs", "attributes", "specifications"))
        # A term that follows itself has several definitions, so its rows are one element.
        fields = {called: TEXT, "value": TEXT}
        return Block(self._listed(listed), {name: _list_of(fields)}, {name: rows})

    def _listed(self, pairs: list[tuple[str, str]]) -> str:
        texts = [(escape(name), escape(value)) for name, value in pairs]
        form = self.random.randrange(3)
        if form == 0:
            return f"<dl>{''.join(f'<dt>{n}</dt><dd>{v}</dd>' for n, v in texts)}</dl>"
        if form == 1:
            inner = (f"<div><dt>{n}</dt><dd>{v}</dd></div>" for n, v in texts)
            return f"<dl>{''.join(inner)}</dl>"
        return f"<table>{''.join(f'<tr><td>{n}</td><td>{v}</td></tr>' for n, v in texts)}</table>"

    # JSON-LD, microdata and RDFa

    def products(self) -> Block:
        """Products with offers, as a list, a graph, or blocks of their own."""
        rows = self.rows({"name": TEXT, "price": NUMBER, "sku": TEXT}, gaps=True)
        nodes = [
            {"name": r["name"], "sku": r["sku"], "offers": {"@type": "Offer", "price": r["price"]}}
            for r in rows
        ]
        name = self.random.choice(("products", "items"))
        fields = {"name": TEXT, "price": NUMBER, "sku": TEXT}
        html = self._markup("Product", nodes)
        return Block(html, {name: _list_of(fields)}, {name: rows})

    def events(self) -> Block:
        """Events with places, in any syntax."""
        fields = {"name": TEXT, "start_date": TEXT, "city": TEXT}
        rows = self.rows(fields, gaps=True)
        for row in rows:
            row["start_date"] = (
                f"20{self.random.randrange(10, 40)}-0{self.random.randrange(1, 9)}-17"
            )
        nodes = [
            {
                "name": row["name"],
                "startDate": row["start_date"],
                "location": {
                    "@type": "Place",
                    "address": {"@type": "PostalAddress", "addressLocality": row["city"]},
                },
            }
            for row in rows
        ]
        return Block(self._markup("Event", nodes), {"events": _list_of(fields)}, {"events": rows})

    def reviews(self) -> Block:
        """One thing with reviews."""
        fields = {"author": TEXT, "rating": NUMBER, "text": TEXT}
        rows = [
            row | {"rating": self.random.randrange(1, 6)} for row in self.rows(fields, gaps=True)
        ]
        nodes = [
            {
                "@type": "Review",
                "author": {"@type": "Person", "name": row["author"]},
                "reviewRating": {"@type": "Rating", "ratingValue": row["rating"]},
                "reviewBody": row["text"],
            }
            for row in rows
        ]
        book = {"name": self.text(), "review": nodes}
        return Block(self._markup("Book", [book]), {"reviews": _list_of(fields)}, {"reviews": rows})

    def recipe(self) -> Block:
        """A recipe: texts in a list, and steps."""
        ingredients = [each["x"] for each in self.rows({"x": TEXT})]
        steps = self.rows({"text": TEXT})
        node = {
            "name": self.text(),
            "recipeIngredient": ingredients,
            "recipeInstructions": [{"@type": "HowToStep", **row} for row in steps],
        }
        fields = {
            "ingredients": {"type": "array", "items": TEXT},
            "instructions": _list_of({"text": TEXT}),
        }
        truth = {"ingredients": ingredients, "instructions": steps}
        return Block(self._markup("Recipe", [node]), fields, truth)

    def named_texts(self) -> Block:
        """Texts that stand in the place of things with names."""
        names = [each["x"] for each in self.rows({"x": TEXT})]
        node = {"name": self.text(), "actor": names}
        fields = {"actors": _list_of({"name": TEXT})}
        truth = {"actors": [{"name": each} for each in names]}
        return Block(self._markup("Movie", [node]), fields, truth)

    def unrelated(self) -> Block:
        """A thing that has a name, asked for what it does not have."""
        kind = self.random.choice(("MusicAlbum", "Dataset", "Trip"))
        html = self._markup(kind, [{"name": self.text(), "version": self.text()}])
        name = self.random.choice(("specs", "details", "information"))
        field = self.random.choice(("value", "population", "chapter"))
        return Block(html, {name: _list_of({"name": TEXT, field: TEXT})}, {name: None})

    def unrelated_table(self) -> Block:
        """A table of something else with a column of names."""
        rows = "".join(f"<tr><td>{self.text()}</td><td>{self.text()}</td></tr>" for _ in range(4))
        html = f"<table><tr><th>Name</th><th>Phase</th></tr>{rows}</table>"
        name = self.random.choice(_NEUTRAL)
        return Block(html, {name: _list_of({"name": TEXT, "mileage": TEXT})}, {name: None})

    def _markup(self, kind: str, nodes: list[Row]) -> str:
        form = self.random.choice((self._json_ld, self._microdata, self._rdfa))
        return form(kind, nodes)

    def _json_ld(self, kind: str, nodes: list[Row]) -> str:
        typed = [{"@type": kind, **node} for node in nodes]
        form = self.random.randrange(4 if len(nodes) > 1 else 2)
        context = {"@context": "https://schema.org"}
        if form == 0:
            return "".join(map(json_ld_script, ({**context, **node} for node in typed)))
        if form == 1:
            return json_ld_script({**context, "@graph": typed})
        if form == 2:
            return json_ld_script(typed)
        elements = [
            {"@type": "ListItem", "position": at, "item": node} for at, node in enumerate(typed, 1)
        ]
        return json_ld_script({**context, "@type": "ItemList", "itemListElement": elements})

    def _microdata(self, kind: str, nodes: list[Row]) -> str:
        return "".join(microdata({"@type": kind, **node}) for node in nodes)

    def _rdfa(self, kind: str, nodes: list[Row]) -> str:
        inner = "".join(rdfa({"@type": kind, **node}) for node in nodes)
        return f'<div vocab="https://schema.org/">{inner}</div>'


_BESIDE: Final = (
    {"@type": "Organization", "name": "The Makers", "url": "https://makers.example/"},
    {"@type": "WebSite", "name": "The Site", "url": "https://site.example/"},
    {
        "@type": "BreadcrumbList",
        "itemListElement": [
            {"@type": "ListItem", "position": 1, "name": "Home", "item": "https://site.example/"},
            {"@type": "ListItem", "position": 2, "name": "All", "item": "https://site.example/a"},
        ],
    },
)
Build = Callable[[Writer], Block]
# One of each group at most stands on a page: what a page says twice has no one truth.
_GROUPS: Final[tuple[tuple[Build, ...], ...]] = (
    (Writer.table, Writer.unrelated_table, Writer.products),
    (Writer.labels, Writer.terms, Writer.pairs, Writer.unrelated),
    (Writer.events, Writer.reviews, Writer.recipe, Writer.named_texts),
)


def truth_page(number: int) -> TruthPage:
    """Write the page of a number."""
    writer = Writer(number)
    groups = writer.random.sample(_GROUPS, writer.random.randrange(1, len(_GROUPS) + 1))
    builds = [writer.random.choice(group) for group in groups]
    blocks = [build(writer) for build in builds]
    beside = writer.random.sample(_BESIDE, writer.random.randrange(len(_BESIDE)))
    parts = [block.html for block in blocks] + [json_ld_script(each) for each in beside]
    writer.random.shuffle(parts)
    fields = {name: schema for block in blocks for name, schema in block.fields.items()}
    truth = {name: value for block in blocks for name, value in block.truth.items()}
    body = "\n".join(parts)
    return TruthPage(
        number,
        f"<!doctype html><html lang=en><title>Page {number}</title><body><h1>List</h1>{body}",
        {"type": "object", "properties": fields},
        truth,
        tuple(build.__name__ for build in builds),
    )


def _list_of(fields: Row) -> Row:
    return {"type": "array", "items": {"type": "object", "properties": fields}}


def _written(value: Any) -> str:
    return "" if value is None else escape(str(value))


def json_ld_script(data: Any) -> str:
    """Write data as a script."""
    text = json.dumps(data).replace("<", "\\u003c")
    return f'<script type="application/ld+json">{text}</script>'


def microdata(node: Row, prop: str = "") -> str:
    """Write a node as microdata."""
    inner = "".join(
        microdata(each, name)
        if isinstance(each, dict)
        else f'<span itemprop="{name}">{_written(each)}</span>'
        for name, value in node.items()
        if name != "@type" and value is not None
        for each in (value if isinstance(value, list) else [value])
    )
    named = f' itemprop="{prop}"' if prop else ""
    return f'<div itemscope itemtype="https://schema.org/{node["@type"]}"{named}>{inner}</div>'


def rdfa(node: Row, prop: str = "") -> str:
    """Write a node as RDFa."""
    inner = "".join(
        rdfa(each, name)
        if isinstance(each, dict)
        else f'<span property="{name}">{_written(each)}</span>'
        for name, value in node.items()
        if name != "@type" and value is not None
        for each in (value if isinstance(value, list) else [value])
    )
    named = f' property="{prop}"' if prop else ""
    return f'<div typeof="{node["@type"]}"{named}>{inner}</div>'
