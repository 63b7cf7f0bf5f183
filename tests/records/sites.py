"""Generates sites with records: 20 layouts, 400 seeds, six languages, and their truth.

`site(seed)` returns the pages of a site and the records that a person would read from them. Even
seeds are for development, odd seeds are held out: they have other class words, and other choices
of everything else. The program writes markup and truth in one step, from the same values, so that
no reader of pages takes part in the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from html import escape
from typing import Final

from tests.records.markup import Markup, pairs, tag
from tests.records.values import Group, Record, Value, group

SEEDS: Final = range(400)


@dataclass(frozen=True, slots=True)
class Site:
    """The pages of a site by URL, and its groups of records; the first one is the main one.

    `by` is "page" where each page is one record. `labels` are the names that the pages themselves
    give to fields: header cells, terms of definition lists, first columns.
    """

    seed: int
    layout: str
    language: str
    pages: dict[str, bytes]
    groups: list[Group]
    by: str = "record"
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def main(self) -> Group:
        """The group with the most distinct text."""
        return self.groups[0]


@dataclass(slots=True)
class _Draft:
    """A site while its pages are written."""

    look: Markup
    pages: dict[str, bytes] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    related: list[Record] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)

    def record(self, url: str) -> Record:
        """Add a record of a page."""
        self.records.append(Record(url))
        return self.records[-1]


LISTED: Final = (
    "products",
    "books",
    "homes",
    "cars",
    "recipes",
    "news",
    "papers",
    "people",
    "jobs",
)
TABULAR: Final = ("packages", "teams", "cities", "books", "papers", "cars")


def _url(look: Markup, path: str = "") -> str:
    return (
        f"{look.host}/{path or look.pick('listing', ('list/', 'catalog/all', 'c/12/index.html'))}"
    )


def _title(look: Markup) -> str:
    return look.word("topics").capitalize()


def _item_tags(look: Markup) -> tuple[str, str]:
    return look.pick(
        "item-tags",
        (("ul", "li"), ("div", "div"), ("div", "article"), ("section", "div"), ("ol", "li")),
    )


def _open_item(look: Markup, number: int) -> str:
    """Return the attributes of an item: class, modifiers, identifiers."""
    modifiers = []
    if look.chance("odd-even", 0.2):
        modifiers.append(("even", "odd")[number % 2])
    if number == 0 and look.chance("first", 0.2):
        modifiers.append("first")
    attributes = look.css("item", *modifiers)
    if look.chance("data-id", 0.3):
        attributes += pairs(data_id=str(look.new_id()))
    if look.chance("item-id", 0.2):
        attributes += pairs(id=f"item-{look.new_id()}")
    if look.microdata:
        attributes += ' itemscope itemtype="https://schema.org/Thing"'
    return attributes


def _cards(draft: _Draft, url: str, count: int, *, domain: str, gaps: float = 0.0) -> list[str]:
    """Return the elements of `count` cards, and add their records."""
    look = draft.look
    items = []
    for number in range(count):
        record = draft.record(url)
        inner = look.card(record, look.fields(domain, gaps))
        items.append(tag(_item_tags(look)[1], _open_item(look, number), inner))
    return items


def _list_of(look: Markup, items: list[str]) -> str:
    return tag(_item_tags(look)[0], look.css("list"), look.lines(items))


def _one_page(draft: _Draft, main: str, url: str) -> None:
    draft.pages[url] = draft.look.page(_title(draft.look), main, url=url)


def cards(draft: _Draft) -> None:
    """Cards in one container."""
    look, url = draft.look, _url(draft.look)
    items = _cards(draft, url, look.rng.randint(8, 24), domain=look.rng.choice(LISTED))
    _one_page(draft, _list_of(look, items), url)


def card_grid(draft: _Draft) -> None:
    """Cards in rows of a grid; the last row may have fewer."""
    look, url = draft.look, _url(draft.look)
    look.pick("item-tags", (("div", "div"), ("div", "article")))
    items = _cards(draft, url, look.rng.randint(9, 22), domain=look.rng.choice(LISTED))
    if look.chance("column", 0.5):
        items = [tag("div", look.css("column"), item) for item in items]
    width = look.rng.choice((2, 3, 4))
    rows = [
        tag("div", look.css("row"), look.lines(items[at : at + width]))
        for at in range(0, len(items), width)
    ]
    _one_page(draft, tag("div", look.css("list"), look.lines(rows)), url)


def _table_rows(draft: _Draft, url: str, count: int) -> tuple[list[str], list[str]]:
    """Return the header cells and the rows of a table, and add their records."""
    look = draft.look
    domain = look.pick("domain", TABULAR)
    names = [name for name in look.fields(domain) if name not in {"image", "long", "rating"}]
    linked = look.chance("linked", 0.7)
    rows: list[str] = []
    for _ in range(min(count, 12) if domain == "cities" else count):
        record = draft.record(url)
        values = look.fields(domain)
        cells = []
        for name in names:
            value = values.get(name) or look.value(name, domain)
            if name == "title" and linked:
                record.values["title"] = value
                inner = look.link(record, f"entry/{look.new_id()}", escape(value.text))
                cells.append(tag("td", look.css("title"), inner))
                continue
            if name not in {"title", "rank"} and look.rng.random() < 0.06:
                cells.append(
                    tag("td", look.css(name), look.pick("blank", ("", "\u2013", "&nbsp;")))
                )
                record.neutral |= {"\u2013"}
                continue
            if name == "rank":
                value = Value(str(len(rows) + 1), "number", Decimal(len(rows) + 1))
            record.values[name] = value
            cells.append(tag("td", look.css(name), escape(value.text)))
        rows.append(tag("tr", "", look.lines(cells)))
    return names, rows


def _head(draft: _Draft, names: list[str]) -> str:
    look = draft.look
    draft.labels = {name: look.label(name) for name in names}
    cells = "".join(tag("th", "", look.label(name)) for name in names)
    row = tag("tr", "", cells)
    return row if look.chance("no-thead", 0.4) else tag("thead", "", row)


def _table(look: Markup, head: str, rows: list[str]) -> str:
    body = look.lines(rows)
    if not look.chance("no-thead", 0.4):
        body = tag("tbody", "", body)
    return tag("table", look.css("table"), head, body)


def table_header(draft: _Draft) -> None:
    """A table with a row of header cells."""
    look, url = draft.look, _url(draft.look)
    names, rows = _table_rows(draft, url, look.rng.randint(10, 30))
    _one_page(draft, _table(look, _head(draft, names), rows), url)


def table_no_header(draft: _Draft) -> None:
    """A table without header cells."""
    look, url = draft.look, _url(draft.look)
    _, rows = _table_rows(draft, url, look.rng.randint(10, 30))
    _one_page(draft, _table(look, "", rows), url)


def table_spans(draft: _Draft) -> None:
    """A table with a title, section titles and advertisements across all columns."""
    look, url = draft.look, _url(draft.look)
    names, rows = _table_rows(draft, url, look.rng.randint(12, 26))
    wide = f' colspan="{len(names)}"'
    every = look.rng.choice((5, 6, 7))
    parts = []
    draft.labels = {name: look.label(name) for name in names}
    if look.chance("table-title", 0.5):
        parts.append(tag("tr", "", tag("th", wide, escape(_title(look)))))
    parts.append(tag("tr", "", *(tag("th", "", look.label(name)) for name in names)))
    for number, row in enumerate(rows):
        if number % every == every - 1:
            section = tag("strong", "", look.ui("section", number // every + 1))
            inner = look.advertisement() if look.chance("ad-rows", 0.5) else section
            parts.append(tag("tr", look.css("section"), tag("td", wide, inner)))
        parts.append(row)
    _one_page(draft, tag("table", look.css("table"), look.lines(parts)), url)


def definition_lists(draft: _Draft) -> None:
    """Lists of terms and their definitions: one for each record, or one for all."""
    look, url = draft.look, _url(draft.look)
    domain = look.rng.choice(("homes", "cars", "people", "books", "recipes"))
    form = look.pick("form", ("dl", "divs", "glossary"))
    items = []
    for number in range(look.rng.randint(8, 16)):
        record = draft.record(url)
        values = look.fields(domain, 0.08)
        values.pop("image", None)
        title = values.pop("title")
        record.values["title"] = title
        heading = look.link(record, f"entry/{look.new_id()}", escape(title.text))
        if form == "glossary":
            cells = [look.show(record, name, value) for name, value in values.items()]
            items += [tag("dt", "", heading), tag("dd", "", look.lines(cells))]
            continue
        rows: list[str] = []
        for name, value in values.items():
            label = look.label(name) + look.pick("colon", ("", ":"))
            draft.labels[name] = look.label(name)
            record.neutral |= {label, look.label(name)}
            shown = look.show(record, name, value, bare=True)
            if form == "dl":
                rows.append(tag("dt", "", label) + tag("dd", "", shown))
            else:
                term = tag("span", look.css("term"), label)
                rows.append(tag("div", look.css("pair"), term, shown))
        body = tag("dl", look.css("pairs"), look.lines(rows)) if form == "dl" else look.lines(rows)
        element = look.pick("tag:title", ("h2", "h3", "h4", "strong"))
        items.append(
            tag("div", _open_item(look, number), tag(element, look.css("title"), heading), body)
        )
    outer = "dl" if form == "glossary" else "div"
    _one_page(draft, tag(outer, look.css("list"), look.lines(items)), url)


def nested_cards(draft: _Draft) -> None:
    """Cards that have a list of variants each."""
    look, url = draft.look, _url(draft.look)
    domain = look.rng.choice(("products", "books", "events"))
    items = []
    for number in range(look.rng.randint(7, 14)):
        record = draft.record(url)
        inner = look.card(record, look.fields(domain))
        shown = []
        parts = []
        for _ in range(look.rng.randint(2, 5)):
            name, price = look.word("colors"), look.money().text
            parts += [name, price]
            cell = look.pick("variant", ("li", "div", "tr"))
            element = "td" if cell == "tr" else "span"
            shown.append(
                tag(
                    cell,
                    look.css("variant"),
                    look.lines(
                        tag(element, look.css(css), t) for css, t in (("v", name), ("w", price))
                    ),
                )
            )
        caption = look.ui("variants")
        outer = {"li": "ul", "div": "div", "tr": "table"}[look.pick("variant", ("li", "div", "tr"))]
        record.neutral.add(caption)
        record.values["variants"] = Value(" ".join(parts), "tags", parts=tuple(parts))
        variants = tag(outer, look.css("variants"), look.lines(shown))
        title = tag("div", look.css("variants-title"), caption)
        items.append(tag(_item_tags(look)[1], _open_item(look, number), inner, title, variants))
    _one_page(draft, _list_of(look, items), url)


def _inline(look: Markup, *names: str) -> None:
    """Let fields stand in one line."""
    for name in names:
        look.pick(f"tag:{name}", ("time", "span") if name == "date" else ("span", "small", "b"))


def link_list(draft: _Draft) -> None:
    """A list of links with a few words beside each."""
    look, url = draft.look, _url(draft.look)
    look.pick("item-tags", (("ul", "li"), ("ol", "li"), ("div", "div"), ("div", "p")))
    domain = look.rng.choice(("news", "papers", "books", "recipes"))
    wanted = look.rng.sample(("author", "date", "category", "year", "minutes", "comments"), 2)
    _inline(look, *wanted)
    joint = look.rng.choice((" \u00b7 ", " | ", " \u2013 ", ", "))
    one_text = look.chance("one-text", 0.3)
    items = []
    for number in range(look.rng.randint(12, 32)):
        record = draft.record(url)
        title = look.value("title", domain)
        record.values["title"] = title
        link = look.link(record, f"{domain}/{look.new_id()}", escape(title.text))
        values = {name: look.value(name, domain) for name in wanted}
        if one_text:  # what stands beside the link is one text
            text = joint.join(value.text for value in values.values())
            parts = tuple(value.text for value in values.values())
            record.values["meta"] = Value(text, parts=parts, forms=(joint.strip() + text,))
            beside = tag("small", look.css("meta"), escape(text))
        else:
            shown = [look.show(record, name, value) for name, value in values.items()]
            record.neutral.add(joint.strip())
            beside = joint.join(shown)
        beside = (
            beside
            if one_text or look.chance("no-meta", 0.5)
            else tag("span", look.css("meta"), beside)
        )
        items.append(tag(_item_tags(look)[1], _open_item(look, number), f"{link} {beside}"))
    _one_page(draft, _list_of(look, items), url)


def search_results(draft: _Draft) -> None:
    """The results of a search, with other questions and advertisements."""
    look = draft.look
    query = look.word("tags")
    url = f"{look.host}/search?q={look.rng.randint(10, 99)}"
    items = []
    for number in range(look.rng.randint(8, 12)):
        record = draft.record(url)
        title = look.value("title", look.rng.choice(("news", "papers", "books")))
        record.values["title"] = title
        target = f"https://{look.rng.choice(('a', 'b', 'c'))}{look.new_id()}.example/page"
        record.values["link"] = Value(target, "url")
        record.values["shown"] = Value(target.removeprefix("https://").replace("/", " \u203a "))
        heading = tag("h3", look.css("title"), escape(title.text))
        cite = tag("cite", look.css("cite"), record.values["shown"].text)
        inside = heading + cite if look.chance("cite-inside", 0.4) else heading
        parts = [tag("a", pairs(href=target), inside)]
        if inside == heading:
            parts.append(cite)
        snippet = Value(look.paragraph(), "long")
        text = escape(snippet.text)
        if look.chance("snippet-date", 0.5) and look.rng.random() < 0.6:
            day = look.day()
            record.values["date"] = Value(
                day.text, "date", day.typed, forms=(f"{day.text} \u2014",)
            )
            text = f"{tag('span', look.css('date'), day.text)} \u2014 {text}"
            snippet = Value(
                snippet.text,
                "long",
                forms=(f"\u2014 {snippet.text}", f"{day.text} \u2014 {snippet.text}"),
            )
        record.values["long"] = snippet
        parts.append(tag("div", look.css("long"), text))
        if look.rng.random() < 0.25:
            record.neutral |= {look.ui("more")}
            more = [look.link(record, f"sub/{look.new_id()}", look.ui("more"), key=None)]
            parts.append(tag("div", look.css("sublinks"), *more))
        inner = look.lines(parts)
        if look.chance("extra-div", 0.5):
            inner = tag("div", look.css("body"), inner)
        items.append(tag(_item_tags(look)[1], _open_item(look, number), inner))
    if look.chance("questions", 0.6):
        asked = [
            tag("div", look.css("question"), tag("span", "", look.title("news"))) for _ in "123"
        ]
        items.insert(look.rng.randint(2, 5), tag("div", look.css("questions"), *asked))
    if look.chance("ad-first", 0.6):
        items.insert(0, look.advertisement())
    found = tag("p", "", look.ui("results", look.number(len(items) * 1017)))
    draft.pages[url] = look.page(query, found + _list_of(look, items), url=url)


def ads_between(draft: _Draft) -> None:
    """Cards with advertisements in between, of other and of similar markup."""
    look, url = draft.look, _url(draft.look)
    items = _cards(draft, url, look.rng.randint(10, 20), domain=look.rng.choice(LISTED))
    element = _item_tags(look)[1]
    for at in range(3, len(items) + 3, look.rng.choice((4, 5))):
        similar = look.chance("similar", 0.5)
        # Of similar markup: an item of the list, whose inside has nothing of a record.
        slot = tag(element, look.css("item", "promo"), look.advertisement())
        items.insert(at, slot if similar or element == "li" else look.advertisement())
    _one_page(draft, _list_of(look, items), url)


def missing_parts(draft: _Draft) -> None:
    """Cards of which each lacks some parts."""
    look, url = draft.look, _url(draft.look)
    gaps = look.rng.choice((0.2, 0.3, 0.4))
    domain = look.rng.choice(LISTED)
    items = _cards(draft, url, look.rng.randint(12, 24), domain=domain, gaps=gaps)
    _one_page(draft, _list_of(look, items), url)


def several_groups(draft: _Draft) -> None:
    """A listing, related things and navigation: the listing has most text."""
    look, url = draft.look, _url(draft.look)
    items = _cards(
        draft, url, look.rng.randint(10, 18), domain=look.rng.choice(("products", "news"))
    )
    related = []
    for _ in range(look.rng.randint(3, 5)):
        record = Record(url)
        draft.related.append(record)
        title, price = look.value("title", "cars"), look.money()
        record.values["title"] = title
        inner = look.link(record, f"related/{look.new_id()}", escape(title.text))
        record.values["price"] = price
        related.append(
            tag(
                "div",
                look.css("related"),
                inner,
                tag("span", look.css("related-price"), price.text),
            )
        )
    box = tag(
        "section", look.css("related-box"), tag("h2", "", look.ui("related")), look.lines(related)
    )
    latest = tag(
        "ul",
        look.css("latest"),
        *(tag("li", "", f'<a href="/n/{n}">{escape(look.word("topics"))}</a>') for n in range(5)),
    )
    parts = [_list_of(look, items), box, tag("div", "", tag("h3", "", look.ui("latest")), latest)]
    if look.chance("related-first", 0.4):
        parts = [parts[1], parts[0], parts[2]]
    _one_page(draft, look.lines(parts), url)


def pagination(draft: _Draft) -> None:
    """Three pages of one listing."""
    look = draft.look
    first = _url(look)
    form = look.rng.choice(("?page={0}", "{0}/", "-{0}.html"))
    urls = [first, *(first.rstrip("/") + form.format(n) for n in (2, 3))]
    domain, title = look.rng.choice(LISTED), _title(look)
    count = look.rng.randint(7, 12)
    for at, url in enumerate(urls):
        items = _cards(draft, url, count if at < 2 else max(3, count // 2), domain=domain)
        links = [tag("a", pairs(href=target), str(n + 1)) for n, target in enumerate(urls)]
        if at < 2:
            links.append(tag("a", pairs(href=urls[at + 1], rel="next"), look.ui("next")))
        pager = tag("div", look.css("pager"), *links)
        draft.pages[url] = look.page(title, _list_of(look, items), url=url, pager=pager)


def sibling_rows(draft: _Draft) -> None:
    """Records that are two or three rows of a table each."""
    look, url = draft.look, _url(draft.look)
    numbered, spaced = look.chance("numbered", 0.6), look.chance("spacer", 0.5)
    _inline(look, "points", "author", "date", "comments")
    rows = []
    for number in range(look.rng.randint(10, 30)):
        record = draft.record(url)
        title = look.value("title", "news")
        record.values["title"] = title
        link = look.link(record, f"story/{look.new_id()}", escape(title.text))
        site = Value(f"site{look.new_id()}.example")
        record.values["site"] = Value(site.text, forms=(f"({site.text})",))
        first = tag("td", look.css("title"), f"{link} ({tag('span', look.css('site'), site.text)})")
        lead = ""
        if numbered:
            record.values["rank"] = Value(
                f"{number + 1}.", "number", Decimal(number + 1), forms=(str(number + 1),)
            )
            lead = tag("td", look.css("rank"), f"{number + 1}.")
        meta = [
            look.show(record, name, look.value(name, "news"), bare=True)
            for name in ("points", "author", "date", "comments")
        ]
        joint = look.pick("joint", (" ", " | "))
        record.neutral |= {"|", "(", ")"}
        second = tag("td", look.css("subtext"), joint.join(meta))
        blank = "<td></td>" if numbered else ""
        identifier = pairs(id=str(look.new_id())) if look.chance("row-id", 0.5) else ""
        rows.append(tag("tr", look.css("item") + identifier, lead, first))
        rows.append(tag("tr", "", blank, second))
        if spaced:
            rows.append(tag("tr", look.css("spacer"), '<td style="height:5px"></td>'))
    _one_page(draft, tag("table", look.css("table"), look.lines(rows)), url)


def flat_siblings(draft: _Draft) -> None:
    """Headings, paragraphs and meta lines in turn, without an element around a record."""
    look, url = draft.look, _url(draft.look)
    domain = look.rng.choice(("news", "papers", "recipes", "events", "jobs"))
    heading = look.rng.choice(("h2", "h3", "h4"))
    ruled, gaps = look.chance("ruled", 0.3), look.rng.choice((0.0, 0.0, 0.2))
    parts = []
    for number in range(look.rng.randint(8, 16)):
        record = draft.record(url)
        values = look.fields(domain, gaps)
        values.pop("image", None)
        title = values.pop("title")
        record.values["title"] = title
        link = look.link(record, f"entry/{look.new_id()}", escape(title.text))
        if ruled and number:
            parts.append("<hr>")
        parts.append(tag(heading, look.css("title"), link))
        if "long" in values:
            text = values.pop("long")
            record.values["long"] = text
            parts.append(tag("p", look.css("long"), escape(text.text)))
        look.pick("tag:tags", ("div",))
        shown = [look.show(record, name, value) for name, value in values.items()]
        parts.append(tag("div", look.css("meta"), look.lines(shown)))
    main = look.lines(parts)
    _one_page(
        draft, tag("div", look.css("list"), main) if look.chance("around", 0.5) else main, url
    )


def detail_pages(draft: _Draft) -> None:
    """Pages of one template, one record each."""
    look = draft.look
    domain = look.rng.choice(("products", "books", "recipes", "events", "jobs", "homes"))
    for _ in range(look.rng.randint(6, 10)):
        url = f"{look.host}/{domain}/{look.new_id()}"
        record = draft.record(url)
        values = look.fields(domain, 0.1)
        title = values.pop("title")
        record.values["title"] = title
        record.neutral |= {f"{title.text} | Site {look.seed}", url}
        parts = (
            [] if look.chance("h1", 0.85) else [tag("h2", look.css("title"), escape(title.text))]
        )
        if "image" in values:
            del values["image"]
            parts.append(tag("figure", look.css("image"), look.image(record, title.text)))
        long = values.pop("long", None)
        shown = [look.show(record, name, value) for name, value in values.items()]
        parts.append(tag("div", look.css("meta"), look.lines(shown)))
        if long:
            more = [long.text, look.paragraph()]
            text = " ".join(more)
            record.values["long"] = Value(text, "long", parts=tuple(more))
            prose = look.lines(tag("p", "", escape(part)) for part in more)
            parts.append(tag("div", look.css("long"), prose))
        related = []
        for _ in range(3):
            other = look.title(domain)
            record.neutral.add(other)
            related.append(
                tag(
                    "li",
                    "",
                    look.link(record, f"{domain}/{look.new_id()}", escape(other), key=None),
                )
            )
        if look.chance("related", 0.5):
            parts.append(
                tag("h3", "", look.ui("related")) + tag("ul", look.css("related"), *related)
            )
        draft.pages[url] = look.page(title.text, look.lines(parts), url=url)


def reviews(draft: _Draft) -> None:
    """Opinions with author, date and stars; the shop answers some."""
    look, url = draft.look, f"{draft.look.host}/product/{draft.look.new_id()}"
    items = []
    for number in range(look.rng.randint(8, 18)):
        record = draft.record(url)
        parts = [look.show(record, "author", look.value("author", "reviews"), bare=True)]
        parts.append(look.show(record, "rating", look.value("rating", "reviews"), bare=True))
        parts.append(look.show(record, "date", look.day(), bare=True))
        if look.chance("verified", 0.5):
            record.neutral.add(look.ui("verified"))
            parts.append(tag("span", look.css("verified"), look.ui("verified")))
        texts = [look.paragraph() for _ in range(look.rng.choice((1, 1, 2)))]
        record.values["text"] = Value(" ".join(texts), "long", parts=tuple(texts))
        body = tag("div", look.css("text"), *(tag("p", "", escape(text)) for text in texts))
        if look.chance("votes", 0.6) and look.rng.random() < 0.7:
            body += look.show(record, "votes", look.value("votes", "reviews"), bare=True)
        if look.rng.random() < 0.15:
            answer, caption = look.sentence(), look.ui("reply")
            both = f"{caption} {answer}"
            record.neutral |= {caption, answer, both}
            body += tag("div", look.css("reply"), f"<b>{caption}</b>", tag("p", "", escape(answer)))
        head = tag("div", look.css("meta"), look.lines(parts))
        items.append(tag(_item_tags(look)[1], _open_item(look, number), head, body))
    heading = tag("h2", "", look.label("reviews"))
    intro = tag("p", "", escape(look.paragraph()))
    _one_page(draft, intro + heading + _list_of(look, items), url)


def jobs(draft: _Draft) -> None:
    """Vacancies with microdata."""
    look, url = draft.look, _url(draft.look)
    names = {
        "company": "hiringOrganization",
        "city": "jobLocation",
        "kind": "employmentType",
        "date": "datePosted",
        "salary": "baseSalary",
    }
    items = []
    for _ in range(look.rng.randint(8, 18)):
        record = draft.record(url)
        values = look.fields("jobs", 0.15)
        title = values.pop("title")
        record.values["title"] = title
        link = look.link(record, f"jobs/{look.new_id()}", escape(title.text))
        head = tag("h3", pairs(itemprop="title"), link)
        shown = []
        for name in ("company", "city", "salary", "kind", "date", "long"):
            if name not in values:
                continue
            value = values[name]
            prop = pairs(itemprop=names.get(name, "description"))
            element = look.pick(f"tag:{name}", ("span", "div", "p"))
            forms = value.forms
            if name == "date":
                prop += pairs(content=str(value.typed))
                forms = (*forms, str(value.typed))
            record.values[name] = Value(value.text, value.kind, value.typed, forms, value.parts)
            shown.append(tag(element, prop + look.css(name), escape(value.text)))
        button = ""
        if look.chance("apply", 0.5):
            record.neutral.add(look.ui("apply"))
            button = look.link(record, f"apply/{look.new_id()}", look.ui("apply"), key=None)
        kind = "https://schema.org/JobPosting"
        record.neutral.add(kind)
        scope = f' itemscope itemtype="{kind}"'
        body = tag("div", look.css("body"), look.lines(shown))
        attributes = look.css("item") + scope
        items.append(tag(_item_tags(look)[1], attributes, head, body, button))
    _one_page(draft, _list_of(look, items), url)


def events(draft: _Draft) -> None:
    """A calendar with times; a heading for each month in some."""
    look, url = draft.look, _url(draft.look)
    items = []
    by_month = look.chance("months", 0.4)
    for number in range(look.rng.randint(8, 18)):
        record = draft.record(url)
        values = look.fields("events", 0.1)
        day = look.day()
        clock = f"{look.rng.randint(9, 21)}:{look.rng.choice(('00', '15', '30', '45'))}"
        values.pop("date", None)
        title = values.pop("title")
        record.values["title"] = title
        iso = f"{day.typed}T{clock.zfill(5)}"
        record.neutral.add(clock)
        record.values["date"] = Value(
            day.text, "date", day.typed, forms=(f"{day.text}, {clock}", iso, str(day.typed))
        )
        when = tag("time", pairs(datetime=iso) + look.css("date"), f"{day.text}, {clock}")
        heading = look.pick("tag:title", ("h2", "h3", "h4", "strong"))
        link = look.link(record, f"events/{look.new_id()}", escape(title.text))
        head = tag(heading, look.css("title"), link)
        picture = ""
        if "image" in values:
            picture = look.show(record, "image", Value(title.text))
            del values["image"]
        shown = [look.show(record, name, value) for name, value in values.items()]
        parts = [when, head, *shown] if look.chance("time-first", 0.5) else [head, when, *shown]
        items.append(
            tag(_item_tags(look)[1], _open_item(look, number), look.lines([picture, *parts]))
        )
    if by_month:
        half = len(items) // 2
        months = [tag("h2", "", str(month)) for month in look.words["months"][:2]]
        main = months[0] + _list_of(look, items[:half]) + months[1] + _list_of(look, items[half:])
    else:
        main = _list_of(look, items)
    _one_page(draft, main, url)


def key_value_pages(draft: _Draft) -> None:
    """Pages with a table of two columns, names and values; some rows are missing."""
    look = draft.look
    form = look.pick("form", ("th", "td", "dl", "divs"))
    names = look.rng.sample(
        (
            "brand",
            "sku",
            "weight",
            "color",
            "material",
            "price",
            "state",
            "year",
            "version",
            "date",
        ),
        7,
    )
    for _ in range(look.rng.randint(6, 10)):
        url = f"{look.host}/spec/{look.new_id()}"
        record = draft.record(url)
        title = look.value("title", "products")
        record.values["title"] = title
        record.neutral |= {f"{title.text} | Site {look.seed}", url}
        rows = []
        for name in names:
            if look.rng.random() < 0.15:
                continue
            value, label = look.value(name, "products"), look.label(name)
            record.values[name] = value
            draft.labels[name] = label
            record.neutral |= {label, f"{label}:"}
            text = escape(value.text)
            match form:
                case "th" | "td":
                    rows.append(tag("tr", "", tag(form, "", label), tag("td", "", text)))
                case "dl":
                    rows.append(tag("dt", "", label) + tag("dd", "", text))
                case _:
                    term = tag("span", look.css("term"), f"{label}:")
                    rows.append(
                        tag("div", look.css("pair"), term, tag("span", look.css("v"), text))
                    )
        outer = {"th": "table", "td": "table", "dl": "dl"}.get(form, "div")
        table = tag(outer, look.css("pairs"), look.lines(rows))
        head = "" if look.chance("h1", 0.85) else tag("h2", "", escape(title.text))
        caption = tag("h2", "", look.ui("specs"))
        draft.pages[url] = look.page(title.text, head + caption + table, url=url)


LAYOUTS: Final[tuple[Callable[[_Draft], None], ...]] = (
    cards,
    card_grid,
    table_header,
    table_no_header,
    table_spans,
    definition_lists,
    nested_cards,
    link_list,
    search_results,
    ads_between,
    missing_parts,
    several_groups,
    pagination,
    sibling_rows,
    flat_siblings,
    detail_pages,
    reviews,
    jobs,
    events,
    key_value_pages,
)
_BY_PAGE: Final = frozenset({"detail_pages", "key_value_pages"})


@cache
def site(seed: int) -> Site:
    """Generate the site of a seed; each layout has every 20th pair of an even and an odd seed."""
    look = Markup(seed)
    layout = LAYOUTS[seed // 2 % len(LAYOUTS)]
    draft = _Draft(look)
    layout(draft)
    name = layout.__name__
    groups = [group("main", draft.records)]
    if draft.related:
        groups.append(group("related", draft.related))
    by = "page" if name in _BY_PAGE else "record"
    return Site(seed, name, look.language, draft.pages, groups, by, draft.labels)
