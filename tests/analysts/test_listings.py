"""Prices, jobs and events as typed tables without a schema, of generated sites held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.analysts.analyst import Analyst
from tests.records import sites
from tests.records.scoring import Predicted, score
from tests.records.values import Group, Money, Record, Value, group
from tests.site.server import Site

pytestmark = pytest.mark.slow
_OF_THE_ROW = frozenset({"url", "record", "group"})


@contextmanager
def served(generated: sites.Site) -> Iterator[tuple[str, Group, Mapping[str, bytes]]]:
    """Serve a generated site; yield its first URL, its records and its pages as they are served."""
    host = urlsplit(next(iter(generated.pages))).hostname or ""
    with Site() as site:
        here = f"127.0.0.1:{site.port}"

        def moved(text: str) -> str:
            return text.replace(f"https://{host}", f"http://{here}").replace(host, here)

        pages = {moved(url): moved(html.decode()).encode() for url, html in generated.pages.items()}
        for url, html in pages.items():
            parts = urlsplit(url)
            path = f"{parts.path}?{parts.query}" if parts.query else parts.path
            site.page(path, html.decode())
        records = [
            Record(
                moved(each.url),
                {name: _moved(value, moved) for name, value in each.values.items()},
                {moved(text) for text in each.neutral},
            )
            for each in generated.main.records
        ]
        yield next(iter(pages)), group("main", records), pages


def _moved(value: Value, moved: Callable[[str], str]) -> Value:
    return replace(value, text=moved(value.text), forms=tuple(map(moved, value.forms)))


def rows(analyst: Analyst, name: str) -> list[Predicted]:
    """Return the rows of a file as the scorer takes them."""
    return [
        Predicted(
            row["url"],
            {n: v for n, v in row.items() if n not in _OF_THE_ROW and not n.startswith("_")},
        )
        for row in analyst.parquet(name)
    ]


def pick(layout: str, field: str) -> sites.Site:
    """Return the first site held out of a layout most of whose records have a field."""
    found = (sites.site(seed) for seed in sites.SEEDS if seed % 2)
    return next(
        each
        for each in found
        if each.layout == layout
        and sum(field in r.values for r in each.main.records) >= 0.8 * len(each.main.records)
    )


def test_price_table_of_a_shop_without_a_schema(analyst: Analyst) -> None:
    generated = pick("pagination", "price")
    with served(generated) as (url, true, pages):
        analyst.run("price_table", site=url)
    found = rows(analyst, "prices.parquet")
    result = score(found, true, pages)
    assert len({each.url for each in found}) == 3
    assert result.records.f1 == 1, result.line()
    assert result.values.f1 >= 0.95, result.line()
    assert result.invented == []
    kinds = {str(kind) for kind in pq.read_schema(analyst.folder / "prices.parquet").types}
    assert "double" in kinds
    prices = [each.values["price"].typed for each in true.records if "price" in each.values]
    amounts = [p.amount for p in prices if isinstance(p, Money)]
    sheet = analyst.sheet("prices.xlsx")
    cells = [value for row in sheet for value in row.values() if isinstance(value, int | float)]
    assert len(sheet) == len(true.records)
    assert {float(amount) for amount in amounts} <= {float(cell) for cell in cells}


def test_jobs_and_events_in_typed_columns(analyst: Analyst) -> None:
    jobs, events = pick("jobs", "date"), pick("events", "date")
    with served(jobs) as first, served(events) as second:
        analyst.run("jobs_and_events", jobs=first[0], events=second[0])
    for name, (_, true, pages) in (("jobs", first), ("events", second)):
        result = score(rows(analyst, f"{name}.parquet"), true, pages)
        assert result.records.f1 == 1, result.line()
        assert result.values.f1 >= 0.95, result.line()
        assert result.invented == []
        schema = pq.read_schema(analyst.folder / f"{name}.parquet")
        days = [each for each in schema if pa.types.is_timestamp(each.type)]
        [column] = [each.name for each in days if each.name not in _OF_THE_ROW]
        truth = [e.values["date"].typed for e in true.records if "date" in e.values]
        found = [row[column] for row in analyst.parquet(f"{name}.parquet")]
        assert sorted(str(day.date()) for day in found if day) == sorted(map(str, truth))
