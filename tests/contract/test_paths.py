"""Every path of part 4, and that an id cannot lead anywhere else."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from webdata_nb.contract import paths


def test_the_contracts_paths() -> None:
    assert paths.SEARCH == "/v1/search"
    assert paths.fill(paths.SEARCH_JOB, job_id="j") == "/v1/search/j"
    assert paths.fill(paths.SEARCH_EXPORT, job_id="j") == "/v1/search/j/export"
    assert paths.CRAWL == "/v1/crawl"
    assert paths.fill(paths.CRAWL_JOB, job_id="j") == "/v1/crawl/j"
    assert paths.fill(paths.CRAWL_EXPORT, job_id="j") == "/v1/crawl/j/export"
    assert paths.fill(paths.JOB_CANCEL, job_id="j") == "/v1/jobs/j/cancel"
    assert paths.fill(paths.JOB_RETRY, job_id="j") == "/v1/jobs/j/retry"
    assert paths.CREATIVES == "/v1/data/partner-ads/transparency/creatives"
    assert paths.WEIGHTS == "/v1/data-api-weights/public"
    assert paths.WEBHOOK_DELIVERIES == "/v1/webhooks/deliveries"
    assert paths.WEBHOOK_TEST == "/v1/webhooks/test"
    assert paths.WEBHOOK_STATS == "/v1/webhooks/stats"


@pytest.mark.parametrize(
    "job_id",
    ["a/b", "../jobs", "a?b=c", "a#b", "a b", "%2e%2e", "é", "a\\b", "{job_id}", "\r\nX: y", "\0"],
)
def test_an_id_stays_one_segment(job_id: str) -> None:
    path = paths.fill(paths.JOB_CANCEL, job_id=job_id)
    assert path.count("/") == paths.JOB_CANCEL.count("/")
    assert not set(path) & set("?#\\ \r\n\0")
    assert unquote(path.split("/")[3]) == job_id
