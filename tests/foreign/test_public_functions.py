"""Every public function with another maker's service: it works, or says what the service lacks."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import webdata_nb
from tests.foreign.service import KEY, ForeignService, Variant
from webdata_nb import errors

START = "https://site.test/"
VARIANTS = {
    "422": Variant(),
    "400": Variant(
        refusal=400,
        error_body="message",
        start_status="queued",
        nulls=True,
        row_status="code",
        retry_after="date",
    ),
    "list": Variant(error_body="list", paging="fixed", counts=False, nulls=True),
    "nested": Variant(refusal=400, error_body="nested", names_field=False, paging="first"),
    "empty": Variant(
        refusal=400,
        error_body="empty",
        names_field=False,
        counts=False,
        paging="whole",
        missing_path=405,
        row_status="none",
    ),
    "text": Variant(error_body="text", counts=False, missing_path=405, row_status="code"),
    "lenient": Variant(strict=False, counts=False, row_status="none"),
    "lenient, one page": Variant(strict=False, paging="first"),
    "lenient, all rows": Variant(strict=False, paging="whole"),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "cache"))


# Each of these differs from the others in one thing.
SLOW = VARIANTS.keys() - {"422", "lenient"}
PARAMS = [
    pytest.param(variant, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name, variant in VARIANTS.items()
]


@pytest.fixture(name="service", params=PARAMS)
def _service(request: pytest.FixtureRequest) -> Iterator[ForeignService]:
    with ForeignService(request.param) as running:
        with webdata_nb.connect(base_url=running.url, api_key=KEY):
            yield running
        assert not running.running, "a job runs on"


def receipt_line(df: pd.DataFrame) -> str:
    return str(df.attrs["webdata"]["line"])


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("formats", [["markdown"], []], ids=["scraped", "brief"])
def test_search(formats: list[Any]) -> None:
    df = webdata_nb.search_df("boats", num_results=7, formats=formats)
    assert df["rank"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert df["success"].all()
    assert df["scraped"].tolist() == [bool(formats)] * 7
    assert receipt_line(df).startswith("search boats: 7 rows;")


def test_crawl_has_every_row_once(service: ForeignService) -> None:
    for pages in (1, 3, 19, 20, 21, 50, 107):
        service.site_pages = pages
        df = webdata_nb.crawl_df(START, max_pages=200, refresh=True)
        assert df["url"].tolist() == [START, *(f"{START}{number}" for number in range(1, pages))]
        assert df["success"].tolist() == [True] * pages
        noun = "row" if pages == 1 else "rows"
        assert receipt_line(df).startswith(f"crawl {START}: {pages} {noun};")


def test_failed_pages_are_told_from_others(service: ForeignService) -> None:
    service.site_pages, service.failing_pages = 6, 2
    df = webdata_nb.crawl_df(START)
    assert df["success"].tolist() == [True] * 4 + [False] * 2
    assert df.attrs["webdata"]["counts"]["failed"] == 2
    assert "6 rows (4 ok, 2 failed)" in receipt_line(df)
    assert len(df[df["success"]]) == 4


@pytest.mark.usefixtures("service")
def test_lists_of_inputs() -> None:
    urls = [f"{START}a", f"{START}b"]
    df = webdata_nb.scrape_df(urls)
    assert df["url"].tolist() == urls
    assert df["success"].all()
    assert len(webdata_nb.crawl_df(urls, max_pages=2)) == 4
    assert len(webdata_nb.search_df(["boats", "ships"], num_results=2)) == 4


def test_streams(service: ForeignService) -> None:
    service.site_pages = 45
    batches = list(webdata_nb.crawl_df(START, stream=10))
    urls = [url for batch in batches for url in batch["url"]]
    assert urls == [START, *(f"{START}{number}" for number in range(1, 45))]
    assert max(map(len, batches)) <= 10
    batches = list(webdata_nb.search_df("boats", num_results=5, stream=True))
    assert [rank for batch in batches for rank in batch["rank"]] == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("service")
def test_creatives() -> None:
    df = webdata_nb.creatives_df("AR1")
    assert df["creative_id"].tolist() == [f"CR{number}" for number in range(5)]
    df = webdata_nb.creatives_df("AR1", max_rows=3)
    assert df["creative_id"].tolist() == ["CR0", "CR1", "CR2"]
    batches = webdata_nb.creatives_df("AR2", stream=True)
    assert sum(map(len, batches)) == 5
    assert len(webdata_nb.creatives_df(["AR1", "AR3"])) == 10


def test_jobs_are_cancelled_and_tried_again(service: ForeignService) -> None:
    service.held = True
    for job in (webdata_nb.crawl_job(START), webdata_nb.search_job("boats")):
        assert job.status == "running"
        job.cancel().cancel()
        assert job.status == "cancelled"
        second = job.retry()
        assert second.status == "running"
        with pytest.raises(errors.WrongState):
            second.retry()
        second.cancel()
    service.held = False
    third = second.retry()
    assert third.wait() == "completed"
    with pytest.raises(errors.WrongState):
        third.cancel()


def test_a_job_and_its_exports(service: ForeignService, tmp_path: Path) -> None:
    service.site_pages = 30
    for job, rows in ((webdata_nb.crawl_job(START), 30), (webdata_nb.search_job("boats"), 10)):
        with pytest.raises(errors.NotFound):
            job.export("json", tmp_path / "early.json")
        assert job.wait(timeout=60) == "completed"
        assert getattr(list(job.events())[-1], "status", None) == "completed"
        files = {name: job.export(name, tmp_path / f"x.{name}") for name in FILE_FORMATS}
        exported = json.loads(files["json"].read_text())
        assert len(exported["results"] if job.kind == "search" else exported) == rows
        assert len(files["csv"].read_text().splitlines()) == rows + 1
        with zipfile.ZipFile(files["zip"]) as archive:
            assert archive.namelist() == ["index.json"]
        assert len(pd.read_parquet(files["parquet"])) == rows
        assert len(files["jsonl"].read_text().splitlines()) == rows
        assert len(job.df()) == len(webdata_nb.export_df(job.job_id)) == rows
        assert webdata_nb.job(job.job_id).kind == job.kind
        assert job.arrow().num_rows == rows
    assert len(webdata_nb.read_csv_export(files["csv"])) == 10


FILE_FORMATS: tuple[Any, ...] = ("json", "csv", "zip", "parquet", "jsonl")


def test_a_failed_search_says_why(service: ForeignService) -> None:
    service.fails = True
    with pytest.raises(errors.JobFailed, match="all providers are down"):
        webdata_nb.search_df("boats")
    with pytest.raises(errors.JobFailed, match="gave no reason"):
        webdata_nb.crawl_df(START)


def test_expired_results_are_said_to_be_gone(service: ForeignService, tmp_path: Path) -> None:
    job = webdata_nb.search_job("boats")
    job.wait()
    service.expired = True
    with pytest.raises(errors.Expired, match="48 hours"):
        job.df()
    with pytest.raises(errors.Expired):
        job.export("json", tmp_path / "x.json")


@pytest.mark.slow
def test_a_full_plan_is_waited_for(service: ForeignService) -> None:
    service.limit_replies = 1
    assert len(webdata_nb.search_df("boats", num_results=2)) == 2


def test_what_reads_frames(service: ForeignService, tmp_path: Path) -> None:
    service.site_pages, service.failing_pages = 4, 1
    formats: list[Any] = ["markdown", "links", "raw_html"]
    df = webdata_nb.crawl_df(START, formats=formats)
    assert len(webdata_nb.links_df(df)) == 3
    assert webdata_nb.diff(df, df).empty
    assert len(webdata_nb.retry_failed(df)) == 4
    assert len(webdata_nb.history_df(webdata_nb.crawl_df, START, formats=formats)) == 4
    webdata_nb.to_parquet(df, tmp_path / "pages.parquet")
    webdata_nb.to_warc(df, tmp_path / "pages.warc.gz")
    webdata_nb.show(df)
    webdata_nb.plot_crawl(df)
    for function in (webdata_nb.headings_df, webdata_nb.images_df, webdata_nb.extract_df):
        with pytest.raises(errors.InvalidArgument):
            function(df)  # its format was not requested
    assert webdata_nb.tables(df) == []
    assert webdata_nb.records_df(df).attrs["webdata"]["counts"]["pages"] <= 3  # of their HTML
    assert set(webdata_nb.chunks_df(df)["url"]) <= set(df["url"])
    results = webdata_nb.search_df("boats", num_results=3)
    assert webdata_nb.serp_diff(results, results).empty
    assert len(webdata_nb.serp_diff(results[:0], results)) == 3
    assert len(webdata_nb.rank_df(["boats", "ships"], site="example.com")) == 2
    webdata_nb.plot_ranks(webdata_nb.history_df(webdata_nb.search_df, "boats", num_results=3))
    webdata_nb.gallery(webdata_nb.creatives_df("AR1"))
    for audit in (webdata_nb.audit_df, webdata_nb.plot_audit):
        with pytest.raises(errors.InvalidArgument, match="audit"):
            audit(df)
    with pytest.raises(errors.InvalidArgument, match="audit"):
        webdata_nb.audit_report(df, tmp_path / "report.html")
    with pytest.raises(errors.InvalidArgument, match="rights"):
        webdata_nb.rights_df(df)


def test_recordings(service: ForeignService, tmp_path: Path) -> None:
    with webdata_nb.record(tmp_path / "calls"):
        fresh = webdata_nb.crawl_df(START)
    count = len(service.requests)
    with webdata_nb.replay(tmp_path / "calls"):
        replayed = webdata_nb.crawl_df(START)
    assert len(service.requests) == count
    pd.testing.assert_frame_equal(fresh, replayed)
    assert not webdata_nb.cache.ls().empty


@pytest.mark.usefixtures("service")
async def test_async_twins() -> None:
    assert len(await webdata_nb.acrawl_df(START)) == 3
    assert len(await webdata_nb.ascrape_df([START])) == 1
    assert len(await webdata_nb.asearch_df("boats", num_results=2)) == 2
    assert len(await webdata_nb.acreatives_df("AR1")) == 5
    assert len(await webdata_nb.aweights_df()) == 3
    assert len(await (await webdata_nb.acrawl_job(START))) == 3
    assert len(await (await webdata_nb.asearch_job("boats", num_results=2))) == 2


@pytest.mark.usefixtures("service")
def test_prices() -> None:
    weights = webdata_nb.weights_df().set_index(["platform", "operation"])["weight"]
    assert weights["crawl", "page"] == 1
    assert webdata_nb.estimate(webdata_nb.crawl_df, START, max_pages=9).credits == 9
    with pytest.raises(errors.OverBudget):
        webdata_nb.crawl_df(START, max_pages=9, budget=3)


def crawled() -> pd.DataFrame:
    return webdata_nb.crawl_df(START)


EXTRACTED: list[Any] = [{"price": 1}] * 3
LACKING: dict[str, Callable[[Path], object]] = {
    "jobs_df": lambda _: webdata_nb.jobs_df(),
    "usage_df": lambda _: webdata_nb.usage_df(),
    "engines_df": lambda _: webdata_nb.engines_df(),
    "advertisers_df": lambda _: webdata_nb.advertisers_df("boats"),
    "captures_df": lambda _: webdata_nb.captures_df(START),
    "why": lambda _: webdata_nb.why(crawled(), START),
    "links_df": lambda _: webdata_nb.links_df(crawled()),
    "verify": lambda _: webdata_nb.verify(crawled().assign(extract=EXTRACTED)),
    "watch_df": lambda _: webdata_nb.watch_df(START),
    "since": lambda _: webdata_nb.crawl_df(START, since="last"),
    "audit": lambda _: webdata_nb.crawl_df(START, audit=True),
    "as_of": lambda _: webdata_nb.crawl_df(START, as_of="2020-01-01"),
    "long crawl": lambda path: webdata_nb.crawl_df(START, max_pages=2000, out=path / "rows"),
    "purpose": lambda _: webdata_nb.crawl_df(START, rights="ai-train"),
    "rights": lambda _: webdata_nb.crawl_df(START, rights=True),
    "check_links": lambda _: webdata_nb.crawl_df(START, check_links=True),
}


@pytest.mark.parametrize(
    "service", [Variant(), VARIANTS["empty"]], ids=("404", "405"), indirect=True
)
@pytest.mark.parametrize("call", LACKING.values(), ids=LACKING.keys())
def test_what_the_service_lacks_is_said_in_one_sentence(
    service: ForeignService, call: Callable[[Path], object], tmp_path: Path
) -> None:
    with pytest.raises(errors.NotSupported) as caught:
        call(tmp_path)
    text = str(caught.value)
    assert text.startswith(f"the service at {service.url} ")
    assert "jobs_df()" not in text
    assert "answered" not in text


def test_every_public_function_is_tried() -> None:
    words = set(re.findall(r"\w+", Path(__file__).read_text("utf-8")))
    others = {"Estimate", "FrameStream", "Session", "Stream", "Why", "__version__", "options"}
    others |= {"Job", "receive_webhooks", "verify_signature"}  # they send nothing
    twins = {name for name in webdata_nb.__all__ if name[0] == "a" and name[1:] in words}
    assert set(webdata_nb.__all__) - words - others - twins == set()


OPTIONS: list[dict[str, Any]] = [{"sitemap": True}, {"render": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=[next(iter(each)) for each in OPTIONS])
def test_a_refused_option_is_named(options: dict[str, Any]) -> None:
    for name in ("422", "400", "list", "nested", "empty", "text"):
        with (
            ForeignService(VARIANTS[name]) as service,
            webdata_nb.connect(base_url=service.url, api_key=KEY) as session,
        ):
            with pytest.raises(errors.WebdataError) as caught:
                session.crawl_df(START, **options)
            assert not service.jobs
            assert ("sitemap" if "sitemap" in options else "render") in str(caught.value)
            assert "does not offer" in str(caught.value)
