"""The links of a folder of HTML, read as the crawler reads them, and their PageRank."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.scrape.page import scrape

if TYPE_CHECKING:
    from pathlib import Path

    from webdata_nb.page.content.links import Outlink
    from webdata_nb.page.scrape.scraped import Scraped

BASE: Final = "http://docs.test/"
_OPTIONS: Final = ConversionOptions(
    formats=("markdown",),
    only_main_content=False,
    facts=frozenset({"metadata", "sketch", "shape"}),
)


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """The pages that can be reached from the start, by URL."""

    pages: dict[str, Scraped]

    def links(self, url: str) -> tuple[Outlink, ...]:
        """Return the links of a page that lead to a page of the graph."""
        return tuple(link for link in self.pages[url].outlinks if link.url in self.pages)

    def pagerank(self, *, damping: float = 0.85, rounds: int = 60) -> dict[str, float]:
        """Return each page's share of the visits of a random reader, by power iteration.

        Plain: every link counts alike, and the reader of a page that leads nowhere, or who is
        bored, goes to any page.
        """
        led = {url: [link.url for link in self.links(url) if link.url != url] for url in self.pages}
        rank = dict.fromkeys(self.pages, 1 / len(self.pages))
        for _ in range(rounds):
            lost = sum(rank[url] for url, following in led.items() if not following)
            base = (1 - damping + damping * lost) / len(rank)
            after = dict.fromkeys(rank, base)
            for url, following in led.items():
                for other in following:
                    after[other] += damping * rank[url] / len(following)
            rank = after
        return rank


def link_graph(root: Path, start: str = "index.html") -> LinkGraph:
    """Read the pages of a folder that can be reached from one of them."""
    pages: dict[str, Scraped] = {}
    waiting, seen = deque([BASE + start]), {BASE + start}
    while waiting:
        url = waiting.popleft()
        file = root / url.removeprefix(BASE)
        if file.suffix not in {".html", ".htm"} or not file.is_file():
            continue
        at = datetime.now(UTC)
        pages[url] = scrape(
            FetchedResponse(url, url, 200, "text/html", file.read_bytes(), (), at), _OPTIONS
        )
        for link in pages[url].outlinks:
            if link.url.startswith(BASE) and link.url not in seen:
                seen.add(link.url)
                waiting.append(link.url)
    return LinkGraph(pages)
