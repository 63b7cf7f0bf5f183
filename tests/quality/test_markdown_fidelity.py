"""What the Markdown of whole pages keeps, measured by a round trip to HTML.

Every fourth page of ``wcxb_dev`` is written as Markdown in ``full`` mode, rendered by a GFM parser
of other people (markdown-it-py), and its structures are counted against those of the page. The
recall of each structure is averaged over the pages that have it.

Text is compared without its white space: a page's ``<div>a</div><div>b</div>`` has the text "ab",
its rendering "a b". A table row is compared without the empty cells that fill it up, a list item
by its own text, without the blocks and lists that stand in it. Of a page's links and pictures the
absolute form is compared. What a page hides behind a click counts as well.

The floors in ``markdown_floors.json`` may only rise.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Final

import pytest
from markdown_it import MarkdownIt

from tests.page.pages import page_source
from tests.requirements import require
from webdata_nb.page.content.links import LinkResolver
from webdata_nb.page.content.parser import Element, Node, parse, remove_all
from webdata_nb.page.scrape.page import ConversionOptions, scrape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FLOORS: Final[dict[str, float]] = json.loads(
    (Path(__file__).parent / "markdown_floors.json").read_text()
)
FULL: Final = ConversionOptions(("markdown",), markdown_mode="full")
NOT_COMPARED: Final = (
    "script,style,noscript,template,head,svg,iframe,object,select,button,textarea,math"
)
BLOCKS: Final = frozenset({"ul", "ol", "pre", "table", "dl"})
SHORTEST_CODE: Final = 10
WORD: Final = re.compile(r"\w+")
RENDER: Final = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render

Counts = Counter[object]


def words_of(text: str) -> str:
    return "".join(WORD.findall(text.lower()))


def headings(body: Element) -> Iterator[object]:
    for each in body.select("h1,h2,h3,h4,h5,h6"):
        if text := words_of(each.text):
            yield each.tag, text


def links(body: Element) -> Iterator[object]:
    for each in body.select("a[href]"):
        href = (each.attr("href") or "").strip()
        if words_of(each.text) and not href.startswith(("javascript", "#")):
            yield href.split(" ")[0]


def code_blocks(body: Element) -> Iterator[object]:
    for each in body.select("pre"):
        if len(each.text.strip()) > SHORTEST_CODE and each.select_one("table") is None:
            yield "".join(each.text.split())


def table_rows(body: Element) -> Iterator[object]:
    for table in body.select("table"):
        if table.select_one("table,pre,ul,ol,p + p,[colspan],[rowspan]") is not None:
            continue
        cells = [
            [words_of(cell.text) for cell in row.select("td,th")] for row in table.select("tr")
        ]
        rows = [row for row in cells if any(row)]
        if len(rows) > 1 and max(map(len, rows)) > 1:
            yield from ("|".join(row).rstrip("|") for row in rows)


def list_items(body: Element) -> Iterator[object]:
    for item in body.select("li"):
        own = [each for each in item.children if getattr(each, "tag", "") not in BLOCKS]
        if text := words_of(" ".join(each.text for each in own))[:60]:
            yield _depth(item), text


def _depth(item: Element) -> int:
    return sum(getattr(each, "tag", "") in {"ul", "ol"} for each in item.ancestors)


def words(body: Element) -> Iterator[object]:
    yield from WORD.findall(" ".join(body.strings).lower())


STRUCTURES: Final[dict[str, Callable[[Element], Iterator[object]]]] = {
    "links": links,
    "code_blocks": code_blocks,
    "table_rows": table_rows,
    "words": words,
    "headings": headings,
    "list_items": list_items,
}


def structures(root: Node) -> dict[str, Counts]:
    body = root.select_one("body")
    assert body is not None
    return {name: Counter(read(body)) for name, read in STRUCTURES.items()}


def page_operations(html: bytes, url: str) -> dict[str, Counts]:
    document = parse(html, "utf-8")
    remove_all(document.select(NOT_COMPARED))
    found, absolute = structures(document), LinkResolver(url)
    hrefs: Counts = Counter()
    for href, count in found["links"].items():
        hrefs[absolute[str(href)] or href] += count
    return found | {"links": hrefs}


def round_trip_recalls() -> dict[str, list[float]]:
    """Return the recall of each structure, for each page that has it."""
    with tarfile.open(require("corpora") / "content" / "wcxb_dev.tar.gz") as tar:
        files = {
            member.name.split("/", 1)[1]: file.read()
            for member in tar
            if (file := tar.extractfile(member)) is not None
        }
    pages = list(json.loads(files["truth.json"]).items())[::4]
    found: dict[str, list[float]] = {name: [] for name in STRUCTURES}
    for key, row in pages:
        html = files[f"pages/{key}.html"]
        wanted = page_operations(html, row["url"])
        source = page_source(html, url=row["url"], content_type="text/html; charset=utf-8")
        written = scrape(source, FULL, outlinks=False).formats["markdown"]
        rendered = structures(parse(RENDER(written)))
        for name, counts in wanted.items():
            if counts:
                found[name].append((counts & rendered[name]).total() / counts.total())
    return found


@pytest.fixture(scope="module")
def recalls() -> dict[str, list[float]]:
    return round_trip_recalls()


@pytest.mark.slow
@pytest.mark.parametrize("structure", FLOORS)
def test_a_round_trip_keeps_the_structure(structure: str, recalls: dict[str, list[float]]) -> None:
    assert mean(recalls[structure]) >= FLOORS[structure]
