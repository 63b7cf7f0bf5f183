from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from tests.site.document import document
from webdata_nb import local
from webdata_nb.bridge import synced
from webdata_nb.demo.tour import _cell, _lines, _query_for, _show, run
from webdata_nb.errors import InvalidArgument, WebdataError
from webdata_nb.settings import current, options

if TYPE_CHECKING:
    from tests.site.server import Site

find = synced(local.find)
stop = synced(local.stop)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path


def files(shown: str) -> list[Path]:
    return [Path(path) for path in re.findall(r"^Parquet file: (.*)$", shown, re.MULTILINE)]


def scratch() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("webdata-demo-*"))


def test_the_tour_shows_two_tables_of_the_sample_and_leaves_their_files(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = scratch()
    assert run() == 0
    shown = capsys.readouterr().out
    crawl, search = shown.split(">>> search_df(")
    assert re.search(r"/instruments/anemometer-3\.html .* 500 +1 +HTTP 500", crawl)
    assert re.search(r"^crawl http://127\.0\.0\.1:\d+/: completed, \d+ rows", crawl, re.MULTILINE)
    assert "robots" in crawl
    assert re.search(r"^1 +How to read an aurora forecast", search, re.MULTILINE)
    assert re.search(r"^search aurora forecast: completed, \d rows", search, re.MULTILINE)
    assert "by local" in search
    first, second = (pd.read_parquet(file) for file in files(shown))
    assert len(first) > 25
    assert len(second) >= 3
    assert all(file.is_relative_to(home) for file in files(shown))
    assert "is stopped" in shown
    assert scratch() == before
    assert not (home / "data").exists()
    assert (options.data_dir, options.engines) == (None, {})


def test_the_tour_of_a_real_site_asks_for_its_first_title(
    home: Path, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.page("/", document("Harbour & Lamp", links=["/two"]))
    site.page("/two", document("Two"))
    assert run(site.url) == 0
    shown = capsys.readouterr().out
    assert '>>> search_df("Harbour Lamp", num_results=5)' in shown
    assert re.search(r"^search Harbour Lamp: completed, 1 row", shown, re.MULTILINE)
    assert all(file.is_relative_to(home) for file in files(shown))
    assert find(current()) is None


@pytest.mark.usefixtures("home")
def test_a_service_that_ran_before_goes_on(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.page("/", document("Harbour"))
    lease = synced(local.ensure)(current())
    try:
        assert run(site.url) == 0
        assert find(current()) is not None
        assert "is stopped" not in capsys.readouterr().out
    finally:
        synced(lease.close)()
        stop(current())


@pytest.mark.usefixtures("home")
def test_a_site_that_is_not_there_is_an_error_and_nothing_stays() -> None:
    with pytest.raises(WebdataError):
        run("http://127.0.0.1:9/")
    assert find(current()) is None


def test_the_sample_is_not_shown_to_another_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(InvalidArgument, match="unset WEBDATA_BASE_URL"):
        run()


@pytest.mark.parametrize(
    ("titles", "query"),
    [
        ([None, " ", "A: title, of (seven) words & more words"], "A title of seven words more"),
        ([None], "www site test"),
    ],
)
def test_the_query_is_the_first_title_or_the_host(titles: list[str | None], query: str) -> None:
    crawled = pd.DataFrame({"title": titles, "success": True})
    crawled["title"] = crawled["title"].astype("str")
    assert _query_for(crawled, "http://www.site.test/a") == query


def test_what_a_site_sends_does_not_steer_the_terminal() -> None:
    assert _cell("a\x1b[31m\nb") == "a [31m b"
    assert (_cell(None), _cell(float("nan")), _cell(7)) == ("", "", "7")


def test_a_table_fits_the_terminal_and_says_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    frame = pd.DataFrame({"rank": range(41), "title": "t" * 30, "url": "u" * 10})
    header, first, *_, last = _lines(frame)
    assert header == "rank  title                   url"
    assert first == f"0     {'t' * 21}…  {'u' * 10}"
    assert last == "... and 1 more rows"


def test_a_table_without_rows_and_without_a_file_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    frame = pd.DataFrame({"rank": [], "title": []})
    frame.attrs["webdata"] = {"line": "search x: completed, 0 rows", "file": None}
    _show(frame, ("rank", "title"))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "no rows"
    assert shown[2].startswith("Parquet file: none")
