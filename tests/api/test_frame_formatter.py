"""Result frames in an IPython shell: displayed as compact tables, and no other frame is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
from turbohtml import parse

from tests.display import hostile, html_samples
from tests.frames.test_rows import CRAWLED
from webdata_nb import links_df, show
from webdata_nb.settings import options
from webdata_nb.toolkit.api import frame_views
from webdata_nb.toolkit.frames import frame, rows, schemas
from webdata_nb.toolkit.sites import ranks
from webdata_nb.toolkit.sites.changes_file import changes_table
from webdata_nb.toolkit.sites.comparison import PageChange
from webdata_nb.toolkit.terminal_text import display_width

RECEIPT = {"kind": "crawl", "line": "crawl https://a.test/: 30 rows", "counts": {"rows": 30}}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    new: Any = InteractiveShell
    # Without the history's thread and its database.
    made = new(config=Config({"HistoryManager": {"enabled": False}}))
    frame_views.register(made)
    yield made
    made.history_manager.end_session()


def crawled(count: int = 30) -> pd.DataFrame:
    listed: list[dict[str, Any]] = [
        {
            **CRAWLED,
            "url": f"https://docs.example.com/a-long-folder/another-one/page-{n}.html",
            "title": f"Page {n}",
            "time_taken": 0.123456,
            "markdown": f"\n\n# The moss garden\n\nThe *{n}th* [moss](https://a.test/) grows",
        }
        for n in range(count)
    ]
    columns = schemas.frame_columns("crawl", formats=["markdown", "links"], metadata=True)
    return frame.build(rows.to_table("crawl", listed), columns=columns, attrs=RECEIPT)


def html_of(shell: Any, value: Any) -> str:
    data, _ = shell.display_formatter.format(value, include={"text/html"})
    return str(data.get("text/html"))


def headers(markup: str) -> list[str]:
    return [each.text for each in parse(markup).find_all("th") if each.attrs["scope"] == "col"]


def test_the_useful_columns_are_shown_and_the_others_are_named(shell: Any) -> None:
    df = crawled()
    assert isinstance(df, pd.DataFrame)
    markup = html_of(shell, df)
    assert headers(markup)[:3] == ["url", "title", "status_code"]
    assert 5 <= len(headers(markup)) <= 7
    text = parse(markup).text
    assert "30 rows of 15 columns; the first 10 rows are shown; more columns: " in text
    for name in df.columns:
        assert name in text
    assert "crawl https://a.test/: 30 rows" in text
    assert "0.12 s" in text
    assert "The 3th moss grows" in html_of(shell, df[["url", "markdown"]])


def test_changes_show_page_field_and_values(shell: Any) -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    page, text = "https://docs.example.com/a-long-folder/page.html", "The *moss* grows. " * 40
    change = PageChange(
        *("changed", page, "markdown", text, f"{text}!", "- a\n+ b", at, at),
        *("1" * 32, "2" * 32, "j1", "j2"),
    )
    df = frame.build(changes_table([change]), attrs={**RECEIPT, "kind": "changes"})
    shown = headers(html_of(shell, df))
    assert shown[:6] == ["change", "url", "field", "old", "new", "evidence"]


def test_ranks_and_their_changes_show_the_query(shell: Any) -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    frames = []
    for number, urls in enumerate(
        (["https://a.test/", "https://own.test/"], ["https://own.test/"])
    ):
        results = [{"rank": n, "url": url, "title": "A title", "provider": "brave"}
                   for n, url in enumerate(urls, 1)]  # fmt: skip
        searched = [ranks.Searched({"query": "rain gauge"}, results, None)]
        table = ranks.rank_table(
            searched, ranks.parse_sites("own.test"), engine="engine_one", num_results=10,
            snapshot=str(number), taken_at=at + timedelta(days=number),
        )  # fmt: skip
        frames.append(frame.build(table, attrs={**RECEIPT, "kind": "ranks"}))
    assert headers(html_of(shell, frames[0]))[:5] == ["query", "rank", "url", "title", "status"]
    shown = headers(html_of(shell, ranks.rank_changes(pd.concat(frames, ignore_index=True))))
    assert shown == ["change", "url", "field", "query", "old", "new", "evidence"]


def test_urls_are_links_that_are_cut_in_the_middle(shell: Any) -> None:
    link = parse(html_of(shell, crawled())).find_all("a")[0]
    assert link.attrs["href"] == link.attrs["title"]
    assert str(link.attrs["href"]).endswith("/page-0.html")
    assert link.text == "/a-long-folder/another-one/page-0.html"
    longer = crawled().assign(url=lambda df: df["url"].str.replace("folder", "folder-with-a-name"))
    assert (
        parse(html_of(shell, longer)).find_all("a")[0].text
        == "/a-long-folder-…/another-one/page-0.html"
    )


@pytest.mark.parametrize(
    ("urls", "shown", "note"),
    [
        (["https://a.test/x", "https://a.test"], ["/x", "/"], "URLs below https://a.test"),
        (["https://a.test/x", None], ["https://a.test/x"], ""),
        (["https://a.test/", "http://a.test/"], ["https://a.test/", "http://a.test/"], ""),
        (
            ["https://a.test:8/x", "https://a.test/x"],
            ["https://a.test:8/x", "https://a.test/x"],
            "",
        ),
        (["https://a.test/x", "no URL"], ["https://a.test/x"], ""),
        (
            ["https://a.test/%E8%8B%94%E5%BA%AD?a=%20", "https://a.test/%E2%80%AE%D7%90"],
            ["/苔庭?a=%20", "/%E2%80%AE%D7%90"],  # not the mark that reverses what follows
            "URLs below https://a.test",
        ),
    ],
)
def test_urls_leave_out_the_host_of_all_rows(
    shell: Any, urls: list[str | None], shown: list[str], note: str
) -> None:
    df = crawled(2)
    df["url"] = pd.Series(urls, dtype="str")
    for page in (parse(html_of(shell, df)), parse(frame_views.show(df)._repr_html_())):
        links = [each for each in page.find_all("a") if each.attrs["href"] in urls]
        assert [each.text for each in links] == shown
        assert [each.attrs["href"] for each in links] == urls[: len(links)]
        assert ("URLs below" in page.text) == bool(note)
        assert note in page.text


def test_two_columns_of_urls_say_what_each_leaves_out(shell: Any) -> None:
    df = crawled(2)[["url", "title"]].assign(link=["https://b.test/1", "https://b.test/2"])
    assert "url below https://docs.example.com, link below https://b.test" in html_of(shell, df)


def test_wide_frame_prints_as_text_of_80_columns() -> None:
    df = crawled()
    df["title"] = pd.Series(
        ["苔の庭の記録と観察の手引き", "مرحبا بالعالم", "a\x1b[31mb"] * 10, dtype="str"
    )
    lines = str(df).splitlines()
    assert max(map(display_width, lines)) <= 80
    assert lines[0].split()[:3] == ["url", "title", "status_code"]
    assert "\u2068مرحبا بالعالم\u2069" in lines[2]  # noqa: RUF001 - cells keep their order
    assert len(lines) < 40
    assert "\x1b" not in str(df)
    told = " ".join(lines)
    for note in ("30 rows of 15 columns", "URLs below https://docs.example.com", RECEIPT["line"]):
        assert told.count(str(note)) == 1
    for name in df.columns:
        assert name in told


def test_printed_frame_of_few_columns_keeps_them_in_their_order() -> None:
    df = crawled(8).assign(
        title=[f"A title of a page about the moss garden, number {n}" for n in range(8)]
    )
    chosen = ["depth", "title", "url", "status_code", "time_taken"]
    text = str(df[chosen])
    assert text.splitlines()[0].split() == chosen
    assert max(map(len, text.splitlines())) <= 80
    assert "8 rows of 5 columns" in text
    assert "A title of" in text


def test_rows_of_a_printed_frame_are_those_of_pandas() -> None:
    df = crawled(200)
    assert "the first 10 rows are shown" in str(df)
    with pd.option_context(*("display.max_rows", 20, "display.min_rows", 4)):
        assert "the first 4 rows are shown" in str(df)
    with pd.option_context(*("display.max_rows", None)):
        assert len(str(df).splitlines()) > 200


def test_empty_frame_shows_its_columns_and_its_receipt(shell: Any) -> None:
    df = crawled(3)
    none = df[df["url"] == "x"]
    for text in (str(none), parse(html_of(shell, none)).text, parse(show(none)._repr_html_()).text):
        assert re.search("0 rows|no rows", text)
        assert "ResultFrame" not in text
        assert text.count(str(RECEIPT["line"])) == 1
        assert "url" in text


@pytest.mark.parametrize("off", [True, False])
def test_narrow_and_foreign_frames_print_as_pandas_does(
    monkeypatch: pytest.MonkeyPatch, *, off: bool
) -> None:
    df: Any = crawled()
    frames = [df[["title", "depth"]], df.groupby("depth")[["time_taken"]].mean(), df.describe()]
    if off:
        monkeypatch.setattr(options, "compact_tables", False)
        frames.append(df)
    assert [str(each) for each in frames] == [str(pd.DataFrame(each)) for each in frames]


def test_slices_look_like_the_frame(shell: Any) -> None:
    df = crawled()
    for part, text in (
        (df.head(), headers(html_of(shell, df))),
        (df[["url", "title"]], ["url", "title"]),
        (df[["title", "extra"]].tail(2), ["title", "extra"]),
    ):
        markup = html_of(shell, part)
        assert headers(markup) == text
        assert "crawl https://a.test/: 30 rows" in markup
    tree = parse(html_of(shell, df[df["title"].isin(["Page 3", "Page 7"])]))
    assert [e.text for e in tree.find_all("th") if e.attrs["scope"] == "row"] == ["3", "7"]


def test_added_columns_and_inputs_are_shown(shell: Any) -> None:
    df = crawled().assign(words=7)
    df.insert(0, "start_url", "https://a.test/")
    assert headers(html_of(shell, df))[:4] == ["start_url", "url", "title", "words"]


def test_frames_derived_from_results_have_links_too(shell: Any) -> None:
    markup = html_of(shell, links_df(crawled(2)))
    assert headers(markup) == ["position", "url", "link", "internal"]
    assert "<a href=" in markup


@pytest.mark.parametrize(
    "other",
    [
        pd.DataFrame({"url": ["https://a.test/"]}),
        crawled().groupby("depth")[["time_taken"]].mean(),
        crawled().set_index(["url", "depth"]),
        crawled()[["time_taken"]].describe(),
        crawled().rename(columns={"url": 5}),
    ],
    ids=["foreign", "aggregated", "indexed", "described", "number"],
)
def test_other_frames_are_left_to_pandas(shell: Any, other: Any) -> None:
    assert html_of(shell, other) == other._repr_html_()


def test_options_switch_it_off(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    df: Any = crawled(2)
    monkeypatch.setattr(options, "compact_tables", False)
    assert html_of(shell, df) == df._repr_html_()
    monkeypatch.setattr(options, "compact_tables", None)
    monkeypatch.setenv("WEBDATA_COMPACT_TABLES", "0")
    assert html_of(shell, df) == df._repr_html_()
    monkeypatch.delenv("WEBDATA_COMPACT_TABLES")
    with pd.option_context(*("display.notebook_repr_html", False)):
        assert html_of(shell, df) == "None"


def test_the_formatter_of_another_package_formats_other_frames(shell: Any) -> None:
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type(pd.DataFrame, lambda _df: "other formatter")
    frame_views.register(shell)
    assert html_of(shell, pd.DataFrame({"a": [1]})) == "other formatter"
    assert "compact" not in html_of(shell, crawled(1))
    assert headers(html_of(shell, crawled(1)))


def test_texts_of_pages_never_become_markup() -> None:
    for df in html_samples.frames(list(hostile.OWN), []):
        assert list(hostile.dangers(frame_views.compact_html(df))) == []


@pytest.mark.parametrize("df", [crawled(0), crawled(1), pd.DataFrame()])
def test_small_frames_have_a_table(df: pd.DataFrame) -> None:
    assert "<table" in frame_views.compact_html(df)


@pytest.mark.slow
def test_the_first_use_in_a_shell_registers_it_and_a_script_loads_no_ipython(
    tmp_path: Path,
) -> None:
    script = "import sys, webdata_nb\nwebdata_nb.crawl_df\nassert 'IPython' not in sys.modules\n"
    in_shell = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "import pandas, webdata_nb\n"
        "find = shell.display_formatter.formatters['text/html'].for_type\n"
        "assert find(pandas.DataFrame) is None\n"
        "webdata_nb.crawl_df\n"
        "assert type(find(pandas.DataFrame)).__name__ == 'FrameFormatter'\n"
    )
    environment = os.environ | {"IPYTHONDIR": str(tmp_path)}
    for code in (script, in_shell):
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_numbers_of_a_column_have_the_same_decimals(shell: Any) -> None:
    missing = float("nan")
    df = crawled(4).assign(price=[148.0, 34, 19.5, missing], stock=[3.0, 1250, missing, 0])
    cells = [each.text for each in parse(html_of(shell, df)).find_all("td")]
    assert [each for each in cells if each in {"148.00", "34.00", "19.50", "148", "34"}] == [
        "148.00",
        "34.00",
        "19.50",
    ]
    assert {"3", "1,250", "0"} <= set(cells)
