"""`df.webdata.save`: files that open in other programs, without this package."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from webdata_nb import chunks_df
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames import exports, frame
from webdata_nb.toolkit.frames.rows import to_table

FORMULA = '=HYPERLINK("http://evil.test","x")'
EXTRACT = {"name": "Lämp", "tags": ["a", None], "price": 9.5}


def pages(rows: int = 3) -> pd.DataFrame:
    table = to_table(
        "crawl",
        [
            {
                "url": f"https://a.test/{n}",
                "title": (FORMULA, "<script>alert(1)</script>", "Title")[min(n, 2)],
                "extract": EXTRACT if n == 0 else None,
                "links": ["https://a.test/", "https://b.test/"],
                "markdown": f'# Page {n}\n\nText with, commas\nand "quotes".',
                "fetched_at": "2026-11-29T06:00:00.25Z",
                "depth": 0 if n == 0 else None,
            }
            for n in range(rows)
        ],
    )
    names = ["url", "title", "extract", "links", "markdown", "fetched_at", "depth"]
    df = frame.build(table, columns=names)
    line = "crawl https://a.test/: 3 rows"
    df.attrs = {frame.ATTRS: {"kind": "crawl", "subject": "https://a.test/", "line": line}}
    return df


# Runs in a process that cannot import this package, and prints what each program reads.
READER = """
import csv, json, sys
sys.modules["webdata_nb"] = None
folder, frame = sys.argv[1], {}
import duckdb, openpyxl, pandas, polars, pyarrow.parquet
parquet = folder + "/pages.parquet"
def cells(row): return [row["title"], row["extract"], list(row["links"]), str(row["depth"])]
frame["pyarrow"] = cells(pyarrow.parquet.read_table(parquet).to_pylist()[0])
frame["pandas"] = cells(pandas.read_parquet(parquet).iloc[0])
frame["polars"] = cells(polars.read_parquet(parquet).row(0, named=True))
names = "title, extract, links, depth"
frame["duckdb"] = list(duckdb.sql(f"select {names} from '{parquet}' limit 1").fetchall()[0])
frame["duckdb"][3] = str(frame["duckdb"][3])
frame["pandas"][3] = frame["pandas"][3].split(".")[0]
with open(folder + "/pages.csv", newline="", encoding="utf-8") as file:
    frame["csv"] = next(csv.DictReader(file))
with open(folder + "/pages.jsonl", encoding="utf-8") as file:
    frame["jsonl"] = json.loads(file.readline())
book = openpyxl.load_workbook(folder + "/pages.xlsx")
sheet = book["rows"]
header = [cell.value for cell in sheet[1]]
frame["xlsx"] = {name: str(cell.value) for name, cell in zip(header, sheet[2])}
frame["types"] = [cell.data_type for cell in sheet[2]]
print(json.dumps(frame))
"""


def test_files_open_without_this_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    df = pages()
    monkeypatch.setattr(exports, "_shown_losses", {"csv", "xlsx"})
    for suffix in ("parquet", "csv", "jsonl", "xlsx"):
        assert df.webdata.save(tmp_path / f"pages.{suffix}") == tmp_path / f"pages.{suffix}"
    command = [sys.executable, "-c", READER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    read: dict[str, Any] = json.loads(done.stdout)
    for program in ("pyarrow", "pandas", "polars", "duckdb"):
        title, extract, links, depth = read[program]
        assert (title, json.loads(extract), depth) == (FORMULA, EXTRACT, "0")
        assert links == ["https://a.test/", "https://b.test/"]
    # A spreadsheet would run the cell of a CSV file, and takes that of a workbook for a text.
    assert read["csv"]["title"] == f"'{FORMULA}"
    assert read["xlsx"]["title"] == FORMULA
    assert "f" not in read["types"]
    for row in (read["csv"], read["xlsx"]):
        assert json.loads(row["extract"]) == EXTRACT
        assert json.loads(row["links"]) == ["https://a.test/", "https://b.test/"]
    assert read["csv"]["markdown"] == df["markdown"][0]
    assert read["xlsx"]["fetched_at"].startswith("2026-11-29 06:00:00.25")
    assert read["jsonl"]["extract"] == EXTRACT
    assert read["jsonl"]["fetched_at"].startswith("2026-11-29T06:00:00.25")


class Page(HTMLParser):
    """The elements and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.rows = text.count("</tr>") - 1
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [str(value) for name, value in attrs if name in {"src", "srcset", "data"}]
        assert not any(name.startswith("on") for name, _ in attrs)


def test_html_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    path = pages(1100).webdata.save(tmp_path / "pages.html")
    text = Path(path).read_text("utf-8")
    page = Page(text)
    assert page.rows == 1000
    assert "100 more rows" in text
    assert {"script", "link", "iframe", "object"}.isdisjoint(page.tags)
    assert page.sources == []
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    assert "&lt;script&gt;alert(1)" in text
    assert text.count("crawl https://a.test/: 3 rows") == 1


def test_dataset_folder_has_the_structure_that_datasets_loads(tmp_path: Path) -> None:
    df = chunks_df(pages(5))
    folder = df.webdata.save(f"{tmp_path / 'corpus'}/")
    assert folder == tmp_path / "corpus"
    card = (tmp_path / "corpus/README.md").read_text("utf-8")
    _, head, body = card.split("---\n", 2)
    # YAML of https://huggingface.co/docs/datasets/repository_structure
    assert head == (
        "configs:\n- config_name: default\n  data_files:\n  - split: train\n"
        "    path: data/train-*.parquet\n"
    )
    assert "5 chunks of 5 pages" in body
    [file] = (tmp_path / "corpus/data").iterdir()
    assert file.name == "train-00000-of-00001.parquet"
    stored = pd.read_parquet(file)
    assert stored["text"].tolist() == df["text"].tolist()
    assert list(stored["heading_path"][4]) == ["Page 4"]
    df.iloc[:2].webdata.save(tmp_path / "corpus")
    assert len(pd.read_parquet(file)) == 2


def test_dataset_of_many_rows_has_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "_ROWS_PER_SHARD", 2)
    df = chunks_df(pages(5))
    df.webdata.save(tmp_path / "corpus")
    files = sorted((tmp_path / "corpus/data").iterdir())
    assert [file.name for file in files] == [f"train-{n:05}-of-00003.parquet" for n in range(3)]
    assert pd.concat(map(pd.read_parquet, files))["id"].tolist() == df["id"].tolist()
    df.iloc[:3].webdata.save(tmp_path / "corpus")
    assert len(list((tmp_path / "corpus/data").iterdir())) == 2


def test_folder_with_other_files_stays_as_it_is(tmp_path: Path) -> None:
    mine = tmp_path / "project"
    mine.mkdir()
    (mine / "README.md").write_text("mine")
    with pytest.raises(InvalidArgument, match=r"README\.md"):
        pages().webdata.save(mine)
    (mine / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgument, match=r"notes\.txt"):
        pages().webdata.save(mine)
    assert sorted(each.name for each in mine.iterdir()) == ["README.md", "notes.txt"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("pages.txt", "must end in .parquet, .jsonl, .csv, .xlsx, .html or .htm"),
        ("missing/pages.html", "directory that exists"),
        ("missing/corpus/", "directory that exists"),
        (5, "must be a path"),
        ("", "must be a path"),
    ],
)
def test_wrong_targets_are_refused(
    target: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match=message):
        pages().webdata.save(target)
    assert list(tmp_path.iterdir()) == []


def test_csv_of_pandas_has_json_in_nested_cells(tmp_path: Path) -> None:
    pages().to_csv(tmp_path / "pages.csv", index=False)
    with (tmp_path / "pages.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert json.loads(rows[0]["extract"]) == EXTRACT
    assert json.loads(rows[0]["links"]) == ["https://a.test/", "https://b.test/"]
