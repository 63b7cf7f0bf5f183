"""A model of a site and its crawls: pages with links, failures, and a limit of pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from webdata_nb.toolkit.sites.watched_pages import PageVersion, SeenUrl, SiteVisit

START = datetime(2026, 11, 1, tzinfo=UTC)


def version(
    url: str, text: str | None = "text", *, final: str | None = None, **values: str | None
) -> PageVersion:
    """Return a page whose title is `text`; equal values have equal hashes."""
    fields = {"title": text, **values}
    return PageVersion(url, final or url, str(hash(tuple(fields.items()))), START, "j", fields)


def visit(
    number: int,
    *pages: PageVersion,
    others: Mapping[str, tuple[str, str] | str] | None = None,
    whole: bool = True,
) -> SiteVisit:
    """Return the crawl with a number, which is its job and its day."""
    job, at = f"j{number}", START + timedelta(days=number)
    seen = {
        url: SeenUrl(*((each, "") if isinstance(each, str) else each))
        for url, each in (others or {}).items()
    }
    read = tuple(
        PageVersion(p.url, p.final_url, p.content_hash, at, job, p.values, p.quotes) for p in pages
    )
    return SiteVisit(job, at, read, seen, whole)


@dataclass(slots=True)
class ModelSite:
    """Pages by their URLs: links, text, and whether they fail for once."""

    links: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)

    def reachable(self, read: Collection[str]) -> set[str]:
        """Return the pages that links lead to, without the links of pages that were not read."""
        seen, queue = {"/"}, deque(["/"])
        while queue:
            url = queue.popleft()
            links = self.links[url] if url in self.texts and url in read else []
            new = [link for link in dict.fromkeys(links) if link not in seen]
            seen.update(new)
            queue.extend(new)
        return {url for url in seen if url in self.texts}

    def crawl(self, number: int, max_pages: int) -> SiteVisit:
        """Return a crawl of the site, breadth first."""
        seen, queue = {"/"}, deque(["/"])
        pages: list[PageVersion] = []
        others: dict[str, tuple[str, str] | str] = {}
        rows = 0
        while queue and rows < max_pages:
            url, rows = queue.popleft(), rows + 1
            if url not in self.texts:
                others[url] = ("failed:http_404", "HTTP 404 Not Found")
            elif url in self.failing:
                others[url] = "failed:timeout"
            else:
                pages.append(version(url, self.texts[url]))
                new = [link for link in dict.fromkeys(self.links[url]) if link not in seen]
                seen.update(new)
                queue.extend(new)
        others |= dict.fromkeys(queue, "over_max_pages")
        return visit(number, *pages, others=others, whole=not queue)
