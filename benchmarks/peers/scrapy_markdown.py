"""Crawl with Scrapy, each page to Markdown with html-to-markdown.

Run by `crawl_vs_peers` in an environment of the peers: URL, pages, concurrency. Prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import scrapy
from html_to_markdown import convert
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor


class Pages(scrapy.Spider):  # type: ignore[misc]  # Scrapy is not installed here
    """Every page of one host: title, links, Markdown."""

    name = "pages"

    def __init__(self, url: str, pages: int) -> None:
        super().__init__()
        self.start_urls = [url]
        self.allowed_domains = [urlsplit(url).hostname]
        self._left = pages
        self._links = LinkExtractor(deny_extensions=[])
        self.rows: list[dict[str, Any]] = []
        self.begun = self.ended = time.perf_counter()

    def parse(self, response: Any) -> Iterator[Any]:
        """Take a page, and ask for those that it links to."""
        if self._left == 0 or not isinstance(response, scrapy.http.HtmlResponse):
            return
        self._left -= 1
        links = [link.url for link in self._links.extract_links(response)]
        markdown = convert(response.text)
        self.rows.append(
            {
                "url": response.url,
                "title": response.css("title::text").get(),
                "links": links,
                "markdown": markdown if isinstance(markdown, str) else markdown.content,
            }
        )
        self.ended = time.perf_counter()
        if self._left:
            for link in links:
                yield response.follow(link, self.parse)


def main(url: str, pages: int, concurrency: int) -> None:
    """Crawl breadth first, robots.txt obeyed, as fast as the site lets it."""
    process = CrawlerProcess(
        {
            "LOG_ENABLED": False,
            "ROBOTSTXT_OBEY": True,
            "CONCURRENT_REQUESTS": concurrency,
            "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
            "DOWNLOAD_DELAY": 0,
            "DEPTH_PRIORITY": 1,
            "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
            "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
            "CLOSESPIDER_PAGECOUNT": pages,
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    crawler = process.create_crawler(Pages)
    process.crawl(crawler, url=url, pages=pages)
    process.start()
    spider: Any = crawler.spider
    markdown_pages = sum(bool(row["markdown"]) for row in spider.rows)
    seconds = spider.ended - spider.begun
    print(json.dumps({"pages": len(spider.rows), "seconds": seconds, "markdown": markdown_pages}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
