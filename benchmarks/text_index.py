"""The text index of SQLite and of PostgreSQL on the pages of Python's documentation.

For both: milliseconds to index a page, the share of section headings whose page is among the first
ten results, and milliseconds for a query. The pages are those of the Debian package `python3-doc`.

Usage: `python -m benchmarks.text_index`
"""

from __future__ import annotations

import asyncio
import html
import random
import re
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from tests.postgres import running
from tests.stores.document_index import open_document_index
from webdata_nb.service.encryption import FixedKeys, SecretCipher, new_key
from webdata_nb.service.store.backends import open_store
from webdata_nb.service.store.records import IndexedPage
from webdata_nb.service.store.text_index import TextIndex

PAGES: Final = Path("/usr/share/doc/python3-doc/html")
ACCOUNT: Final = "account"
BATCH: Final = 20
QUERIES: Final = 400
_HEADING: Final = re.compile(r"<h[23]>(.*?)<a class=\"headerlink\"", re.DOTALL)
_TAG: Final = re.compile(r"<(script|style).*?</\1>|<[^>]*>", re.DOTALL)
_BODY: Final = re.compile(r'<div class="body" role="main">(.*)<div class="clearer">', re.DOTALL)


def read_pages() -> tuple[list[IndexedPage], list[tuple[str, str]]]:
    """Return the pages, and headings with the URLs of their pages."""
    pages: list[IndexedPage] = []
    headings: list[tuple[str, str]] = []
    for path in sorted(PAGES.rglob("*.html")):
        body = _BODY.search(path.read_text("utf-8"))
        if body is None:
            continue
        url = f"http://docs/{path.relative_to(PAGES)}"
        title = re.search(r"<h1>(.*?)<a", body[1], re.DOTALL)
        pages.append(IndexedPage(len(pages), url, _text(title[1]) if title else "", _text(body[1])))
        headings += [(_text(heading), url) for heading in _HEADING.findall(body[1])]
    return pages, random.Random(0).sample(headings, QUERIES)


def _text(markup: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", markup)).split())


async def measure(name: str, index: TextIndex) -> None:
    """Index all pages, send all queries, and print the figures."""
    pages, headings = read_pages()
    start = time.perf_counter()
    for first in range(0, len(pages), BATCH):
        batch = pages[first : first + BATCH]
        await index.add(ACCOUNT, "job", batch, start=first, upto=first + len(batch))
    page_ms = (time.perf_counter() - start) * 1000 / len(pages)
    durations, found = [], 0
    for heading, url in headings:
        start = time.perf_counter()
        matches = await index.find(ACCOUNT, heading, limit=10)
        durations.append((time.perf_counter() - start) * 1000)
        found += url in {match.url for match in matches}
    slowest = sorted(durations)[int(len(durations) * 0.95)]
    print(
        f"{name:10} {len(pages)} pages, {page_ms:.1f} ms/page; in the first ten: "
        f"{found / len(headings):.3f}; query: median {median(durations):.1f} ms, "
        f"p95 {slowest:.1f} ms"
    )


async def main() -> None:
    """Measure both stores, one after the other."""
    cipher = SecretCipher(FixedKeys((new_key(),)))
    with tempfile.TemporaryDirectory() as name, running() as server:
        folder = Path(name)
        for store_name, url in (("sqlite", None), ("postgresql", server.new_schema())):
            async with (
                open_store(folder, cipher, url) as store,
                open_document_index(folder, store) as index,
            ):
                await measure(store_name, index)


if __name__ == "__main__":
    asyncio.run(main())
