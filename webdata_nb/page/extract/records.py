"""Finds the repeated things of a page, such as cards, rows and results, and reads their parts.

The page is flattened into lists in document order. Every element has the number of its path of
tags from the body, so elements with one path are candidates for records, and the paths below them
can be compared as sets of numbers, without aligning trees. `read_records` runs once a page, and is
linear.

`columns_of` makes columns of the parts of many pages: parts of one path are aligned by their label,
by their place or, where some are missing, by the kinds of their values (partial alignment, as in
DEPTA). A column that is the same in all records is dropped, so that labels and buttons are no
columns; labels name the columns after them. Decision 18 has the literature and the figures.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, compress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from webdata_nb.page.content.block_tree import (
    ADVERTISING,
    ASIDE,
    CONSENT,
    FOOTER,
    NAVIGATION,
    OVERLAY,
    RELATED,
    SHARING,
    SIDEBAR,
    SIGN_UP,
    traits_of,
    word_set,
)
from webdata_nb.page.content.dates import parse_date, parse_timestamp
from webdata_nb.page.content.links import best_source
from webdata_nb.page.content.parser import (
    HEADINGS,
    MAY_BE_HIDDEN,
    NOT_RENDERED,
    Element,
    Text,
    body_of,
    collapse_whitespace,
    is_hidden_part,
)
from webdata_nb.page.content.tables import column_span, is_total, read_table, table_texts
from webdata_nb.page.extract.coerce import parse_number, uses_decimal_comma
from webdata_nb.page.extract.prices import parse_amount

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from webdata_nb.page.content.parsed_page import ParsedPage

MAX_GROUPS: Final = 20
"""Maximum groups of a page; those with least text are left out."""
MAX_RECORDS: Final = 2_000
"""Maximum records of all groups of a page."""
MAX_PARTS: Final = 20_000
"""Maximum parts of all records of a page."""
MAX_CHARACTERS: Final = 2_000
"""Maximum characters of a value; the rest is cut."""

_MAX_ELEMENTS: Final = 100_000
_MAX_CANDIDATES: Final = 30
_MAX_SHAPES: Final = 40  # different kinds of siblings that are told apart
_MAX_TABLES: Final = 100
_MAX_STEPS: Final = 10_000  # different elements of paths
_MIN_TEXT_SHARE: Final = 0.03  # of the page's text; smaller groups are labels
_MIN_RUN_SHARE: Final = 0.08
_MAX_HEADS: Final = 4
_NOT_READ: Final = NOT_RENDERED | word_set(
    "select textarea button progress meter iframe canvas map"
)
_EMPHASIS: Final = word_set("em i mark u abbr q code")
_PHRASING: Final = word_set("a span")
_CELLS: Final = frozenset({"td", "th"})
_FORMATTING: Final = word_set(
    "b strong i em u sup sub br wbr code mark small abbr font q cite var kbd bdi bdo dfn samp tt"
)
_IN_TEXT: Final = _FORMATTING | _PHRASING
# Elements that are parts of a record, and no records themselves.
_PARTS_ONLY: Final = (
    HEADINGS
    | _FORMATTING
    | word_set("td th img picture source time hr input option thead tbody tfoot col")
    | word_set("colgroup caption figcaption legend summary video audio nav header footer")
)
_CONTAINERS: Final = word_set("div section aside ul ol table main article nav header footer form")
_ITEMS: Final = word_set("li tr article")
# These are records if they have several texts.
_MAYBE_RECORDS: Final = word_set("p dt dd span label cite blockquote address")
_COLUMN: Final = re.compile(r":\d+")  # of a cell, in the tag of its step
# Elements of one text that are neither records nor the beginning of one.
_PLAIN: Final = _FORMATTING | word_set("span time meta data label")
_BESIDE: Final = (
    NAVIGATION | SIDEBAR | FOOTER | CONSENT | OVERLAY | SHARING | RELATED | ADVERTISING
) | (SIGN_UP | ASIDE)
_MENUS: Final = NAVIGATION | CONSENT | OVERLAY
_OUTSIDE: Final = NAVIGATION | FOOTER | CONSENT | OVERLAY | SIGN_UP
_TRAITS_OF_TAG: Final = {"nav": NAVIGATION, "footer": FOOTER, "aside": ASIDE, "header": NAVIGATION}
_OWN_KIND: Final = ADVERTISING | RELATED
_SEPARATORS: Final = " \t\n|·•–—-/,;:›»>"  # noqa: RUF001 - dashes between parts
_AROUND: Final = 60  # characters of text around links and other inline elements
_PROSE: Final = 100  # characters of a text that count
_SAME_SHAPE, _SIMILAR_SHAPE, _NAMED_SHAPE = 0.8, 0.5, 0.35
_INNER_SHARE: Final = 0.85  # of the text of containers that belongs to the records in them
_MIN_PARTS: Final = 2
_MACHINE: Final = 3  # the place of a part's form for programs, in the parts that have one
_FEW: Final = 3
_REGULAR: Final = 0.6
_FIRST: Final = 8  # records that stand for all of a group
_COVERED_WEIGHT: Final = 0.25
_HEADING_BONUS: Final = 0.1
_SAME_TEXT: Final = 0.8
_ONE_KIND: Final = 0.7
_BESIDE_WEIGHT: Final = 0.2
_OUTSIDE_WEIGHT: Final = 0.02
_FEW_WEIGHT: Final = 0.2
_MAX_BESIDE_SHARE: Final = 0.4  # of the page's text
_MAX_MENU_SHARE: Final = 0.9
_LINKS_WEIGHT: Final = 2.0
_IMAGES_WEIGHT: Final = 1.5
_SECTIONS: Final = 5


Part: TypeAlias = tuple[str, int, str] | tuple[str, int, str, str]
"""A value of a page: its kind (``text``, ``link``, ``image`` or ``meta``), the number of its step,
the text or absolute URL and, where the element declares one, the form for programs."""


class Span(NamedTuple):
    """The range of a record: its first element, and its parts."""

    node: int
    end: int
    first_part: int
    end_part: int


class Step(NamedTuple):
    """An element of a path from the body: equal for elements of one tag and class below another.

    `traits` are those of its own tag, class and id.
    """

    above: int
    tag: str
    name: str
    path: int
    traits: int


@dataclass(slots=True)
class FlatPage:
    """The elements and parts of a page in document order.

    Elements without element children are parts only, unless they may be records. `steps` are
    numbered, `paths` are the numbers of paths without classes; `totals` adds up the characters of
    texts; `zones` say for each element whether it is beside the content, such as a menu.
    """

    elements: list[Element] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    own_steps: list[int] = field(default_factory=list)
    first_parts: list[int] = field(default_factory=list)
    end_parts: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    totals: list[int] = field(default_factory=lambda: [0])
    steps: list[Step] = field(default_factory=list)
    part_paths: list[int] = field(default_factory=list)
    zones: list[int] = field(default_factory=list)

    def step(self, node: int) -> Step:
        """Return the step of an element."""
        return self.steps[self.own_steps[node]]

    def span(self, first: int, last: int | None = None) -> Span:
        """Return the range from an element to the end of it or of another one."""
        last = first if last is None else last
        return Span(first, self.ends[last], self.first_parts[first], self.end_parts[last])

    def length(self, span: Span) -> int:
        """Return the characters of the texts in a range."""
        return self.totals[span.end_part] - self.totals[span.first_part]

    def shape(self, node: int) -> frozenset[int]:
        """Return the paths of the parts in an element."""
        return frozenset(self.part_paths[self.first_parts[node] : self.end_parts[node]])

    def has_inside(self, node: int, tag: str) -> bool:
        """Return whether an element contains one with a tag."""
        return any(self.step(inner).tag == tag for inner in range(node + 1, self.ends[node]))

    def tags_below(self, spans: Sequence[Span]) -> set[tuple[str, ...]]:
        """Return the paths of the parts of the first records, below them."""
        found = set()
        for span in spans[:_FIRST]:
            top = self.own_steps[span.node]
            for part in self.parts[span.first_part : span.end_part]:
                step, tags = part[1], []
                while step not in {top, -1}:
                    tags.append(self.steps[step].tag)
                    step = self.steps[step].above
                found.add(tuple(tags))
        return found

    def path(self, node: int) -> list[Step]:
        """Return the steps from the body to an element."""
        path = []
        number = self.own_steps[node] if node >= 0 else -1
        while number >= 0:
            path.append(self.steps[number])
            number = path[-1].above
        return path[::-1]

    def children(self, node: int) -> Iterator[int]:
        """Yield the child elements."""
        child, end = node + 1, self.ends[node]
        while child < end:
            yield child
            child = self.ends[child]


@dataclass(slots=True)
class Group:
    """Records of one shape; the header of a table names the columns of its cells."""

    spans: list[Span]
    header: list[str] = field(default_factory=list)
    rows: list[list[Part]] | None = None
    weight: float = 0.0

    def weigh(self, flat: FlatPage) -> None:
        """Count the characters of distinct texts, more with links and pictures of their own.

        Prose counts little for its length, and what stands beside the content less.
        """
        counts: dict[str, int] = {}
        targets: dict[str, set[str]] = {"link": set(), "image": set()}
        rows, size = self.rows, len(self.spans)
        for n, span in enumerate(self.spans):
            parts = flat.parts[span.first_part : span.end_part] if rows is None else rows[n]
            for part in parts:
                kind, value = part[0], part[2]
                if kind == "text":
                    counts[value] = counts.get(value, 0) + 1
                elif kind in targets:
                    targets[kind].add(value)
        length = sum([min(len(text), _PROSE) for text, n in counts.items() if n < size])
        share = _LINKS_WEIGHT if 2 * len(targets["link"]) > size else 1.0
        if 2 * len(targets["image"]) > size:
            share *= _IMAGES_WEIGHT
        if size <= _FEW:
            share *= _FEW_WEIGHT
        else:  # runs of text around one table are no records
            lengths = sorted(flat.length(span) for span in self.spans)
            share *= min(1.0, 2 * lengths[size // 2] * size / max(1, sum(lengths)))
        if zone := flat.zones[self.spans[0].node]:
            share *= _OUTSIDE_WEIGHT if zone & _OUTSIDE else _BESIDE_WEIGHT
        self.weight = length * share


def flatten(page: ParsedPage) -> FlatPage:
    """Return the rendered elements of a page, and the parts in them."""
    flat = FlatPage()
    body = body_of(page.document)
    resolve = page.link_resolver.__getitem__
    hidden = {each for each in body.select(MAY_BE_HIDDEN) if is_hidden_part(each)}
    is_declared = body.select_one("[itemprop]") is not None
    elements, parents, ends, own_steps, first_parts, end_parts, parts, totals, steps = (
        flat.elements, flat.parents, flat.ends, flat.own_steps, flat.first_parts, flat.end_parts,
        flat.parts, flat.totals, flat.steps,
    )  # fmt: skip
    numbers: dict[tuple[int, str, str, int], int] = {}
    paths: dict[tuple[int, str], int] = {}
    cells: dict[int, int] = {}  # columns of a row that are taken
    todo: list[Any] = [body]
    current = above = -1
    total = 0

    def add_url(kind: str, step: int, address: str | None) -> None:
        url = resolve(address) if address is not None else None
        if url is not None:
            parts.append((kind, step, url[:MAX_CHARACTERS]))
            totals.append(total)

    while todo:
        node = todo.pop()
        kind = type(node)
        if kind is int:
            ends[node] = len(elements)
            end_parts[node] = len(parts)
            current = parents[node]
            above = own_steps[current] if current >= 0 else -1
            continue
        if kind is Text:
            text = collapse_whitespace(node.data).strip(_SEPARATORS)
            if text and (text[0] in "([" or text[-1] in ")]"):
                # Brackets around a text go as well, but not those of a call in it.
                is_call = text[0] not in "([" and text.count("(") == text.count(")") > 0
                text = text if is_call else text.strip(_SEPARATORS + "()[]")
            if text := text[:MAX_CHARACTERS]:
                parts.append(("text", above, text))
                total += len(text)
                totals.append(total)
            continue
        if kind is not Element:
            continue
        tag = node.tag
        if tag in _NOT_READ and not (is_declared and tag == "meta"):
            continue
        if hidden and node in hidden:
            continue
        name = node.attr("class") or ""
        children = node.children
        property_ = node.attr("itemprop") if is_declared else None
        if property_:
            name = f"{name} itemprop={property_.split()[0] if property_.strip() else ''}"
        marks = 0
        if tag in _CONTAINERS and (identifier := node.attr("id")):
            marks = traits_of(identifier)
        elif tag in _CELLS:
            column = cells.get(current, 0)
            cells[current] = column + column_span(node)
            tag = f"{tag}:{column}"
        step = numbers.get((above, tag, name, marks), -1)
        if step < 0:
            if len(steps) >= _MAX_STEPS:
                continue
            step = numbers[above, tag, name, marks] = len(steps)
            outer = steps[above] if above >= 0 else Step(-1, "", "", -1, 0)
            own = _TRAITS_OF_TAG.get(tag, 0) | marks | (traits_of(name) if name else 0)
            path = paths.setdefault((outer.path, tag), len(paths))
            steps.append(Step(above, tag, name, path, own & _BESIDE))
        # The element's own parts come first, then those in it.
        first = len(parts)
        if tag == "a":
            href = node.attr("href")
            add_url("link", step, href if href and href[0] != "#" else None)
        elif tag == "img":
            add_url("image", step, best_source(node))
            continue
        machine = ""
        if tag == "time":
            machine = node.attr("datetime") or ""
        elif tag == "data":
            machine = node.attr("value") or ""
        elif property_:
            machine = node.attr("content") or ""
        text = ""
        if not children:
            text = machine or node.attr("aria-label") or node.attr("title") or ""
            text = collapse_whitespace(text) if text else ""
        elif len(children) == 1 and type(children[0]) is Text:
            text = collapse_whitespace(children[0].data)
        # Most elements begin with a block, which no text has in it.
        elif machine or (
            getattr(children[type(children[0]) is Text], "tag", "a") in _IN_TEXT
            and _is_prose(children)
        ):
            is_broken = node.select_one("br") is not None
            text = collapse_whitespace(" ".join(node.strings) if is_broken else node.text)
            for link in node.select("a[href]") if tag != "a" else ():
                href = link.attr("href") or ""
                add_url("link", step, None if href[:1] == "#" else href)
        else:
            if len(elements) < _MAX_ELEMENTS and len(parts) < MAX_PARTS:
                todo.append(len(elements))
                todo += reversed(children)
                parents.append(current)
                current, above = len(elements), step
                elements.append(node)
                ends.append(0)
                own_steps.append(step)
                first_parts.append(first)
                end_parts.append(0)
            continue
        if text:
            text = text[:MAX_CHARACTERS]
            kind_of = "meta" if tag == "meta" else "text"
            parts.append((kind_of, step, text, machine) if machine else (kind_of, step, text))
            total += len(text)
            totals.append(total)
        if len(parts) > first and tag not in _PLAIN:
            elements.append(node)
            parents.append(current)
            ends.append(len(elements))
            own_steps.append(step)
            first_parts.append(first)
            end_parts.append(len(parts))
    # What is around most of the page is not beside its content, whatever its name.
    widest, menu = total * _MAX_BESIDE_SHARE, total * _MAX_MENU_SHARE
    zones = flat.zones
    for node, (parent, own) in enumerate(zip(parents, own_steps, strict=True)):
        zone = steps[own].traits
        if zone:
            length = totals[end_parts[node]] - totals[first_parts[node]]
            if length > (menu if zone & _MENUS else widest):
                zone = 0
        zones.append(zone | zones[parent] if parent >= 0 else zone)
    path_of = [step.path for step in steps]
    flat.part_paths = [path_of[part[1]] for part in parts]
    return flat


def _is_prose(children: Sequence[Any]) -> bool:
    """Return whether children are one text with emphasis and links in it, and not several parts."""
    around = inside = 0
    is_opened = False  # by text, or by emphasis right before text
    is_formatted = True
    last = end = ""
    for child in children:
        if type(child) is Text:
            end = child.data
            length = len(end.strip())
            if length and not around and (inside == 0 or last in _EMPHASIS):
                is_opened = True
            around += length
        elif type(child) is Element:
            tag = child.tag
            if tag == "br":
                continue
            if tag not in _IN_TEXT:
                return False
            if tag not in _FORMATTING or child.attr("class") is not None:
                is_formatted = False
            inside += len(child.text)
            last = tag if not last else "several"
            end = ""
    if is_formatted:
        return is_opened or (around == 0 and len(children) == 1)
    if not is_opened:
        return False
    if around >= _AROUND and around >= inside:
        return True
    # A sentence goes on after the element in it; a list of parts has separators and numbers.
    return end.strip().replace(" ", "").rstrip(".").isalpha()


# Groups


def find_groups(flat: FlatPage) -> list[Group]:
    """Return the groups of records of a page, the one with most distinct text first."""
    groups = list(_table_groups(flat))
    by_path: defaultdict[int, list[int]] = defaultdict(list)
    totals, first_parts, end_parts = flat.totals, flat.first_parts, flat.end_parts
    for node, step in enumerate(flat.own_steps):
        if end_parts[node] > first_parts[node]:
            by_path[flat.steps[step].path].append(node)
    candidates = []
    least = totals[-1] * _MIN_TEXT_SHARE
    for path, nodes in by_path.items():
        tag = flat.step(nodes[0]).tag
        if len(nodes) > 1 and ":" not in tag and tag not in _PARTS_ONLY:
            length = sum([totals[end_parts[n]] - totals[first_parts[n]] for n in nodes])
            several = [
                sum([part[0] == "text" for part in flat.parts[first_parts[n] : end_parts[n]]])
                >= _MIN_PARTS
                for n in (nodes if length > least and tag in _MAYBE_RECORDS else ())
            ]
            if length > least and 2 * sum(several) >= len(several):
                candidates.append((length, path))
    candidates.sort(key=lambda each: (-each[0], each[1]))
    for _, path in candidates[:_MAX_CANDIDATES]:
        groups += [
            Group([flat.span(node) for node in nodes])
            for nodes in _alike(flat, by_path[path])
            if len(nodes) > 1
        ]
    groups += _sequences(flat)
    for group in groups:
        group.weigh(flat)
    groups = sorted((each for each in groups if each.weight > 0), key=lambda each: -each.weight)
    # Groups inside the records of another one are left out. Rows of cards only arrange records:
    # nearly all their text is that of the cards.
    kept: list[Group] = []
    for group in groups[:_MAX_CANDIDATES]:
        outer = next((each for each in kept if _holds(each, group)), None)
        if outer is not None:
            if _is_container(flat, outer, group):
                kept[kept.index(outer)] = group
            continue
        inner = next((each for each in kept if _holds(group, each)), None)
        if inner is None:
            kept.append(group)
        elif group.weight >= _SAME_TEXT * inner.weight and not _is_container(flat, group, inner):
            kept[kept.index(inner)] = group
    # Records of one class may stand in several places, such as the first ones of a listing.
    merged: list[Group] = []
    by_place: dict[Any, list[Group]] = {}
    for group in kept:
        own = flat.step(group.spans[0].node)
        tags = (_COLUMN.sub("", step.tag) for step in flat.path(group.spans[0].node))
        zone = flat.zones[group.spans[0].node]
        places: list[Any] = [(zone, *tags), (zone, own.tag, own.name, None)][: 1 + bool(own.name)]
        others = [each for place in places for each in by_place.get(place, ())]
        shape = flat.tags_below(group.spans) if others and group.rows is None else set()
        for other in others:
            theirs = flat.tags_below(other.spans)
            if 2 * len(shape & theirs) >= len(shape | theirs):
                other.spans = sorted(other.spans + group.spans)
                other.weight += group.weight
                break
        else:
            merged.append(group)
            if group.rows is None:
                for place in places:
                    by_place.setdefault(place, []).append(group)
    return sorted(merged, key=lambda each: -each.weight)[:MAX_GROUPS]


def _alike(flat: FlatPage, nodes: Sequence[int]) -> list[list[int]]:
    """Divide elements of one path into those of one shape, under containers of one kind."""
    clusters: list[tuple[list[tuple[frozenset[int], frozenset[str]]], int, int, list[int]]] = []
    found: dict[tuple[frozenset[int], str, int, int], list[int]] = {}
    items = flat.step(nodes[0]).tag in _ITEMS
    for node in nodes:
        shape, parent = flat.shape(node), flat.parents[node]
        name = flat.step(node).name
        zone = flat.zones[parent] if parent >= 0 else 0
        kind = traits_of(name) & _OWN_KIND if name else 0
        key = (shape, name, zone, kind)
        members = found.get(key)
        if members is None:
            tokens = frozenset(name.split())
            best, shapes = 0.0, None
            for others, at, own, each in clusters:
                if at != zone or own != kind:
                    continue
                for other, names in others:
                    shared = len(shape & other)
                    likeness = shared / (len(shape) + len(other) - shared)
                    if likeness <= best or likeness < _NAMED_SHAPE:
                        continue
                    if tokens and names:
                        common = len(tokens & names) / min(len(tokens), len(names))
                        other_class = _SIMILAR_SHAPE if items else _SAME_SHAPE
                        least = _NAMED_SHAPE if common >= _SIMILAR_SHAPE else other_class
                    elif tokens == names:
                        least = _NAMED_SHAPE if items else _SIMILAR_SHAPE
                    else:
                        least = _SIMILAR_SHAPE if items else _SAME_SHAPE
                    if likeness >= least:
                        best, members, shapes = likeness, each, others
            if members is None or shapes is None:
                members, shapes = [], []
                if len(clusters) < _MAX_SHAPES:
                    clusters.append((shapes, zone, kind, members))
            if len(shapes) < _MAX_SHAPES:
                shapes.append((shape, tokens))
            found[key] = members
        members.append(node)
    if flat.step(nodes[0]).tag == "li" and len(clusters) > 1:
        # An entry with entries below it is one as well, as in an index.
        largest = max(clusters, key=lambda each: len(each[-1]))
        for cluster in clusters:
            is_beside = cluster is not largest and cluster[1:3] == largest[1:3]
            if is_beside and flat.has_inside(cluster[-1][0], "li"):
                largest[-1].extend(cluster[-1])
                cluster[-1].clear()
        largest[-1].sort()
    return [members for *_, members in clusters]


def _sequences(flat: FlatPage) -> Iterator[Group]:
    """Yield records that are runs of siblings, such as a heading with what follows it."""
    totals, first_parts, end_parts = flat.totals, flat.first_parts, flat.end_parts
    least = totals[-1] * _MIN_RUN_SHARE
    for parent, (first, end) in enumerate(zip(first_parts, end_parts, strict=True)):
        if totals[end] - totals[first] <= least or end - first < 2 * _MIN_PARTS:
            continue
        children = [
            child for child in flat.children(parent) if end_parts[child] > first_parts[child]
        ]
        tag = flat.step(parent).tag
        if len(children) < 2 * _MIN_PARTS or ":" in tag or tag == "tr":
            continue
        # Siblings are of one kind by their shape or, where parts are missing, by their names.
        by_path: defaultdict[int, list[int]] = defaultdict(list)
        for child in children:
            by_path[flat.step(child).path].append(child)
        clusters = [each for nodes in by_path.values() for each in _alike(flat, nodes)]
        numbers = {child: n for n, nodes in enumerate(clusters) for child in nodes}
        by_shape = [numbers.get(child, -1) for child in children]
        best: tuple[float, list[tuple[int, int]]] = (0.0, [])
        for kinds in (by_shape, [flat.own_steps[child] for child in children]):
            counts = Counter(kinds)
            for head in [kind for kind in counts if counts[kind] > 1][:_MAX_HEADS]:
                segments = _segments(kinds, head)
                score = _regularity(kinds, segments)
                if score and flat.step(children[segments[0][0]]).tag in HEADINGS:
                    score += _HEADING_BONUS
                if score > best[0]:
                    best = (score, segments)
        if best[0]:
            yield Group([flat.span(children[a], children[b - 1]) for a, b in best[1]])


def _segments(kinds: Sequence[int], head: int) -> list[tuple[int, int]]:
    """Return the runs of siblings that begin with a kind; the last one ends where it differs."""
    starts = [n for n, kind in enumerate(kinds) if kind == head]
    segments = list(zip(starts, [*starts[1:], len(kinds)], strict=True))
    if len(segments) > 1:
        usual = {kind for a, b in segments[:-1] for kind in kinds[a:b]}
        first, end = segments[-1]
        longest = max(b - a for a, b in segments[:-1])
        stop = first
        while stop < end and kinds[stop] in usual and stop - first < longest:
            stop += 1
        segments[-1] = (first, stop)
    return segments


def _regularity(kinds: Sequence[int], segments: Sequence[tuple[int, int]]) -> float:
    """Return how alike runs are, weighed by the siblings that they cover; 0 if they are no runs."""
    if len(segments) < 2:  # noqa: PLR2004 - a repetition
        return 0.0
    longer = sum(b - a > 1 for a, b in segments)
    if longer < _REGULAR * len(segments):
        return 0.0
    counts = Counter(frozenset(kinds[a:b]) for a, b in segments)
    usual = max(counts, key=lambda shape: (counts[shape], len(shape)))
    likeness = sum(
        count * len(shape & usual) / len(shape | usual) for shape, count in counts.items()
    ) / len(segments)
    covered = sum(b - a for a, b in segments) / len(kinds)
    return likeness + _COVERED_WEIGHT * covered if likeness >= _REGULAR else 0.0


def _table_groups(flat: FlatPage) -> Iterator[Group]:
    """Yield the rows of tables, read by the reader of tables."""
    nodes = [n for n, step in enumerate(flat.own_steps) if flat.steps[step].tag == "table"]
    for node in nodes[:_MAX_TABLES]:
        table = read_table(flat.elements[node])
        if table is None or len(table.rows) <= 1:
            continue
        texts = table_texts(table)
        numbers = {flat.elements[n]: n for n in range(node, flat.ends[node])}
        spans, rows = [], []
        for cells, row in zip(table.rows, texts.rows, strict=True):
            filled = [cell for cell in cells if cell is not None]
            first = next((numbers[cell] for cell in filled if cell in numbers), None)
            if first is None or len(set(filled)) == 1 < len(cells) or is_total(row):
                continue  # a title or an advertisement across the table, or a sum
            parts: list[Part] = []
            for column, (cell, text) in enumerate(zip(cells, row, strict=True)):
                at = numbers.get(cell) if cell is not None else None
                if at is None:
                    continue
                own = flat.parts[flat.first_parts[at] : flat.end_parts[at]]
                machine = next((part[3] for part in own if len(part) > _MACHINE), "")
                if text:
                    value = text[:MAX_CHARACTERS]
                    entry: Part = ("text", column, value)
                    parts.append((*entry, machine) if machine else entry)
                parts += ((part[0], column, part[2]) for part in own if part[0] != "text")
            spans.append(flat.span(flat.parents[first]))
            rows.append(parts)
        # Where rows have links, a single text without one is the heading of a section.
        linked = [any(part[0] == "link" for part in row) for row in rows]
        if sum(linked) >= _REGULAR * len(rows):
            keep = [has or len(row) > 1 for has, row in zip(linked, rows, strict=True)]
            spans, rows = list(compress(spans, keep)), list(compress(rows, keep))
        if len(spans) > 1:
            yield Group(spans, texts.header, rows)


def _holds(outer: Group, inner: Group) -> bool:
    """Return whether most records of a group are inside several records of another one."""
    starts = [span.node for span in outer.spans]
    held = 0
    holders = set()
    for span in inner.spans:
        at = bisect_right(starts, span.node) - 1
        if at >= 0 and span.end <= outer.spans[at].end:
            held += 1
            holders.add(at)
    return 2 * held > len(inner.spans) and len(holders) > 1


def _is_container(flat: FlatPage, outer: Group, inner: Group) -> bool:
    """Return whether the records of a group only arrange those of another one."""
    if len(inner.spans) < 1.5 * len(outer.spans) or outer.rows is not None:
        return False
    least = _INNER_SHARE
    if inner.rows is not None:
        kinds = _alike(flat, [span.node for span in inner.spans])
        if max(map(len, kinds)) < _ONE_KIND * len(inner.spans):
            return False  # records of several rows
        least = _SIMILAR_SHAPE  # rows below headings
    firsts = {flat.parts[span.first_part][2] for span in inner.spans}
    if 2 * len(firsts) <= len(inner.spans):
        return False  # pairs of a label and a value
    parts = sorted(span.end_part - span.first_part for span in inner.spans)
    total = sum(flat.length(span) for span in outer.spans)
    share = sum(flat.length(span) for span in inner.spans) / max(1, total)
    texts = parts[len(parts) // 2]
    if len(outer.spans) <= _SECTIONS and len(inner.spans) >= _FEW * len(outer.spans):
        least = _SIMILAR_SHAPE  # sections of the page
    return share >= least and texts >= _MIN_PARTS


# Records as data


def read_records(page: ParsedPage) -> dict[str, Any]:
    """Return the parts of a page, and where its groups of records are.

    Returns
    -------
    dict
        `language`, the declared one or an empty text; `steps`, the elements that the paths of the
        parts have, each the number of the one above it, or -1, and ``tag.class``; `parts`, each the
        kind of a value, the number of its step, the value and, where there is one, the form for
        programs; and `groups`. A group has `path`, the tags above a record and its own; `header`,
        the names of a table's columns; `weight`, the order of the groups; and `records`: a CSS
        selector of the first element, the first part, the end of the parts, and the number of steps
        above them that are no part of their paths. Records that are rows of a table have a selector
        and parts of their own, with the column in place of the step.
    """
    flat = flatten(page)
    groups: list[dict[str, Any]] = []
    count = 0
    for group in find_groups(flat):
        spans = group.spans[: MAX_RECORDS - count]
        count += len(spans)
        if not spans:
            break
        records: list[list[Any]] = []
        for n, span in enumerate(spans):
            at = flat.elements[span.node].css_path()
            if group.rows is not None:
                records.append([at, group.rows[n]])
                continue
            is_run = span.end > flat.ends[span.node]
            depth = len(flat.path(flat.parents[span.node] if is_run else span.node))
            records.append([at, span.first_part, span.end_part, depth])
        tags = [step.tag for step in flat.path(spans[0].node)]
        entry = {"path": ">".join(tags), "header": group.header, "weight": round(group.weight)}
        groups.append({**entry, "records": records})
    steps = [
        [step.above, f"{step.tag}.{'.'.join(step.name.split())}" if step.name else step.tag]
        for step in flat.steps
    ]
    return {
        "language": page.head.language or "",
        "steps": steps,
        "parts": flat.parts,
        "groups": groups,
    }


# Columns of records


ColumnType: TypeAlias = Literal["text", "number", "money", "date", "time", "url", "image", "list"]

_STATE_WORDS: Final = word_set("odd even first last active selected current open visited new")
_GENERIC_WORDS: Final = word_set(
    "text value item items card cards col cols column columns row rows content contents wrapper"
    " wrap inner outer box block body container grid flex list listing entry data field info left"
    " right top bottom main header footer title-wrap line span div link a td label small large big"
    " cell element node component module section product result record hit teaser post media object"
    " odd even first last active d p m hidden sr only btn button bold muted clearfix"
)
_UTILITY: Final = re.compile(
    r"(?:[a-z]+:)*-?(?:text|font|bg|border|rounded|flex|grid|items|justify|gap|space|[mp][trblxy]?|w"
    r"|h|min|max|leading|tracking|shadow|opacity|z|top|left|col|row|order|d|float|align|fw|fs|lh)-"
    r"[\w./\[\]%#-]+"
)
_HASHED: Final = re.compile(r"(?=.*\d)(?=.*[a-zA-Z])[\w-]*\d[\w-]*|[a-zA-Z]{1,2}|.*[^\w-].*")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LABEL: Final = re.compile(r"\s*([^:：]{1,40}?)\s*[:：]\s*(?=\S)")  # noqa: RUF001 - full width
_LABEL_TAGS: Final = frozenset({"dt", "th", "label"})
_COLONS: Final = (":", "：")  # noqa: RUF001 - full width
_COLON_MARKS: Final = " :："  # noqa: RUF001 - full width
_NUMBER: Final = re.compile(r"(?<![A-Za-z\d._-])[-+\u2212]?\d(?:[\d.,'\u2019\u00a0\u202f ]*\d)?")
_MARKS_OF_NUMBERS: Final = {"\u066b": ".", "\u066c": ",", "\u066a": "%", "\uff05": "%"}
_MISSING: Final = word_set("- \u2013 \u2014 -- --- n/a N/A ? \u2026 ...")
_MAX_LABEL: Final = 40
_MIN_SHARE: Final = 0.3
_LINE: Final = 80
_MAX_UNIT: Final = 20
_PAIR: Final = 2
_YEAR_FIRST: Final = word_set("ja zh ko hu lt sv")
_MAX_ALIGNED: Final = 40  # parts of one path in a record that are aligned by kind
_MAX_UNEVEN: Final = 4  # times the usual parts of one path; a record with more has a list
_INLINE: Final = word_set("a span strong b em i u font small mark bdi")
_NAMES_OF_TAGS: Final = {
    "h1": "title", "h2": "title", "h3": "title", "h4": "title", "h5": "title", "h6": "title",
    "time": "date", "dt": "term", "dd": "description", "p": "text", "blockquote": "quote",
    "cite": "author", "address": "address", "code": "code", "figcaption": "caption",
}  # fmt: skip


class Value(NamedTuple):
    """A part of a record, with its steps from the record."""

    kind: str
    steps: tuple[str, ...]
    text: str
    machine: str = ""


@dataclass(slots=True)
class Column:
    """A column of records.

    Attributes
    ----------
    name
        Its name, unique in its table.
    type
        The type of its values.
    readings
        What the texts of numbers, amounts, days and times say; a text that stands for a missing
        value, such as a dash, has none.
    parts
        The values by the number of their record; several in a column of lists.
    """

    name: str
    type: ColumnType
    parts: dict[int, list[Value]]
    readings: dict[int, Any] = field(default_factory=dict)
    place: float = 0.0

    def strip_label(self) -> None:
        """Take a label that all values begin with, such as "Price:", for the name of the column."""
        parts = [part for own in self.parts.values() for part in own]
        match = _LABEL.match(parts[0].text) if len(parts) > 1 and parts[0].kind == "text" else None
        if match is None or match[1].isdecimal():
            return
        matches = [_LABEL.match(part.text) for part in parts]
        if all(each is not None and each[1] == match[1] for each in matches):
            for number, own in self.parts.items():
                self.parts[number] = [
                    part._replace(text=_LABEL.sub("", part.text, count=1)) for part in own
                ]
            self.name = self.name or match[1]

    def read(self, languages: Sequence[str]) -> None:
        """Find the type of a column that all its values have, and read them."""
        first = next(iter(self.parts.values()))[0]
        if any(len(parts) > 1 for parts in self.parts.values()):
            self.type = "list"
        elif first.kind == "link":
            self.type = "url"
        elif first.kind == "image":
            self.type = "image"
        else:
            texts = {number: parts[0] for number, parts in self.parts.items()}
            texts = {n: part for n, part in texts.items() if part.text not in _MISSING}
            for kind, read in _READERS.items() if texts else ():
                values = read(texts, languages)
                if None not in values.values():
                    self.type = kind
                    self.readings = values
                    break


def columns_of(
    records: Sequence[Sequence[Value]],
    *,
    languages: Sequence[str],
    header: Sequence[str] = (),
) -> list[Column]:
    """Return the columns of records.

    Parameters
    ----------
    records
        The parts of each record, in document order.
    languages
        The language of the page of each record, for its numbers and dates.
    header
        The names of the columns of a table.
    """
    labels = _labels(records)
    columns: list[Column] = []
    by_label: dict[tuple[str, str], Column] = {}
    for column in (each for bucket in _buckets(records, labels) for each in _align(bucket)):
        # A value with and without a link: columns of one label that exclude each other.
        kind = next(iter(column.parts.values()))[0].kind
        other = by_label.get((column.name, kind)) if column.name else None
        if other is not None and other.parts.keys().isdisjoint(column.parts):
            other.parts.update(column.parts)
        else:
            by_label[column.name, kind] = column
            columns.append(column)
    columns = _without_constants(columns, len(records))
    for column in columns:
        column.strip_label()
        column.read(languages)
    taken = {"url", "record", "group", "_source"}
    for column in columns:
        part = next(iter(column.parts.values()))[0]
        base = column.name or _name(part, header)
        if column.type == "number" and not column.name:
            # The unit of its numbers, which the column does not have.
            words = re.findall(r"[^\W\d_]+|%", part.text)
            unit = "_".join(words).lower().replace("%", "percent")[:_MAX_LABEL]
            if unit and unit not in base.lower():
                base = f"{base}_{unit}" if base else unit
        base = base or {"url": "link", "image": "image", "date": "date", "time": "date"}.get(
            column.type, "price" if column.type == "money" else column.type
        )
        if column.type == "url" and not base.endswith(("url", "link", "href")):
            base = f"{base}_url"
        elif column.type == "image" and "im" not in base:
            base = f"{base}_image"
        if base in {"url", "record", "group", "_source"}:
            base = {"url": "link"}.get(base, f"{base}_")
        number = 1
        while {base, f"{base}_currency"} & taken if column.type == "money" else base in taken:
            number += 1
            base = f"{base.removesuffix(f'_{number - 1}')}_{number}"
        column.name = base
        taken |= {base, f"{base}_currency"} if column.type == "money" else {base}
    return columns


# Alignment


@dataclass(slots=True)
class _Bucket:
    """The parts of one kind and path: for each record that has some, their places and values."""

    label: str
    parts: dict[int, list[tuple[float, Value]]] = field(default_factory=dict)

    def types(self) -> set[str]:
        """Return the kinds of the texts."""
        return {_type_of(part.text) for parts in self.parts.values() for _, part in parts}

    def is_mixed(self) -> bool:
        """Return whether a text stands at several places among the parts, as in lists."""
        by_place: defaultdict[int, set[str]] = defaultdict(set)
        for parts in self.parts.values():
            for place, (_, part) in enumerate(parts):
                by_place[place].add(part.text)
        groups = list(by_place.values())
        return any(a & b for n, a in enumerate(groups) for b in groups[n + 1 :])


def _labels(records: Sequence[Sequence[Value]]) -> dict[int, dict[int, str]]:
    """Return, by record and place, the label before a text; a label itself has an empty one.

    A path is one of labels if its few texts come back in many records, or several times in a
    record, each before another text.
    """
    texts: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    several: set[tuple[str, ...]] = set()
    colons: Counter[str] = Counter()
    for parts in records:
        own: Counter[tuple[str, ...]] = Counter()
        for part in parts:
            if part.kind == "text":
                texts[part.steps][part.text] += 1
                own[part.steps] += 1
                if len(part.text) <= _MAX_LABEL and part.text.endswith(_COLONS):
                    colons[part.text] += 1
        several.update(steps for steps, count in own.items() if count > 1)
    least = max(_PAIR, _MIN_SHARE * len(records))
    of_labels = set()
    unordered = _unordered(records, several)
    for steps, counts in texts.items():
        total = sum(counts.values())
        repeated = sum(count for count in counts.values() if count >= least)
        short = all(len(text) <= _MAX_LABEL for text in counts)
        if not short or not steps or steps in unordered:
            continue
        is_named = _tag(steps[-1]) in _LABEL_TAGS and repeated >= 0.5 * total
        is_constant = len(counts) == 1 and total == len(records) > 1
        if (
            is_constant
            or is_named
            or (steps in several and len(counts) > 1 and repeated >= 0.7 * total)
        ):
            of_labels.add(steps)
    found: dict[int, dict[int, str]] = {}
    for number, parts in enumerate(records):
        label, own_labels = "", {}
        before: tuple[str, ...] = ()
        for place, part in enumerate(parts):
            if part.kind != "text":
                continue
            if part.steps in of_labels or colons[part.text] > 1:
                label, before = part.text.strip(_COLON_MARKS), part.steps
                own_labels[place] = ""
            elif label:
                if _beside(before, part.steps):
                    own_labels[place] = label
                label = ""
        found[number] = own_labels
    return found


def _unordered(
    records: Sequence[Sequence[Value]], several: Container[tuple[str, ...]]
) -> set[tuple[str, ...]]:
    """Return the paths whose texts come twice in a record, or in another order in another one.

    Labels do not: these are names of things in a list.
    """
    found: set[tuple[str, ...]] = set()
    orders: defaultdict[tuple[str, ...], set[tuple[str, str]]] = defaultdict(set)
    for parts in records:
        own: dict[tuple[str, ...], list[str]] = {}
        for part in parts:
            if part.kind == "text" and part.steps in several and part.steps not in found:
                own.setdefault(part.steps, []).append(part.text)
        for steps, texts in own.items():
            pairs = set(combinations(texts, 2)) if len(texts) <= _MAX_ALIGNED else {("", "")}
            known = orders[steps]
            if any((b, a) in known or a == b for a, b in pairs):
                found.add(steps)
            known |= pairs
    return found


def _beside(label: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    """Return whether a text is a neighbour of a label, in the same element or its parent."""
    common = 0
    for a, b in zip(label, steps, strict=False):
        if _tag(a) != _tag(b):
            break
        common += 1
    return len(label) - common <= 1 and len(steps) - common <= _PAIR


def _tag(step: str) -> str:
    return step.partition(".")[0]


def _buckets(
    records: Sequence[Sequence[Value]], labels: Mapping[int, Mapping[int, str]]
) -> list[_Bucket]:
    """Group the parts by kind and path, with other class names if they exclude each other."""
    by_tags: defaultdict[tuple[Any, ...], dict[tuple[str, ...], _Bucket]] = defaultdict(dict)
    for number, parts in enumerate(records):
        own = labels.get(number, {})
        for place, part in enumerate(parts):
            label = own.get(place)
            if label == "":
                continue  # a label itself
            tags = tuple(_tag(step) for step in part.steps)
            while part.kind == "text" and tags and tags[-1] in _INLINE and len(tags) > 1:
                if "." in part.steps[len(tags) - 1]:
                    break
                tags = tags[:-1]
            names = tuple(
                ".".join(sorted(word for word in step.split(".")[1:] if word not in _STATE_WORDS))
                for step in part.steps[: len(tags)]
            )
            bucket = by_tags[part.kind, tags, label or ""].setdefault(names, _Bucket(label or ""))
            bucket.parts.setdefault(number, []).append((place, part))
    buckets: list[_Bucket] = []
    for by_names in by_tags.values():
        if len(by_names) == 1:
            buckets += by_names.values()
            continue
        joined: list[tuple[set[str], _Bucket]] = []
        for names, bucket in sorted(by_names.items(), key=lambda each: -len(each[1].parts)):
            words = set(names[-1].split(".")) - {""} if names else set()
            for others, other in joined:
                is_alike = (
                    words & others
                    or not (words and others)
                    or (len(bucket.parts) == 1 and bucket.types() == other.types())
                )
                if is_alike and other.parts.keys().isdisjoint(bucket.parts):
                    other.parts.update(bucket.parts)
                    others.update(words)
                    break
            else:
                joined.append((words, bucket))
        buckets += [bucket for _, bucket in joined]
    return buckets


def _type_of(text: str) -> str:
    """Return the kind of a text, for the alignment of parts that some records do not have."""
    if not any(map(str.isdecimal, text)):
        return "long" if len(text) > _LINE else "text"
    if parse_date(text, day_first=True) is not None:
        return "date"
    amount = parse_amount(text)
    if amount is not None:
        return "money" if amount.symbol else "number"
    letters = re.sub(r"[\d\s.,:/()+-]+", "#", text)
    return letters if len(letters) <= _MAX_UNIT else "long" if len(text) > _LINE else "text"


def _align(bucket: _Bucket) -> list[Column]:
    counts = Counter(len(parts) for parts in bucket.parts.values())
    usual = counts.most_common(1)[0][0]
    if set(counts) == {1}:
        return [_column(bucket.label, bucket.parts)]
    kinds = {
        number: [_type_of(part.text) for _, part in parts] for number, parts in bucket.parts.items()
    }
    longest = max(kinds, key=lambda number: (len(kinds[number]), -number))
    pattern = kinds[longest]
    # The number of kinds that the pattern repeats; its length if it repeats none.
    period = next(
        (
            length
            for length in range(1, len(pattern) // 2 + 1)
            if len(pattern) % length == 0 and pattern[length:] == pattern[:-length]
        ),
        len(pattern),
    )
    is_even = all(count % period == 0 for count in counts)
    if len(counts) == 1 and usual <= _MAX_ALIGNED:
        if is_even and usual > _PAIR * period and bucket.is_mixed():
            return [_list_column(bucket)]
        return [
            _column(bucket.label, {number: [own[at]] for number, own in bucket.parts.items()})
            for at in range(usual)
        ]
    is_uneven = len(pattern) > _MAX_UNEVEN * usual
    if len(pattern) > _MAX_ALIGNED or is_uneven or (is_even and period < len(pattern)):
        return [_list_column(bucket)]
    # Each record is aligned with the longest one, by the kinds of the values in their order.
    aligned: list[dict[int, list[tuple[float, Value]]]] = [{} for _ in pattern]
    known: dict[tuple[str, ...], list[int]] = {}
    for number, parts in bucket.parts.items():
        own = tuple(kinds[number])
        places = known.get(own)
        if places is None:
            places = known[own] = _places(own, pattern)
        for at, part in zip(places, parts, strict=True):
            aligned[at].setdefault(number, []).append(part)
    return [_column(bucket.label, parts) for parts in aligned if parts]


def _column(label: str, parts: Mapping[int, Sequence[tuple[float, Value]]]) -> Column:
    places = sorted(place for own in parts.values() for place, _ in own)
    values = {number: [part for _, part in own] for number, own in parts.items()}
    return Column(label, "text", values, place=places[len(places) // 2])


def _list_column(bucket: _Bucket) -> Column:
    column = _column(bucket.label, bucket.parts)
    column.type = "list"
    return column


def _places(kinds: Sequence[str], pattern: Sequence[str]) -> list[int]:
    """Return the place of each kind in a pattern, in order, with as many equal kinds as can be."""
    rows, width = len(kinds), len(pattern)
    best = [[0.0] * (width + 1) for _ in range(rows + 1)]
    for row in range(1, rows + 1):
        best[row][min(row - 1, width)] = float("-inf")
        for at in range(row, width + 1):
            same = 2.0 if kinds[row - 1] == pattern[at - 1] else 0.1
            skipped = best[row][at - 1]
            best[row][at] = max(best[row - 1][at - 1] + same, skipped)
    places = []
    row, at = rows, width
    while row:
        if at > row and best[row][at] == best[row][at - 1]:
            at -= 1
            continue
        places.append(at - 1)
        row, at = row - 1, at - 1
    return places[::-1]


def _without_constants(columns: Iterable[Column], count: int) -> list[Column]:
    """Drop what is the same in all records, and what another column has; sort by place."""
    kept: list[Column] = []
    seen: set[tuple[Any, ...]] = set()
    for column in sorted(columns, key=lambda each: each.place):
        values = tuple(
            (number, tuple(part.text for part in parts))
            for number, parts in sorted(column.parts.items())
        )
        distinct = {texts for _, texts in values}
        if count > 1 and len(values) == count and len(distinct) == 1:
            continue
        if values in seen:
            continue
        seen.add(values)
        kept.append(column)
    return kept


# Values


Texts: TypeAlias = "Mapping[int, Value]"


def _times(texts: Texts, languages: Sequence[str]) -> dict[int, Any]:  # noqa: ARG001 - as others
    times = {n: parse_timestamp(part.machine) for n, part in texts.items()}
    aware = {time.tzinfo is not None for time in times.values() if time is not None}
    return times if len(aware) == 1 else {0: None}


def _dates(texts: Texts, languages: Sequence[str]) -> dict[int, Any]:
    """Read days; where their numbers may be the other way round, one that may not decides."""
    days: dict[int, Any] = {0: None}
    for day_first in (None, True, False):
        days = {
            n: (parse_date(part.machine) if part.machine else None)
            or parse_date(_ascii(part.text), language=languages[n], day_first=day_first)
            for n, part in texts.items()
        }
        if None not in days.values():
            is_sure = day_first is None or any(
                parse_date(_ascii(part.text), day_first=not day_first) is None
                for part in texts.values()
            )
            language = languages[next(iter(texts))].lower().replace("_", "-").split("-")[0]
            is_usual = language not in {"", "en"} and day_first is (language not in _YEAR_FIRST)
            if is_sure or is_usual:
                return days
    return {0: None}


def _amounts(texts: Texts, languages: Sequence[str]) -> dict[int, Any]:  # noqa: ARG001 - as others
    amounts = {n: parse_amount(_ascii(part.text)) for n, part in texts.items()}
    return {
        n: amount if amount is not None and amount.symbol and amount.highest is None else None
        for n, amount in amounts.items()
    }


def _numbers(texts: Texts, languages: Sequence[str]) -> dict[int, Any]:
    """Read the number in texts that are the same but for it."""
    around = set()
    numbers: dict[int, Any] = {}
    for n, part in texts.items():
        text = _ascii(part.text)
        found = _NUMBER.search(text)
        if found is None:
            return {0: None}
        before = text[: found.start()]
        if before.upper() != before.lower():
            return {0: None}  # "Chapter 3" is a name
        around.add((before, text[found.end() :]))
        numbers[n] = parse_number(found[0], decimal_comma=uses_decimal_comma(languages[n]))
    same = len(around) == 1 and sum(map(len, next(iter(around)))) <= _MAX_LABEL
    return numbers if same else {0: None}


def _ascii(text: str) -> str:
    """Return a text with its digits and their separators as in English."""
    if text.isascii():
        return text
    return "".join(
        str(unicodedata.decimal(each)) if each.isdecimal() else _MARKS_OF_NUMBERS.get(each, each)
        for each in text
    )


_READERS: Final[Mapping[ColumnType, Callable[[Texts, Sequence[str]], dict[int, Any]]]] = {
    "time": _times,
    "date": _dates,
    "money": _amounts,
    "number": _numbers,
}


# Names


def _name(part: Value, header: Sequence[str]) -> str:
    for step in reversed(part.steps):
        tag, *words = step.split(".")
        _, colon, number = tag.partition(":")
        if colon and header and int(number) < len(header) and header[int(number)]:
            return header[int(number)]
        for word in reversed(words):
            if word.startswith("itemprop="):
                return word.removeprefix("itemprop=")
    for step in reversed(part.steps):
        tag, *words = step.split(".")
        name = next(filter(None, map(_readable, reversed(words))), "")
        if name := name or _NAMES_OF_TAGS.get(tag, ""):
            return name
    return ""


def _readable(word: str) -> str:
    """Return the name in a class word; empty if it is about appearance, generic or generated."""
    word = word.partition("___")[0]
    name = word.rpartition("__")[2] if "__" in word else word
    if _UTILITY.fullmatch(name) or _HASHED.fullmatch(name):
        return ""
    parts = [part for part in re.split(r"[-_]+", _CAMEL.sub("-", name)) if part]
    parts = [part.lower() for part in parts]
    useful = [part for part in parts if part not in _GENERIC_WORDS]
    return "_".join(useful)[:_MAX_LABEL] if useful else ""
