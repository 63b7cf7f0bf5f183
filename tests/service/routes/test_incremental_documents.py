"""Incremental crawls of documentation in nginx: rows of a full crawl, and few bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Api
from tests.service.routes.test_incremental_crawls import INCREMENTAL, assert_equal, whole
from tests.site.changing_docs import changing_docs

PAGES = 25


@pytest.mark.slow
async def test_bytes_are_those_of_the_changed_pages(api: Api, tmp_path: Path) -> None:
    with changing_docs(tmp_path) as docs:
        body = {"url": docs.url, "max_pages": PAGES}

        async def crawl(since: str | None) -> tuple[dict[str, Any], dict[str, int]]:
            base = None if since is None else {"job_id": since, "recheck": 0}
            done = await whole(api, await api.start_job(INCREMENTAL, {**body, "base": base}))
            return done, docs.sent()

        last, _ = await crawl(None)
        urls = [row["url"] for row in last["data"] if row["success"]]
        for number, share in enumerate((0.0, 0.05, 0.3, 1.0)):
            changed = docs.change(urls, share, seed=number)
            if share == 0.3:
                removed = next(url for url in urls[1:] if url not in changed)
                docs.remove(removed)
                urls.remove(removed)
            incremental, sent = await crawl(last["job_id"])
            full, sent_in_full = await crawl(None)
            assert_equal(incremental, full)
            unchanged = incremental["receipt"]["counts"].get("unchanged", 0)
            assert unchanged >= len(last["data"]) - len(changed) - 3
            overhead = sum(size for url, size in sent.items() if url not in changed)
            assert overhead <= 0.03 * sum(sent_in_full.values())
            last = incremental
