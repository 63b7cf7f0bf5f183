"""The inputs of long lists equal those that are checked one by one."""

from __future__ import annotations

import itertools
import math
import pickle
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest

from tests.api.receipts import SITE
from webdata_nb import diff, estimate, history_df
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.api import Session
from webdata_nb.toolkit.requests.inputs import (
    Input,
    JobSpec,
    crawl_inputs,
    creatives_inputs,
    identity,
    page_inputs,
    search_inputs,
)

# Valid and invalid subjects of each kind.
QUERIES: Final[list[Any]] = ["a", " b ", "", "c" * 3000, "nul\x00", "\ud800", None, 5, pd.NA, ["x"]]
URLS: Final[list[Any]] = [
    "https://a.example/",
    " https://b.example/x ",
    "https://user:secret@c.example/",
    "ftp://d.example/",
    "e.example",
    "https://f.example:0/",
    math.nan,
    {"url": "https://g.example/"},
]
ADVERTISERS: Final[list[Any]] = [
    "AR1",
    "https://ads.example/advertiser/AR2",
    "https://ads.example/else",
    "not an id",
    7,
    None,
]


def one_by_one(make: Callable[..., JobSpec], name: str, subject: object, **options: Any) -> Any:
    """Return the request for a subject, or the message of its error."""
    try:
        return make(**{name: subject, **options})
    except InvalidArgument as error:
        return str(error)


def outcome(item: Input) -> Any:
    return item.spec if item.error is None else str(item.error)


HEADERS = {"headers": {"X-A": "b"}}


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize(
    ("inputs", "make", "name", "subjects", "options"),
    [
        (search_inputs, JobSpec.search, "query", QUERIES, {"formats": [], "num_results": 3}),
        (search_inputs, JobSpec.search, "query", QUERIES, {"extract": {"price": float}}),
        (crawl_inputs, JobSpec.crawl, "url", URLS, {"max_pages": 1, "scrape_options": HEADERS}),
        (creatives_inputs, JobSpec.creatives, "advertiser", ADVERTISERS, {"max_rows": 5}),
    ],
)
def test_inputs_of_list_equal_requests_made_one_by_one(
    inputs: Callable[..., list[Input]],
    make: Callable[..., JobSpec],
    *,
    name: str,
    subjects: list[Any],
    options: dict[str, Any],
    lazy: bool,
) -> None:
    arguments = {"lazy": True} if lazy and inputs is not creatives_inputs else {}
    found = inputs(subjects, options, **arguments)
    expected = [one_by_one(make, name, subject, **options) for subject in subjects]
    assert [outcome(item) for item in found] == expected
    for item, request in zip(found, expected, strict=True):
        if isinstance(request, JobSpec):
            assert item.spec.body == request.body
            assert item.spec.params(local=True) == request.params(local=True)
            assert pickle.loads(pickle.dumps(item.spec)) == request


def test_combinations_are_in_order_of_arguments() -> None:
    engines, countries = ["engine_two", None], ["de", "fr", "US"]
    options: Any = {"engine": engines, "country": countries, "formats": []}
    found = search_inputs(["a", "", "b"], options, lazy=True)
    combinations = list(itertools.product(["a", "", "b"], engines, countries))
    assert len(found) == 18
    assert [tuple(item.labels.values()) for item in found] == combinations
    assert [item.labels for item in found[5:8]] == [item.labels for item in list(found)[5:8]]
    assert found[-1].spec == JobSpec.search("b", country="US", formats=[])
    assert [item.error is not None for item in found] == [query == "" for query, *_ in combinations]
    with pytest.raises(IndexError):
        found[18]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_results": 0}, "^num_results must be a whole number from 1 to 50; it is 0$"),
        ({"engine": ["engine_one", "engine_4"]}, "^engine must be .* it is 'engine_4'"),
    ],
)
def test_wrong_option_is_the_error_of_the_call(options: Any, message: str) -> None:
    for queries in (["", "b"], ["a"] * 3):
        with pytest.raises(InvalidArgument, match=message):
            search_inputs(queries, options, lazy=True)
        with pytest.raises(InvalidArgument, match=message):
            search_inputs(queries, options)


def test_identity_tells_lists_apart_without_password() -> None:
    lists: list[Any] = [["a", "b"], ["b", "a"], ["a"], ["5"], [5], [None], ["None"]]
    seen = [str(list(identity(search_inputs(each, {}, lazy=True)))) for each in lists]
    assert len(set(seen)) == len(lists)
    urls = page_inputs(["https://user:secret@c.example/"], {"executor": "dask"})  # type: ignore[typeddict-unknown-key]
    assert "secret" not in str(list(identity(urls)))


ITERABLES: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "generator": lambda items: (item for item in items),
    "map": lambda items: map(str, items),
    "tuple": tuple,
    "keys": lambda items: dict.fromkeys(items).keys(),
    "deque": deque,
    "Series": pd.Series,
    "Index": pd.Index,
    "array": np.array,
    "extension array": pd.array,
    "column": lambda items: pd.DataFrame({"any name": items}),
}


@pytest.mark.parametrize("form", ITERABLES)
def test_any_iterable_is_a_list(connected: Session, form: str) -> None:
    """Every function that takes a list, and every option; a generator can be read only once."""
    listed = ITERABLES[form]
    queries, urls = ["a", "b"], [SITE, f"{SITE}docs/"]
    assert connected.search_df(listed(queries), formats=listed(["links"]))["query"].nunique() == 2
    engines = listed(["engine_one", "engine_two"])
    hits = connected.search_df(listed(queries), engine=engines, country=listed(["de"]), formats=[])
    assert len(hits.groupby(["query", "engine", "country"])) == 4
    batches = connected.search_df(listed(queries), formats=[], stream=True)
    assert {query for batch in batches for query in batch["query"]} == set(queries)
    crawled = connected.crawl_df(listed(urls), include_paths=listed(["/docs/**"]))
    assert crawled["start_url"].unique().tolist() == urls
    assert connected.scrape_df(listed(urls))["start_url"].tolist() == urls
    ads = connected.creatives_df(listed(["AR1", "AR2"]), region=listed(["DE", "FR"]))
    assert len(ads.groupby(["advertiser", "region"])) == 4
    assert estimate(connected.search_df, listed(queries), formats=listed([])).inputs == 2
    assert history_df(connected.scrape_df, listed(urls))["start_url"].nunique() == 2
    job = connected.crawl_job(SITE, formats=listed(["links"]), exclude_paths=listed(["/x"]))
    assert "links" in job.df()
    if form != "column":  # names of columns are no table
        keys, names = listed(["start_url", "url"]), listed(["title"])
        assert diff(crawled, crawled, on=keys, columns=names).empty
        accessor: Any = crawled.webdata
        assert len(accessor.drop_duplicates(listed(["start_url"]))) == 2


def test_tables_of_several_columns_and_endless_iterables_are_no_list(connected: Session) -> None:
    table: Any = pd.DataFrame({"a": ["x"], "b": ["y"]})
    endless: Any = map(str, itertools.count())
    with pytest.raises(InvalidArgument, match="must be a string; it is a DataFrame with"):
        connected.search_df(table, formats=[])
    with pytest.raises(InvalidArgument, match="10000 at most in one call"):
        connected.search_df(endless, formats=[])
