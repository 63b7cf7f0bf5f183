"""Scores records that a program read against the true ones: records, values, columns, inventions.

A predicted record is its URL and its values by column. It matches one true record of the same page
if it holds at least half of that record's values (those that are not the same in all records), and
if at most half of its own values are foreign to the record. Of all such pairs those with most
values in common are taken first. A value is right if its text, without regard to white space, or
its typed form is one of the record. Texts that are neither right nor wrong are left out: constant
values, labels, buttons, alternative texts of images.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from html.parser import HTMLParser
from typing import Any, Final, Self
from urllib.parse import unquote, urljoin

from tests.records.values import Group, Money, Record, Value

SHARE: Final = 0.8
"""A column is right if so many of the values of one field are in it."""
_INVISIBLE: Final = frozenset({"script", "style"})
_NUMBER: Final = re.compile(r"\d[\d.,'\u00a0\u202f\u066b\u066c \u2019]*\d|\d")


@dataclass(frozen=True, slots=True)
class Predicted:
    """A record that a program read: the URL of its page, and its values by column."""

    url: str
    values: Mapping[str, Any]


@dataclass(slots=True)
class Counts:
    """What was found, what was given, and what there was to find."""

    right: float = 0
    given: float = 0
    true: float = 0

    def __iadd__(self, other: Self) -> Self:
        self.right += other.right
        self.given += other.given
        self.true += other.true
        return self

    @property
    def precision(self) -> float:
        """The share of what was given that is right."""
        return self.right / self.given if self.given else float(not self.true)

    @property
    def recall(self) -> float:
        """The share of what there was that was found."""
        return self.right / self.true if self.true else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        both = self.given + self.true
        return 2 * self.right / both if both else 1.0


@dataclass(slots=True)
class Score:
    """The figures of one or more sites. `invented` lists values that no page has."""

    records: Counts = field(default_factory=Counts)
    values: Counts = field(default_factory=Counts)
    columns: Counts = field(default_factory=Counts)
    typed: Counts = field(default_factory=Counts)
    invented: list[str] = field(default_factory=list)

    def __iadd__(self, other: Self) -> Self:
        self.records += other.records
        self.values += other.values
        self.columns += other.columns
        self.typed += other.typed
        self.invented += other.invented
        return self

    def line(self) -> str:
        """Return the figures as one line; what was not asked for has none."""
        columns = f"{self.columns.f1:.3f}" if self.columns.true else "-"
        typed = f"{self.typed.recall:.3f}" if self.typed.true else "-"
        return (
            f"records {self.records.precision:.3f} {self.records.recall:.3f} {self.records.f1:.3f}"
            f"  values {self.values.precision:.3f} {self.values.recall:.3f} {self.values.f1:.3f}"
            f"  columns {columns:5}  typed {typed:5}  invented {len(self.invented)}"
        )


_SPACES: Final = re.compile(r"[\s\u200b-\u200f\ufeff]+")


def squeezed(text: str) -> str:
    """Return a text without white space and invisible marks, normalised, for comparison."""
    text = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _SPACES.sub("", text)


def scalars(value: object) -> Iterator[object]:
    """Yield the single values of a value: of lists, and of amounts with currencies."""
    match value:
        case _ if type(value).__name__ in {"NaTType", "NAType"}:
            return
        case None | "":
            return
        case float() if math.isnan(value):
            return
        case Mapping():
            if "amount" in value:
                yield Money(Decimal(str(value["amount"])), str(value.get("currency")))
            else:
                for each in value.values():
                    yield from scalars(each)
        case str() | bytes() | Money():
            yield value
        case Iterable():
            for each in value:
                yield from scalars(each)
        case _:
            yield value


def keys(value: object) -> set[str]:
    """Return the forms under which a single value is compared."""
    match value:
        case Money():
            return {
                f"money:{value.amount.normalize():f}",
                f"money:{value.amount.normalize():f}{value.currency}",
            }
        case datetime():
            return {f"day:{value.date()}"}
        case date():
            return {f"day:{value}"}
        case bool():
            return {str(value)}
        case int() | float() | Decimal():
            return {f"number:{Decimal(str(value)).normalize():f}"}
        case _ if hasattr(value, "item"):  # a number of numpy
            return keys(value.item())
        case _:
            return {squeezed(str(value))}


def true_keys(value: Value) -> set[str]:
    """Return the forms under which a true value is right, the typed ones too."""
    found = {squeezed(text) for text in (value.text, *value.forms)}
    match value.typed:
        case Money(amount=amount, currency=currency):
            plain = f"{amount.normalize():f}"
            found |= {f"money:{plain}{currency}", f"number:{plain}"}
            found |= {squeezed(f"{amount} {currency}"), squeezed(f"{plain} {currency}")}
        case Decimal():
            found |= {f"number:{value.typed.normalize():f}"}
            found |= {f"number:{(value.typed / 100).normalize():f}"} if "%" in value.text else set()
        case date():
            found |= {f"day:{value.typed}"}
    return found


def _all_keys(value: object) -> set[str]:
    """Return the keys of a value: of its single values, and of their texts together."""
    single = list(scalars(value))
    found = {key for each in single for key in keys(each)}
    if len(single) > 1:
        found.add("".join(squeezed(str(each)) for each in single))
    return found


@dataclass(slots=True)
class _Truth:
    """A true record, prepared for comparison: which fields a key is right for."""

    required: dict[str, set[str]]
    parts: dict[str, tuple[str, ...]]
    neutral: set[str]
    currencies: set[str]
    typed: set[str]

    def fields_of(self, value: object) -> set[str]:
        """Return the required fields that a predicted value (all of it) is right for."""
        given = _all_keys(value)
        return {name for name, accepted in self.required.items() if given & accepted}


def _prepare(record: Record, constant: frozenset[str]) -> _Truth:
    required, parts, neutral = {}, {}, {squeezed(text) for text in record.neutral}
    neutral.add(squeezed(record.url))
    currencies, typed = set(), set()
    for name, value in record.values.items():
        accepted = true_keys(value)
        if isinstance(value.typed, Money):
            currencies.add(value.typed.currency)
        pieces = tuple(squeezed(part) for part in value.parts)
        if name in constant or not value.required:
            neutral |= accepted | set(pieces)
            continue
        required[name] = accepted
        if value.typed is not None:
            typed.add(name)
        if pieces:
            parts[name] = pieces
            neutral |= set(pieces)
    return _Truth(required, parts, neutral, currencies, typed)


@dataclass(slots=True)
class _Match:
    """A predicted record beside a true one."""

    fields: dict[str, set[str]]  # the right fields of each column
    found: set[str]
    foreign: int
    given: int


def _compare(predicted: Predicted, truth: _Truth) -> _Match:
    fields: dict[str, set[str]] = {}
    found: set[str] = set()
    foreign = given = 0
    everything = ""
    for column, value in predicted.values.items():
        single = list(scalars(value))
        if not single:
            continue
        everything += "\0" + "\0".join(squeezed(str(each)) for each in single)
        right = truth.fields_of(value)
        if right:
            fields[column] = right
            found |= right
            given += 1
            continue
        unknown = [each for each in single if not _neutral(each, truth)]
        if unknown:
            foreign += 1
            given += 1
    # All parts of a value are as good as the value; whole texts that contain them are, too.
    for name, pieces in truth.parts.items():
        if name not in found and all(piece in everything for piece in pieces):
            found.add(name)
    return _Match(fields, found, foreign, given)


def _neutral(value: object, truth: _Truth) -> bool:
    forms = keys(value)
    if forms & truth.neutral or str(value) in truth.currencies:
        return True
    text = squeezed(str(value))
    # A text of several parts of one value, such as tags with commas.
    return any(
        not re.sub("|".join(map(re.escape, sorted(pieces, key=len, reverse=True))), "", text).strip(
            ",;|/\u00b7\u3001\u060c-\u2013:()"
        )
        for pieces in truth.parts.values()
    )


def score(predicted: Sequence[Predicted], group: Group, pages: Mapping[str, bytes]) -> Score:
    """Score the records that a program read from the pages of a site against a group."""
    result = Score()
    truths = [_prepare(record, group.constant) for record in group.records]
    pairs: list[tuple[int, int, int, int, _Match]] = []
    at_url: dict[str, list[int]] = defaultdict(list)
    for index, record in enumerate(group.records):
        at_url[record.url].append(index)
    owners: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, truth in enumerate(truths):
        for key in {key for accepted in truth.required.values() for key in accepted}:
            owners[group.records[index].url, key].append(index)
    for index, each in enumerate(predicted):
        shared: Counter[int] = Counter()
        for value in each.values.values():
            for key in _all_keys(value):
                shared.update(owners.get((each.url, key), ()))
        for other in at_url.get(each.url, []):
            # A comparison costs time; what has too little in common cannot match.
            if 2 * (shared[other] + len(truths[other].parts)) < len(truths[other].required):
                continue
            match = _compare(each, truths[other])
            enough = 2 * len(match.found) >= len(truths[other].required) > 0
            if enough and match.found and 2 * match.foreign <= match.given:
                pairs.append((-len(match.found), match.foreign, index, other, match))
    taken: dict[int, tuple[int, _Match]] = {}
    used: set[int] = set()
    for _, _, index, other, match in sorted(pairs, key=lambda pair: pair[:4]):
        if index not in taken and other not in used:
            taken[index] = (other, match)
            used.add(other)
    result.records = Counts(len(taken), len(predicted), len(group.records))
    wrong = 0
    places: dict[str, Counter[str]] = defaultdict(Counter)
    present: Counter[str] = Counter()
    columns: set[str] = set()
    for index, each in enumerate(predicted):
        if index in taken:
            match = taken[index][1]
            wrong += match.foreign
            columns |= match.fields.keys()
            for column, names in match.fields.items():
                for name in names:
                    places[name][column] += 1
        else:
            wrong += sum(1 for value in each.values.values() if list(scalars(value)))
    for other, match in taken.values():
        present.update(match.found)
        values = next(p for i, (o, _) in taken.items() if o == other for p in [predicted[i].values])
        for name in truths[other].typed:
            result.typed.true += 1
            result.typed.right += any(
                not isinstance(single, str) and keys(single) & truths[other].required[name]
                for value in values.values()
                for single in scalars(value)
            )
    right = sum(len(match.found) for _, match in taken.values())
    true = sum(len(truth.required) for truth in truths)
    result.values = Counts(right, right + wrong, true)
    result.columns = _columns(places, present, columns, truths)
    result.invented = invented(predicted, group, pages)
    return result


def _columns(
    places: Mapping[str, Counter[str]],
    present: Counter[str],
    columns: set[str],
    truths: Sequence[_Truth],
) -> Counts:
    """Count fields whose values are mostly in one column, each column for one field."""
    names = {name for truth in truths for name in truth.required if name not in truth.parts}
    names |= {name for name in places if places[name]}
    ranked = sorted(
        ((-count, name, column) for name in places for column, count in places[name].items()),
    )
    owners: dict[str, str] = {}
    done: set[str] = set()
    for count, name, column in ranked:
        if name in done or column in owners or -count < SHARE * present[name]:
            continue
        owners[column] = name
        done.add(name)
    # A second column with the values of a field that has one (a text and its number) is no fault.
    doubled = {
        column
        for name in done
        for column, count in places[name].items()
        if column not in owners and count >= SHARE * present[name]
    }
    return Counts(len(done), len(columns - doubled), len(names))


class _PageText(HTMLParser):
    """All texts and attributes of a page."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.texts: list[str] = []
        self.attributes: set[str] = set()
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _INVISIBLE
        for name, value in attrs:
            if not value:
                continue
            self.attributes.add(value)
            if name == "srcset" or name.endswith("-srcset"):
                self.attributes |= {
                    urljoin(self.url, each.split()[0]) for each in value.split(",") if each.strip()
                }
            elif not value.startswith("data:"):
                self.attributes.add(_joined(self.url, value))

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _INVISIBLE

    def handle_data(self, data: str) -> None:
        if self._hidden <= 0:
            self.texts.append(data)


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference.strip())
    except ValueError:
        return reference


def numbers_in(text: str) -> set[str]:
    """Return all numbers that someone could read from a text, in any country."""
    found = set()
    text = unicodedata.normalize("NFKC", text)
    for written in _NUMBER.findall(text):
        pieces = re.split(r"[^\d]", written)
        candidates = {"".join(pieces), *pieces}
        if len(pieces) > 1:
            candidates.add("".join(pieces[:-1]) + "." + pieces[-1])
        # Numbers beside each other with a space in between are two numbers, too.
        for part in re.split(r"\s", written):
            digits = re.split(r"[^\d]", part)
            candidates |= {"".join(digits), "".join(digits[:-1]) + "." + digits[-1]}
        for each in candidates:
            try:
                number = Decimal(each)
            except InvalidOperation:
                continue
            found |= {f"{number.normalize():f}", f"{(number / 100).normalize():f}"}
    return found


def invented(predicted: Sequence[Predicted], group: Group, pages: Mapping[str, bytes]) -> list[str]:
    """Return the values that no text, attribute or typed form of their page has."""
    typed: dict[str, set[str]] = defaultdict(set)
    for record in group.records:
        for value in record.values.values():
            typed[record.url] |= true_keys(value)
            if isinstance(value.typed, Money):
                typed[record.url].add(value.typed.currency)
    sources: dict[str, tuple[str, set[str], set[str]]] = {}
    found = []
    for each in predicted:
        if each.url not in sources:
            reader = _PageText(each.url)
            reader.feed(pages[each.url].decode("utf-8", "replace"))
            text = squeezed("".join(reader.texts))
            attributes = {squeezed(value) for value in reader.attributes}
            attributes |= {squeezed(unquote(value)) for value in reader.attributes}
            numbers = numbers_in("\n".join([*reader.texts, *reader.attributes]))
            sources[each.url] = (text, attributes, numbers)
        text, attributes, numbers = sources[each.url]
        for value in each.values.values():
            for single in scalars(value):
                if isinstance(single, str):
                    bare = squeezed(single)
                    known = (
                        bare in text
                        or bare in attributes
                        or any(bare in attribute for attribute in attributes)
                        or bare in typed[each.url]
                        or squeezed(unquote(single)) in attributes
                    )
                elif isinstance(single, Money):
                    known = f"{abs(single.amount).normalize():f}" in numbers
                else:
                    (key, *_) = keys(single)
                    number = key.removeprefix("number:").removeprefix("-")
                    known = key in typed[each.url] or number in numbers or key.startswith("day:")
                if not known:
                    found.append(f"{each.url}: {single!r}")
    return found
