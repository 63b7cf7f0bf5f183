"""What generated records say: values as a page shows them, and what they mean."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

VOCABULARY: Final[dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "vocabulary.json").read_text(encoding="utf-8")
)
LANGUAGES: Final = tuple(VOCABULARY)
_NARROW_SPACE: Final = "\u202f"
_SEPARATORS: Final = {
    "en": (",", "."),
    "de": (".", ","),
    "fr": (_NARROW_SPACE, ","),
    "es": (".", ","),
    "ja": (",", "."),
    "ar": (",", "."),
}
_MONEY: Final = {
    "en": (("USD", "${0}"), ("GBP", "\u00a3{0}"), ("USD", "USD {0}")),
    "de": (("EUR", "{0}\u00a0\u20ac"), ("EUR", "{0} EUR"), ("EUR", "\u20ac {0}")),
    "fr": (("EUR", "{0}\u00a0\u20ac"), ("EUR", "{0} EUR")),
    "es": (("EUR", "{0} \u20ac"), ("EUR", "{0}\u20ac")),
    "ja": (("JPY", "\u00a5{0}"), ("JPY", "{0}\u5186"), ("JPY", "\uffe5{0}")),
    "ar": (("SAR", "{0} \u0631.\u0633"), ("EGP", "{0} \u062c.\u0645"), ("SAR", "SAR {0}")),
}
_DATES: Final = {
    "en": ("{month} {day}, {year}", "{day} {month} {year}", "{year}-{mm}-{dd}"),
    "de": ("{day}. {month} {year}", "{dd}.{mm}.{year}"),
    "fr": ("{day} {month} {year}", "{dd}/{mm}/{year}"),
    "es": ("{day} de {month} de {year}", "{dd}/{mm}/{year}"),
    "ja": ("{year}\u5e74{m}\u6708{day}\u65e5", "{year}/{mm}/{dd}"),
    "ar": ("{day} {month} {year}", "{year}/{mm}/{dd}"),
}
_INDIC: Final = str.maketrans("0123456789,.", "٠١٢٣٤٥٦٧٨٩\u066c\u066b")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Money:
    """An amount with its currency."""

    amount: Decimal
    currency: str


Typed: TypeAlias = Decimal | Money | date


@dataclass(frozen=True, slots=True)
class Value:
    """A displayed text (or an absolute URL) with its typed form, and what else stands for it.

    `forms` are other texts that say the same, such as the text with its label. A value with
    `parts` is also right if all its parts are there. Values that are not `required` are neither
    right nor wrong.
    """

    text: str
    kind: str = "text"
    typed: Typed | None = None
    forms: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    required: bool = True


@dataclass(slots=True)
class Record:
    """The true values of one record; `neutral` texts are neither right nor wrong."""

    url: str
    values: dict[str, Value] = field(default_factory=dict)
    neutral: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one shape. All records have the same value in the `constant` fields."""

    name: str
    records: list[Record]
    constant: frozenset[str]

    @property
    def distinct_text(self) -> int:
        """The characters of the group's distinct displayed values."""
        texts = {
            value.text
            for record in self.records
            for value in record.values.values()
            if value.kind not in {"url", "image"}
        }
        return sum(map(len, texts))


def group(name: str, records: list[Record]) -> Group:
    """Build a group and find which of its fields are constant."""
    names = {name for record in records for name in record.values}
    constant = {
        name
        for name in names
        if len({r.values[name].text if name in r.values else None for r in records}) == 1
    }
    return Group(name, records, frozenset(constant))


DOMAINS: Final[dict[str, dict[str, float]]] = {
    # How often a record has a field; a layout with gaps lowers all but the title's.
    "products": dict.fromkeys(("image", "title", "brand", "price", "state"), 1)
    | {"badge": 0.3, "rating": 0.8, "reviews": 0.8, "old": 0.3, "long": 1},
    "books": dict.fromkeys(("title", "author", "publisher", "year", "price"), 1)
    | {"image": 1, "rating": 0.7, "long": 0.6},
    "homes": dict.fromkeys(("image", "title", "city", "area", "rooms", "price"), 1)
    | {"badge": 0.3, "long": 1},
    "cars": dict.fromkeys(("image", "title", "year", "mileage", "fuel", "price", "city"), 1),
    "recipes": dict.fromkeys(("title", "author", "minutes", "servings", "long"), 1)
    | {"image": 1, "rating": 0.7, "tags": 1},
    "news": dict.fromkeys(("category", "title", "long", "author", "date"), 1)
    | {"image": 0.8, "comments": 0.7},
    "papers": dict.fromkeys(("title", "author", "year", "doi"), 1) | {"long": 0.8},
    "people": dict.fromkeys(("title", "role", "city", "phone", "email"), 1) | {"image": 0.8},
    "packages": dict.fromkeys(("title", "version", "long", "downloads", "date", "size"), 1),
    "jobs": dict.fromkeys(("title", "company", "city", "kind", "date"), 1)
    | {"salary": 0.6, "long": 0.8},
    "events": dict.fromkeys(("title", "date", "venue", "city"), 1)
    | {"image": 0.7, "price": 0.7, "long": 1},
    "teams": dict.fromkeys(("rank", "title", "played", "points", "change"), 1),
    "cities": dict.fromkeys(("rank", "title", "population", "area", "change"), 1),
}
_TOPICAL: Final = frozenset({"books", "news", "papers", "events"})


class Writer:
    """Writes the values of one site: one language, one form of money, numbers and dates."""

    def __init__(self, seed: str, language: str) -> None:
        self.rng = Random(seed)
        self.language = language
        self.words = VOCABULARY[language]
        self.indic = language == "ar" and self.rng.random() < 0.5
        self.currency, self.money_form = self.rng.choice(_MONEY[language])
        self.date_form = self.rng.choice(_DATES[language])
        self._titles: set[str] = set()

    def word(self, kind: str) -> str:
        """Return a word of the vocabulary."""
        return str(self.rng.choice(self.words[kind]))

    def ui(self, name: str, *values: object) -> str:
        """Return a text of the user interface."""
        return str(self.words["ui"][name]).format(*values)

    def label(self, name: str) -> str:
        """Return the label of a field."""
        return str(self.words["labels"].get(name, name))

    def number(self, value: Decimal | int) -> str:
        """Write a number in the form of the language."""
        thousands, decimal = _SEPARATORS[self.language]
        text = f"{value:,}".translate(str.maketrans(",.", "\0\1"))
        text = text.replace("\0", thousands).replace("\1", decimal)
        return text.translate(_INDIC) if self.indic else text

    def sentence(self) -> str:
        """Return a sentence."""
        parts = [self.word(kind) for kind in ("subjects", "verbs", "tails")]
        return "".join(parts) if self.language == "ja" else " ".join(parts) + "."

    def paragraph(self, most: int = 3) -> str:
        """Return one to `most` sentences."""
        joint = "" if self.language == "ja" else " "
        return joint.join(self.sentence() for _ in range(self.rng.randint(1, most)))

    def person(self) -> str:
        """Return a name."""
        first, last = self.word("first"), self.word("last")
        return f"{last} {first}" if self.language == "ja" else f"{first} {last}"

    def title(self, domain: str) -> str:
        """Return a title that no other record of the site has."""
        for _ in range(200):
            if domain in _TOPICAL:
                text = self.word("frames").format(self.word("topics"))
            elif domain == "people":
                text = self.person()
            elif domain == "jobs":
                text = f"{self.word('roles')} \u2013 {self.word('tags')}"
            elif domain == "packages":
                stem = self.rng.choice(("py", "lib", "node-", "go-", "rust-", "tiny-", ""))
                text = stem + self.rng.choice(("parse", "queue", "http", "graph", "cron", "tar"))
                text += self.rng.choice(("", "-core", "-client", "-utils", "2", "-cli"))
            elif domain in {"cities", "teams"}:
                text = self.word("cities")
                text = f"{self.word('colors')} {text}" if domain == "teams" else text
            else:
                pair = [self.word("adjectives"), self.word("nouns")]
                text = " ".join(pair[::-1] if self.language in {"fr", "es", "ar"} else pair)
                if self.rng.random() < 0.3:
                    text += f" {self.rng.choice('ABKLTX')}{self.rng.randint(10, 990)}"
            if text not in self._titles:
                break
        self._titles.add(text)
        return text

    def money(self, low: int = 5, high: int = 2500) -> Value:
        """Return an amount of money, thousands now and then."""
        span = high if self.rng.random() < 0.4 else low + (high - low) // 10
        if self.currency == "JPY":
            amount = Decimal(self.rng.randint(low, span) * 10)
        else:
            cents = self.rng.choice(("00", "50", "90", "95", "99", "49"))
            amount = Decimal(f"{self.rng.randint(low, span)}.{cents}")
        digits = self.number(amount)
        sign = self.money_form.replace("{0}", "").strip()
        text = self.money_form.format(digits)
        return Value(text, "money", Money(amount, self.currency), parts=(sign, digits))

    def count(self, low: int, high: int, unit: str | None = None) -> Value:
        """Return a number, with a unit if one is named."""
        value = self.rng.randint(low, high)
        digits = self.number(value)
        form = self.words["units"].get(unit, "{0}") if unit else "{0}"
        return Value(form.format(digits), "number", Decimal(value), forms=(digits,))

    def day(self, first: date = date(2023, 1, 1), days: int = 900) -> Value:
        """Return a date."""
        day = first + timedelta(days=self.rng.randrange(days))
        text = self.date_form.format(
            day=day.day,
            dd=f"{day.day:02}",
            m=day.month,
            mm=f"{day.month:02}",
            month=self.words["months"][day.month - 1],
            year=day.year,
        )
        text = text.translate(_INDIC) if self.indic else text
        return Value(text, "date", day)

    def value(self, name: str, domain: str) -> Value:
        """Return a value of a field."""
        rng = self.rng
        match name:
            case "title":
                return Value(self.title(domain), "title")
            case "price" | "old":
                scale = {"homes": (90_000, 900_000), "cars": (900, 60_000)}
                return self.money(*scale.get(domain, (5, 2500)))
            case "salary":
                return self.money(1800, 90_000)
            case "rating":
                stars = Decimal(rng.randint(20, 50)) / 10
                form = rng.choice(("{0}",))
                return Value(form.format(self.number(stars)), "rating", stars)
            case "reviews" | "comments" | "votes":
                return self.count(2, 1900, name)
            case "points":
                return self.count(3, 90)
            case "played":
                return self.count(8, 34)
            case "population":
                return self.count(20_000, 3_000_000)
            case "downloads":
                return self.count(100, 900_000)
            case "mileage":
                return self.count(900, 190_000, name)
            case "area":
                return self.count(28, 240, name)
            case "rooms" | "servings":
                return self.count(2, 9, name)
            case "minutes":
                return self.count(10, 180, name)
            case "year":
                year = rng.randint(1990, 2025)
                text = str(year).translate(_INDIC) if self.indic else str(year)
                return Value(text, "number", Decimal(year))
            case "change":
                change = Decimal(rng.randint(-99, 99)) / 10
                sign = "+" if change >= 0 else "-"
                form = f"{sign}{self.number(abs(change))}%"
                return Value(form, "number", change)
            case "weight" | "size":
                amount = Decimal(rng.randint(3, 990)) / 10
                return Value(
                    f"{self.number(amount)} {'kg' if name == 'weight' else 'MB'}", "number", amount
                )
            case "date":
                return self.day()
            case "author":
                return Value(self.person())
            case "brand" | "company" | "publisher" | "venue":
                return Value(self.word("companies"))
            case "city" | "role":
                return Value(self.word("cities" if name == "city" else "roles"))
            case "state" | "fuel" | "badge" | "kind":
                return Value(self.word(f"{name}s"))
            case "color" | "material":
                return Value(self.word(f"{name}s"))
            case "category":
                return Value(self.word("tags"))
            case "tags":
                tags = rng.sample(self.words["tags"], rng.randint(2, 4))
                return Value(" ".join(tags), "tags", parts=tuple(tags))
            case "sku":
                return Value(f"{rng.choice('ABCDE')}{rng.randint(1000, 99999)}-{rng.randint(1, 9)}")
            case "version":
                return Value(f"{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}")
            case "doi":
                return Value(f"10.{rng.randint(1000, 9999)}/{rng.randint(10_000, 99_999)}")
            case "phone":
                return Value(
                    f"+{rng.randint(20, 49)} {rng.randint(100, 999)} {rng.randint(10_000, 99_999)}"
                )
            case "email":
                return Value(f"{rng.choice('abcdefgh')}.{rng.randint(100, 9999)}@mail.example")
            case _:
                return Value(self.paragraph(), "long")

    def fields(self, domain: str, gaps: float = 0.0) -> dict[str, Value]:
        """Return the values of a record; `gaps` is the share of fields that are left out."""
        values = {}
        for name, share in DOMAINS[domain].items():
            if name == "title" or self.rng.random() < share * (1 - gaps):
                values[name] = self.value(name, domain)
        if "old" in values and "price" not in values:
            del values["old"]
        if "reviews" in values and "rating" not in values:
            del values["reviews"]
        return values
