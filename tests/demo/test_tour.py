from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from tests.local_service import stop
from tests.site.document import document
from webdata_nb.demo.tour import _cell, _print_result, _query_from_titles, _table_lines, run_tour
from webdata_nb.errors import InvalidArgument, WebdataError
from webdata_nb.settings import current, options
from webdata_nb.toolkit import local
from webdata_nb.toolkit.bridge import synced

if TYPE_CHECKING:
    from tests.site.server import Site

find = synced(local.find)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path


def parquet_files(printed: str) -> list[Path]:
    return [Path(path) for path in re.findall(r"^Parquet file: (.*)$", printed, re.MULTILINE)]


def temporary_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("webdata-demo-*"))


def test_tour_prints_tables_and_stores_files(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = temporary_folders()
    run_tour()
    printed = capsys.readouterr().out
    crawl, search = printed.split(">>> search_df(")
    assert re.search(r"/instruments/anemometer-3\.html .* 500 +1 +HTTP 500", crawl)
    assert re.search(r"^crawl http://127\.0\.0\.1:\d+/: \d+ rows", crawl, re.MULTILINE)
    assert "robots" in crawl
    assert re.search(r"^1 +How to read an aurora forecast", search, re.MULTILINE)
    assert re.search(r"^search aurora forecast: \d rows", search, re.MULTILINE)
    assert "by local" in search
    first, second = (pd.read_parquet(file) for file in parquet_files(printed))
    assert len(first) > 25
    assert len(second) >= 3
    assert all(file.is_relative_to(home) for file in parquet_files(printed))
    assert "is stopped" in printed
    assert temporary_folders() == before
    assert not (home / "data").exists()
    assert (options.data_dir, options.engines) == (None, {})


@pytest.mark.slow
def test_tour_of_real_site_searches_first_title(
    home: Path, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.page("/", document("Harbour & Lamp", links=["/two"]))
    site.page("/two", document("Two"))
    run_tour(site.url)
    printed = capsys.readouterr().out
    assert '>>> search_df("Harbour Lamp", num_results=5)' in printed
    assert re.search(r"^search Harbour Lamp: 1 row", printed, re.MULTILINE)
    assert all(file.is_relative_to(home) for file in parquet_files(printed))
    assert find(current()) is None


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_service_that_ran_before_is_not_stopped(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.page("/", document("Harbour"))
    lease = synced(local.ensure)(current())
    try:
        run_tour(site.url)
        assert find(current()) is not None
        assert "is stopped" not in capsys.readouterr().out
    finally:
        synced(lease.close)()
        stop(current())


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_unreachable_site_raises_and_service_is_stopped() -> None:
    with pytest.raises(WebdataError):
        run_tour("http://127.0.0.1:9/")
    assert find(current()) is None


def test_sample_needs_local_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEBDATA_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(InvalidArgument, match="unset WEBDATA_BASE_URL"):
        run_tour()


@pytest.mark.parametrize(
    ("titles", "query"),
    [
        ([None, " ", "A: title, of (seven) words & more words"], "A title of seven words more"),
        ([None], "www site test"),
    ],
)
def test_query_is_first_title_or_host(titles: list[str | None], query: str) -> None:
    crawled = pd.DataFrame({"title": titles, "success": True})
    crawled["title"] = crawled["title"].astype("str")
    assert _query_from_titles(crawled, "http://www.site.test/a") == query


def test_cells_have_no_control_characters() -> None:
    assert _cell("a\x1b[31m\nb") == "a [31m b"
    assert (_cell(None), _cell(float("nan")), _cell(7)) == ("", "", "7")


def test_table_fits_terminal_and_counts_omitted_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    frame = pd.DataFrame({"rank": range(41), "title": "t" * 30, "url": "u" * 10})
    header, first, *_, last = _table_lines(frame)
    assert header == "rank  title                   url"
    assert first == f"0     {'t' * 21}…  {'u' * 10}"
    assert last == "... and 1 more rows"


def test_empty_table_without_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    frame = pd.DataFrame({"rank": [], "title": []})
    frame.attrs["webdata"] = {"line": "search x: completed, 0 rows", "file": None}
    _print_result(frame, ("rank", "title"))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "no rows"
    assert printed[2].startswith("Parquet file: none")
