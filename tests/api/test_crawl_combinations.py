"""Every source, base and sink of a crawl gives the same rows, order and receipt."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.api.receipts import receipt_of
from tests.local_service import stop
from tests.site.server import Site
from tests.site.versions import varied_site
from webdata_nb import settings
from webdata_nb.contract import outcomes
from webdata_nb.contract.requests import CONFLICTS, conflict_of
from webdata_nb.toolkit.api import connect, crawl_df

PAGES = 40
COLUMNS = [
    "url",
    "title",
    "status_code",
    "success",
    "error",
    "depth",
    "markdown",
    "links",
    "content_hash",
]
FORMATS: dict[str, Any] = {"formats": ["markdown", "links"]}

SOURCES: dict[str, Callable[[str, Path], dict[str, Any]]] = {
    "live": lambda url, _: {"url": url, "cache": False},
    "file": lambda url, archive: {"url": url, "as_of": {"source": archive}, "cache": False},
    "since the last": lambda url, _: {"url": url, "since": {"base": "last", "recheck": 0.2}},
}


def as_frame(options: dict[str, Any], _: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    df = crawl_df(**options, max_pages=PAGES)
    return df, receipt_of(df)


def as_stream(options: dict[str, Any], _: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    stream = crawl_df(**options, max_pages=PAGES, stream=7)
    rows = pd.concat(list(stream), ignore_index=True)
    assert stream.receipt is not None
    return rows, stream.receipt


def as_long_stream(options: dict[str, Any], _: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    stream = crawl_df(**options, max_pages=2000, stream=7)
    rows = pd.concat(list(stream), ignore_index=True)
    assert stream.receipt is not None
    return rows, stream.receipt


def as_parts(options: dict[str, Any], folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    df = crawl_df(**options, max_pages=2000, out=folder)
    rows = pd.read_parquet(folder)
    assert rows["url"].tolist() == df["url"].tolist()
    return rows, receipt_of(df)


SINKS = [as_frame, as_stream, as_long_stream, as_parts]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("home")
        patch.setenv("WEBDATA_HOME", str(path))
        yield path
        stop(settings.current())


@pytest.fixture(scope="module")
def site(home: Path) -> Iterator[Site]:
    _ = home
    with Site() as site, connect():
        varied_site(site, PAGES - 7)
        yield site


@pytest.fixture(scope="module")
def archive(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that a crawl of the site has written."""
    path = tmp_path_factory.mktemp("archives") / "site.warc.gz"
    crawl_df(site.url, max_pages=PAGES, out=path, **FORMATS)
    return path


def records(rows: pd.DataFrame) -> Any:
    """Return the rows as JSON, whatever their dtypes are."""
    return json.loads(rows[COLUMNS].to_json(orient="records"))


def counts_of(receipt: dict[str, Any]) -> Counter[str]:
    """Return the outcomes of a receipt as if every page had been fetched."""
    counts = Counter[str]()
    for name, count in receipt["receipt"]["counts"].items():
        counts["fetched" if name in outcomes.READ else name] += count
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("sink", SINKS, ids=lambda sink: sink.__name__)
@pytest.mark.parametrize("source", SOURCES)
def test_rows_order_and_receipt_are_equal(
    site: Site, archive: Path, tmp_path: Path, source: str, sink: Any
) -> None:
    expected = crawl_df(site.url, max_pages=PAGES, **FORMATS)  # also the last one in the cache
    options = {**SOURCES[source](site.url, archive), **FORMATS}
    rows, receipt = sink(options, tmp_path / "rows")
    assert len(rows) > 20
    assert records(rows) == records(expected)
    assert counts_of(receipt) == counts_of(receipt_of(expected))
    assert receipt["counts"]["rows"] == len(expected)


def test_each_conflict_can_be_stated() -> None:
    for conflict in CONFLICTS:
        for option in conflict.options:
            for other in conflict.others:
                if option != other:
                    reason = conflict_of({option: True, other: True})
                    assert " cannot be combined: " in reason
    assert len({conflict.reason for conflict in CONFLICTS}) == len(CONFLICTS)
