"""The guide's table of deadlines matches the constants in the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from webdata_nb.contract import limits
from webdata_nb.pacing import host_pacing, retry_policies
from webdata_nb.service import settings
from webdata_nb.service.browser import chromium
from webdata_nb.service.crawl import robots, sitemaps
from webdata_nb.service.crawl.rights import job_rights
from webdata_nb.service.models.chat import ModelLimits
from webdata_nb.service.search.providers import http_provider
from webdata_nb.service.web import polite_fetcher, resolver
from webdata_nb.service.workers import pool

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "deadlines.md"
BREAKER = host_pacing.BREAKER


@pytest.mark.parametrize(
    "statement",
    [
        f"its `timeout`, {limits.SCRAPE_TIMEOUT_MS_DEFAULT / 1000:g} s by default",
        f"| {retry_policies.PAGE.max_attempts}, within its `timeout`",
        f"| {retry_policies.PAGE_WITH_RETRY_AFTER.max_attempts}, within its `timeout`",
        f"| {host_pacing.QUEUE_LIMIT_S:g} s (the page's `timeout` if that is longer)",
        f"a queue of {host_pacing.MAX_QUEUE_S:,.0f} s",
        f"failed {BREAKER.threshold} times in a row | {BREAKER.first_open_s:g} s;",
        f"robots.txt, with its retries | {robots.TIMEOUT_S:g} s",
        f"an RSL licence, each | {job_rights.TIMEOUT_S:g} s",
        f"`/llms.txt` of a site | {sitemaps.TOTAL_TIMEOUT_S:g} s in all",
        f"the name of a host | {resolver.LOOKUP_TIMEOUT_S:g} s",
        (
            f"| {http_provider.REQUEST_TIMEOUT_S:g} s, "
            f"and {http_provider.QUEUE_TIMEOUT_S:g} s in its queue"
        ),
        f"a place at a page worker | {pool.PLACE_S:g} s",
        f"replaced workers included | {pool.READ_S:g} s",
        f"to be written to the disk | {pool.WRITE_S:g} s",
        f"extraction by a language model, of one page | {ModelLimits().page_timeout_s:g} s",
        f"| {pool.CPU_SECONDS:g} s of processor time",
        f"| {pool.HANG_S:g} s; {pool.STEP_S:g} s if a signal stopped it",
        f"the browser, to start | {chromium.START_S:g} s",
        f"to close | {chromium.CLOSE_S:g} s each",
        f"| {settings.STALL_S:g} s, and longer than the deadlines of its open operations",
        f"`Crawl-delay`, up to {robots.MAX_DELAY_S:g} s",
        f"have led to (up to {retry_policies.HOST_SLOWDOWN.max_delay_s:g} s)",
        f"for more than {polite_fetcher.SUSPENDED_AFTER_S:g} seconds",
        f"that crashes {pool.CRASHES} workers, or over which {pool.KILLS} are killed",
    ],
)
def test_guide_states_the_deadline(statement: str) -> None:
    assert statement in " ".join(GUIDE.read_text().split())


def test_guide_states_the_number_of_restarts() -> None:
    assert polite_fetcher.RESTARTS == 3
    assert "up to three times" in " ".join(GUIDE.read_text().split())
