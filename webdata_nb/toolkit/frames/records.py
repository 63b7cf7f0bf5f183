"""Makes a frame of the records of pages: joins their groups over pages, and types the columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import pandas as pd

from webdata_nb.errors import InvalidArgument
from webdata_nb.page.extract.prices import CODES_OF_SYMBOL, settle_symbols
from webdata_nb.page.extract.records import Value, columns_of
from webdata_nb.page.scrape.page import html_records
from webdata_nb.suggestions import counted, format_value
from webdata_nb.toolkit.frames import frame
from webdata_nb.toolkit.frames.derive import page_urls
from webdata_nb.toolkit.frames.frame import CallReceipt, NestedArray, ResultFrame
from webdata_nb.toolkit.frames.rows import decoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webdata_nb.page.extract.prices import Amount
    from webdata_nb.page.extract.records import Column

_Record: TypeAlias = tuple[str, list[Value]]
By: TypeAlias = Literal["record", "page"]

FORMAT: Final = "records"
_SOURCES: Final = (FORMAT, "raw_html", "html")
_SAME_GROUP: Final = 0.3
_SAME_TEMPLATE: Final = 0.5
_EXAMPLE: Final = 80
_ROW: Final = 2  # fields of a record that is a row of a table
_KEYS: Final = frozenset({"language", "steps", "groups", "parts"})
_NAME: Final = re.compile(r"-?[A-Za-z_][\w-]*", re.ASCII)


@dataclass(slots=True)
class _Records:
    """Records of one group, from one page or several; `root` has the steps to a record itself."""

    path: str
    header: tuple[str, ...]
    shape: set[tuple[str, ...]]
    root: tuple[str, ...] = ()
    weight: float = 0.0
    urls: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    pages: list[_Page] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    parts: list[list[Value]] = field(default_factory=list)
    _seen: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, page: _Page, records: Sequence[_Record], weight: float) -> None:
        """Add the records of a page; what other pages have too, as menus do, weighs nothing."""
        known = len(self._seen)
        for number, (at, parts) in enumerate(records, 1):
            self.urls.append(page.url)
            self.numbers.append(number)
            self.pages.append(page)
            self.places.append(at)
            self.parts.append(parts)
            self._seen.add(tuple(part.text for part in parts))
        self.weight += weight * (len(self._seen) - known) / max(1, len(records))

    def likeness(self, shape: set[tuple[str, ...]]) -> float:
        """Return the share of paths that these records have in common with others."""
        return len(shape & self.shape) / max(1, len(shape | self.shape))

    def columns(self) -> list[Column]:
        """Return the columns of the records."""
        languages = [page.language for page in self.pages]
        return columns_of(self.parts, languages=languages, header=self.header)

    def currency(self, at: int, amount: Amount) -> str | None:
        """Return the currency of an amount; None if its symbol is one of several currencies."""
        symbol = amount.symbol.casefold().strip()
        if symbol in CODES_OF_SYMBOL:
            return self.pages[at].currencies().get(symbol)
        return amount.currency or None


class _Page:
    """What the page's reader found in a page: its parts, and where its groups are."""

    def __init__(self, url: str, data: Mapping[str, Any]) -> None:
        self.url = url
        self.language: str = data["language"]
        self.groups: Sequence[Mapping[str, Any]] = data["groups"]
        self.parts: Sequence[Sequence[Any]] = data["parts"]
        self._currencies: dict[str, str] | None = None
        # Paths share what is above them.
        self.paths: list[tuple[str, ...]] = []
        for above, name in data["steps"]:
            self.paths.append((*self.paths[above], name) if above >= 0 else (name,))

    def values(self, first: int, end: int | None, depth: int) -> list[Value]:
        """Return parts with their steps below an element."""
        return [
            Value(kind, self.paths[step][depth:], text, *machine)
            for kind, step, text, *machine in self.parts[first:end]
        ]

    def records(self, group: Mapping[str, Any]) -> list[_Record]:
        """Return the selector and the values of each record of a group."""
        records: list[_Record] = []
        for at, *where in group["records"]:
            if len(where) > 1:
                records.append((at, self.values(*where)))
            else:  # the cells of a row
                cells = [
                    Value(kind, (f"td:{column}",), text, *machine)
                    for kind, column, text, *machine in where[0]
                ]
                records.append((at, cells))
        return records

    def only_record(self, group: _Records) -> list[_Record]:
        """Return the record of a page that has one, as the last page of a listing may."""
        depth = len(group.root)
        places = [
            number
            for number, (_, step, *_) in enumerate(self.parts)
            if _is_same(self.paths[step][:depth], group.root)
        ]
        if not places or places[-1] - places[0] >= len(places):
            return []
        values = self.values(places[0], places[-1] + 1, depth)
        if group.likeness({value.steps for value in values}) < _SAME_GROUP:
            return []
        return [(" > ".join(["html", *map(_selector, group.root)]), values)]

    def currencies(self) -> Mapping[str, str]:
        """Return the currencies that the page settles, by symbol."""
        if self._currencies is None:
            texts = [part[2] for part in self.parts if part[0] == "text"]
            host = urlsplit(self.url).hostname or ""
            self._currencies = settle_symbols(texts, host=host, languages=[self.language])
        return self._currencies


def _is_same(steps: tuple[str, ...], root: tuple[str, ...]) -> bool:
    """Return whether a path is that of the records of a group, but for class names around them."""
    if len(steps) != len(root) or not root:
        return False
    one, other = set(steps[-1].split(".")), set(root[-1].split("."))
    tags = [[step.partition(".")[0] for step in path] for path in (steps, root)]
    return tags[0] == tags[1] and 2 * len(one & other) >= min(len(one), len(other))


def records_of(df: pd.DataFrame, *, by: By, groups: bool, group: int | None) -> pd.DataFrame:
    """Return the records of the pages of a frame; see `records_df`."""
    pages = list(_pages(df))
    found = _templates(pages) if by == "page" else _groups(pages)
    line = frame.receipt_text(df, "line")
    if groups:
        return _listed(found, line)
    if group is not None and not 1 <= group <= len(found):
        allowed = f"from 1 to {len(found)}" if found else "None: the pages have no records"
        raise InvalidArgument(f"group must be {allowed}; it is {format_value(group)}")
    number = 1 if group is None else group
    chosen = found[number - 1] if found else _Records("", (), set())
    return _frame(chosen, number, len(found), line)


def _pages(df: pd.DataFrame) -> Iterator[_Page]:
    """Yield what the page's reader found in each page of a frame."""
    frame.require_frame(df)
    name = next((each for each in _SOURCES if each in df.columns), None)
    if name is None:
        raise InvalidArgument(
            f'df has no column {" or ".join(_SOURCES)}: pass formats=["{FORMAT}"] to the call; '
            f"it is {format_value(df)}"
        )
    for url, value in zip(page_urls(df), df[name].tolist(), strict=True):
        if name != FORMAT:
            data = html_records(value, url) if isinstance(value, str) else None
        else:
            data = decoded(value, name)
        if isinstance(data, dict) and data.keys() >= _KEYS:
            yield _Page(url, data)


def _groups(pages: Sequence[_Page]) -> list[_Records]:
    """Join the groups of pages that have the same path and like parts: pages of one listing."""
    found: list[_Records] = []
    for page in pages:
        taken: list[_Records] = []
        for group in page.groups:
            records = page.records(group)
            shape = {part.steps for _, parts in records for part in parts}
            header = tuple(group["header"])
            others = [
                (other.likeness(shape), -n)
                for n, other in enumerate(found)
                if other.path == group["path"] and other.header == header and other not in taken
            ]
            likeness, place = max(others, default=(0.0, 0))
            if likeness >= _SAME_GROUP:
                joined = found[-place]
            else:
                joined = _Records(group["path"], header, set())
                found.append(joined)
                first = group["records"][0]
                if len(first) > _ROW and first[1] < first[2]:
                    joined.root = page.paths[page.parts[first[1]][1]][: first[3]]
            joined.shape |= shape
            joined.add(page, records, group["weight"])
            taken.append(joined)
    for each in found:
        has = {id(page) for page in each.pages}
        for page in pages:
            if id(page) not in has and (records := page.only_record(each)):
                each.add(page, records, 0.0)
    found.sort(key=lambda each: -each.weight)
    return found


def _templates(pages: Sequence[_Page]) -> list[_Records]:
    """Join the pages of one template: those with like paths, most pages first."""
    found: list[_Records] = []
    for page in pages:
        parts = page.values(0, None, 1)
        shape = {part.steps for part in parts}
        likeness, place = max(
            ((each.likeness(shape), -n) for n, each in enumerate(found)), default=(0.0, 0)
        )
        if likeness < _SAME_TEMPLATE:
            place = -len(found)
            found.append(_Records("", (), shape))
        length = sum(len(part.text) for part in parts if part.kind == "text")
        found[-place].add(page, [("html > body", parts)], length)
    found.sort(key=lambda each: (-len(each.parts), -each.weight))
    return found


def _listed(found: Sequence[_Records], line: str) -> pd.DataFrame:
    names: list[list[str]] = []
    examples: list[str] = []
    for group in found:
        columns = group.columns()
        in_words = sorted(columns, key=lambda each: each.type in {"url", "image", "list"})
        texts = (parts[0].text for each in in_words for parts in each.parts.values())
        names.append([column.name for column in columns])
        examples.append(next(texts, "")[:_EXAMPLE])
    listed = ResultFrame(
        {
            "group": pd.Series(range(1, len(found) + 1), dtype="Int32"),
            "pages": pd.Series([len(set(group.urls)) for group in found], dtype="Int32"),
            "records": pd.Series([len(group.parts) for group in found], dtype="Int32"),
            "columns": pd.Series(NestedArray(names)),
            "example": pd.Series(examples, dtype="str"),
            "path": pd.Series([group.path for group in found], dtype="str"),
        }
    )
    listed.attrs = {frame.ATTRS: CallReceipt(kind="records", line=line)}
    return listed


def _frame(group: _Records, number: int, count: int, line: str) -> pd.DataFrame:
    columns = group.columns() if group.parts else []
    size = len(group.parts)
    cells: dict[str, pd.Series[Any]] = {
        "url": pd.Series(group.urls, dtype="str"),
        "record": pd.Series(group.numbers, dtype="Int32"),
        "group": pd.Series([number] * size, dtype="Int32"),
    }
    sources: list[dict[str, str]] = [{} for _ in range(size)]
    for column in columns:
        cells |= _typed(column, group)
        # The CSS selector of a record, and of the value below it.
        for at, parts in column.parts.items():
            part = parts[0]
            selector = " ".join([group.places[at], " > ".join(map(_selector, part.steps))]).strip()
            attribute = {"link": "@href", "image": "@src", "meta": "@content"}.get(part.kind, "")
            sources[at][column.name] = selector + attribute
    cells["_source"] = pd.Series(NestedArray(sources))
    records = ResultFrame(cells)
    pages = len(set(group.urls))
    text = f"{counted(size, 'record')} of {counted(pages, 'page')}"
    if count > 1:
        text += f" · group {number} of {count}: groups=True lists them"
    receipt = {"kind": "records", "counts": {"records": size, "pages": pages, "groups": count}}
    receipt["line"] = f"{text} · {line}" if line else text
    records.attrs = {frame.ATTRS: CallReceipt(receipt)}
    return records


def _selector(step: str) -> str:
    tag, *names = step.split(".")
    tag, cell, number = tag.partition(":")
    if cell:
        return f"{tag}:nth-of-type({int(number) + 1})"
    return next((f"{tag}.{name}" for name in names if _NAME.fullmatch(name)), tag)


def _typed(column: Column, group: _Records) -> dict[str, pd.Series[Any]]:
    """Return a column with its dtype; an amount of money has its currency beside it."""
    name, kind, size = column.name, column.type, len(group.parts)
    if kind == "list":
        lists = [[part.text for part in column.parts.get(at, ())] or None for at in range(size)]
        return {name: pd.Series(NestedArray(lists))}
    if kind in {"text", "url", "image"}:
        texts = [column.parts[at][0].text if at in column.parts else None for at in range(size)]
        return {name: pd.Series(texts, dtype="str")}
    values = [column.readings.get(at) for at in range(size)]
    if kind in {"date", "time"}:
        utc = any(isinstance(each, datetime) and each.tzinfo is not None for each in values)
        times = [None if each is None else each.isoformat() for each in values]
        series = pd.to_datetime(pd.Series(times, dtype=object), utc=utc, format="ISO8601")
        return {name: series.dt.as_unit("us")}
    if kind == "number":
        whole = all(each is None or isinstance(each, int) for each in values)
        return {name: pd.Series(values, dtype="Int64" if whole else "Float64")}
    amounts = [None if each is None else float(each.value) for each in values]
    currencies = [
        None if each is None else group.currency(at, each) for at, each in enumerate(values)
    ]
    return {
        name: pd.Series(amounts, dtype="Float64"),
        f"{name}_currency": pd.Series(currencies, dtype="str"),
    }
