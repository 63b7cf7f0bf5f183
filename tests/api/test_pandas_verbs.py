"""The verbs of pandas work on the frames of every function, with rows and without."""

from __future__ import annotations

import copy
import json
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any, Final, get_args

import pandas as pd
import pyarrow as pa
import pytest

import webdata_nb
from tests.local_service import stop
from tests.site.server import Site
from tests.site.web_archive import WebArchiveStub
from tests.wire_service import KEY, JobScript, WireService, crawl_rows, creative_rows, search_rows
from webdata_nb import settings
from webdata_nb.contract.choices import Format
from webdata_nb.toolkit.api import Session, connect
from webdata_nb.toolkit.frames import frame, rows
from webdata_nb.toolkit.frames.frame import DtypeBackend, NestedDtype

BACKENDS: Final = get_args(DtypeBackend)
FORMATS: Final = [each for each in get_args(Format) if each != "screenshot"]
LD: Final = (
    '<script type="application/ld+json">{"@type":"Product","name":"Lamp","offers":%s}</script>'
)
CAPTURED: Final = "http://docs.test/"
# A page in the shape of the service, for what is not in the pages of the site.
PAGE: Final[dict[str, Any]] = {
    **crawl_rows(1)[0],
    "metadata": {"big": 2**60, "half": "\ud83d", "empty": {}},
    "structured_data": {"a": [1, {"b": None}]},
    "screenshot": "iVBORw0KGgo=",
    "unknown": [{"x": 1}, "y"],
    "headings": [{"level": 1, "text": "A", "anchor": None, "odd": {}}],
}

Frames = dict[str, pd.DataFrame]
LISTING = pd.DataFrame(
    {
        "url": ["http://a.test/"],
        "html": ["<ul><li><b>Hat</b> <i>34 €</i></li><li><b>Cap</b> <i>12 €</i></li></ul>"],
    }
)


def document(name: str, head: str, *links: str) -> str:
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    return (
        f"<title>{name}</title>{head}<main><h1 id='top'>{name}</h1><img src='/i.png' alt='x'>"
        f"<p class='price'>{len(name)},50 €</p><p>Words about it.</p>{anchors}"
        "<table><tr><th>a</th></tr><tr><td>1</td></tr></table></main>"
    )


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Frames]]:
    """Give the frames of every public function, by backend."""
    folder = tmp_path_factory.mktemp("verbs")
    with pytest.MonkeyPatch.context() as patch, Site() as site, WireService() as wire:
        archive = WebArchiveStub.on(site)
        archive.add(CAPTURED, "2024-05-20", "<title>Front</title><p>Words.</p>")
        variables = {
            "WEBDATA_HOME": str(folder / "home"),
            "WEBDATA_CACHE": str(folder / "cache"),
            **archive.variables,
        }
        for name, value in variables.items():
            patch.setenv(name, value)
        with connect() as local, connect(base_url=wire.url, api_key=KEY) as remote:
            found = {}
            for backend in BACKENDS:
                wire.reset()
                made = {
                    **of_site(local, site, backend, folder),
                    **of_service(remote, wire, backend, folder),
                    "shape": frame.build(
                        rows.to_table("crawl", [PAGE]),
                        attrs={"kind": "crawl"},
                        dtype_backend=backend,
                    ),
                }
                empty = {f"{name} without rows": df.iloc[:0] for name, df in made.items()}
                found[backend] = {**made, **empty}
            yield found
        stop(settings.current())


def of_site(session: Any, site: Site, backend: DtypeBackend, folder: Path) -> Frames:
    start = site.page("/", document("Ant", LD % '{"price":1}', "/b", "/c", "/missing"))
    site.page("/b", document("Tin", LD % '[{"price":"2"}]', "/"))
    site.page("/c", document("Bat", "<meta property='og:title' content='x'>"))
    options: Any = {"dtype_backend": backend}
    everything: Any = {**options, "formats": FORMATS, "extract": {"name": str, "tags": list[str]}}
    plain = session.crawl_df(start, **options)
    pages = session.crawl_df(start, rights=True, **everything)
    audited = session.crawl_df(start, audit=True, refresh=True, **everything)
    findings = webdata_nb.audit_df(audited)
    prices = session.scrape_df(start, extract={"price": float}, **options)
    watched = folder / f"{backend}.parquet"
    session.watch_df(start, out=watched)
    site.page("/c", document("Bath", "<meta property='og:title' content='y'>"))
    return {
        "crawl_df": plain,
        "crawl_df of every format": pages,
        "crawl_df with audit": audited,
        "scrape_df": session.scrape_df([start, f"{start}b"], **everything),
        "audit_df": findings,
        "links_df": webdata_nb.links_df(pages),
        "links_df of audit": webdata_nb.links_df(audited),
        "images_df": webdata_nb.images_df(pages),
        "headings_df": webdata_nb.headings_df(pages),
        "rights_df": webdata_nb.rights_df(pages),
        "chunks_df": webdata_nb.chunks_df(pages),
        "records_df": webdata_nb.records_df(LISTING),
        "extract_df": webdata_nb.extract_df(pages),
        "tables": webdata_nb.tables(pages)[0],
        "verify": webdata_nb.verify(prices, session=session),
        "diff": webdata_nb.diff(plain, pages.iloc[1:].assign(title="New")),
        "watch_df": session.watch_df(start, out=watched),
        "captures_df": session.captures_df(CAPTURED, **options),
        "history_df": webdata_nb.history_df(session.crawl_df, start, **options),
    }


def of_service(session: Session, wire: WireService, backend: DtypeBackend, folder: Path) -> Frames:
    options: Any = {"dtype_backend": backend, "cache": False}
    wire.search, wire.creatives = JobScript(search_rows(3)), creative_rows(3)
    hits = session.search_df("q", **options)
    several = session.search_df(["a", "b"], country=["us", "de"], **options)
    ranked = session.rank_df(["a", "b"], site="site.test", dtype_backend=backend)
    wire.search = JobScript(search_rows(3)[1:])
    later = session.rank_df(["a", "b"], site="site.test/3", dtype_backend=backend)
    both = pd.concat([ranked, later.assign(site="site.test")], ignore_index=True)
    both.attrs = dict(ranked.attrs)
    assert both.webdata.changes()["field"].tolist() == ["rank", "url"] * 2
    webdata_nb.plot_ranks(both)
    wire.crawl = JobScript([*crawl_rows(2), {**crawl_rows(1)[0], "success": False, "error": "dns"}])
    job = session.crawl_job("https://site.test/")
    failing = session.crawl_df("https://site.test/", **options)
    export = folder / "export.csv"
    export.write_bytes(
        b'url,depth,status_code,links,metadata,fetched_at\r\nhttps://a.test/,0,200,"[""/x""]",'
        b'"{""a"":{}}",2026-11-20T10:00:00Z\r\n'
    )
    return {
        "search_df": hits,
        "search_df of several": several,
        "creatives_df": session.creatives_df("AR1", skip_details=False, **options),
        "creatives_df of several": session.creatives_df(["AR1", "AR2"], ocr=True, **options),
        "advertisers_df": session.advertisers_df("fulmar", dtype_backend=backend),
        "engines_df": session.engines_df(dtype_backend=backend),
        "jobs_df": session.jobs_df(dtype_backend=backend),
        "usage_df": session.usage_df(dtype_backend=backend),
        "weights_df": session.weights_df(dtype_backend=backend),
        "export_df": session.export_df(job.job_id, dtype_backend=backend),
        "retry_failed": webdata_nb.retry_failed(failing, session=session),
        "serp_diff": webdata_nb.serp_diff(hits, hits.iloc[:2]),
        "rank_df": ranked,
        "changes of ranks": both.webdata.changes(),
        "read_csv_export": webdata_nb.read_csv_export(export),
    }


def to_sql(df: pd.DataFrame, _folder: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        df.to_sql("rows", database, index=False)
        read = pd.read_sql("select * from rows", database)
    assert list(read.columns) == list(df.columns)
    assert len(read) == len(df)


def to_parquet(df: pd.DataFrame, folder: Path) -> None:
    df.to_parquet(folder / "x.parquet")
    read = pd.read_parquet(folder / "x.parquet")
    assert read.attrs == df.attrs
    assert list(read.columns) == list(df.columns)
    for name in df.columns:
        assert read[name].notna().tolist() == df[name].notna().tolist(), name


def to_json(df: pd.DataFrame, _folder: Path) -> None:
    records = json.loads(df.to_json(orient="records", double_precision=15))
    for name in df.columns:
        if isinstance(df[name].dtype, NestedDtype):
            expected = json.loads(json.dumps(df[name].tolist()))
            assert [record[name] for record in records] == expected, name
    df.to_json()


def to_excel(df: pd.DataFrame, folder: Path) -> None:
    path, buffer = folder / "x.xlsx", BytesIO()
    df.to_excel(path, engine="openpyxl")
    df.to_excel(buffer)
    for target in (path, buffer):
        assert list(pd.read_excel(target, index_col=0).columns) == list(df.columns)


def to_csv(df: pd.DataFrame, folder: Path) -> None:
    df.to_csv(folder / "x.csv", index=False)
    assert len(pd.read_csv(folder / "x.csv")) == len(df)


def merge(df: pd.DataFrame, folder: Path) -> None:
    key = df.columns[0]
    merged = df.merge(df)  # by every column
    assert list(merged.columns) == list(df.columns)
    df.merge(df, on=key).to_parquet(folder / "m.parquet")
    pd.DataFrame({key: df[key]}).merge(df, on=key).drop_duplicates().to_parquet(
        folder / "m.parquet"
    )


def group(df: pd.DataFrame, _folder: Path) -> None:
    for name in df.columns:
        assert df.groupby(name, dropna=False).size().sum() == len(df)
        assert df[name].value_counts(dropna=False).sum() == len(df)
    df.groupby(df.columns[0]).first()
    df.groupby(df.columns[0]).agg(list)
    assert df.nunique().le(len(df)).all()


def concat(df: pd.DataFrame, folder: Path) -> None:
    doubled = pd.concat([df, df, df.iloc[:0]], ignore_index=True)
    assert doubled.dtypes.equals(df.dtypes)
    assert len(doubled.drop_duplicates()) == len(df.drop_duplicates())
    assert doubled.duplicated().sum() >= len(df)
    doubled.to_parquet(folder / "c.parquet")
    doubled.to_excel(folder / "c.xlsx")


def again(df: pd.DataFrame, folder: Path) -> None:
    for twin in (pickle.loads(pickle.dumps(df)), copy.deepcopy(df), df.copy(), df[df.columns]):
        pd.testing.assert_frame_equal(twin, df)
        assert twin.attrs == df.attrs
        twin.to_feather(folder / "x.feather") if twin.index.equals(pd.RangeIndex(len(df))) else None
    pickle.loads(pickle.dumps(df)).to_excel(folder / "x.xlsx")


def others(df: pd.DataFrame, _folder: Path) -> None:
    df.describe(include="all")
    for name in df.columns:
        df.sort_values(name)
        df.explode(name)
    df.reindex(range(5))
    df.shift()
    pd.util.hash_pandas_object(df)
    assert df.equals(df.copy())
    pa.Table.from_pandas(df)


VERBS: Final[list[Callable[[pd.DataFrame, Path], None]]] = [
    *(to_parquet, to_json, to_csv, to_excel, to_sql, merge, group, concat, again, others),
]
QUICK: Final = {to_parquet, to_json, to_csv, to_excel, to_sql, merge, group}


@pytest.mark.parametrize(
    ("backend", "verb"),
    [
        pytest.param(
            *(backend, verb),
            id=f"{backend}-{verb.__name__}",
            marks=() if backend == "pandas" and verb in QUICK else pytest.mark.slow,
        )
        for backend in BACKENDS
        for verb in VERBS
    ],
)
def test_verb_of_pandas(
    frames: dict[str, Frames],
    verb: Callable[[pd.DataFrame, Path], None],
    backend: DtypeBackend,
    tmp_path: Path,
) -> None:
    for name, df in frames[backend].items():
        try:
            verb(df, tmp_path)
        except Exception as error:
            error.add_note(f"{name}, {backend}")
            raise


def test_every_function_that_returns_a_frame_is_tried(frames: dict[str, Frames]) -> None:
    tried = {name.split()[0] for name in frames["pandas"]}
    names = {name for name in webdata_nb.__all__ if name.endswith("_df")}
    assert {name for name in names if name[1:] not in names} <= tried
    filled = {name: len(df) for name, df in frames["pandas"].items() if "without rows" not in name}
    assert [name for name, count in filled.items() if not count] == []


def test_values_are_python_objects_and_reach_files_as_json_text(tmp_path: Path) -> None:
    df = frame.build(rows.to_table("crawl", [PAGE, {"url": "x"}]))
    assert df["metadata"][0]["empty"] == {}
    assert json.loads(json.dumps(df["structured_data"].tolist())) == [{"a": [1, {"b": None}]}, None]
    metadata: Any = df["metadata"]
    assert metadata.str["half"].tolist() == ["\N{REPLACEMENT CHARACTER}", None]
    assert df["links"].str.len().tolist()[0] == 1
    assert df["links"].explode().tolist()[0] == "https://site.test/1"
    assert (df["structured_data"] == PAGE["structured_data"]).tolist() == [True, False]
    df.to_excel(tmp_path / "x.xlsx", index=False)
    cells = pd.read_excel(tmp_path / "x.xlsx").iloc[0]
    assert cells["fetched_at"] == pd.Timestamp("2026-11-20T10:00:00.250000")
    assert json.loads(cells["structured_data"]) == PAGE["structured_data"]
    df.to_csv(tmp_path / "x.csv", index=False)
    assert json.loads(pd.read_csv(tmp_path / "x.csv")["links"][0]) == PAGE["links"]
    assert pd.read_csv(tmp_path / "x.csv")["screenshot"][0] == PAGE["screenshot"]
    record = json.loads(df.to_json(orient="records"))[0]
    assert record["fetched_at"] == "2026-11-20T10:00:00.250Z"
    assert record["screenshot"] == PAGE["screenshot"]
    with closing(sqlite3.connect(":memory:")) as database:
        df.to_sql("pages", database, index=False)
        [text, image] = database.execute("select links, screenshot from pages").fetchone()
    assert (json.loads(text), image[:4]) == (PAGE["links"], b"\x89PNG")
    df.to_parquet(tmp_path / "x.parquet")
    types = pa.parquet.read_schema(tmp_path / "x.parquet")
    assert types.field("links").type.value_type == pa.string()
    assert types.field("metadata").type == pa.string()
    read = pd.read_parquet(tmp_path / "x.parquet")
    assert json.loads(read["structured_data"][0]) == PAGE["structured_data"]
    assert list(read["links"][0]) == PAGE["links"]


def test_workbooks_take_snapshots_as_columns(tmp_path: Path) -> None:
    times = pd.to_datetime(["2026-11-01T10:00Z", "2026-11-02T10:00Z"])
    pivot = frame.ResultFrame([[1, 2], [3, 4]], index=["q", "r"], columns=times)
    pivot.to_excel(tmp_path / "ranks.xlsx")
    read = pd.read_excel(tmp_path / "ranks.xlsx", index_col=0)
    assert read.columns.tolist() == list(times.tz_localize(None))
    assert read.to_numpy().tolist() == [[1, 2], [3, 4]]
    assert isinstance(pivot.columns, pd.DatetimeIndex)
    assert pivot.columns.tz is not None


def test_workbooks_have_neither_formulas_nor_texts_beyond_a_cell(tmp_path: Path) -> None:
    page = {"url": "=1+1", "markdown": "x" * 40_000, "title": "a\x00b", "fetched_at": "0001-01-01"}
    df = frame.build(rows.to_table("crawl", [page]))
    with pytest.warns(UserWarning, match=r"1 texts were cut at 32,767 characters.*to_parquet"):
        df.to_excel(tmp_path / "x.xlsx", index=False)
    cells = pd.read_excel(tmp_path / "x.xlsx").iloc[0]
    assert (cells["url"], cells["title"], cells["fetched_at"][:4]) == ("=1+1", "ab", "0001")
    assert len(cells["markdown"]) == 32_767


def test_changes_of_values_reach_files(tmp_path: Path) -> None:
    df = frame.build(rows.to_table("crawl", [PAGE, {"url": "x"}]))
    df["metadata"][0]["mine"] = 1
    single_value: Any = df.at
    single_value[1, "extract"] = {"name": "Lamp"}
    df.loc[df["url"] == "x", "links"] = None
    df.loc[0, "images"] = "no list"
    assert df["extract"][1] == {"name": "Lamp"}
    df.to_parquet(tmp_path / "x.parquet")
    read = pd.read_parquet(tmp_path / "x.parquet")
    assert json.loads(read["metadata"][0])["mine"] == 1
    assert json.loads(read["images"][0]) == "no list"
    assert df["links"].map(len, na_action="ignore").tolist()[0] == 1
    assert df["metadata"].map(lambda value: value).tolist()[0]["mine"] == 1
    mixed = pd.concat([df, pd.DataFrame({"url": ["y"], "metadata": [{"own": 1}]})])
    assert mixed["metadata"].tolist()[-1] == {"own": 1}


def test_a_file_of_pandas_is_read_without_this_package(tmp_path: Path) -> None:
    df = frame.build(rows.to_table("crawl", [PAGE]), attrs={"kind": "crawl"})
    df.to_parquet(tmp_path / "x.parquet")
    names = {column["name"]: column["numpy_type"] for column in _pandas_columns(tmp_path)}
    assert {names["links"], names["metadata"]} == {"object"}  # a name that pandas knows


def _pandas_columns(folder: Path) -> list[dict[str, str]]:
    metadata = pa.parquet.read_schema(folder / "x.parquet").metadata
    columns: list[dict[str, str]] = json.loads(metadata[b"pandas"])["columns"]
    return columns


@pytest.mark.parametrize("name", ["x.csv", "x.xlsx", "x", "memory://x.json"])
def test_to_parquet_refuses_other_suffixes(name: str, tmp_path: Path) -> None:
    target = name if "://" in name else tmp_path / name
    df = frame.build(rows.to_table("crawl", [PAGE]))
    with pytest.raises(webdata_nb.errors.InvalidArgument, match=r"end in \.parquet or \.pq; it is"):
        webdata_nb.to_parquet(df, target)
    assert not list(tmp_path.iterdir())
