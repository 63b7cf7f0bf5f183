"""A search, a crawl and their exports by a client that was generated: a program for a test.

    python -m tests.openapi.generated_client_program PACKAGE URL KEY SITE

PACKAGE is what openapi-python-client made of the service's document. It prints what it read.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any

TIMEOUT_S = 60.0


class Generated:
    """The package, and a client of it."""

    def __init__(self, package: str, url: str, key: str) -> None:
        self._package = package
        self.models: Any = import_module(f"{package}.models")
        client: Any = import_module(f"{package}.client")
        self._client = client.AuthenticatedClient(
            base_url=url, token=key, raise_on_unexpected_status=True
        )

    def call(self, tag: str, operation: str, *args: Any, **options: Any) -> Any:
        """Call an operation and return the reply as its model; refusals are errors."""
        module: Any = import_module(f"{self._package}.api.{tag}.{operation}")
        answer = module.sync_detailed(*args, client=self._client, **options)
        if answer.status_code != 200:
            raise RuntimeError(f"{operation}: {answer.status_code} {answer.content!r}")
        return answer.parsed

    def wait_for_end(self, tag: str, operation: str, job_id: str) -> Any:
        """Wait for a job's end."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            status = self.call(tag, operation, job_id)
            if status.status in {"completed", "failed", "cancelled"}:
                return status
            time.sleep(0.05)
        raise TimeoutError(job_id)


def main(package: str, url: str, key: str, site: str) -> None:
    """Crawl, search what was crawled, export both."""
    api = Generated(package, url, key)
    models = api.models
    body = models.CrawlRequest(
        url=site,
        max_pages=2,
        scrape_options=models.ScrapeOptions(formats=[models.ScrapeOptionsFormatsItem.MARKDOWN]),
    )
    started = api.call("crawl", "start_crawl", body=body)
    crawl = api.wait_for_end("crawl", "get_crawl", started.job_id)
    pages = api.call("crawl", "export_crawl", started.job_id, format_=models.ExportCrawlFormat.JSON)
    wanted = models.SearchRequest(query="northern lights", num_results=2)
    started = api.call("search", "start_search", body=wanted)
    search = api.wait_for_end("search", "get_search", started.job_id)
    results = api.call(
        "search", "export_search", started.job_id, format_=models.ExportSearchFormat.JSON
    )
    usage = api.call("usage", "get_usage")
    config = {
        "crawl": [row.url for row in crawl.data],
        "markdown": [bool(row.markdown) for row in crawl.data],
        "receipt": crawl.receipt.counts.to_dict(),
        "held": [crawl.credits_reserved, crawl.credits_unlimited],
        "cost": [crawl.credits_, search.credits_],
        "exported": [row.url for row in pages],
        "search": [row.rank for row in search.data],
        "results": [row.url for row in results.results],
        "plan": usage.plan,
    }
    json.dump(config, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
