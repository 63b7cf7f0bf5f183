"""The corpus of a documentation site, compared with what Python's own HTML parser reads."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from html.parser import HTMLParser
from urllib.parse import urldefrag

import pytest

from tests.analysts.analyst import Analyst
from tests.site.plain_audit import PlainSite
from tests.site.static import StaticSite

pytestmark = pytest.mark.slow
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}


class Headings(HTMLParser):
    """The headings and anchors of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.anchors: set[str] = set()
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HEADINGS:
            self._open = True
            self.headings.append("")
        self.anchors |= {value for name, value in attrs if name in {"id", "name"} and value}

    def handle_endtag(self, tag: str) -> None:
        if tag in _HEADINGS:
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.headings[-1] += data


def words(text: str) -> Counter[str]:
    """Return the words of letters and digits, without the targets of links."""
    return Counter(
        re.findall(r"[^\W_]{2,}", re.sub(r"\]\([^()\s]*\)|<http[^>]*>", "]", text).casefold())
    )


def test_corpus_of_a_documentation_site(
    analyst: Analyst, sqlite_docs: StaticSite, truth: PlainSite
) -> None:
    analyst.run("corpus", site=sqlite_docs.url)
    rows = analyst.parquet("corpus.parquet")
    lines = (analyst.folder / "corpus.jsonl").read_text("utf-8").splitlines()
    names = ("url", "position", "text", "heading_path", "tokens")
    assert [[json.loads(line)[n] for n in names] for line in lines] == [
        [row[n] for n in names] for row in rows
    ]
    assert all(0 < row["tokens"] <= 300 for row in rows)
    by_page = defaultdict(list)
    for row in rows:
        by_page[row["url"]].append(row)
    pages = {page.url: page for page in truth.pages.values() if "/c3ref/" not in page.url}
    assert by_page.keys() <= pages.keys()
    # A page without text, such as one of links only, has no chunk.
    assert len(by_page) >= 0.97 * len(pages)
    read = {
        page.url: Headings(reply.body.decode("utf-8", "replace"))
        for url, page in truth.pages.items()
        if (reply := truth.replies[url])
    }
    foreign = whole = shown = 0
    for url, chunks in by_page.items():
        assert [row["position"] for row in chunks] == list(range(1, len(chunks) + 1))
        on_page = words(" ".join(pages[url].words))
        in_chunks = words(" ".join(row["text"] for row in chunks))
        foreign += sum((in_chunks - on_page).values())
        whole += sum(in_chunks.values())
        shown += sum(on_page.values())
        # Where a page has no heading, its title is one.
        given = [*read[url].headings, *pages[url].titles]
        headings = {"".join(re.findall(r"\w", each)) for each in given}
        for row in chunks:
            path = {"".join(re.findall(r"\w", each)) for each in row["heading_path"]}
            assert path <= headings, (url, path - headings)
            fragment = urldefrag(row["link"] or "")[1]
            assert not fragment or fragment in read[url].anchors, (url, fragment)
    assert foreign <= 0.02 * whole
    assert whole >= 0.8 * shown  # the rest is navigation
