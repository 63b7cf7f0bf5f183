"""The generated sites and their scorer: the truth is on the pages, and the scorer knows it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest

from tests.records.documentation import INDEXES, Index
from tests.records.scoring import Predicted, score, squeezed
from tests.records.sites import LAYOUTS, SEEDS, Site, site
from tests.records.values import Value
from tests.records.wcxb import LabelledPage, html_of, labelled_pages, score_page
from tests.requirements import require

SOME = SEEDS[::7]


class Page(HTMLParser):
    def __init__(self, url: str, html: bytes) -> None:
        super().__init__()
        self.url = url
        self.text = ""
        self._values: set[str] = set()
        self.feed(html.decode("utf-8", "replace"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        self._values |= {value for _, value in attrs if value}

    def handle_data(self, data: str) -> None:
        self.text += data

    @cached_property
    def attributes(self) -> set[str]:
        return {urljoin(self.url, value) for value in self._values}


def perfect(of: Site) -> list[Predicted]:
    """Return the truth as a program would give it that reads everything."""
    return [
        Predicted(
            record.url,
            {
                name: list(value.parts) if value.kind == "tags" else value.typed or value.text
                for name, value in record.values.items()
            },
        )
        for record in of.main.records
    ]


def test_true_values_are_on_their_page() -> None:
    for seed in SOME:
        generated = site(seed)
        pages = {url: Page(url, html) for url, html in generated.pages.items()}
        texts = {url: squeezed(page.text) for url, page in pages.items()}
        for each in (record for group in generated.groups for record in group.records):
            for name, value in each.values.items():
                if value.kind in {"url", "image"}:
                    assert value.text in pages[each.url].attributes, (seed, name)
                elif value.kind == "tags" or name == "long":
                    for part in value.parts or (value.text,):
                        assert squeezed(part) in texts[each.url], (seed, name, part)
                else:
                    assert squeezed(value.text) in texts[each.url], (seed, name, value)


def test_sites_are_the_same_in_every_run() -> None:
    pages = b"".join(page for seed in SEEDS[::40] for page in site(seed).pages.values())
    digest = hashlib.sha256(pages).hexdigest()[:16]
    assert digest == "2e5025cc55d8b237", "changed data need new figures"


def test_each_layout_has_every_language_and_both_halves() -> None:
    made = [site(seed) for seed in SEEDS]
    assert len({each.layout for each in made}) == len(LAYOUTS) == 20
    for half in (0, 1):
        pairs = {(each.layout, each.language) for each in made if each.seed % 2 == half}
        assert len(pairs) == 120
    assert all(len(each.main.records) >= 6 for each in made)
    for each in made:
        assert all(2 * other.distinct_text < each.main.distinct_text for other in each.groups[1:])


@pytest.mark.parametrize("seed", SOME)
def test_truth_scores_one(seed: int) -> None:
    generated = site(seed)
    result = score(perfect(generated), generated.main, generated.pages)
    assert result.records.f1 == result.values.f1 == result.columns.f1 == 1.0
    assert result.invented == []


def test_faults_lower_their_own_figure() -> None:
    generated = site(0)
    truth = perfect(generated)
    count = len(truth)

    fewer = score(truth[1:], generated.main, generated.pages)
    assert fewer.records.recall == pytest.approx(1 - 1 / count)
    assert fewer.records.precision == 1

    doubled = score([*truth, truth[0]], generated.main, generated.pages)
    assert doubled.records.precision == pytest.approx(count / (count + 1))
    assert doubled.values.precision < 1 == doubled.values.recall

    elsewhere = score(
        [replace(each, url=f"{each.url}x") for each in truth],
        generated.main,
        {f"{url}x": page for url, page in generated.pages.items()},
    )
    assert elsewhere.records.f1 == 0

    changed = [Predicted(truth[0].url, {**truth[0].values, "extra": "nowhere to be seen"})]
    wrong = score([*changed, *truth[1:]], generated.main, generated.pages)
    assert wrong.records.f1 == 1
    assert wrong.values.precision < 1
    assert len(wrong.invented) == 1

    def turned(number: int, values: dict[str, object]) -> dict[str, object]:
        names = list(values)
        return {
            names[(at + number) % len(names)]: value for at, value in enumerate(values.values())
        }

    mixed = [Predicted(e.url, turned(n, dict(e.values))) for n, e in enumerate(truth)]
    shifted = score(mixed, generated.main, generated.pages)
    assert shifted.values.f1 == 1
    assert shifted.columns.f1 < 0.5

    merged = [
        Predicted(truth[0].url, {str(n): list(e.values.values()) for n, e in enumerate(truth)})
    ]
    assert score(merged, generated.main, generated.pages).records.f1 == 0


def test_wrong_reading_of_a_number_is_wrong() -> None:
    generated = next(
        each
        for each in map(site, SEEDS)
        if each.language == "de"
        and any("." in (r.values.get("price") or Value("")).text for r in each.main.records)
    )
    truth = perfect(generated)
    records = generated.main.records
    at = next(
        n for n, r in enumerate(records) if "price" in r.values and "." in r.values["price"].text
    )
    broken = float(
        records[at]
        .values["price"]
        .text.split("\u00a0")[0]
        .split(" ")[0]
        .split(",")[0]
        .strip("\u20ac")
        or 0
    )
    truth[at] = Predicted(truth[at].url, {**truth[at].values, "price": broken})
    result = score(truth, generated.main, generated.pages)
    assert result.values.precision < 1
    assert result.values.recall < 1


def as_given(page: LabelledPage) -> list[Predicted]:
    """Return the labels as a program would give them."""
    return [
        Predicted(page.url, {name: label.text for name, label in each.items()})
        for each in page.records
    ]


def test_labels_of_real_pages_are_sixty_sites_in_two_halves() -> None:
    pages = labelled_pages()
    hosts = {".".join((urlsplit(page.url).hostname or "").split(".")[-2:]) for page in pages}
    assert len(pages) == len(hosts) == 60
    assert [len(labelled_pages(split)) for split in ("dev", "held_out")] == [30, 30]
    for page in pages:
        assert len(page.records) >= 5
        assert all(len(label.text) <= 80 for each in page.records for label in each.values())


@pytest.mark.slow
def test_labels_score_one_and_merged_records_score_nothing() -> None:
    for page in labelled_pages():
        given = as_given(page)
        assert score_page(given, page).records.f1 == 1, page.key
        half = score_page(given[::2], page)
        assert half.records.precision == 1
        assert half.records.recall == pytest.approx(len(given[::2]) / len(given))
        row = {str(n): list(each.values.values()) for n, each in enumerate(given)}
        assert score_page([Predicted(page.url, row)], page).records.f1 == 0, page.key


@pytest.mark.slow
def test_labels_are_on_the_pages_of_the_corpora() -> None:
    pages = labelled_pages()
    html = html_of(require("corpora"), pages)
    for page in pages:
        text = squeezed(Page(page.url, html[page.key]).text)
        for each in page.records:
            shown = [label for name, label in each.items() if name != "link"]
            assert all(squeezed(label.text) in text for label in shown), (page.key, each)


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: f"{index.component}-{index.path}")
def test_records_of_documentation_indexes_are_on_their_page(index: Index) -> None:
    body, true = index.load(require(index.component))
    page = Page(index.url, body)
    text = squeezed(page.text)
    assert len(true.records) >= 3
    for each in true.records:
        shown = [value for value in each.values.values() if value.kind == "text"]
        assert all(squeezed(value.text) in text for value in shown)
        assert "link" not in each.values or each.values["link"].text in page.attributes
    values = [{name: v.text for name, v in each.values.items()} for each in true.records]
    result = score([Predicted(index.url, each) for each in values], true, {index.url: body})
    assert result.records.f1 == 1
    assert result.values.f1 == 1
