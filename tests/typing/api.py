"""What the public names look like to a type checker; mypy and pyright read this, nothing runs.

A line that must be refused carries a `type: ignore`; both checkers complain where one is not
needed, so that a refusal which is lost shows.
"""
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import assert_type

import pandas as pd
from pydantic import BaseModel

from webdata_nb import (
    acrawl_df,
    acrawl_job,
    acreatives_df,
    ajobs_df,
    asearch_df,
    ausage_df,
    aweights_df,
    connect,
    crawl_df,
    crawl_job,
    creatives_df,
    diff,
    errors,
    export_df,
    extract_df,
    job,
    jobs_df,
    links_df,
    options,
    rank_df,
    rights_df,
    scrape_df,
    search_df,
    search_job,
    usage_df,
    verify,
    weights_df,
    why,
)
from webdata_nb.contract.events import Event, Progress
from webdata_nb.toolkit.api import FrameStream, Job, Session, Why
from webdata_nb.toolkit.bridge import synced


class Offer(BaseModel):
    """An offer of a page."""

    price: float


async def acount(word: str, *, times: int = 1) -> list[int]:
    """Return the length of `word`, `times` times."""
    return [len(word)] * times


def a_twin_keeps_its_signature() -> None:
    count = synced(acount)
    assert_type(count("word", times=2), list[int])
    count("word", 2)  # type: ignore[call-arg]
    count(word=1)  # type: ignore[arg-type]
    count("word", time=2)  # type: ignore[call-arg]


def blocking_calls_return_frames() -> None:
    assert_type(search_df("q"), pd.DataFrame)
    assert_type(search_df("q", num_results=5, engine="engine_two", formats=["links"]), pd.DataFrame)
    assert_type(crawl_df("http://site.test", max_pages=5, crawl_strategy="bff"), pd.DataFrame)
    assert_type(creatives_df("AR1", limit=5, date_range="last_30_days"), pd.DataFrame)
    assert_type(jobs_df(limit=5), pd.DataFrame)
    assert_type(weights_df(), pd.DataFrame)
    assert_type(usage_df(), pd.DataFrame)
    assert_type(why(crawl_df("https://site.test/"), "https://site.test/a"), Why)


async def async_calls_return_frames() -> None:
    assert_type(await asearch_df("q"), pd.DataFrame)
    assert_type(await acrawl_df("http://site.test", on_incomplete="warn"), pd.DataFrame)
    assert_type(await acreatives_df("AR1", dtype_backend="pyarrow"), pd.DataFrame)
    assert_type(await ajobs_df(), pd.DataFrame)
    assert_type(await aweights_df(), pd.DataFrame)
    assert_type(await ausage_df(), pd.DataFrame)


def jobs_are_objects() -> None:
    started_job = search_job("q", num_results=5)
    assert_type(started_job, Job)
    assert_type(crawl_job("http://site.test").cancel(), Job)
    assert_type(job("id").retry(), Job)
    assert_type(started_job.df(dtype_backend="pyarrow"), pd.DataFrame)
    assert_type(export_df("id"), pd.DataFrame)
    assert_type(started_job.wait(timeout=5), str)
    assert_type(started_job.progress, Progress)
    for event in started_job.events():
        assert_type(event, Event)
    started_job.export("xlsx", "x")  # type: ignore[arg-type]
    search_job(["a", "b"])  # type: ignore[arg-type]


async def a_job_can_be_awaited() -> None:
    started_job = await acrawl_job("http://site.test")
    assert_type(await started_job, pd.DataFrame)
    async for event in started_job.events():
        assert_type(event, Event)


def lists_give_one_frame() -> None:
    assert_type(search_df(["a", "b"], engine=["engine_one"], country=["us", "de"]), pd.DataFrame)
    assert_type(crawl_df(["http://a.test", "http://b.test"], budget=100), pd.DataFrame)
    assert_type(creatives_df(["AR1", "AR2"], region=["US", "DE"]), pd.DataFrame)
    assert_type(rank_df(["a", "b"], site=["a.test"], country=["us"], budget=5), pd.DataFrame)
    rank_df("a")  # type: ignore[call-arg]
    rank_df("a", site="a.test", refresh=False)  # type: ignore[call-arg]
    search_df(["a"], engine=["engine_four"])  # type: ignore[list-item]
    search_df(["a"], on_error="ignore")  # type: ignore[call-overload]


def a_stream_is_looped_over() -> None:
    assert_type(crawl_df("http://site.test", stream=False), pd.DataFrame)
    stream = crawl_df("http://site.test", stream=True, max_pages=5)
    assert_type(stream, FrameStream)
    for batch in stream:
        assert_type(batch, pd.DataFrame)
    session = connect()
    assert_type(session.crawl_df("http://site.test"), pd.DataFrame)
    assert_type(session.crawl_df(["http://a.test"], stream=True), FrameStream)
    assert_type(search_df(["a", "b"], stream=5), FrameStream)
    assert_type(session.creatives_df("AR1", stream=True), FrameStream)
    creatives_df("AR1", stream=5)  # type: ignore[call-overload]


async def a_stream_is_looped_over_in_async_code() -> None:
    async for batch in await acrawl_df("http://site.test", stream=True):
        assert_type(batch, pd.DataFrame)
    async for batch in crawl_df("http://site.test", stream=True):
        assert_type(batch, pd.DataFrame)


def wrong_calls_are_refused() -> None:
    search_df()  # type: ignore[call-overload]
    search_df("q", 5)  # type: ignore[call-overload]
    search_df("q", num_results="10")  # type: ignore[call-overload]
    search_df("q", engine="engine_four")  # type: ignore[arg-type]
    search_df("q", formats=["json"])  # type: ignore[list-item]
    search_df("q", max_pages=5)  # type: ignore[call-overload]
    crawl_df("http://site.test", crawl_strategy="best")  # type: ignore[call-overload]
    crawl_df("http://site.test", on_cancel="ignore")  # type: ignore[call-overload]
    crawl_df("http://site.test", on_incomplete="pass")  # type: ignore[call-overload]
    crawl_df("http://site.test", dtype_backend="polars")  # type: ignore[call-overload]


def derived_frames_are_frames() -> None:
    pages = crawl_df("http://site.test", formats=["links"], extract=Offer)
    assert_type(extract_df(pages), pd.DataFrame)
    assert_type(verify(pages), pd.DataFrame)
    assert_type(links_df(pages), pd.DataFrame)
    assert_type(rights_df(crawl_df("http://site.test", rights="ai-train")), pd.DataFrame)
    assert_type(diff(pages, pages), pd.DataFrame)


def page_options_are_arguments_and_a_dict() -> None:
    crawl_df("http://site.test", formats=["links"], only_main_content=False, render="auto")
    crawl_df("http://site.test", extract={"name": str}, scrape_options={"include_tags": ["main"]})
    crawl_df("http://site.test", extract=Offer, as_of={"date": "2024-06-01", "source": "a.wacz"})
    scrape_df(["http://site.test"], formats=["markdown"], extract=Offer, wait_for="#main")
    search_df("q", extract=Offer, format_options={"markdown": {"mode": "full"}})
    crawl_job("http://site.test", formats=["links"], scrape_options={"timeout": 5000})
    crawl_df("http://site.test", scrape_options={"formats": ["links"], "render": True})
    crawl_df("http://site.test", formats=["json"])  # type: ignore[list-item]
    crawl_df("http://site.test", render="always")  # type: ignore[call-overload]
    crawl_df("http://site.test", scrape_options={"format": ["links"]})  # type: ignore[call-overload]
    scrape_df("http://site.test", scrape_options={"timeout": "5s"}, timeout="2min", ttl="1h")
    scrape_df("http://site.test", scrape_options={"timeout": ["5s"]})  # type: ignore[arg-type]
    scrape_df("http://site.test", only_main_content="yes")  # type: ignore[arg-type]


def a_session_has_the_same_functions() -> None:
    session = connect(base_url="http://service.test", api_key="k")
    assert_type(session, Session)
    assert_type(session.search_df("q", num_results=5), pd.DataFrame)
    session.search_df("q", num_results="10")  # type: ignore[call-overload]


def options_know_their_names() -> None:
    options.progress = False
    options.ttl = 60
    options.nest = "yes"  # type: ignore[assignment]
    options.progres = False  # type: ignore[attr-defined]


def errors_carry_their_data() -> None:
    try:
        crawl_df("http://site.test")
    except errors.RateLimited as limited:
        assert_type(limited.limit, int | None)
        assert_type(limited.retry_after, float | None)
    except errors.JobFailed as failed:
        assert_type(failed.job_id, str)
        assert_type(failed.reason, str)
    except errors.BadAnswer as broken:
        assert_type(broken.field, str | None)
    except errors.InvalidRequest as invalid:
        assert_type(invalid.fields, tuple[tuple[str, str], ...])
