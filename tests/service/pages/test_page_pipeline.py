"""The page pipeline: retries, waits and errors of page requests."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator

import pytest

from tests.site.server import Site
from tests.steps import run_to_completion
from webdata_nb.page.content.page_source import ConversionOptions
from webdata_nb.service.browser.renderer import Browser
from webdata_nb.service.pages import (
    BASE64_BYTES_PER_STEP,
    PagePipeline,
    PageVisit,
    RenderOptions,
    _base64,
)
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.polite_fetcher import PoliteFetcher
from webdata_nb.service.web.throttle import HostThrottle
from webdata_nb.service.workers.pool import PagePool

PAGE = "<title>Here</title><p>It is here.</p>"


@pytest.fixture
async def pipeline() -> AsyncIterator[PagePipeline]:
    policy = EgressPolicy("local")
    async with (
        PagePool(1) as pages,
        Fetcher(policy, user_agent="test") as fetcher,
        Browser(policy, fetcher) as browser,
    ):
        yield PagePipeline(PoliteFetcher(fetcher, HostThrottle()), pages, browser)


async def visit(pipeline: PagePipeline, url: str, timeout_s: float = 20.0) -> PageVisit:
    page = await pipeline.fetch(FetchRequest(url, timeout_s=timeout_s), RenderOptions())
    return await pipeline.scrape(page, ConversionOptions(only_main_content=False))


async def test_transient_error_is_retried(pipeline: PagePipeline) -> None:
    with Site(fault_rate=1.0) as faulty:
        page_visit = await visit(pipeline, faulty.page("/", PAGE))
        assert page_visit.scraped is not None
        assert page_visit.scraped.title == "Here"
        assert len(faulty.hits("/")) == 2


async def test_failing_page_is_requested_three_times(pipeline: PagePipeline, site: Site) -> None:
    page_visit = await visit(pipeline, site.page("/", "no", status=500))
    assert (page_visit.status, str(page_visit.error)) == (500, "HTTP 500 Internal Server Error")
    assert page_visit.error is not None
    assert page_visit.error.kind == "http_500"
    assert len(site.hits("/")) == 3


async def test_retries_are_logged_by_host_and_cause(
    pipeline: PagePipeline, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "webdata_nb.service.events")
    await visit(pipeline, site.page("/secret-path", "no", status=500))
    await visit(pipeline, site.page("/other", "no", status=503))
    messages = [record.message for record in caplog.records]
    assert messages == [f"page_retried host=127.0.0.1 cause=http_{status}" for status in (500, 503)]


async def test_missing_page_is_not_retried(pipeline: PagePipeline, site: Site) -> None:
    page_visit = await visit(pipeline, site.page("/", "no", status=404))
    assert page_visit.status == 404
    assert len(site.hits("/")) == 1


async def test_retry_after_beyond_deadline_is_not_waited_for(
    pipeline: PagePipeline, site: Site
) -> None:
    url = site.page("/", "later", status=429, headers={"Retry-After": "60"})
    page_visit = await visit(pipeline, url, timeout_s=5)
    assert page_visit.status == 429
    assert len(site.hits("/")) == 1


async def test_unreachable_server_has_error_kind(pipeline: PagePipeline) -> None:
    with Site() as closed:
        url = closed.url
    page_visit = await visit(pipeline, url)
    assert page_visit.status is None
    assert page_visit.error is not None
    assert page_visit.error.kind == "connect"


@pytest.mark.parametrize(
    "size",
    [0, 1, 2, 3, BASE64_BYTES_PER_STEP - 1, BASE64_BYTES_PER_STEP, 2 * BASE64_BYTES_PER_STEP + 1],
)
def test_base64_in_steps_equals_base64_at_once(size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert run_to_completion(_base64(data)) == b64encode(data).decode()
