"""The records of index pages in Debian's documentation, read by lxml from the generators' markup.

Sphinx writes the indexes of Python and Django, XSLT those of Apache, DocBook those of PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urljoin

from lxml import html as lxml_html  # type: ignore[import-untyped]

from tests.records.values import Group, Record, Value, group

_Element: TypeAlias = Any  # lxml has no types
_Reader: TypeAlias = Callable[["_Element", str], list[Record]]


@dataclass(frozen=True, slots=True)
class Index:
    """A page of a documentation: its component of `tests.requirements`, its path, its reader."""

    component: str
    path: str
    read: _Reader

    @property
    def url(self) -> str:
        """The URL that the test gives the page."""
        return f"https://docs.example/{self.path}"

    def load(self, root: Path) -> tuple[bytes, Group]:
        """Return the page and its records."""
        body = (root / self.path).read_bytes()
        tree = lxml_html.fromstring(body)
        return body, group("main", self.read(tree, self.url))


def _text(element: _Element, *, but: str | None = None) -> str:
    """Return the text in an element, without that in the elements of a tag below it."""
    parts = []

    def walk(node: _Element) -> None:
        parts.append(node.text or "")
        for child in node:
            if child.tag != but:
                walk(child)
            parts.append(child.tail or "")

    walk(element)
    return " ".join("".join(parts).split())


def _record(element: _Element, url: str, values: dict[str, str], link: _Element | None) -> Record:
    """Build a record; everything else in its element is neither right nor wrong."""
    record = Record(url, {name: Value(text) for name, text in values.items() if text})
    if link is not None:
        target = urljoin(url, link.get("href"))
        record.values["link"] = Value(target, "url", forms=(link.get("href"),))
    for each in element.iter():
        if isinstance(each.tag, str):
            record.neutral |= {_text(each), (each.text or "").strip(), (each.tail or "").strip()}
            record.neutral |= {value for value in each.attrib.values() if value}
            if each.get("href"):
                record.neutral.add(urljoin(url, each.get("href")))
    return record


def module_index(tree: _Element, url: str) -> list[Record]:
    """Sphinx: modules with a line each; the rows of initial letters are no records."""
    records = []
    for row in tree.xpath("//table[contains(@class, 'modindextable')]//tr[td[2]//a]"):
        name, synopsis = row.xpath("td")[1:3]
        link = name.xpath(".//a")[0]
        values = {"name": _text(link), "synopsis": _text(synopsis)}
        records.append(_record(row, url, values, link))
    return records


def general_index(tree: _Element, url: str) -> list[Record]:
    """Sphinx: the terms of an index in columns; what stands below a term is a part of it."""
    records = []
    for item in tree.xpath("//table[contains(@class, 'indextable')]//td/ul/li"):
        links = item.xpath("a")
        name = _text(links[0]) if links else _text(item, but="ul")
        records.append(_record(item, url, {"name": name}, links[0] if links else None))
    return records


def directive_list(tree: _Element, url: str) -> list[Record]:
    """Apache: a list of links."""
    return [
        _record(item, url, {"name": _text(item)}, item.xpath("a")[0])
        for item in tree.xpath("//div[@id='directive-list']/ul/li")
    ]


def quick_reference(tree: _Element, url: str) -> list[Record]:
    """Apache: directives in two rows of a table each."""
    records = []
    for row in tree.xpath("//table[@class='qref']//tr[td[2]]"):
        described = row.getnext()
        cells = [_text(cell) for cell in row.xpath("td")]
        names = ("usage", "default", "context", "status")
        values = dict(zip(names, cells, strict=True)) | {"description": _text(described)}
        record = _record(row, url, values, row.xpath("td[1]//a")[0])
        record.neutral |= _record(described, url, {}, None).neutral
        records.append(record)
    return records


def reference_entries(tree: _Element, url: str) -> list[Record]:
    """DocBook: commands with what they do."""
    records = []
    for term in tree.xpath("//dl[@class='toc']/dt"):
        link = term.xpath(".//a")[0]
        purpose = _text(term.xpath("span[@class='refpurpose']")[0])
        record = _record(term, url, {"name": _text(link)}, link)
        bare = purpose.removeprefix("\u2014").strip()
        record.values["purpose"] = Value(purpose, forms=(bare,))
        records.append(record)
    return records


def table_rows(tree: _Element, url: str) -> list[Record]:
    """DocBook: the rows of the page's table; a cell across all columns is a title."""
    records = []
    (table,) = tree.xpath("//table[@class='table' or @class='informaltable'][thead]")
    names = [_text(cell) for cell in table.xpath("thead/tr/th")]
    for row in table.xpath("tbody/tr[td[2]]"):
        cells = row.xpath("td")
        values = {name: _text(cell) for name, cell in zip(names, cells, strict=True)}
        links = cells[0].xpath(".//a[@href]")
        records.append(_record(row, url, values, links[0] if links else None))
    return records


INDEXES: Final = (
    Index("python-docs", "py-modindex.html", module_index),
    Index("django-docs", "py-modindex.html", module_index),
    *(Index("python-docs", f"genindex-{letter}.html", general_index) for letter in "JKQXYZ"),
    Index("apache-docs", "mod/directives.html", directive_list),
    Index("apache-docs", "mod/quickreference.html", quick_reference),
    Index("postgresql-docs", "sql-commands.html", reference_entries),
    Index("postgresql-docs", "reference-client.html", reference_entries),
    Index("postgresql-docs", "reference-server.html", reference_entries),
    Index("postgresql-docs", "catalogs-overview.html", table_rows),
    Index("postgresql-docs", "views-overview.html", table_rows),
    Index("postgresql-docs", "errcodes-appendix.html", table_rows),
    Index("postgresql-docs", "features-sql-standard.html", table_rows),
)
