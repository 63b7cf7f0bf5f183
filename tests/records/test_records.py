"""Records without a schema, against the truth of generated, labelled and documentation pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean

import pytest

from benchmarks.records import (
    LABELLED_F1,
    RECORDS_F1,
    VALUES_F1,
    Result,
    ours,
    read_labelled,
    read_sites,
)
from tests.records.documentation import INDEXES, Index
from tests.records.scoring import scalars, score, squeezed
from tests.records.sites import LAYOUTS, SEEDS, site
from tests.records.wcxb import html_of, labelled_pages
from tests.requirements import require

DEVELOPMENT = [seed for seed in SEEDS if seed % 2 == 0]
HELD_OUT = [seed for seed in SEEDS if seed % 2 == 1]


def check(result: Result) -> None:
    assert result.total.records.f1 >= RECORDS_F1, result.line("records")
    assert result.total.values.f1 >= VALUES_F1, result.line("values")
    assert result.total.invented == []


def test_records_of_generated_sites() -> None:
    """Two sites of each layout; the slow test has all that were held out."""
    check(Result.of(read_sites(ours, [site(seed) for seed in DEVELOPMENT[: 2 * len(LAYOUTS)]])))


@pytest.mark.slow
def test_records_of_generated_sites_held_out() -> None:
    check(Result.of(read_sites(ours, [site(seed) for seed in HELD_OUT])))


@pytest.fixture(scope="module")
def html() -> dict[str, bytes]:
    """Give the HTML of all labelled pages by their key."""
    return html_of(require("corpora"), labelled_pages())


@pytest.mark.slow
@pytest.mark.parametrize("split", ["dev", "held_out"])
def test_records_of_labelled_pages(split: str, html: dict[str, bytes]) -> None:
    result = Result.of(read_labelled(ours, labelled_pages(split), html))
    assert mean(result.records) >= LABELLED_F1, result.line(split)


# Indexes that lack some values: of rows without a link, or with a word of another class in a text.
RECALL = {
    "python-docs-py-modindex.html": 0.97,
    "apache-docs-mod/quickreference.html": 0.999,
    "postgresql-docs-reference-client.html": 0.95,
    "postgresql-docs-reference-server.html": 0.97,
}


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: f"{index.component}-{index.path}")
def test_records_of_documentation_indexes_are_exact(index: Index) -> None:
    body, true = index.load(require(index.component))
    result = score(ours({index.url: body}), true, {index.url: body})
    assert result.records.given == result.records.true, result.line()
    assert result.records.f1 == 1, result.line()
    least = RECALL.get(f"{index.component}-{index.path}", 1)
    assert result.values.recall >= least, result.line()
    assert result.invented == []


def test_records_are_the_same_in_every_run() -> None:
    def rows(pages: Mapping[str, bytes], by: str) -> Sequence[object]:
        return [(each.url, list(each.values.items())) for each in ours(pages, by)]

    for seed in DEVELOPMENT[:20]:
        generated = site(seed)
        assert rows(generated.pages, generated.by) == rows(generated.pages, generated.by)


def test_columns_have_the_names_that_the_page_gives() -> None:
    """Header cells, terms of definition lists, and the first of two columns."""
    right = total = 0
    for generated in map(site, DEVELOPMENT):
        if not generated.labels:
            continue
        records = ours(generated.pages, generated.by)
        for name, label in generated.labels.items():
            texts = {
                squeezed(each.values[name].text)
                for each in generated.main.records
                if name in each.values
            }
            columns = Counter(
                column
                for each in records
                for column, value in each.values.items()
                if not texts.isdisjoint(squeezed(str(one)) for one in scalars(value))
            )
            if len(texts) > 1 and columns:
                total += 1
                [(column, _)] = columns.most_common(1)
                right += plain(label) in plain(column)
    assert total > 100
    assert right >= 0.95 * total


def plain(name: str) -> str:
    """Return a name without signs and case."""
    return re.sub(r"\W|_", "", name).casefold()
