"""Audits a site with Python's own HTTP client and HTML parser, independently of the service."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from typing import Final
from urllib.parse import urldefrag, urljoin, urlsplit

from tests.site.plain_reading import PlainPage, first_text

TITLE_LENGTH: Final = (30, 60)
DESCRIPTION_LENGTH: Final = (70, 155)
H1_LENGTH: Final = (5, 70)
TEXTS: Final = (
    ("title", "titles", TITLE_LENGTH),
    ("description", "descriptions", DESCRIPTION_LENGTH),
    ("h1", "h1s", H1_LENGTH),
)
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOST_HOPS: Final = 10

Issues = set[tuple[str, str]]


@dataclass(frozen=True)
class PlainReply:
    """The reply to a request, after redirects: where it came from, and what was on the way."""

    url: str
    status: int
    kind: str
    body: bytes
    hops: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there was no reply, or one of a failure, or redirects without end."""
        return self.status >= 400 or self.status == 0 or len(self.hops) > _MOST_HOPS


@dataclass
class PlainSite:
    """The pages of a site, read breadth first from `start`, up to `max_pages`.

    Attributes
    ----------
    replies
        The reply to each URL that was requested.
    pages
        The HTML pages that were read, by the URL that was requested.
    depths
        Links from the start.
    copies
        URLs whose body is that of an earlier one, with that one.
    """

    start: str
    max_pages: int
    replies: dict[str, PlainReply] = field(default_factory=dict)
    pages: dict[str, PlainPage] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)

    def read(self) -> None:
        """Read the site."""
        parts = urlsplit(self.start)
        connection = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=60)
        queue, first_by_body = deque([(self.start, 0)]), dict[bytes, str]()
        self.depths[self.start] = 0
        while queue and len(self.replies) - len(self.copies) < self.max_pages:
            url, depth = queue.popleft()
            reply = self.replies[url] = _fetch(connection, url)
            if reply.failed or not reply.kind:
                continue
            first = first_by_body.setdefault(reply.body, url)
            if first != url:
                self.copies[url] = first
                continue
            if "html" not in reply.kind:
                continue
            page = self.pages[url] = PlainPage(reply.url, reply.body.decode("utf-8", "replace"))
            for link in page.links:
                if link.startswith(self.start) and link not in self.depths:
                    self.depths[link] = depth + 1
                    queue.append((link, depth + 1))
        connection.close()

    def issues(self) -> Issues:
        """Return issue and URL of the findings that an audit must have, but for judgements."""
        linked = {link for page in self.pages.values() for link in page.links}
        found = {
            (issue, url)
            for url, page in self.pages.items()
            for issue in issues_of_page(page, self.depths[url])
        }
        found |= set(duplicate_texts(self.pages))
        for url, reply in self.replies.items():
            if reply.status >= 400:
                found.add(("redirect_to_error" if reply.hops else "broken_page", url))
            elif reply.hops and url in linked and url not in self.copies:
                name = "redirected_link" if len(reply.hops) == 1 else "redirect_chain"
                found.add((name, url))
        found |= {("duplicate_page", url) for url in self.copies if not self.replies[url].hops}
        return found

    def broken_links(self) -> Issues:
        """Return the page of each link to what fails, after redirects, and the link."""
        broken = {url for url, reply in self.replies.items() if reply.failed}
        return {
            (page.url, link)
            for page in self.pages.values()
            for link in page.links
            if link in broken
        }

    def sources(self) -> dict[str, set[str]]:
        """Return the pages that link to each URL."""
        sources: defaultdict[str, set[str]] = defaultdict(set)
        for url, page in self.pages.items():
            for link in page.links:
                sources[link].add(url)
        return sources


def _fetch(connection: HTTPConnection, url: str) -> PlainReply:
    hops: list[str] = []
    while True:
        parts = urlsplit(url)
        if parts.netloc != f"{connection.host}:{connection.port}":
            return PlainReply(url, 302, "", b"", tuple(hops))  # on another site
        try:
            connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
            response = connection.getresponse()
            body, location = response.read(), response.headers.get("Location")
        except (OSError, HTTPException):
            connection.close()
            return PlainReply(url, 0, "", b"", tuple(hops))
        if response.status not in _REDIRECTS or location is None or len(hops) > _MOST_HOPS:
            kind = response.headers.get_content_type()
            return PlainReply(url, response.status, kind, body, tuple(hops))
        hops.append(url)
        url = urldefrag(urljoin(url, location))[0]


def issues_of_page(page: PlainPage, depth: int) -> Iterator[str]:
    """Yield the issues of one page."""
    yield from _issues_of_texts(page)
    canonicals = set(page.canonicals)
    if not canonicals:
        yield "missing_canonical"
    elif len(canonicals) > 1:
        yield "multiple_canonicals"
    elif not next(iter(canonicals)).startswith("http"):
        yield "invalid_canonical"  # Debian's are file: URLs
    elif page.url not in canonicals:
        yield "canonicalized"
        if urlsplit(next(iter(canonicals))).netloc != urlsplit(page.url).netloc:
            yield "canonical_to_other_site"
    directives = {word.strip() for text in page.robots for word in text.lower().split(",")}
    conditions = {
        "noindex": bool(directives & {"noindex", "none"}),
        "nofollow_page": bool(directives & {"nofollow", "none"}),
        "image_without_alt": page.images_without_alt > 0,
        "missing_language": not page.language,
        "missing_viewport": page.viewport is None,
        "meta_refresh": page.refresh is not None,
        "invalid_structured_data": not all(map(_is_typed_json, page.json_ld)),
        "dead_end": not page.links,
        "deep_page": depth > 3,
        "many_links": len(page.links) > 3000,
        "heavy_page": page.size > 2 * 1024 * 1024,
        "empty_link_text": not all(page.texts.values()),
        "nofollow_internal_link": any(
            urlsplit(url).netloc == urlsplit(page.url).netloc for url in page.nofollow
        ),
    }
    yield from (issue for issue, holds in conditions.items() if holds)


def _issues_of_texts(page: PlainPage) -> Iterator[str]:
    for name, fact, (shortest, longest) in TEXTS:
        texts: list[str] = getattr(page, fact)
        first = first_text(texts)
        if len(texts) > 1:
            yield f"multiple_{name}{'' if name == 'h1' else 's'}"
        if not first:
            yield f"missing_{name}"
        elif len(first) < shortest:
            yield f"short_{name}"
        elif len(first) > longest:
            yield f"long_{name}"


def _is_typed_json(text: str) -> bool:
    try:
        data = json.loads(text)
    except ValueError:
        return False
    items = data if isinstance(data, list) else data.get("@graph", [data])
    return all("@type" in item for item in items)


def duplicate_texts(read: dict[str, PlainPage]) -> Iterator[tuple[str, str]]:
    """Yield texts that several pages have whose canonical URL is no other web page."""
    for name, fact, _ in TEXTS:
        urls: defaultdict[str, list[str]] = defaultdict(list)
        for url, page in read.items():
            elsewhere = {each for each in page.canonicals if each.startswith("http")} - {url}
            first = first_text(getattr(page, fact)).casefold()
            is_indexable = not any("noindex" in text.lower() for text in page.robots)
            if first and not elsewhere and is_indexable and page.url == url:
                urls[first].append(url)
        for same in urls.values():
            yield from ((f"duplicate_{name}", url) for url in same if len(same) > 1)


def shared_pairs(first: PlainPage, second: PlainPage) -> float:
    """Return the share of the pairs of words that two pages have in common, menus included."""
    pairs = [Counter(pairwise(words)) for words in (first.words, second.words)]
    common, total = (pairs[0] & pairs[1]).total(), (pairs[0] | pairs[1]).total()
    return common / total if total else 1.0
