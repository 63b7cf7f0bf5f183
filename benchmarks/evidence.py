"""Counts the wrong values that the evidence finds, its false alarms, and the time for each value.

A model's answers about generated product pages are compared, of which a fifth of the values are
invented, shifted or merged. With the corpora present the same is done with the labelled pages of
real shops, in two fixed halves (by a hash of the page's key): rules may be developed on half A,
and half B is only for scoring.

Run it from the checkout, with the corpora present, in the environment of the tests::

    python -m benchmarks.evidence
    python -m benchmarks.evidence --sets A --cases

The exit code is 1 if a figure is worse than the limit of its set.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from benchmarks.main_content import half_of
from tests.evidence_pages import Answer, answer, make_pages
from tests.requirements import find
from webdata_nb.page.extract.evidence.evidence import find_evidence
from webdata_nb.page.extract.prices import CURRENCY_OF_SYMBOL

_ATTRIBUTES: Final = ("price", "sku", "availability", "brand", "gtin", "mpn", "currency")
_OPPOSITE: Final = {"InStock": "OutOfStock", "OutOfStock": "InStock"}
_WRONG_SHARE: Final = 0.2

Truths = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class AnsweredPage:
    """A page, the values that a model returns for it, and which of them are wrong."""

    name: str
    source: str
    answer: Answer
    url: str


@dataclass(frozen=True, slots=True)
class EvidenceLimits:
    """The least detection, the most false alarms, and the most milliseconds for each value.

    False alarms are a share of the values whose label has a basis on the page.
    """

    detection: float
    false_alarms: float
    milliseconds: float


LIMITS: Final = {
    "generated": EvidenceLimits(0.99, 0.01, 1.0),
    "A": EvidenceLimits(0.99, 0.01, 20.0),
    "B": EvidenceLimits(0.99, 0.01, 20.0),
}

LABELS_WITHOUT_BASIS: Final = {
    ("c9f80eb2", "availability"): "InStock, but the page declares OutOfStock in JSON-LD and in "
    "microdata, and shows that the product is not in stock",
    ("b4298c1b", "availability"): "OutOfStock, but the status of the classified ad is NOT SOLD",
    ("08b51541", "sku"): "the `show-uid` of the URL, which identifies a view of the page; the "
    "page gives another number as `skuId`",
}
"""Labels of the corpus that their page contradicts, by page and field, with the reason.

To support them would be an error, so the limit of false alarms applies to the other labels.
"""


@dataclass(slots=True)
class EvidenceCounts:
    """What was found among the values of the pages of one set."""

    pages: int = 0
    characters: int = 0
    seconds: float = 0.0
    wrong: int = 0
    right: int = 0
    right_without_basis: int = 0
    alarms_without_basis: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    false_alarms: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)

    def add(self, page: AnsweredPage) -> None:
        """Compare the values of one answer with their page."""
        start = time.process_time()
        evidence = find_evidence(page.source, page.answer.data, url=page.url)
        self.seconds += time.process_time() - start
        self.pages, self.characters = self.pages + 1, self.characters + len(page.source)
        for each in evidence:
            name, is_flagged = each.pointer.rpartition("/")[2], each.verdict == "unsupported"
            kind = page.answer.wrong.get(each.pointer)
            self.wrong, self.right = self.wrong + (kind is not None), self.right + (kind is None)
            if kind is None and (page.name[:8], name) in LABELS_WITHOUT_BASIS:
                self.right_without_basis += 1
                self.alarms_without_basis += is_flagged
            if is_flagged is (kind is not None):
                continue
            counter = self.false_alarms if kind is None else self.missed
            counter[name if kind is None else f"{name} {kind}"] += 1
            value = _value_at(page.answer.data, each.pointer)
            case = f"{page.name[:8]} {each.pointer} {value!r} {kind or 'right'}"
            self.cases[f"{case}: {each.verdict} {each.quote!r} {each.reason}"] += 1

    @property
    def detection(self) -> float:
        """The share of wrong values that are unsupported."""
        return 1 - self.missed.total() / max(1, self.wrong)

    @property
    def alarm_rate(self) -> float:
        """The share of right values that are unsupported, of all labels."""
        return self.false_alarms.total() / max(1, self.right)

    @property
    def alarms_with_basis(self) -> tuple[int, int]:
        """How many right values are unsupported, and of how many, whose label has a basis."""
        alarms = self.false_alarms.total() - self.alarms_without_basis
        return alarms, self.right - self.right_without_basis

    @property
    def alarm_rate_with_basis(self) -> float:
        """The share of these values that are unsupported."""
        alarms, right = self.alarms_with_basis
        return alarms / max(1, right)

    @property
    def milliseconds(self) -> float:
        """The processor time for each value."""
        return self.seconds * 1000 / max(1, self.wrong + self.right)

    def is_within(self, limits: EvidenceLimits) -> bool:
        """Return whether the figures keep to the limits."""
        return (
            self.detection >= limits.detection
            and self.alarm_rate_with_basis <= limits.false_alarms
            and self.milliseconds <= limits.milliseconds
        )

    def __str__(self) -> str:
        found, alarms = self.wrong - self.missed.total(), self.false_alarms.total()
        values, pages = self.wrong + self.right, max(1, self.pages)
        per_page = f"{self.seconds * 1000 / pages:.1f} ms for each page"
        size = f"{self.characters / pages / 1000:.0f} kB and {values / pages:.1f} values"
        detection = f"{found} of {self.wrong} ({self.detection:.4f})"
        false_alarms = f"{alarms} of {self.right} ({self.alarm_rate:.4f})"
        with_basis = "{} of {}".format(*self.alarms_with_basis)
        with_basis += f" ({self.alarm_rate_with_basis:.4f})"
        lines = (
            f"detection     {detection}  {_list(self.missed)}",
            f"false alarms  {false_alarms}  {_list(self.false_alarms)}",
            f"  with basis  {with_basis}  without labels that their page contradicts",
            f"time          {self.milliseconds:.2f} ms for each value, {per_page} of {size}",
        )
        return "\n".join(lines)


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in counts.most_common())


def _value_at(data: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        data = data[int(step)] if isinstance(data, list) else data[step]
    return data


def generated(seed: int, _answers: int) -> Iterator[AnsweredPage]:
    """Return 140 generated pages, each with one answer of a model that gets a fifth wrong."""
    random = Random(seed)
    for number, page in enumerate(make_pages(140, seed)):
        reply = answer(page, random)
        yield AnsweredPage(f"page {number}", page.html, reply, "https://shop.example/p")


def labelled(half: str, seed: int, answers: int) -> Iterator[AnsweredPage]:
    """Return the pages of one half of the corpus, each with several answers."""
    corpora = find("corpora")
    if corpora is None:
        sys.exit(
            "the corpora are missing: name their folder in WEBDATA_CORPORA, or --sets generated"
        )
    pages, truths = _read_corpus(str(corpora / "content" / "products_dev.tar.gz"))
    random = Random(seed)
    data = {key: _values(truth) for key, truth in truths.items() if half_of(key) == half}
    for key in data:
        for _ in range(answers):
            reply = _answer(random, key, data, truths)
            yield AnsweredPage(key, pages[key], reply, truths[key]["url"])


def _read_corpus(path: str) -> tuple[dict[str, str], Truths]:
    """Return the pages and the accepted values of each."""
    pages: dict[str, str] = {}
    truths: Truths = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if (stream := archive.extractfile(member)) is None:
                continue
            if member.name.endswith("truth.json"):
                truths = json.load(stream)
            else:
                key = member.name.rpartition("/")[2].removesuffix(".html")
                pages[key] = stream.read().decode("utf-8", "replace")
    return pages, truths


def _values(truth: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: truth[name][0] for name in _ATTRIBUTES if truth.get(name)}
    return {n: float(v) if n == "price" and _is_number(v) else v for n, v in values.items()}


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _answer(
    random: Random, key: str, data: Mapping[str, Mapping[str, Any]], truths: Truths
) -> Answer:
    """Return the values of a page, a fifth of them wrong."""
    values, wrong = dict(data[key]), dict[str, str]()
    for name, own in data[key].items():
        if random.random() >= _WRONG_SHARE:
            continue
        others = [each[name] for k, each in data.items() if k != key and name in each]
        kind, value = _wrong_value(random, own, data[key], name, others)
        accepted = {_comparable(each) for each in truths[key][name]}
        if _comparable(value) not in accepted:
            values[name], wrong[f"/{name}"] = value, kind
    return Answer(values, wrong)


def _wrong_value(
    random: Random, own: Any, values: Mapping[str, Any], name: str, others: list[Any]
) -> tuple[str, Any]:
    kind = random.choice(("invented", "another page", "another field", "merged"))
    other = random.choice(others) if others else own
    fields = [each for n, each in values.items() if n != name and type(each) is type(own)]
    is_number = isinstance(own, float)
    invented = round(random.random() * 300, 2) if is_number else f"Q{random.random()}"
    invented = _OPPOSITE.get(str(own), invented)
    merged = f"{str(own)[: len(str(own)) // 2]}{str(other)[len(str(other)) // 2 :]}"
    by_kind = {
        "invented": invented,
        "another page": other,
        "another field": random.choice(fields) if fields else other,
        "merged": invented if is_number else merged,
    }
    return kind, by_kind[kind]


def _comparable(value: Any) -> str:
    """Return a value in the form in which values are equal: `$` is `USD`, and case is ignored."""
    text = str(value).casefold()
    return CURRENCY_OF_SYMBOL.get(text, text).casefold()


SETS: Final[dict[str, Callable[[int, int], Iterator[AnsweredPage]]]] = {
    "generated": generated,
    "A": partial(labelled, "A"),
    "B": partial(labelled, "B"),
}


def main() -> int:
    """Print the figures of each set; return 1 if one is worse than its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sets = list(SETS) if find("corpora") else ["generated"]
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=sets)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--answers", type=int, default=5, help="answers about each labelled page")
    parser.add_argument("--cases", action="store_true", help="list what was judged wrongly")
    arguments = parser.parse_args()
    is_within = True
    for name in arguments.sets:
        counts = EvidenceCounts()
        for page in SETS[name](arguments.seed, arguments.answers):
            counts.add(page)
        print(f"{name}\n{counts}")
        for case, count in counts.cases.most_common() if arguments.cases else ():
            print(f"  {count} x {case}")
        is_within = is_within and counts.is_within(LIMITS[name])
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
