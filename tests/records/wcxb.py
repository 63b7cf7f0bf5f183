"""Labels of 60 listing pages of 60 sites, and how records are scored against them.

The pages are those of the corpora's ``wcxb_dev_all`` with the types listing and collection, in
turns, each type in the order of the SHA-256 of the page's key, one page of a site. A page without a
listing, or without one that is the main one, was left out for the next; `skipped` in the file gives
the reason of each. The labels were read from the HTML with selectors that were written by hand for
each page, before any program had read its records. Pages with an even place in this order are for
development (`split` is "dev"), the others are held out.

A record has two to six of its values; texts of more than 80 characters are cut.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from tests.records.scoring import Counts, Predicted, Score, keys, numbers_in, scalars, squeezed

_LABELS: Final = Path(__file__).parent / "wcxb_labels.json"
_DATES: Final = ("%b %d, %Y", "%B %d, %Y", "%m/%d/%Y", "%d %B %Y", "%d %b %Y")
_SHORT: Final = 4
"""A label with fewer characters has to be a value of its own, not a part of one."""


@dataclass(frozen=True, slots=True)
class Label:
    """A value of a labelled record; a cut one is only its beginning."""

    text: str
    cut: bool

    def typed(self) -> frozenset[str]:
        """Return the keys of the numbers and dates that the text may stand for."""
        return _typed(self.text)


@cache
def _typed(text: str) -> frozenset[str]:
    found = set()
    for form in _DATES:
        try:
            found.add(f"day:{datetime.strptime(text, form).date()}")  # noqa: DTZ007
        except ValueError:
            continue
    if len(text) < 20 and not found:
        found |= {f"number:{number}" for number in numbers_in(text)}
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class LabelledPage:
    """A page of the corpora with the records of its main group."""

    key: str
    url: str
    split: str
    records: list[dict[str, Label]]


def labelled_pages(split: str | None = None) -> list[LabelledPage]:
    """Return the labelled pages, all or those of one split."""
    pages: Mapping[str, dict[str, Any]] = json.loads(_LABELS.read_text(encoding="utf-8"))["pages"]
    return [
        LabelledPage(
            key,
            page["url"],
            page["split"],
            [{name: _label(value) for name, value in each.items()} for each in page["records"]],
        )
        for key, page in pages.items()
        if split in {None, page["split"]}
    ]


def _label(value: str | dict[str, str]) -> Label:
    return Label(value, cut=False) if isinstance(value, str) else Label(value["starts"], cut=True)


def html_of(corpora: Path, pages: Sequence[LabelledPage]) -> dict[str, bytes]:
    """Return the HTML of labelled pages by their key."""
    wanted = {f"{page.key}.html": page.key for page in pages}
    found = {}
    with tarfile.open(corpora / "content" / "wcxb_dev_all.tar.gz") as tar:
        for member in tar:
            key = wanted.get(Path(member.name).name)
            file = tar.extractfile(member) if key else None
            if key and file:
                found[key] = file.read()
    return found


def score_page(predicted: Sequence[Predicted], page: LabelledPage) -> Score:
    """Score records that were read from a labelled page.

    A record matches the label of which it has most values, at least half of them, unless it has
    half of the values that only another label has: then it is two records in one.
    """
    owners = Counter(label.text for each in page.records for label in set(each.values()))
    pairs: list[tuple[int, int, int]] = []
    labels_of_page = {label for each in page.records for label in each.values()}
    for index, record in enumerate(predicted):
        texts, typed = _forms(record)
        found = {label for label in labels_of_page if _holds(label, texts, typed)}
        # "Fasteners" is not there because "Belt Fasteners" is.
        found = {
            label
            for label in found
            if squeezed(label.text) in texts
            or not any(label.text in other.text for other in found - {label})
        }
        held = [set(each.values()) & found for each in page.records]
        own = [
            {label for label in each.values() if owners[label.text] == 1} for each in page.records
        ]
        whole = [
            n
            for n, labels in enumerate(own)
            if labels
            and 2 * len(labels & held[n]) >= len(labels)
            and 2 * len(held[n]) >= len(page.records[n])
        ]
        if len(whole) > 1:
            continue
        pairs += [
            (-len(labels), index, n)
            for n, labels in enumerate(held)
            if labels and 2 * len(labels) >= len(page.records[n]) and whole in ([], [n])
        ]
    taken: dict[int, int] = {}
    counts = 0
    for count, index, n in sorted(pairs):
        if index not in taken and n not in taken.values():
            taken[index] = n
            counts -= count
    true = sum(map(len, page.records))
    return Score(
        records=Counts(len(taken), len(predicted), len(page.records)),
        # What else a record has is not labelled, and so not wrong.
        values=Counts(counts, counts, true),
    )


def _forms(record: Predicted) -> tuple[list[str], set[str]]:
    single = [each for value in record.values.values() for each in scalars(value)]
    texts = [squeezed(str(each)) for each in single]
    texts += [squeezed(unquote(each)) for each in single if isinstance(each, str) and "%" in each]
    typed: set[str] = set()
    for each in single:
        if not isinstance(each, str):
            typed |= {key.replace("money:", "number:") for key in keys(each)}
    return texts, typed


def _holds(label: Label, texts: Sequence[str], typed: set[str]) -> bool:
    wanted = squeezed(label.text)
    if label.cut or len(wanted) >= _SHORT:
        found = any(wanted in text for text in texts)
    else:
        found = wanted in texts
    return found or bool(label.typed() & typed)
