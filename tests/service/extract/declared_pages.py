"""Generated pages that declare one list, in every place where lists stand, and its rows.

The same number gives the same page. What is listed, where, and in which syntax comes from tables;
all else is drawn: the name of the field that asks for the list, gaps, positions, and what stands
beside it, such as breadcrumbs, similar products, visible text and repeated scripts. The truth is
what was put there, never what was read.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from tests.quality.truth_pages import json_ld_script, microdata, rdfa

TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "number"}
GENERIC: Final = ("items", "results", "entries", "rows", "records")
WORDS: Final = {
    "en": ("amber", "birch", "R&D", "half/half", 'six"', "Mother's"),
    "de": ("Größe", "Übung", "Straße", "fünf", "Äpfel"),
    "fr": ("l'été", "cœur", "forêt", "Noël", "déjà"),
    "es": ("año", "niño", "corazón", "¿qué?", "mañana"),
    "cs": ("žluť", "kůň", "řeka", "čtyři"),
    "ru": ("река", "лес", "город", "зима"),
    "ja": ("日本", "東京", "山", "こんにちは"),
    "ar": ("كتاب", "مدينة", "نهر"),
}
CURRENCIES: Final = ("EUR", "USD", "GBP", "CZK", "JPY", "RUB", "SAR", "PLN")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """What is listed: its type, its fields with the path of each, and names that ask for it."""

    kind: str
    fields: dict[str, tuple[str, Row]]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a list stands: the type of the page's thing, and the properties to it.

    `steps` are written ``property:Type`` for a node in between, ``property:Type*`` for several of
    them that share the entries.
    """

    owner: str
    steps: tuple[str, ...]
    listed: str
    names: tuple[str, ...] = ()


LISTED: Final = {
    each.kind: each
    for each in (
        Listed(
            "Product",
            {
                "name": ("name", TEXT),
                "sku": ("sku", TEXT),
                "color": ("color", TEXT),
                "price": ("offers:Offer/price", NUMBER),
                "currency": ("offers:Offer/priceCurrency", TEXT),
            },
            ("products",),
        ),
        Listed(
            "Movie",
            {
                "title": ("name", TEXT),
                "director": ("director:Person/name", TEXT),
                "rating": ("aggregateRating:AggregateRating/ratingValue", NUMBER),
                "url": ("url", TEXT),
            },
            ("movies", "films", "top_movies"),
        ),
        Listed(
            "Book",
            {
                "title": ("name", TEXT),
                "author": ("author:Person/name", TEXT),
                "isbn": ("isbn", TEXT),
                "pages": ("numberOfPages", NUMBER),
            },
            ("books", "book_list"),
        ),
        Listed(
            "MusicEvent",
            {
                "name": ("name", TEXT),
                "start_date": ("startDate", TEXT),
                "venue": ("location:Place/name", TEXT),
                "city": ("location:Place/address:PostalAddress/addressLocality", TEXT),
            },
            ("events", "upcoming_events"),
        ),
        Listed(
            "JobPosting",
            {
                "title": ("title", TEXT),
                "company": ("hiringOrganization:Organization/name", TEXT),
                "date_posted": ("datePosted", TEXT),
            },
            ("jobs", "vacancies", "job_listings"),
        ),
        Listed(
            "CourseInstance",
            {
                "start_date": ("startDate", TEXT),
                "course_mode": ("courseMode", TEXT),
                "instructor": ("instructor:Person/name", TEXT),
            },
            ("instances", "course_instances", "sessions"),
        ),
        Listed(
            "Offer",
            {
                "price": ("price", NUMBER),
                "currency": ("priceCurrency", TEXT),
                "seller": ("seller:Organization/name", TEXT),
            },
            ("offers",),
        ),
        Listed(
            "MenuItem",
            {
                "name": ("name", TEXT),
                "description": ("description", TEXT),
                "price": ("offers:Offer/price", NUMBER),
            },
            ("menu_items", "dishes"),
        ),
        Listed(
            "TVEpisode",
            {
                "name": ("name", TEXT),
                "episode_number": ("episodeNumber", NUMBER),
                "date_published": ("datePublished", TEXT),
            },
            ("episodes",),
        ),
        Listed(
            "MusicRecording",
            {
                "name": ("name", TEXT),
                "duration": ("duration", TEXT),
                "isrc_code": ("isrcCode", TEXT),
            },
            ("tracks", "songs", "track_list"),
        ),
        Listed(
            "Review",
            {
                "author": ("author:Person/name", TEXT),
                "rating": ("reviewRating:Rating/ratingValue", NUMBER),
                "text": ("reviewBody", TEXT),
            },
            ("reviews", "customer_reviews"),
        ),
        Listed(
            "Question",
            {"question": ("name", TEXT), "answer": ("acceptedAnswer:Answer/text", TEXT)},
            ("questions", "faq", "faqs"),
        ),
        Listed(
            "Restaurant",
            {
                "name": ("name", TEXT),
                "city": ("address:PostalAddress/addressLocality", TEXT),
                "phone": ("telephone", TEXT),
            },
            ("restaurants",),
        ),
        Listed(
            "Person",
            {"name": ("name", TEXT), "job_title": ("jobTitle", TEXT), "email": ("email", TEXT)},
            ("people", "persons"),
        ),
    )
}
STANDING_ALONE: Final = ("Product", "Movie", "Book", "MusicEvent", "JobPosting", "Restaurant")
PLACES: Final = (
    Place("ProductGroup", ("hasVariant",), "Product", ("variants",)),
    Place("Product", ("offers",), "Offer"),
    Place("Product", ("offers:AggregateOffer", "offers"), "Offer"),
    Place("Course", ("hasCourseInstance",), "CourseInstance"),
    Place("Festival", ("subEvent",), "MusicEvent", ("sub_events", "concerts")),
    Place("TVSeries", ("episode",), "TVEpisode"),
    Place("TVSeries", ("containsSeason:TVSeason*", "episode"), "TVEpisode"),
    Place("MusicAlbum", ("track",), "MusicRecording"),
    Place("MusicAlbum", ("track:ItemList", "itemListElement"), "MusicRecording"),
    Place("Product", ("review",), "Review"),
    Place("Book", ("review",), "Review"),
    Place("Menu", ("hasMenuItem",), "MenuItem", ("menu",)),
    Place("Restaurant", ("hasMenu:Menu", "hasMenuSection:MenuSection*", "hasMenuItem"), "MenuItem"),
    Place("FAQPage", ("mainEntity",), "Question"),
    Place("Organization", ("employee",), "Person", ("employees", "team")),
    Place("WebPage", ("mainEntity:ItemList", "itemListElement"), "Book"),
    Place("CollectionPage", ("hasPart",), "Movie"),
)
BY_THEMSELVES: Final = (
    *("entries", "list items", "named list items", "references", "graph", "blocks", "list"),
)
JSON_LD_ONLY: Final = ("references", "blocks", "list")
NAMELESS: Final = ("FAQPage", "WebPage", "CollectionPage", "Menu")
CONTEXT: Final = {"@context": "https://schema.org"}


@dataclass(frozen=True, slots=True)
class DeclaredPage:
    """A page with one list: its HTML, the schema that asks for it, and its rows.

    `limit` is whether the schema allows fewer rows than there are.
    """

    number: int
    html: str
    schema: Row
    name: str
    rows: list[Row]
    limit: bool
    about: tuple[str, ...] = field(default=())


class PageWriter:
    """Makes up the values of one page and writes it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.random = random.Random(f"declared {number}")
        self.language = self.random.choice(sorted(WORDS))
        self._taken = 0

    def page(self) -> DeclaredPage:
        """Write the page: the place follows from its number, so that all come equally often."""
        places = (*PLACES, *BY_THEMSELVES)
        place = places[self.number % len(places)]
        kind = place.listed if isinstance(place, Place) else self.random.choice(STANDING_ALONE)
        listed = LISTED[kind]
        syntaxes = ("json_ld", "json_ld", "microdata", "rdfa")
        syntax = "json_ld" if place in JSON_LD_ONLY else self.random.choice(syntaxes)
        fields, rows = self._rows(listed)
        nodes = [self._node(listed, row) for row in rows]
        if isinstance(place, Place):
            names = (*place.names, *listed.names, *GENERIC)
            marked = self._in_place(place, nodes, syntax)
        else:
            names = (*listed.names, *GENERIC)
            marked = self._by_itself(place, nodes, syntax)
        name = self.random.choice(names)
        schema: Row = {"type": "array", "items": {"type": "object", "properties": fields}}
        limit = self._is(0.05) and len(rows) > 1
        if limit:
            schema["maxItems"] = len(rows) - 1
        parts = [marked, *self._beside(rows)]
        self.random.shuffle(parts)
        return DeclaredPage(
            self.number,
            self._html(parts),
            {"type": "object", "properties": {name: schema}},
            name,
            rows,
            limit,
            (name, f"{place}", syntax, f"{len(rows)} rows"),
        )

    def _is(self, share: float) -> bool:
        return self.random.random() < share

    def text(self) -> str:
        """Make up a text that stands on the page once."""
        self._taken += 1
        words = WORDS[self.language]
        return f"{self.random.choice(words)} {self.random.choice(words)} {self._taken}"

    def _value(self, name: str, schema: Row) -> Any:
        self._taken += 1
        month = self.random.randrange(1, 13)
        made = {
            "currency": self.random.choice(CURRENCIES),
            "start_date": f"20{self._taken % 40 + 10}-{month:02}-17",
            "url": f"https://site.example/p/{self._taken}",
            "email": f"person{self._taken}@site.example",
            "rating": self.random.choice((1, 2.5, 3, 4.7, 5)),
            "price": self._taken * 7 + self.random.choice((0, 0, 0.5, 0.99)),
        }
        if name.startswith("date"):
            return made["start_date"]
        return made[name] if name in made else self._taken if schema is NUMBER else self.text()

    def _rows(self, listed: Listed) -> tuple[Row, list[Row]]:
        """Make up rows of some of the fields, with gaps except in the first field."""
        names = list(listed.fields)
        if len(names) > 3 and self._is(0.4):
            names.remove(self.random.choice(names[1:]))
        fields = {name: listed.fields[name][1] for name in names}
        count = self.random.choice(
            (1, 2, self.random.randrange(3, 41), self.random.randrange(3, 41))
        )
        rows = [{name: self._value(name, fields[name]) for name in names} for _ in range(count)]
        if count > 3 and self._is(0.3):
            for row in rows[1:]:
                for name in names[1:]:
                    row[name] = None if self._is(0.1) else row[name]
        return fields, rows

    def _node(self, listed: Listed, row: Row) -> Row:
        """Write a row as a node: each value at the end of its path."""
        node: Row = {"@type": listed.kind}
        for name, value in row.items():
            if value is None:
                continue
            *steps, last = listed.fields[name][0].split("/")
            inner = node
            for step in steps:
                label, _, kind = step.partition(":")
                inner = inner.setdefault(label, {"@type": kind})
            inner[last] = str(value) if last == "price" and self._is(0.5) else value
        return node

    def _in_place(self, place: Place, nodes: list[Row], syntax: str) -> str:
        """Write a thing that holds the nodes at a place."""
        owner: Row = {"@type": place.owner}
        if place.owner not in NAMELESS:
            owner["name"] = self.text()
        *steps, last = place.steps
        holders = [owner]
        for step in steps:
            holders = self._between(holders, step, len(nodes))
        references = syntax == "json_ld" and self._is(0.3)
        graph = [{"@id": f"#{at}", **node} for at, node in enumerate(nodes)] if references else []
        values = [{"@id": node["@id"]} for node in graph] or nodes
        for holder, share in zip(holders, self._shares(values, len(holders)), strict=True):
            holder[last] = share[0] if len(share) == 1 and self._is(0.5) else share
        if place.owner == "Product" and syntax == "json_ld" and self._is(0.4):
            relation = self.random.choice(("isRelatedTo", "isSimilarTo"))
            owner[relation] = [self._other() for _ in range(3)]
        return self._written([owner, *graph], syntax)

    def _between(self, holders: list[Row], step: str, most: int) -> list[Row]:
        """Put nodes between the thing and its entries, and return them."""
        label, _, kind = step.partition(":")
        several = kind.endswith("*")
        count = min(self.random.randrange(1, 5), most) if several else 1
        made = []
        for holder in holders:
            inner: list[Row] = [{"@type": kind.removesuffix("*")} for _ in range(count)]
            for each in inner if several else ():
                each["name"] = self.text()
            holder[label] = inner if count > 1 else inner[0]
            made += inner
        return made

    def _shares(self, nodes: list[Row], count: int) -> list[list[Row]]:
        """Divide entries among holders, each with at least one, in their order."""
        cuts = sorted(self.random.sample(range(1, len(nodes)), count - 1))
        return [nodes[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]

    def _by_itself(self, place: str, nodes: list[Row], syntax: str) -> str:
        """Write an item list, or things that stand by themselves."""
        if place == "graph":
            return self._written(nodes, syntax)
        if place == "blocks":
            return "\n".join(json_ld_script({**CONTEXT, **node}) for node in nodes)
        if place == "list":
            return self._twice(json_ld_script([{**CONTEXT, **node} for node in nodes]))
        named = {"name": self.text()} if self._is(0.3) else {}
        whole: Row = {"@type": "ItemList", **named, "itemListElement": nodes}
        graph: list[Row] = []
        if place != "entries":
            items: list[Row] = [
                {"@type": "ListItem", "position": at, "item": node}
                for at, node in enumerate(nodes, 1)
            ]
            whole["itemListElement"] = items
            for at, item in enumerate(items):
                if place == "named list items":
                    item["name"] = item["item"].get("name", item["item"].get("title"))
                elif place == "references":
                    url = f"https://site.example/#{at}"
                    graph.append({"@id": url, **item["item"]})
                    item["item"] = self.random.choice(({"@id": url}, url))
            if syntax == "json_ld":
                whole["itemListElement"] = self._shuffled(items)
            self.random.shuffle(graph)
        if graph:
            return json_ld_script({**CONTEXT, "@graph": [whole, *graph]})
        return self._written([whole], syntax)

    def _shuffled(self, items: list[Row]) -> list[Row]:
        """Sometimes leave the order of list items to their positions; a countdown says its own."""
        if self._is(0.3):
            items = self.random.sample(items, len(items))
            if [item["position"] for item in items] == list(range(len(items), 0, -1)):
                items.reverse()
            for item in items:
                item["position"] = self.random.choice((str, int))(item["position"])
        return items

    def _written(self, nodes: list[Row], syntax: str) -> str:
        if syntax == "microdata":
            return "".join(map(microdata, nodes))
        if syntax == "rdfa":
            return f'<div vocab="https://schema.org/">{"".join(map(rdfa, nodes))}</div>'
        data = {**CONTEXT, **nodes[0]} if len(nodes) == 1 else {**CONTEXT, "@graph": nodes}
        return self._twice(json_ld_script(data))

    def _twice(self, script: str) -> str:
        return f"{script}\n{script}" if self._is(0.1) else script

    def _other(self) -> Row:
        listed = LISTED["Product"]
        row = {name: self._value(name, listed.fields[name][1]) for name in ("name", "price")}
        return self._node(listed, row)

    def _beside(self, rows: list[Row]) -> list[str]:
        """Write what is no row, and some rows as people see them."""
        crumbs = [
            {
                "@type": "ListItem",
                "position": at,
                "name": self.text(),
                "item": f"https://a.example/{at}",
            }
            for at in range(1, 4)
        ]
        site = {"@type": "Organization", "name": self.text(), "url": "https://site.example/"}
        title = self.random.choice(("Related products", "Ähnliche Artikel", "Vous aimerez aussi"))
        others = [self._other() for _ in range(self.random.randrange(1, 9))]
        lines = (
            "".join(f"<span>{escape(str(value))}</span>" for value in row.values())
            for row in rows[: self.random.randrange(len(rows) + 1)]
        )
        parts = (
            json_ld_script({"@type": "BreadcrumbList", "itemListElement": crumbs}),
            json_ld_script(site),
            json_ld_script({"@type": "ItemList", "name": title, "itemListElement": others}),
            f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>",
            f"<nav><ul><li><a href=/a>{escape(self.text())}</a></ul></nav><!-- list -->",
            f"<div class='ad'><p>{escape(self.text())}<b>{escape(self.text())}</p></div>",
        )
        return [part for part in parts if self._is(0.4)]

    def _html(self, parts: list[str]) -> str:
        body = "\n".join(parts)
        return (
            f"<!doctype html><html lang={self.language}><head><meta charset=utf-8>"
            f"<title>{escape(self.text())}</title></head><body><h1>{escape(self.text())}</h1>{body}"
        )


def declared_page(number: int) -> DeclaredPage:
    """Write the page of a number."""
    return PageWriter(number).page()
