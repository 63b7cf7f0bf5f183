"""Counts the wrong values that the evidence finds, its false alarms, and the time for each value.

::

    python -m benchmarks.evidence --pages 140
    python -m benchmarks.evidence --corpus ../shared/corpora/content/products_dev.tar.gz

Without a corpus the pages are generated. With one, they are labelled pages of real shops, and the
values of another page are the wrong ones.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.evidence_pages import Answer, answer, make_pages
from webdata_nb.service.extract.evidence.evidence import find_evidence

_ATTRIBUTES: Final = ("price", "sku", "availability", "brand", "gtin", "mpn", "currency")
_WRONG_SHARE: Final = 0.2


@dataclass(slots=True)
class EvidenceCounts:
    """What was found among the values of all pages."""

    wrong: int = 0
    found: int = 0
    right: int = 0
    false_alarms: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, page: str, reply: Answer, url: str) -> None:
        """Compare the values of one answer with their page."""
        start = time.process_time()
        evidence = find_evidence(page, reply.data, url=url)
        self.seconds += time.process_time() - start
        for each in evidence:
            name, is_flagged = each.pointer.rpartition("/")[2], each.verdict == "unsupported"
            if each.pointer in reply.wrong:
                self.wrong, self.found = self.wrong + 1, self.found + is_flagged
                self.missed[f"{name} {reply.wrong[each.pointer]}"] += not is_flagged
            else:
                self.right += 1
                self.false_alarms[name] += is_flagged

    def __str__(self) -> str:
        values, alarms = self.wrong + self.right, self.false_alarms.total()
        share = f"({alarms / self.right:.4f})"
        return "\n".join(
            (
                f"values        {values}",
                f"detection     {self.found} of {self.wrong} ({self.found / self.wrong:.4f})",
                f"false alarms  {alarms} of {self.right} {share} {dict(+self.false_alarms)}",
                f"missed        {dict(+self.missed)}",
                f"time          {self.seconds / values * 1000:.2f} ms for each value",
            )
        )


def generated(pages: int, seed: int) -> Iterator[tuple[str, Answer, str]]:
    """Return generated pages with the answers of a model that gets a fifth wrong."""
    random = Random(seed)
    for page in make_pages(pages, seed):
        yield page.html, answer(page, random), "https://shop.example/p"


def labelled(path: str, seed: int) -> Iterator[tuple[str, Answer, str]]:
    """Return the pages of a corpus, a fifth of whose values are replaced."""
    random, pages, truths = Random(seed), dict[str, str](), dict[str, Any]()
    with tarfile.open(path) as archive:
        for member in archive:
            if (stream := archive.extractfile(member)) is None:
                continue
            if member.name.endswith("truth.json"):
                truths = json.load(stream)
            else:
                key = member.name.rpartition("/")[2].removesuffix(".html")
                pages[key] = stream.read().decode("utf-8", "replace")
    data = {key: _values(truth) for key, truth in truths.items()}
    for key, page in pages.items():
        yield page, _changed(random, key, data, truths), truths[key]["url"]


def _values(truth: dict[str, Any]) -> dict[str, Any]:
    values = {name: truth[name][0] for name in _ATTRIBUTES if truth.get(name)}
    return {n: float(v) if n == "price" and _is_number(v) else v for n, v in values.items()}


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _changed(
    random: Random, key: str, data: dict[str, dict[str, Any]], truths: dict[str, Any]
) -> Answer:
    values, wrong = dict(data[key]), dict[str, str]()
    for name, own in data[key].items():
        if random.random() >= _WRONG_SHARE:
            continue
        other = random.choice([v[name] for k, v in data.items() if k != key and name in v])
        kind = random.choice(("invented", "another page", "another field", "merged"))
        fields = [v for n, v in data[key].items() if n != name and type(v) is type(own)]
        invented = (
            round(random.random() * 300, 2) if isinstance(own, float) else f"Q{random.random()}"
        )
        merged = f"{str(own)[: len(str(own)) // 2]}{str(other)[len(str(other)) // 2 :]}"
        value = {
            "invented": invented,
            "another page": other,
            "another field": random.choice(fields) if fields else other,
            "merged": invented if isinstance(own, float) else merged,
        }[kind]
        if str(value).casefold() not in {str(each).casefold() for each in truths[key][name]}:
            values[name], wrong[f"/{name}"] = value, kind
    return Answer(values, wrong)


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=140)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--corpus", help="a tar.gz of labelled product pages")
    arguments = parser.parse_args()
    counts = EvidenceCounts()
    pages = generated(arguments.pages, arguments.seed)
    if arguments.corpus:
        pages = labelled(arguments.corpus, arguments.seed)
    for page, reply, url in pages:
        counts.add(page, reply, url)
    print(counts)


if __name__ == "__main__":
    main()
